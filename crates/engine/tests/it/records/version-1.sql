CREATE TABLE sandboxes (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE names (
    name TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE REFERENCES sandboxes (id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us INTEGER NOT NULL,
    id TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
INSERT INTO sandboxes VALUES ('sbx_01010101010101010101', '{"id":"sbx_01010101010101010101","name":"web","state":"running","cause":null,"state_since":"2027-01-15T08:00:00.000001Z","image":"host","tier":"container","env":{"TOKEN":"t"},"limits":{"pids":100},"labels":{"team":"red"},"lifecycle":{"lease_ms":60000},"created_at":"2027-01-15T08:00:00Z","lease_from":"2027-01-15T08:00:00Z","timeline":{"accepted_us":12}}');
INSERT INTO names VALUES ('web', 'sbx_01010101010101010101');
INSERT INTO events VALUES (7, 1800000000000000, 'sbx_01010101010101010101', '{"kind":"stopped","forced":true}');
PRAGMA user_version = 1;
