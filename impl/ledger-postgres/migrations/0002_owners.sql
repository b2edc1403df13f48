-- Processes that may dispatch, the clock they share, and the retry budget they share.

CREATE SEQUENCE :schema.epochs AS bigint MAXVALUE 4294967295 NO CYCLE;

CREATE TABLE :schema.owners (
    epoch bigint PRIMARY KEY,
    lease_until timestamptz NOT NULL,
    -- Where and what the process is, in the ledger's own binary format.
    presence bytea NOT NULL,
    -- Since when it is known that it will never send anything again.
    gone_at timestamptz
);

CREATE TABLE :schema.budget (
    one boolean PRIMARY KEY CHECK (one),
    -- Thousandths of a token; null before the first request.
    level bigint
) WITH (fillfactor = 10);

INSERT INTO :schema.budget (one) VALUES (true);
