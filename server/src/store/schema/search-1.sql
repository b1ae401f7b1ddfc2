-- One file a session, so that removing a session's words is removing a file. All of it can be collected anew from the
-- output logs.

CREATE TABLE commands (
    id         INTEGER PRIMARY KEY,
    command_id TEXT NOT NULL UNIQUE,
    number     INTEGER NOT NULL,
    command    TEXT NOT NULL,               -- its beginning
    next       INTEGER NOT NULL,            -- offset of what comes next
    line       INTEGER,                     -- its line, from 1; NULL: lines before it were not counted
    mid_line   INTEGER NOT NULL,            -- next stands within a line
    partly     INTEGER NOT NULL             -- something was left out
) STRICT;

CREATE TABLE pieces (
    id      INTEGER PRIMARY KEY,            -- the row of its words
    command INTEGER NOT NULL REFERENCES commands (id),
    output  INTEGER NOT NULL,               -- 0: of the command's text, 1: of its output
    start   INTEGER NOT NULL,               -- offset of its first byte
    skip    INTEGER NOT NULL,               -- bytes at its beginning that the piece before has as well
    line    INTEGER,
    jumps   BLOB NOT NULL                   -- where text and bytes part, see crate::store::search
) STRICT;

CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = "unicode61", columnsize = 0);
