"""Each of the 25 events, as a direct writer brings it about: what is told, of whom, and to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.domain.events import COMMON_PAYLOAD, EVENTS
from tests.sql.capture_changes import (
    AGENT,
    CHANGES,
    FURNITURE,
    LISTENER,
    PERSON,
    PSQL,
    SOURCE_RUN,
    Change,
    Writer,
    told,
)
from tests.sql.capture_town import (
    AGENT_A,
    AGENT_B,
    ISSUE_I,
    ISSUE_K,
    MEMBER_M,
    MEMBER_N,
    WORKSPACE,
    Town,
    listening,
)

WRITERS = (PSQL, PERSON, AGENT)


@pytest.fixture
def furnished(town: Town) -> Town:
    """The town with something to change for each event, and a rule that listens to them all."""
    town.ask(FURNITURE)
    return town


def agent_of(change: Change) -> str | None:
    """Return whose run it is, where the change is one of a run."""
    if change.run is None:
        return None
    return AGENT_B if change.event_type == "task.queued" else AGENT_A


def actor_of(change: Change, writer: Writer) -> tuple[str, str | None]:
    """Return who did it: who the row names, else the transaction, else the run's agent (W-049)."""
    if change.actor is not None:
        return change.actor
    if writer.actor_type is not None:
        return writer.actor_type, writer.actor_id
    return ("system", None) if change.run is None else ("agent", agent_of(change))


def common_of(change: Change, writer: Writer) -> dict[str, Any]:
    """Return the common fields of the fact, as far as they do not tell of times and keys."""
    actor_type, actor_id = actor_of(change, writer)
    return {
        "rule": LISTENER,
        "event_type": change.event_type,
        "version": 1,
        "workspace_id": WORKSPACE,
        "issue_id": ISSUE_I,
        "actor_type": actor_type,
        "actor_id": actor_id,
        "agent_id": agent_of(change) or (actor_id if actor_type == "agent" else None),
        "source_task_id": change.run or writer.run_id,
        "coalesced_count": 1,
    }


