-- What models were told, and how far each reader is. A reader is a key with the name that it gave.

CREATE TABLE tool_readers (
    session_id     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    reader         TEXT NOT NULL,
    foreground     TEXT,                     -- the command that a call without an id means
    restarts_until REAL NOT NULL DEFAULT 0,  -- the last restart of the sandbox that it was told of
    PRIMARY KEY (session_id, reader)
) STRICT;

CREATE TABLE tool_cursors (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    reader     TEXT NOT NULL,
    command_id TEXT NOT NULL,
    next       INTEGER NOT NULL,             -- offset of the output that it is given next
    ended      INTEGER NOT NULL,             -- it was told how the command ended
    PRIMARY KEY (session_id, reader, command_id)
) STRICT;

CREATE TABLE tool_calls (
    id          INTEGER PRIMARY KEY,
    session_id  TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    reader      TEXT NOT NULL,
    actor       TEXT NOT NULL,               -- Actor
    tool        TEXT NOT NULL,
    input       TEXT NOT NULL,               -- its beginning
    command_id  TEXT,
    at          REAL NOT NULL,
    ended_at    REAL NOT NULL,
    text        TEXT NOT NULL,
    next_offset INTEGER,
    bytes       INTEGER NOT NULL,            -- of text and input
    start       INTEGER                      -- offset of the first byte of output that the text is made of
) STRICT;

CREATE INDEX tool_calls_by_session ON tool_calls (session_id, id);
CREATE INDEX tool_calls_by_command ON tool_calls (session_id, command_id, id) WHERE command_id IS NOT NULL;

-- What of them is kept for each session, so that nobody has to count.
CREATE TABLE tool_totals (
    session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    calls      INTEGER NOT NULL,
    bytes      INTEGER NOT NULL
) STRICT;
