-- Times are Unix seconds. JSON only for enums with payloads and for lists; the word of a state is generated from its
-- JSON, so that the two cannot disagree.

CREATE TABLE sessions (
    id             TEXT PRIMARY KEY,
    tenant         TEXT NOT NULL,
    name           TEXT NOT NULL,
    profile        TEXT NOT NULL,
    template       TEXT NOT NULL,
    memory_bytes   INTEGER NOT NULL,
    cpus           REAL NOT NULL,
    pids_limit     INTEGER NOT NULL,
    created_by     TEXT NOT NULL,            -- Actor
    created_at     REAL NOT NULL,
    last_used_at   REAL NOT NULL,
    state_json     TEXT NOT NULL,            -- SessionState
    state          TEXT NOT NULL GENERATED ALWAYS AS (state_json ->> 'state') STORED,
    ended_at       REAL,
    container      TEXT,
    workspace      TEXT NOT NULL,
    generation     INTEGER NOT NULL,
    control_holder TEXT NOT NULL,            -- Actor
    control_since  REAL NOT NULL,
    restarts       TEXT NOT NULL,            -- [RestartView]
    metadata       TEXT NOT NULL,            -- {text: text}
    commands_total INTEGER NOT NULL
) STRICT;

CREATE INDEX sessions_unended ON sessions (created_at) WHERE state <> 'ended';

CREATE TABLE commands (
    id                   TEXT PRIMARY KEY,
    session_id           TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    tenant               TEXT NOT NULL,
    number               INTEGER NOT NULL,
    command              TEXT NOT NULL,
    cwd                  TEXT,
    split                INTEGER NOT NULL,
    actor                TEXT NOT NULL,      -- Actor
    state_json           TEXT NOT NULL,      -- CommandState
    state                TEXT NOT NULL GENERATED ALWAYS AS (state_json ->> 'state') STORED,
    created_at           REAL NOT NULL,
    started_at           REAL,
    ended_at             REAL,
    pid                  INTEGER,
    limit_seconds        REAL NOT NULL,
    output_bytes         INTEGER NOT NULL,
    output_missing_bytes INTEGER NOT NULL,
    last_output_at       REAL,
    output_closed        INTEGER NOT NULL,
    output_complete      INTEGER NOT NULL,
    out_of_memory        INTEGER NOT NULL,
    kill                 TEXT,               -- KillReport
    UNIQUE (session_id, number)
) STRICT;

CREATE INDEX commands_unfinished ON commands (created_at) WHERE state IN ('starting', 'running') OR output_closed = 0;

CREATE TABLE keys (
    id         TEXT PRIMARY KEY,
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    role       TEXT NOT NULL,
    prefix     TEXT NOT NULL,
    hash       BLOB NOT NULL UNIQUE,         -- SHA-256
    created_at REAL NOT NULL,
    revoked_at REAL
) STRICT;

CREATE INDEX keys_by_tenant ON keys (tenant, created_at);

CREATE TABLE links (
    hash       BLOB PRIMARY KEY,             -- SHA-256
    tenant     TEXT NOT NULL,
    role       TEXT NOT NULL,
    expires_at REAL NOT NULL
) STRICT;

CREATE TABLE sign_ins (
    hash       BLOB PRIMARY KEY,             -- SHA-256
    tenant     TEXT NOT NULL,
    role       TEXT NOT NULL,
    name       TEXT NOT NULL,
    key_id     TEXT REFERENCES keys (id),
    key_hash   BLOB,                         -- SHA-256
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL
) STRICT;

CREATE INDEX sign_ins_by_key ON sign_ins (key_id) WHERE key_id IS NOT NULL;
