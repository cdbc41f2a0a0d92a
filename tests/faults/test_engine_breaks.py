"""Broken connections under a running engine: nothing is lost, nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from engine.errors import WakefulError
from tests.engine.foreign import COMMENT, until
from tests.engine.world import register, running, say, settled, stage
from tests.faults.relay import Relay, relayed

# Ends the server process of every dispatch that inserts a run, until there is mercy.
DEADLY = """
CREATE SEQUENCE deaths;
CREATE SEQUENCE mercy;
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT (SELECT is_called FROM mercy) THEN
    PERFORM nextval('deaths');
    PERFORM pg_terminate_backend(pg_backend_pid());
    PERFORM pg_sleep(10);
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER a_death BEFORE INSERT ON agent_task_queue FOR EACH ROW EXECUTE FUNCTION die();
"""


async def test_a_dispatch_that_dies_consumes_nothing(database_url: str) -> None:
    """W-067: a dispatch that breaks between reading and commit leaves receipts free and no run.

    G-02: the sweep makes the one run of it afterwards, and only that consumes.
    """
    async with (
        stage(database_url) as (psql, world),
        running(database_url, sweep_seconds=0.4) as engine,
    ):
        rule = await register(engine, world)
        await psql.script(DEADLY)

        async def died_twice() -> bool:
            return bool(await psql.value("SELECT last_value > 1 FROM deaths"))

        comment_id = await psql.comment(world.issue)
        await until(died_twice, "two dispatches die")
        (receipt,) = await psql.receipts(rule.id)
        assert receipt["task_id"] is None
        assert receipt["processed_at"] is None
        assert await psql.runs(rule.id) == []
        await psql("SELECT nextval('mercy')")
        run = await psql.run(rule.id)
        await psql.drained(rule.id)
        await settled(engine)
        (fact,) = run["context"]["wakeup_evidence"]["facts"]
        assert fact["payload"]["comment_id"] == str(comment_id)
        assert fact["payload"]["coalesced_count"] == 1
        assert len(await psql.runs(rule.id)) == 1


async def test_every_connection_breaks_at_once(database_url: str) -> None:
    """W-073: with every connection ended, a fact written at once is a run within 5 s."""
    async with stage(database_url) as (psql, world), running(database_url) as engine:
        rule = await register(engine, world)
        await settled(engine)
        pids = [row["pid"] for row in await psql.engine_sessions()]
        assert len(pids) > 5
        ended = await psql(
            "SELECT pg_terminate_backend(pid, 2000) AS done FROM unnest($1::int[]) pid", pids
        )
        assert all(row["done"] for row in ended)
        await psql.comment(world.issue)
        await psql.run(rule.id, within=5)
        other = await register(engine, world, issue=world.other_issue)
        await say(engine, world.n, world.other_issue)
        await psql.run(other.id, within=1)


async def test_an_unknown_commit_is_hinted(database_url: str) -> None:
    """W-069: a comment whose commit had no answer becomes a run all the same, without a sweep."""
    async with (
        stage(database_url) as (psql, world),
        relayed(database_url) as (relay, url),
        running(url) as engine,
    ):
        rule = await register(engine, world)
        await settled(engine)
        relay.cut_after = once(b"COMMIT")
        with pytest.raises(WakefulError) as caught:
            await say(engine, world.n, world.issue)
        assert caught.value.code == "commit_unknown"
        assert relay.faults == 1
        assert len(await psql.receipts(rule.id)) == 1, "it was committed"
        await psql.run(rule.id, within=2)


async def test_an_unknown_commit_of_a_dispatch_fires_once(database_url: str) -> None:
    """W-067: a dispatch whose commit had no answer is not repeated: one run, one consumption."""
    async with (
        stage(database_url) as (psql, world),
        relayed(database_url) as (relay, url),
        running(url, sweep_seconds=0.4) as engine,
    ):
        rule = await register(engine, world, mode="once")
        other = await register(engine, world)
        await settled(engine)
        relay.cut_after = once(b"COMMIT")
        await psql.comment(world.issue)
        await psql.drained(rule.id, other.id)
        await met(relay)
        await psql.comment(world.issue)
        await psql.drained(rule.id, other.id)
        await psql.pause(1)
        await settled(engine)
        for each in (rule, other):
            assert len(await psql.runs(each.id)) == 1
        assert len(await psql.receipts(rule.id)) == 1
        (fact,) = (await psql.run(other.id))["context"]["wakeup_evidence"]["facts"]
        assert fact["event_type"] == COMMENT
        assert fact["payload"]["coalesced_count"] == 2


def once(word: bytes) -> Callable[[bytes], bool]:
    """Return a predicate that is true for the first bytes that hold this word."""
    left = [word]

    def matches(data: bytes) -> bool:
        if left and left[0] in data:
            left.clear()
            return True
        return False

    return matches


async def met(relay: Relay) -> None:
    """Wait until the relay has cut a line."""

    async def probe() -> bool:
        await trio.lowlevel.checkpoint()
        return relay.faults == 1

    await until(probe, "the line is cut")
