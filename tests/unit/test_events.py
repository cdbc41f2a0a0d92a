from __future__ import annotations

import json
from collections import Counter

import pytest

from engine.domain.events import (
    EVENTS,
    PLATFORM_ONLY,
    Family,
    catalogue,
    parse_event_types,
)
from engine.errors import WakefulError


def test_catalogue_has_25_types() -> None:
    """W-036: 8 run, 8 issue, 5 comment, 2 reaction and 2 attachment types."""
    names = catalogue()["event_types"]
    assert len(names) == len(set(names)) == 25
    assert Counter(name.partition(".")[0] for name in names) == {
        "task": 8,
        "issue": 8,
        "comment": 5,
        "reaction": 2,
        "attachment": 2,
    }


def test_catalogue_is_plain_json() -> None:
    """W-036: the CLI prints and the API answers the same JSON."""
    printed = catalogue()
    assert json.loads(json.dumps(printed)) == printed
    assert set(printed) == {
        *("event_types", "platform_only_event_types", "payload"),
        *("scope", "filters", "modes", "conditions", "loop_protection"),
    }


def test_catalogue_cannot_be_spoiled() -> None:
    """W-037: a caller that changes its copy changes nobody else's."""
    first = catalogue()
    first["event_types"].clear()
    first["conditions"][0]["keys"].append("more")
    first["conditions"][0]["available"] = True
    first["filters"]["filter_actor_type"]["values"].clear()
    assert catalogue() != first
    assert catalogue()["conditions"][0]["keys"] == ["value"]


def test_platform_only_types_come_with_a_reason() -> None:
    """W-004: the two lifecycle names are shown with the reason for their refusal."""
    shown = catalogue()["platform_only_event_types"]
    assert set(shown) == {"issue.created", "issue.deleted"}
    assert all(shown.values())
    assert not set(shown) & set(EVENTS)


def test_conditions_are_listed_as_not_available() -> None:
    """W-205: the seven forms are listed, and none claims to work yet."""
    conditions = catalogue()["conditions"]
    forms = [(c["type"], c.get("field")) for c in conditions]
    assert forms == [
        ("issue_field", "status"),
        ("issue_field", "assignee"),
        ("issue_field", "label"),
        ("issue_field", "property"),
        ("children_done", None),
        ("pull_request", None),
        ("other_issue", None),
    ]
    assert not any(c["available"] for c in conditions)


def test_modes_are_those_of_the_kinds() -> None:
    """W-001: `at` is only once, `every` and `cron` only continuous, `event` both."""
    modes = catalogue()["modes"]
    assert modes["event"] == {"allowed": ["once", "continuous"], "default": "once"}
    assert modes["at"] == {"allowed": ["once"], "default": "once"}
    assert modes["every"] == modes["cron"]
    assert modes["cron"] == {"allowed": ["continuous"], "default": "continuous"}


def test_payloads_name_references_only() -> None:
    """W-044, W-045, W-048: no payload has a field for bodies, values, file names or URLs."""
    fields = {field for event in EVENTS.values() for field in event.payload}
    forbidden = {"body", "content", "text", "value", "values", "filename", "name", "url", "title"}
    assert not fields & forbidden


def test_run_payload() -> None:
    """W-041: a run fact names the run, its agent, both statuses and what it repeats."""
    assert EVENTS["task.completed"].payload == (
        "task_id",
        "agent_id",
        "status",
        "previous_status",
        "retry_of_task_id",
        "rerun_of_task_id",
    )


def test_families_admit_their_filters() -> None:
    """W-054, W-055: a run filter is for run events, an actor filter for all others."""
    for event in EVENTS.values():
        is_run = event.family is Family.TASK
        assert ("filter_task_id" in event.family.filters) is is_run
        assert ("filter_actor_id" in event.family.filters) is not is_run
        assert "filter_agent_id" in event.family.filters


def test_names_are_kept_once_in_order() -> None:
    """W-004: repeated names are stored once, in the order of their first mention."""
    names = ("task.failed", "comment.created", "task.failed", "comment.created")
    assert parse_event_types(names) == ("task.failed", "comment.created")


def test_every_type_is_accepted() -> None:
    """W-036: a rule may name each of the 25 types, and all of them at once."""
    assert parse_event_types(tuple(EVENTS)) == tuple(EVENTS)
    for name in EVENTS:
        assert parse_event_types((name,)) == (name,)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "at least one"),
        (("comment.created", "comment.exploded"), "'comment.exploded' is not in the catalogue"),
        (("comment.created", ""), "'' is not in the catalogue"),
        (("issue.created",), "could never fire"),
        (("issue.deleted",), "nothing would be left"),
    ],
)
def test_other_names_are_refused(names: tuple[str, ...], message: str) -> None:
    """W-004: no name, an unknown one, a platform name or one that would never fire is invalid."""
    with pytest.raises(WakefulError, match=message) as caught:
        parse_event_types(names)
    assert caught.value.code == "invalid_event_type"
    assert caught.value.details == {"field": "event_types"}


def test_an_unknown_name_is_repeated_within_bounds() -> None:
    """W-004: the message names what is unknown, at most 100 characters of it on one line."""
    with pytest.raises(WakefulError) as caught:
        parse_event_types(("a\n" + "b" * 10_000,))
    assert "'a\\n" + "b" * 98 + "' is" in caught.value.message
    assert len(caught.value.message) < 200
    assert "\n" not in caught.value.message
    assert len(PLATFORM_ONLY) == 2
