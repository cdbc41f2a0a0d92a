"""What writers hold and wait for: nobody waits for an idle commenter, nobody deadlocks."""

from __future__ import annotations

import re
from pathlib import Path

from engine.storage.postgres import Postgres
from tests.sql.capture_changes import CHANGES, FURNITURE, LISTENER
from tests.sql.capture_town import (
    AGENT_A,
    AGENT_B,
    ISSUE_I,
    MEMBER_M,
    WORKSPACE,
    Town,
    commenting,
    listening,
    queueing,
)
from tests.sql.psql_session import PsqlSession

TYPE = "comment.created"
TYPES = (TYPE, "task.deferred")
SCAN = re.compile(r"(Seq Scan|Index(?: Only)? Scan|Bitmap \w+ Scan)[^\n]* on (\w+)")
RUN = (
    "INSERT INTO agent_task_queue (issue_id, agent_id, status)"
    f" VALUES ('{ISSUE_I}', '{AGENT_B}', 'deferred');"
)
COMMENT = (
    "INSERT INTO comment (issue_id, workspace_id, content)"
    f" VALUES ('{ISSUE_I}', '{WORKSPACE}', 'words');"
)


def test_an_idle_commenter_delays_nobody(town: Town, database_url: str) -> None:
    """W-051: while one session has commented and idles, others comment and commit."""
    rules = [town.listen(TYPE) for _ in range(4)]
    town.comment()
    with PsqlSession(database_url) as idler, PsqlSession(database_url) as other:
        idler.ask(f"BEGIN; {commenting()}")
        other.ask(f"SET lock_timeout = '1s'; {'; '.join([commenting()] * 20)}")
        assert [town.receipt(rule).count for rule in rules] == [21] * 4
        state = "SELECT state FROM pg_stat_activity WHERE pid = "
        assert town.one(f"{state}{idler.backend}") == "idle in transaction"
        idler.ask("COMMIT")
    assert [town.receipt(rule).count for rule in rules] == [22] * 4


def test_opposite_orders_do_not_deadlock(
    town: Town, postgres: Postgres, database_url: str, tmp_path: Path
) -> None:
    """W-051: 8 writers with two captured statements in opposite orders: zero SQLSTATE 40P01."""
    rules = [town.listen(*TYPES) for _ in range(8)]
    (tmp_path / "one.sql").write_text(f"BEGIN; {COMMENT} {RUN} COMMIT;")
    (tmp_path / "two.sql").write_text(f"BEGIN; {RUN} {COMMENT} COMMIT;")
    for script in tmp_path.iterdir():
        script.chmod(0o644)
    scripts = [
        option for name in ("one", "two") for option in ("-f", str(tmp_path / f"{name}.sql"))
    ]
    load = ("-n", "-c", "8", "-j", "2", "-T", "4", "--failures-detailed")
    said = postgres.tool("pgbench", *load, *scripts, database_url).stdout
    done = int(_found(r"actually processed: (\d+)", said))
    assert done > 100
    assert _found(r"number of failed transactions: (\d+)", said) == "0"
    assert _found(r"number of deadlock failures: (\d+)", said) == "0"
    for rule in rules:
        assert [receipt.count for receipt in town.receipts(rule)] == [done, done]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match is not None, text
    return match.group(1)


async def test_a_writer_without_a_rule_commits_before_the_rule(
    town: Town, database_url: str
) -> None:
    """W-016: a rule waits for a writer that found none; nothing is missed afterwards."""
    with PsqlSession(database_url) as writer:
        writer.ask(f"BEGIN; {commenting()}")
        town.session.start(listening([TYPE]))
        await writer.wait_blocking()
        writer.ask("COMMIT")
        (rule,) = town.session.finish()
    assert town.receipts(rule) == []
    town.comment()
    assert town.receipt(rule).count == 1


async def test_a_writer_beside_an_open_rule_is_captured(town: Town, database_url: str) -> None:
    """W-016, G-01: a comment waits for a rule that is about to be committed, and reaches it."""
    with PsqlSession(database_url) as saver:
        *_, rule = saver.ask(f"BEGIN; {listening([TYPE])}")
        town.session.start(commenting())
        await saver.wait_blocking()
        saver.ask("COMMIT")
        (comment,) = town.session.finish()
    assert town.receipt(rule).payload["comment_id"] == comment