def of_type(change: Change, payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the payloads of the change's own type: an update of the issue tells more than one."""
    return [payload for payload in payloads if payload["event_type"] == change.event_type]


def test_the_database_knows_the_catalogue(furnished: Town) -> None:
    """W-037: what direct writers can bring about is exactly what the catalogue names."""
    said = {payload["event_type"] for change in CHANGES for payload in told(furnished, change.sql)}
    assert said == EVENTS.keys() == {change.event_type for change in CHANGES}
    assert len(said) == 25


def test_each_fact_says_what_happened_and_who_did_it(furnished: Town) -> None:
    """W-040, W-041, W-043, W-044, W-045, W-047, W-048, W-049, W-050: all fields of every event.

    By a person, by an agent in its run and by somebody with psql; the comments are all B's. No
    text, value, name or address is repeated.
    """
    for change in CHANGES:
        assert set(change.details) <= {*EVENTS[change.event_type].payload}
        for writer in WRITERS:
            payloads = told(furnished, change.sql, writer)
            assert "secret" not in json.dumps(payloads)
            (payload,) = of_type(change, payloads)
            times = {key: payload.pop(key) for key in ("occurred_at", "first_occurred_at")}
            assert len(set(times.values())) == 1
            assert isinstance(payload.pop("event_id"), str)
            assert payload == common_of(change, writer) | change.details, (change, writer)
            known = {*payload, *times, "event_id"} - {"rule"}
            assert known == {*COMMON_PAYLOAD, *EVENTS[change.event_type].payload}


def counts(payloads: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Return how many facts of each type were told."""
    return [(payload["event_type"], payload["coalesced_count"]) for payload in payloads]


def test_what_is_there_already_is_no_fact(furnished: Town) -> None:
    """W-043, W-046, W-047, W-048: each change written twice is told once."""
    for change in CHANGES:
        once = counts(told(furnished, change.sql))
        assert once
        assert counts(told(furnished, f"{change.sql}; {change.again or 'SELECT 1'}")) == once, (
            change
        )


def test_a_closed_issue_tells_nothing(furnished: Town) -> None:
    """W-039: on a closed issue no event reaches a rule, even one that is on."""
    closing = (
        f"UPDATE issue SET status = 'done' WHERE id = '{ISSUE_I}';"
        " UPDATE issue_wakeup SET enabled = true, disabled_at = NULL"
    )
    for change in CHANGES:
        payloads = told(furnished, f"{closing}; {change.sql}")
        reopens = change.event_type == "issue.status_changed"
        assert bool(payloads) is reopens, change


def test_nobody_listens_and_nothing_is_stored(furnished: Town) -> None:
    """W-039: without a rule for its type no change leaves a row, whatever else is listened to."""
    for change in CHANGES:
        others = [name for name in EVENTS if name not in (change.event_type, "issue.updated")]
        rule = f"UPDATE issue_wakeup SET event_types = ARRAY{others}"
        payloads = told(furnished, f"{rule}; {change.sql}")
        assert of_type(change, payloads) == [], change


def test_who_hears_what(furnished: Town) -> None:
    """W-053, W-054, W-055, W-056, W-057, W-058: every filter against every event and writer.

    An actor filter compares who did it, one for an agent the fact's agent, one for a run its
    source; the run that registered a rule and the runs that it started do not reach it.
    """
    rules: dict[str, dict[str, Any]] = {
        "all": {},
        "of K": {"issue_id": ISSUE_K},
        "off": {"enabled": False},
        "by M": {"filter_actor_type": "member", "filter_actor_id": MEMBER_M},
        "by N": {"filter_actor_type": "member", "filter_actor_id": MEMBER_N},
        "by agent A": {"filter_actor_type": "agent", "filter_actor_id": AGENT_A},
        "by an agent with M's id": {"filter_actor_type": "agent", "filter_actor_id": MEMBER_M},
        "of A": {"filter_agent_id": AGENT_A},
        "of B": {"filter_agent_id": AGENT_B},
        "of the run": {"filter_task_id": SOURCE_RUN},
        "by the run": {"source_task_id": SOURCE_RUN},
    }
    ids = {
        furnished.one(listening([*EVENTS], **{"issue_id": ISSUE_I, **columns})): name
        for name, columns in rules.items()
    }
    own = furnished.one(listening([*EVENTS]))
    ids |= {own: "own", LISTENER: "all"}
    furnished.ask(
        f"UPDATE agent_task_queue SET context = jsonb_build_object('wakeup_id', '{own}')"
        f" WHERE id = '{SOURCE_RUN}'"
    )
    for change in CHANGES:
        for writer in WRITERS:
            reached = {
                ids[each["rule"]] for each in of_type(change, told(furnished, change.sql, writer))
            }
            fields = common_of(change, writer)
            actor = (fields["actor_type"], fields["actor_id"])
            is_of_run = fields["source_task_id"] == SOURCE_RUN
            expected = {
                "all": True,
                "by M": actor == ("member", MEMBER_M),
                "by N": actor == ("member", MEMBER_N),
                "by agent A": actor == ("agent", AGENT_A),
                "of A": fields["agent_id"] == AGENT_A,
                "of B": fields["agent_id"] == AGENT_B,
                "of the run": is_of_run,
                "by the run": not is_of_run,
                "own": not is_of_run,
            }
            assert reached == {name for name, hears in expected.items() if hears}, (change, writer)


def test_a_rerun_is_another_run(furnished: Town) -> None:
    """W-054: a rule on one run hears neither its retry nor its rerun."""
    watcher = furnished.one(listening(["task.queued", "task.completed"], filter_task_id=SOURCE_RUN))
    for origin in ("retry_of_task_id", "rerun_of_task_id"):
        again = furnished.run(agent_id=AGENT_B, **{origin: SOURCE_RUN})
        furnished.move(again, "completed")
        assert furnished.receipt(LISTENER, "task.queued").payload[origin] == SOURCE_RUN
    assert furnished.receipts(watcher) == []
