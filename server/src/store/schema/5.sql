-- What only this server knows: ids that stand for a secret are made with it, so that nobody can try secrets against them.
CREATE TABLE server (
    secret TEXT NOT NULL
) STRICT;

INSERT INTO server (secret) VALUES (hex(randomblob(32)));