async def test_a_rule_that_turns_to_listening_waits_like_a_new_one(
    town: Town, database_url: str
) -> None:
    """W-016: switching on, another kind and a further type wait; switching off does not."""
    changes = (
        (town.listen(TYPE, enabled=False), "enabled = true"),
        (town.listen("task.failed"), "event_types = '{comment.created,task.failed}'"),
        (
            town.listen(kind="every", interval_seconds=60),
            "kind = 'event', event_types = '{comment.created}'",
        ),
    )
    for rule, change in changes:
        with PsqlSession(database_url) as writer:
            writer.ask(f"BEGIN; {commenting()}")
            town.session.start(f"UPDATE issue_wakeup SET {change} WHERE id = '{rule}'")
            await writer.wait_blocking()
            writer.ask("ROLLBACK")
            assert town.session.finish() == []
    with PsqlSession(database_url) as writer:
        writer.ask(f"BEGIN; {commenting()}")
        town.ask("SET lock_timeout = '1s'; UPDATE issue_wakeup SET enabled = false")
        writer.ask("COMMIT")
    assert town.count("issue_wakeup_receipt") == 0


async def test_a_commit_waits_for_who_changes_the_rules(town: Town, database_url: str) -> None:
    """W-051: facts are matched under the issue's lock, with the rules as they are then."""
    rule = town.listen(TYPE)
    with PsqlSession(database_url) as changer:
        changer.ask(f"BEGIN; SELECT pg_advisory_xact_lock(wakeful_issue_key('{ISSUE_I}'))")
        changer.ask(f"UPDATE issue_wakeup SET enabled = false WHERE id = '{rule}'")
        town.session.start(commenting())
        await changer.wait_blocking()
        changer.ask("COMMIT")
        town.session.finish()
    assert town.receipts(rule) == []


async def test_a_pending_run_that_is_locked_delays_no_capture(
    town: Town, database_url: str
) -> None:
    """W-078: with the queued run of a rule locked, a comment is captured at once."""
    rule = town.listen(TYPE)
    run = town.run(context={"wakeup_id": rule})
    with PsqlSession(database_url) as holder:
        holder.ask(f"BEGIN; SELECT FROM agent_task_queue WHERE id = '{run}' FOR UPDATE")
        town.ask(f"SET lock_timeout = '100ms'; {commenting()}")
    assert town.receipt(rule).count == 1


def test_capture_and_candidates_use_indexes(town: Town) -> None:
    """W-075, W-052: beside 100,000 rules that are off, every statement inside scans by index."""
    _crowd(town, 100_000)
    dispatching = f"SELECT dispatch_candidates(ARRAY['{ISSUE_I}'::uuid], '{{}}', 32)"
    for sql, looked_up in (
        (commenting(), {"capture_buffer", "issue_wakeup"}),
        (queueing(status="cancelled"), {"issue_wakeup", "issue_wakeup_receipt"}),
        (dispatching, {"issue_wakeup", "issue_wakeup_receipt"}),
    ):
        plans = [_plans(town, sql) for _ in range(3)]
        scans = set(re.findall(SCAN, plans[0]))
        assert looked_up <= {table for _, table in scans}, plans[0]
        assert not [table for kind, table in scans if kind == "Seq Scan"], plans[0]
        # The quietest of three looks: others work on this machine, too.
        assert min(map(_slowest, plans)) < 20, plans[0]


