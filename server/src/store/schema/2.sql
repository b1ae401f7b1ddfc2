-- History: who ended a session, what is being removed, and which output a search can find.

ALTER TABLE sessions ADD COLUMN ended_by TEXT;                      -- Actor

CREATE INDEX sessions_by_tenant ON sessions (tenant, created_at, id);
CREATE INDEX sessions_ended ON sessions (tenant, ended_at, id) WHERE state = 'ended';

-- 0: not all of its output that shall be searched can be yet. 1: all can. 2: only its first and latest part.
ALTER TABLE commands ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;

CREATE INDEX commands_unindexed ON commands (session_id, number) WHERE indexed = 0 AND output_closed = 1;

-- Sessions on their way out: nobody sees them any more. An entry goes when rows, files and every trace are gone.
CREATE TABLE purges (
    session_id TEXT PRIMARY KEY,
    begun_at   REAL NOT NULL
) STRICT;
