-- Changes of files through the API, for the time line.

CREATE TABLE file_changes (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    number     INTEGER NOT NULL,             -- counts from 1 within the session
    at         REAL NOT NULL,
    actor      TEXT,                         -- Actor; NULL: all later changes, which are only counted (entries)
    act        TEXT,                         -- FileAct
    path       TEXT NOT NULL,                -- percent-encoded bytes
    to_path    TEXT,
    bytes      INTEGER,
    entries    INTEGER,
    path_bytes INTEGER NOT NULL,             -- length of all paths so far
    PRIMARY KEY (session_id, number)
) STRICT;