def test_every_trigger_uses_indexes(town: Town) -> None:
    """W-075, W-039, W-186: so does every change of the catalogue, and the closing of an issue."""
    town.ask(FURNITURE)
    _crowd(town, 5_000)
    town.ask(
        "INSERT INTO issue (workspace_id, number, title)"
        f" SELECT '{WORKSPACE}', 10 + n, 'more' FROM generate_series(1, 5000) n;"
        "INSERT INTO comment (issue_id, workspace_id, content)"
        "  SELECT i.id, i.workspace_id, 'words' FROM issue i WHERE i.number > 10;"
        "INSERT INTO agent_task_queue (issue_id, agent_id, status)"
        "  SELECT i.id, gen_random_uuid(), 'completed' FROM issue i WHERE i.number > 10;"
        "VACUUM ANALYZE comment, issue, issue_wakeup, agent_task_queue, capture_buffer"
    )
    ours = r"CONTEXT:[\s\S]*PL/pgSQL function (?:capture|wake)\w+"
    closing = f"UPDATE issue SET status = 'done' WHERE id = '{ISSUE_I}'"
    own = f"UPDATE agent_task_queue SET context = jsonb_build_object('wakeup_id', '{LISTENER}')"
    seen = set()
    for sql in (*(change.sql for change in CHANGES), f"{own}; {closing}"):
        plans = _plans(town, f"BEGIN; {sql}; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK")
        inside = [plan for plan in plans.split("duration:") if re.search(ours, plan)]
        scans = {scan for plan in inside for scan in re.findall(SCAN, plan)}
        seen |= {table for _, table in scans}
        slow = {table for kind, table in scans if kind == "Seq Scan"}
        assert not slow, (sql, slow, [plan for plan in inside if "Seq Scan" in plan])
    assert seen >= {"issue_wakeup", "issue", "comment", "agent_task_queue", "issue_wakeup_receipt"}


def _crowd(town: Town, count: int) -> None:
    """Add rules that are off, a hundredth of them on issue I, and one that listens.

    The others stand on no issue at all, which nobody but such a crowd may do.
    """
    town.ask(
        "ALTER TABLE issue_wakeup DISABLE TRIGGER wakeup_keeps_issue;"
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction,"
        "                          kind, mode, event_types, enabled, disabled_at, next_fire_at)"
        f" SELECT '{WORKSPACE}', CASE WHEN n % 100 = 0 THEN '{ISSUE_I}'::uuid"
        f"        ELSE gen_random_uuid() END, '{AGENT_A}', '{MEMBER_M}', 'Look.',"
        "         CASE WHEN n % 2 = 0 THEN 'event' ELSE 'every' END, 'continuous',"
        "         CASE WHEN n % 2 = 0 THEN '{comment.created}'::text[] ELSE '{}' END,"
        "         false, now(), now()"
        f"    FROM generate_series(1, {count}) n;"
        " ALTER TABLE issue_wakeup ENABLE TRIGGER wakeup_keeps_issue;"
        f" {listening([TYPE, 'task.cancelled'])} \\g /dev/null\n ANALYZE issue_wakeup"
    )


def _slowest(plans: str) -> float:
    """Return how long the slowest statement took, in milliseconds."""
    return max(float(each) for each in re.findall(r"duration: ([\d.]+) ms", plans))


def _plans(town: Town, sql: str) -> str:
    """Return the plans of every statement inside these, the second time they run."""
    town.ask(sql)
    lines = town.ask(
        "\\set VERBOSITY default\n\\set SHOW_CONTEXT always\n"
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;"
        "SET auto_explain.log_nested_statements = on; SET client_min_messages = log;"
        f"{sql}; RESET client_min_messages; SET auto_explain.log_min_duration = -1"
    )
    return "\n".join(lines) + "\n"


async def test_a_rule_in_the_making_delays_commenters_for_moments(
    town: Town, database_url: str
) -> None:
    """W-051: beside an idle commenter, whoever makes a rule gives up; other comments pass."""
    with (
        PsqlSession(database_url) as idler,
        PsqlSession(database_url) as maker,
        PsqlSession(database_url) as other,
    ):
        idler.ask(f"BEGIN; {commenting()}")
        maker.start(listening([TYPE]))
        await idler.wait_blocking()
        # Each comment queues behind the maker for one turn at most, never for its whole second.
        other.ask(f"SET lock_timeout = '200ms'; {'; '.join([commenting()] * 10)}")
        assert maker.finish() == ["ERROR:  55P03"]
        idler.ask("COMMIT")
        maker.ask(listening([TYPE]))


def test_a_setting_that_is_no_id_fails_nothing(town: Town) -> None:
    """W-051: a foreign writer's malformed settings count as not set; the change goes through."""
    rule = town.listen("issue.status_changed")
    town.ask(
        "BEGIN; SET LOCAL wakeful.actor_id = 'me'; SET LOCAL wakeful.source_task_id = 'mine';"
        f" UPDATE issue SET status = 'blocked' WHERE id = '{ISSUE_I}'; COMMIT"
    )
    assert town.receipt(rule).payload["actor_id"] is None
