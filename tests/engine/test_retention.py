"""Retention: processed receipts go after seven days, pending ones never (W-068)."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest
import trio

from engine import limits
from engine.app import Engine
from engine.errors import WakefulError
from engine.service.retention import retain
from engine.storage.database import Database, Lane
from tests.engine.foreign import COMMENT, Psql, until
from tests.engine.world import World, register, running, say, settled

RECEIPTS = (
    "INSERT INTO issue_wakeup_receipt ("
    "   wakeup_id, revision, event_key, event_type, payload, processed_at, created_at)"
    " SELECT $1, 1, 'old ' || n, 'comment.created', '{}',"
    "        CASE WHEN $3 THEN now - make_interval(days => 8, secs => n) END,"
    "        now - interval '9 days'"
    "   FROM generate_series(1, $2::int) n, wakeful_now() now"
)
COUNT = (
    "SELECT count(*) FILTER (WHERE processed_at IS NOT NULL) AS processed,"
    "       count(*) FILTER (WHERE processed_at IS NULL) AS pending FROM issue_wakeup_receipt"
)


async def counts(psql: Psql) -> tuple[int, int]:
    """Return how many receipts are processed, and how many pending."""
    (row,) = await psql(COUNT)
    return row["processed"], row["pending"]


async def left_over(psql: Psql, world: World, processed: int, pending: int = 0) -> UUID:
    """Make a rule that is off, with receipts of more than a week ago."""
    rule = await psql.rule(world, event_types=[COMMENT], enabled=False)
    await psql(RECEIPTS, rule, processed, True)
    await psql(RECEIPTS.replace("'old '", "'pending '"), rule, pending, False)
    return rule


async def test_a_thousand_at_a_time(psql: Psql, world: World, database_url: str) -> None:
    """W-068: of 2500 processed receipts 1000, 1000 and 500 go in three sweeps; pending ones stay.

    Runs, comments, timeline and younger receipts stay, too.
    """
    rule = await left_over(psql, world, 2_500, pending=5)
    await psql.comment(world.issue)
    await psql.receipt(rule, processed_at=await psql.value("SELECT now() - interval '6 days'"))
    kept = ("agent_task_queue", "comment", "activity_log", "issue_wakeup")
    before = {table: await psql.value(f"SELECT count(*) FROM {table}") for table in kept}
    async with Database.open(database_url) as database:
        for deleted, rest in ((1_000, 1_501), (1_000, 501), (500, 1), (0, 1)):
            retained = (await database.write(Lane.BACKGROUND, retain)).result
            assert retained.deleted == deleted
            assert await counts(psql) == (rest, 5)
            oldest = await psql.value("SELECT min(processed_at) FROM issue_wakeup_receipt")
            assert retained.next_due is not None
            assert (retained.next_due - oldest).days == 7
    assert before == {table: await psql.value(f"SELECT count(*) FROM {table}") for table in kept}


async def test_locked_receipts_are_passed_over(psql: Psql, world: World, database_url: str) -> None:
    """W-068: with the ten oldest receipts locked a sweep deletes a thousand others, at once."""
    await left_over(psql, world, 1_200)
    oldest = "SELECT seq FROM issue_wakeup_receipt ORDER BY processed_at LIMIT 10"
    locked = [row["seq"] for row in await psql(oldest)]
    lock = "SELECT FROM issue_wakeup_receipt WHERE seq = ANY ($1) FOR UPDATE"
    async with Database.open(database_url) as database, psql.open_transaction((lock, locked)):
        began = trio.current_time()
        retained = (await database.write(Lane.BACKGROUND, retain)).result
        assert trio.current_time() - began < 2
        assert retained.deleted == 1_000
        assert [row["seq"] for row in await psql(oldest)] == locked


async def test_retention_gives_up_after_its_budget(
    psql: Psql, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-068: its statement has a budget of its own, two seconds, and then deletes nothing."""
    assert limits.RETENTION_MS_MAX == 2_000
    monkeypatch.setattr(limits, "RETENTION_MS_MAX", 200)
    await left_over(psql, world, 10)
    async with Database.open(database_url) as database:
        async with psql.open_transaction(("LOCK TABLE issue_wakeup_receipt",)):
            with pytest.raises(WakefulError) as caught:
                await database.write(Lane.BACKGROUND, retain)
        assert caught.value.code == "budget_exceeded"
        assert await counts(psql) == (10, 0)
        assert (await database.write(Lane.BACKGROUND, retain)).result.deleted == 10


