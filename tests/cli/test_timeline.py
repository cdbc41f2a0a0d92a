"""The timeline of the demo: each entry once, in the order of the server's times."""

from __future__ import annotations

from typing import Any

from cli.timeline import State, Timeline, latency
from client.api import Json

ISSUE = {
    "id": "issue",
    "identifier": "WF-1",
    "assignee_id": "agent",
    "created_at": "2026-01-01T00:00:00.000000Z",
}


def at(second: float) -> str:
    """Return an instant of the issue's first minute."""
    return f"2026-01-01T00:00:{second:09.6f}Z"


def comment(second: float, body: str) -> Json:
    """Return a person's comment."""
    return {"id": body, "created_at": at(second), "author_type": "member", "body": body}


def run(second: float, **fields: Any) -> Json:
    """Return a run that was queued at a second."""
    empty: Json = {"started_at": None, "completed_at": None, "status": "queued", "context": {}}
    return {"id": f"run-{second}", "created_at": at(second), "wakeup_id": None, **empty, **fields}


def state(*, comments: tuple[Json, ...] = (), runs: tuple[Json, ...] = ()) -> State:
    """Return what one look sees."""
    return State(issue=ISSUE, rules=(), comments=comments, runs=runs)


def test_entries_come_once_and_in_order() -> None:
    """What a look saw too early waits for what happened before it and is seen a look later."""
    timeline = Timeline(ISSUE, {"agent": "scribe"})
    late = comment(3, "late")
    assert not list(timeline.lines(state(comments=(late,))))
    lines = list(timeline.lines(state(comments=(late,), runs=(run(2),))))
    assert lines == [
        "  0.000 s  person    makes WF-1 and assigns it to scribe",
        "  2.000 s  run 1     queued",
        "  3.000 s  person    says: late",
    ]
    newer = state(comments=(late, comment(4, "newer")), runs=(run(2),))
    assert not list(timeline.lines(newer))
    assert list(timeline.lines(newer, is_last=True)) == ["  4.000 s  person    says: newer"]


def test_a_long_comment_is_one_short_line() -> None:
    """A comment is shown on one line, however it is written."""
    timeline = Timeline(ISSUE, {})
    seen = state(comments=(comment(1, "one\ntwo " + "word " * 100),))
    line = list(timeline.lines(seen, is_last=True))[-1]
    assert "says: one two word" in line
    assert len(line) < 130
    assert line.endswith(" ...")


def test_latency_is_from_the_fact_to_the_queued_run() -> None:
    """The latency of a wake counts from its newest fact, for a timer from its planned time."""

    def woken(**payload: str) -> Json:
        facts = [{"event_type": "x.y", "payload": payload}]
        return run(2, context={"wakeup_evidence": {"facts": facts}})

    assert latency(woken(occurred_at=at(1.5))) == ("x.y", 0.5)
    assert latency(woken(planned_at=at(1.75), occurred_at=at(1))) == ("x.y", 0.25)
    assert latency(woken(note="no time")) is None
    assert latency(run(2)) is None
