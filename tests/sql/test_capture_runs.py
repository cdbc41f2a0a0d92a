"""Runs are captured whenever a row appears or its status changes."""

from __future__ import annotations

from tests.sql.capture_town import (
    AGENT_A,
    AGENT_B,
    ISSUE_I,
    MEMBER_M,
    RUNTIME,
    WORKSPACE,
    Town,
    queueing,
)
from tests.sql.psql_session import PsqlSession

LIFE = ("task.queued", "task.dispatched", "task.started", "task.completed")


def test_a_run_is_followed_through_its_life(town: Town) -> None:
    """W-041: queued, dispatched, running and completed are four facts in order."""
    rule = town.listen(*LIFE)
    run = town.run()
    for status in ("dispatched", "running", "completed"):
        town.move(run, status)
    told = town.receipts(rule)
    assert [receipt.event_type for receipt in told] == list(LIFE)
    assert [receipt.payload["status"] for receipt in told] == [
        "queued",
        "dispatched",
        "running",
        "completed",
    ]
    assert [receipt.payload["previous_status"] for receipt in told] == [
        None,
        "queued",
        "dispatched",
        "running",
    ]


def test_a_run_says_what_it_is(town: Town) -> None:
    """W-040, W-041: the payload has exactly the agreed keys; the run itself is the source."""
    rule = town.listen("task.completed")
    run = town.run(agent_id=AGENT_B)
    town.move(run, "completed")
    receipt = town.receipt(rule)
    at = receipt.payload["occurred_at"]
    assert receipt.event_key == f"{run}:completed"
    assert receipt.payload == {
        "event_id": receipt.event_key,
        "event_type": "task.completed",
        "version": 1,
        "occurred_at": at,
        "first_occurred_at": at,
        "workspace_id": WORKSPACE,
        "issue_id": ISSUE_I,
        "actor_type": "agent",
        "actor_id": AGENT_B,
        "source_task_id": run,
        "agent_id": AGENT_B,
        "coalesced_count": 1,
        "task_id": run,
        "status": "completed",
        "previous_status": "queued",
        "retry_of_task_id": None,
        "rerun_of_task_id": None,
    }


def test_who_stops_a_run_is_the_actor(town: Town) -> None:
    """W-049: a member who cancels is the actor, the run's agent stays agent_id."""
    rule = town.listen("task.cancelled")
    run = town.run()
    cancel = f"UPDATE agent_task_queue SET status = 'cancelled' WHERE id = '{run}'"
    town.acting("member", MEMBER_M, None, cancel)
    payload = town.receipt(rule).payload
    assert (payload["actor_type"], payload["actor_id"]) == ("member", MEMBER_M)
    assert (payload["agent_id"], payload["source_task_id"]) == (AGENT_A, run)


def test_every_status_has_its_event(town: Town) -> None:
    """W-041: running is told as task.started, every other status by its name."""
    types = {
        "queued": "task.queued",
        "deferred": "task.deferred",
        "dispatched": "task.dispatched",
        "waiting_local_directory": "task.waiting_local_directory",
        "running": "task.started",
        "completed": "task.completed",
        "failed": "task.failed",
        "cancelled": "task.cancelled",
    }
    rule = town.listen(*types.values())
    run = town.run()
    for status in types:
        town.move(run, status)
    told = [(receipt.payload["status"], receipt.event_type) for receipt in town.receipts(rule)]
    assert told == list(types.items())


def test_a_promotion_may_recur_and_an_end_may_not(town: Town) -> None:
    """W-042: two promotions count two; a second end of the same run counts nothing."""
    rule = town.listen("task.queued", "task.completed")
    run = town.run(status="deferred")
    for status in ("queued", "deferred", "queued", "running", "completed"):
        town.move(run, status)
    assert town.receipt(rule, "task.queued").count == 2
    town.move(run, "completed")
    town.move(run, "running")
    town.move(run, "completed")
    assert town.receipt(rule, "task.completed").count == 1
    town.ask("UPDATE issue_wakeup_receipt SET processed_at = now()")
    town.move(run, "running")
    town.move(run, "completed")
    assert town.receipt(rule, "task.completed").count == 1


def test_retries_and_reruns_name_their_origin(town: Town) -> None:
    """W-042: a new run says which one it repeats, and how."""
    rule = town.listen("task.queued")
    first = town.run(status="failed")
    town.run(retry_of_task_id=first)
    payload = town.receipt(rule).payload
    assert (payload["retry_of_task_id"], payload["rerun_of_task_id"]) == (first, None)
    town.run(agent_id=AGENT_B, rerun_of_task_id=first)
    payload = town.receipt(rule).payload
    assert (payload["retry_of_task_id"], payload["rerun_of_task_id"]) == (None, first)


def test_what_is_no_change_of_status_is_no_fact(town: Town) -> None:
    """W-041: a new note, the same status and a run without an issue are not told."""
    run = town.run()
    rule = town.listen(*LIFE)
    town.ask(f"UPDATE agent_task_queue SET handoff_note = 'x' WHERE id = '{run}'")
    town.move(run, "queued")
    town.run(None)
    assert town.receipts(rule) == []


def test_a_bulk_change_tells_each_end(town: Town) -> None:
    """W-062: ends of many runs in one statement are one receipt that counts them all."""
    rule = town.listen("task.cancelled")
    town.ask(
        "INSERT INTO agent_task_queue (issue_id, agent_id, status)"
        f" SELECT '{ISSUE_I}', '{AGENT_A}', 'deferred' FROM generate_series(1, 100)"
    )
    town.ask("UPDATE agent_task_queue SET status = 'cancelled'")
    assert town.receipt(rule).count == 100


def test_the_cost_of_a_bulk_change_is_linear(town: Town) -> None:
    """W-062: after a small change in its session, a large one takes no longer for each run.

    At most three times as long, whatever plan the small one has left behind.
    """
    town.ask(
        "INSERT INTO agent_task_queue (issue_id, agent_id, status)"
        f" SELECT '{ISSUE_I}', gen_random_uuid(), 'deferred' FROM generate_series(1, 10500)"
    )
    took = {}
    for size in (500, 10_000):
        began, ended = town.ask(
            "SELECT extract(epoch FROM clock_timestamp());"
            "UPDATE agent_task_queue SET status = 'completed' WHERE id IN ("
            f" SELECT id FROM agent_task_queue WHERE status = 'deferred' LIMIT {size});"
            "SELECT extract(epoch FROM clock_timestamp())"
        )
        took[size] = float(ended) - float(began)
    assert took[10_000] < 60 * took[500], took


def test_waiting_daemons_hear_once_a_transaction(town: Town, database_url: str) -> None:
    """W-103: newly queued runs of one runtime make one notification, at the commit."""
    with PsqlSession(database_url) as listener:
        listener.ask("LISTEN wakeful_runs")
        town.ask(f"BEGIN; {queueing()}; {queueing(agent_id=AGENT_B)}; COMMIT")
        (_, *heard) = listener.ask("SELECT 1")
        assert len(heard) == 1
        assert f'"wakeful_runs" with payload "{RUNTIME}"' in heard[0]
        town.run(status="deferred")
        assert listener.ask("SELECT 1") == ["1"]
