-- What must be one statement, so that it needs one round trip, and no session that lasts (PgBouncer's transaction mode).

-- To be called first in a transaction whose commit must last: whatever the server's default, its commit waits for the disk. It
-- waits at most this many milliseconds for any lock.
CREATE FUNCTION :schema.durable(patience integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('lock_timeout', patience::text, true);
END
$$;

-- Compare-and-sets, one per element of the arrays. Answers 1 where it was stored, 0 where another version was found, 2 where
-- another transaction has the row. To prevent deadlocks, the caller sorts the elements by hash, and `lines` (of those that may
-- begin with a resource).
CREATE FUNCTION :schema.store(
    patience integer, lines integer[], hashes bytea[], keys text[], expected bigint[], versions bigint[],
    generations bigint[], states text[], settleds boolean[], records bytea[], changes bytea[], askeds bytea[],
    sents bytea[], outcomes bytea[], notes bytea[], resources bytea[], line_hashes bytea[], epochs bigint[],
    keep_untils bigint[]
) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    answers integer[] := array_fill(0, ARRAY[cardinality(hashes)]);
    l integer;
    found_version bigint;
BEGIN
    PERFORM :schema.durable(patience);
    -- Held until after the commit is visible, so that places are given in the order in which they become visible.
    FOREACH l IN ARRAY lines LOOP
        PERFORM pg_advisory_xact_lock(1936028788, l);
    END LOOP;
    FOR i IN 1 .. cardinality(hashes) LOOP
        IF expected[i] IS NULL THEN
            INSERT INTO :schema.records (
                hash, key, version, generation, state, settled, record, asked, sent, outcome, note, resource, line, place,
                by_epoch, keep_until
            ) VALUES (
                hashes[i], keys[i], versions[i], generations[i], states[i], settleds[i], records[i],
                coalesce(askeds[i], ''), sents[i], outcomes[i], notes[i], resources[i], line_hashes[i],
                CASE WHEN resources[i] IS NULL THEN 0 ELSE nextval(':schema.places') END, epochs[i], keep_untils[i]
            ) ON CONFLICT (hash) DO NOTHING;
            IF FOUND THEN
                answers[i] := 1;
            END IF;
        ELSE
            UPDATE :schema.records r SET
                version = versions[i],
                generation = generations[i],
                state = states[i],
                settled = settleds[i],
                record = records[i],
                asked = coalesce(askeds[i], CASE WHEN r.generation = generations[i] THEN r.asked ELSE '' END),
                sent = coalesce(sents[i], CASE WHEN r.generation = generations[i] THEN r.sent END),
                outcome = coalesce(outcomes[i], CASE WHEN r.generation = generations[i] THEN r.outcome END),
                note = coalesce(notes[i], CASE WHEN r.generation = generations[i] THEN r.note END),
                resource = coalesce(resources[i], CASE WHEN r.generation = generations[i] THEN r.resource END),
                line = coalesce(line_hashes[i], CASE WHEN r.generation = generations[i] THEN r.line END),
                place = CASE
                    WHEN r.generation = generations[i] THEN r.place
                    WHEN resources[i] IS NULL THEN 0
                    ELSE nextval(':schema.places')
                END,
                by_epoch = epochs[i],
                keep_until = keep_untils[i],
                tombstone = false
            WHERE r.hash = (
                SELECT c.hash FROM :schema.records c
                WHERE c.hash = hashes[i] AND c.version = expected[i]
                FOR UPDATE SKIP LOCKED
            );
            IF FOUND THEN
                answers[i] := 1;
            ELSE
                SELECT r.version INTO found_version FROM :schema.records r WHERE r.hash = hashes[i];
                IF found_version = expected[i] THEN
                    answers[i] := 2;
                END IF;
            END IF;
        END IF;
    END LOOP;
    INSERT INTO :schema.history (hash, version, change, asked, sent, outcome, note, resource)
        SELECT u.hash, u.version, u.change, u.asked, u.sent, u.outcome, u.note, u.resource
        FROM unnest(hashes, versions, changes, askeds, sents, outcomes, notes, resources, answers)
            AS u (hash, version, change, asked, sent, outcome, note, resource, answer)
        WHERE u.answer = 1;
    RETURN answers;
END
$$;

-- Forgets a key whose record has this version; if `tombstone_until` is given, all but a tombstone of it.
CREATE FUNCTION :schema.forget(patience integer, the_hash bytea, expected bigint, tombstone_until bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM :schema.durable(patience);
    IF tombstone_until IS NULL THEN
        DELETE FROM :schema.records r WHERE r.hash = the_hash AND r.version = expected;
    ELSE
        UPDATE :schema.records r SET
            asked = '', sent = NULL, outcome = NULL, note = NULL, keep_until = tombstone_until, tombstone = true
        WHERE r.hash = the_hash AND r.version = expected;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM :schema.history h WHERE h.hash = the_hash;
    RETURN true;
END
$$;

-- A new owner. Durable, because no epoch may be handed out twice.
CREATE FUNCTION :schema.register(patience integer, lease bigint, presence bytea) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    new_epoch bigint;
BEGIN
    PERFORM :schema.durable(patience);
    DELETE FROM :schema.owners o WHERE o.gone_at < clock_timestamp() - interval '1 day';
    INSERT INTO :schema.owners (epoch, lease_until, presence)
        VALUES (
            nextval(':schema.epochs'), clock_timestamp() + lease * interval '1 millisecond', register.presence
        )
        RETURNING epoch INTO new_epoch;
    RETURN new_epoch;
END
$$;

-- Puts into the retry budget what requests bring, and takes a token if one is wanted and there is one. A crash may forget the
-- last of it, so nobody waits for the disk.
CREATE FUNCTION :schema.draw(brought bigint, capacity bigint, wanted boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    now_in bigint;
    taken boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT least(coalesce(b.level, capacity) + brought, capacity) INTO STRICT now_in FROM :schema.budget b FOR UPDATE;
    taken := wanted AND now_in >= 1000;
    UPDATE :schema.budget b SET level = now_in - CASE WHEN taken THEN 1000 ELSE 0 END;
    RETURN taken;
END
$$;