async def test_a_failed_job_says_so_and_the_others_go_on(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-082: a job that fails is one attempt, with its error in the row; the sweep is done."""
    await left_over(psql, world, 1)
    await psql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'kept for ever'; END $$"
    )
    await psql(
        "CREATE TRIGGER a_refusal BEFORE DELETE ON issue_wakeup_receipt FOR EACH ROW"
        " EXECUTE FUNCTION refuse()"
    )
    states = "SELECT job_name, status, attempt, error_code, error_msg FROM sys_cron_executions"
    async with running(database_url, sweep_seconds=3_600, sweep_idle_after=0.2):

        async def ended() -> dict[str, tuple[object, ...]] | None:
            rows = {row["job_name"]: tuple(row.values())[1:] for row in await psql(states)}
            return rows if {row[0] for row in rows.values()} == {"SUCCESS", "FAILED"} else None

        rows = await until(ended, "every job has ended")
    failed = rows.pop("issue_wakeup_retention")
    assert failed[:3] == ("FAILED", 1, "internal_error")
    assert "kept for ever" not in str(failed[3]), "errors name no values"
    assert set(rows.values()) == {("SUCCESS", 1, None, None)}
    assert await counts(psql) == (1, 0)


async def test_an_idle_engine_knows_when_to_clean_up(
    psql: Psql, world: World, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-074: a pause of the plans ends some time after a receipt has come of age.

    W-068: the receipt goes then, and the pause goes on. In between others come of age, so that a
    busy day of last week does not wake the engine a thousand times.
    """
    monkeypatch.setattr(limits, "RETENTION_PAUSE_SECONDS", 1)
    rule = await psql.rule(world, event_types=[COMMENT], enabled=False)
    soon = await psql.value("SELECT wakeful_now() - interval '7 days' + interval '1 second'")
    await psql.receipt(rule, processed_at=soon)
    async with running(database_url, sweep_seconds=0.4, sweep_idle_after=0.3) as engine:

        async def pauses() -> bool:
            return engine.alarm.is_idle()

        await until(pauses, "the plans pause", within=1.5)
        assert await counts(psql) == (1, 0)

        async def gone() -> bool:
            return await counts(psql) == (0, 0)

        await until(gone, "the receipt goes", within=4)
        late = "SELECT wakeful_now() - interval '7 days' - $1"
        assert await psql.value(late, soon) >= timedelta(seconds=1)
        await settled(engine)
        assert engine.alarm.is_idle()


async def test_receipts_of_a_dispatch_are_kept_for_a_week(
    engine: Engine, psql: Psql, world: World, database_url: str
) -> None:
    """W-068: what was consumed a moment ago is not touched."""
    rule = await register(engine, world)
    await say(engine, world.n, world.issue)
    await psql.run(rule.id)
    await psql.drained(rule.id)
    async with Database.open(database_url) as database:
        assert (await database.write(Lane.BACKGROUND, retain)).result.deleted == 0
    assert await counts(psql) == (1, 0)


FILES = (
    "WITH f AS ("
    "   INSERT INTO attachment (workspace_id, issue_id, uploader_type, uploader_id, filename)"
    "   SELECT $1, $2, 'member', $3, 'f' FROM generate_series(1, $4::int) RETURNING id)"
    " INSERT INTO attachment_content (attachment_id, content) SELECT f.id, 'x' FROM f"
)
AGED = "UPDATE attachment SET unbound_at = unbound_at - interval '25 hours' WHERE unbound_at < $1"


async def test_files_that_hang_on_nothing_go_after_a_day(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-068: uploads that were never bound go after a day, a hundred a sweep, with their content.

    What hangs on something stays, and so does what was taken off a moment ago, however old it is.
    """

    async def files() -> int:
        found = await psql.value("SELECT count(*) FROM attachment")
        assert found == await psql.value("SELECT count(*) FROM attachment_content")
        return int(found)

    for issue_id, count in ((None, 150), (world.issue, 3)):
        await psql(FILES, world.workspace_id, issue_id, world.m.user_id, count)
    now = await psql.value("SELECT wakeful_now()")
    assert await psql.value("SELECT count(*) FROM attachment WHERE unbound_at IS NULL") == 3
    await psql("UPDATE attachment SET created_at = $1::timestamptz - interval '9 days'", now)
    await psql(AGED, now)
    await psql(FILES, world.workspace_id, None, world.m.user_id, 2)
    taken_off = "UPDATE attachment SET issue_id = NULL WHERE id = $1"
    await psql(taken_off, await psql.value("SELECT min(id::text)::uuid FROM attachment"
                                           " WHERE issue_id IS NOT NULL"))  # fmt: skip
    async with Database.open(database_url) as database:
        for left in (55, 5, 5):
            retained = (await database.write(Lane.BACKGROUND, retain)).result
            assert retained.deleted == 0
            assert await files() == left
    assert retained.next_due is not None
    oldest = await psql.value("SELECT min(unbound_at) FROM attachment")
    assert retained.next_due - oldest == timedelta(seconds=limits.UNBOUND_SECONDS)


async def test_a_file_that_is_being_bound_stays(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-068: a file that somebody hangs on an issue at this moment is passed over at once."""
    await psql(FILES, world.workspace_id, None, world.m.user_id, 2)
    now = await psql.value("SELECT wakeful_now()")
    await psql(AGED, now)
    file = await psql.value("SELECT id FROM attachment LIMIT 1")
    binding = ("UPDATE attachment SET issue_id = $2 WHERE id = $1", file, world.issue)
    async with Database.open(database_url) as database, psql.open_transaction(binding):
        await database.write(Lane.BACKGROUND, retain)
    rows = await psql("SELECT id, issue_id, unbound_at FROM attachment")
    assert [tuple(row.values()) for row in rows] == [(file, world.issue, None)]


async def test_a_backlog_of_anything_goes_on_at_once(
    psql: Psql, world: World, database_url: str
) -> None:
    """W-033, W-068: old keys go a thousand at a time, one call after the other, not one a day."""
    await psql(
        "INSERT INTO idempotency_key"
        " (caller, route, key, workspace_id, digest, status, body, created_at)"
        " SELECT 'somebody', 'POST /x', n::text, $1, '\\x00', 201, 'a body',"
        "        wakeful_now() - interval '25 hours' FROM generate_series(1, 1500) n",
        world.workspace_id,
    )
    async with Database.open(database_url) as database:
        full = [(await database.write(Lane.BACKGROUND, retain)).result.is_full for _ in range(2)]
    assert full == [True, False]
    assert await psql.value("SELECT count(*) FROM idempotency_key") == 0
