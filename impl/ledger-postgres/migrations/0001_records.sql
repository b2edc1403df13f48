-- Operations: what is stored of each one now, and every change of it.
--
-- Times are milliseconds since the Unix epoch. `record` and `change` are the ledger's own binary format; the columns beside
-- them repeat what queries need.

CREATE TABLE :schema.records (
    -- SHA-256 of the key's parts.
    hash bytea PRIMARY KEY,
    -- The key as text: scope/tool/id.
    key text NOT NULL,
    version bigint NOT NULL,
    generation bigint NOT NULL,
    state text NOT NULL,
    settled boolean NOT NULL,
    record bytea NOT NULL,
    asked bytea NOT NULL,
    sent bytea,
    outcome bytea,
    note bytea,
    -- The resource's name, and its SHA-256.
    resource bytea,
    line bytea,
    place bigint NOT NULL,
    by_epoch bigint NOT NULL,
    keep_until bigint,
    tombstone boolean NOT NULL DEFAULT false
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX records_open ON :schema.records (hash) WHERE NOT settled;
CREATE INDEX records_line ON :schema.records (line, place) WHERE NOT settled AND line IS NOT NULL;
CREATE INDEX records_due ON :schema.records (keep_until, hash) WHERE settled AND keep_until IS NOT NULL;

CREATE TABLE :schema.history (
    hash bytea NOT NULL,
    version bigint NOT NULL,
    change bytea NOT NULL,
    asked bytea,
    sent bytea,
    outcome bytea,
    note bytea,
    resource bytea,
    PRIMARY KEY (hash, version)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

CREATE SEQUENCE :schema.places;
