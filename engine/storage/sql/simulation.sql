-- A simulation database: its time stands in a row, and passes when the simulation moves it (W-260).
-- An ordinary database never gets any of this, and its wakeful_now() looks into no table.

-- name: is_one
-- Whether this database was prepared before.
SELECT to_regclass('simulation_clock') IS NOT NULL;

-- name: is_used
-- Whether anybody works in it: then it is not made a simulation, which would stop its time.
SELECT EXISTS (SELECT FROM workspace);

-- name: create_clock
-- The one row that every writer of the database reads the time from, psql too.
CREATE TABLE simulation_clock (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  now timestamptz NOT NULL
);

-- name: start_clock
-- The time at which the simulation begins.
INSERT INTO simulation_clock (now) VALUES ($1);

-- name: follow_clock
-- VOLATILE as the ordinary one: a statement sees the time that is committed when it begins.
CREATE OR REPLACE FUNCTION wakeful_now() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
BEGIN
  RETURN (SELECT c.now FROM simulation_clock c);
END $$;

-- name: create_numbers
-- Counts the ids of the database.
CREATE SEQUENCE simulation_ids;

-- name: number_ids
-- Version 7 as the ordinary ones, with a number in the place of chance: much happens at one instant
-- of a clock that stands still, and ids of one instant keep the order in which they were made.
CREATE OR REPLACE FUNCTION wakeful_uuid7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL UNSAFE AS $$
  SELECT encode(
    substring(int8send(floor(extract(epoch FROM wakeful_now()) * 1000)::bigint) FROM 3)
      || '\x7000'::bytea || set_bit(int8send(nextval('simulation_ids')), 7, 1),
    'hex')::uuid
$$;

-- name: now
-- What the clock shows.
SELECT wakeful_now();

-- name: move_clock
-- The next instant ($1), at which these runtimes ($2) are alive: a daemon that is online sends its
-- signs of life all the time. Locks: the runtimes and the clock, while the engine is quiet.
WITH alive AS (
  UPDATE agent_runtime t SET last_seen_at = $1 WHERE t.id = ANY ($2::uuid[])
)
UPDATE simulation_clock SET now = $1;

-- name: create_log
-- Every firing of a timer, for ever: receipts go after seven days, runs take the newest fact only.
CREATE TABLE simulation_firing (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  wakeup_id uuid NOT NULL,
  planned_at timestamptz NOT NULL,
  fired_at timestamptz NOT NULL,
  run_id uuid
);

-- name: index_log
-- For the firings of one rule.
CREATE INDEX simulation_firing_rule_idx ON simulation_firing (wakeup_id, seq);

-- name: log_firing
-- Called for each new receipt of a timer.
CREATE FUNCTION simulation_log_firing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO simulation_firing (wakeup_id, planned_at, fired_at, run_id)
  VALUES (NEW.wakeup_id, (NEW.payload ->> 'planned_at')::timestamptz, wakeful_now(), NEW.task_id);
  RETURN NULL;
END $$;

-- name: log_firings
-- It only looks on: the firing is written in the transaction that fires.
CREATE TRIGGER simulation_firings AFTER INSERT ON issue_wakeup_receipt
  FOR EACH ROW WHEN (NEW.event_type = 'time.due') EXECUTE FUNCTION simulation_log_firing();

-- name: firings
-- What a timer rule ($1) has done, in the order in which it happened, one row a firing: the planned
-- instant, when it came, and the run that took it in at once. Bounded by the rule.
-- Index: simulation_firing_rule_idx.
SELECT f.planned_at, f.fired_at, f.run_id
  FROM simulation_firing f
 WHERE f.wakeup_id = $1
 ORDER BY f.seq;
