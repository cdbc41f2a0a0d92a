from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import attrs
import pytest

from engine.domain.records import Kind, Mode, Rule
from engine.domain.rules import Lookups, RuleDraft, ValidRule, draft_of, validate
from engine.errors import WakefulError

NOW = datetime(2027, 1, 1, 12, 0, tzinfo=UTC)
AGENT, RUN, PERSON, COMMENT = (UUID(int=n) for n in range(1, 5))
YEAR = 31_536_000

EVENT = RuleDraft(instruction="look", kind="event", event_types=("comment.created",))
AT = RuleDraft(instruction="look", kind="at", after_seconds=5)
EVERY = RuleDraft(instruction="look", kind="every", interval_seconds=60)
CRON = RuleDraft(instruction="look", kind="cron", cron_expression="0 9 * * 1-5")


def valid(draft: RuleDraft, **changes: Any) -> ValidRule:
    return validate(attrs.evolve(draft, **changes), NOW)


def refused(draft: RuleDraft, **changes: Any) -> tuple[str, object]:
    """Return code and field of the refusal that the changes meet."""
    with pytest.raises(WakefulError) as caught:
        valid(draft, **changes)
    return caught.value.code, caught.value.details["field"]


def test_kind_is_one_of_four() -> None:
    """W-001: a missing or unknown kind is invalid."""
    assert refused(EVENT, kind="weekly") == ("invalid_input", "kind")
    assert refused(EVENT, kind="") == ("invalid_input", "kind")
    assert refused(EVENT, kind=None) == ("missing_field", "kind")


@pytest.mark.parametrize(
    ("draft", "default"),
    [
        (EVENT, Mode.ONCE),
        (AT, Mode.ONCE),
        (EVERY, Mode.CONTINUOUS),
        (CRON, Mode.CONTINUOUS),
    ],
)
def test_mode_follows_the_kind(draft: RuleDraft, default: Mode) -> None:
    """W-001: the stored rule always names the mode; the kind's own one may be written out."""
    assert valid(draft).mode is default
    assert valid(draft, mode=default.value).mode is default


def test_contradicting_modes_are_refused() -> None:
    """W-001: `at` is only once, `every` and `cron` only continuous."""
    assert valid(EVENT, mode="continuous").mode is Mode.CONTINUOUS
    assert refused(AT, mode="continuous") == ("invalid_input", "mode")
    assert refused(EVERY, mode="once") == ("invalid_input", "mode")
    assert refused(CRON, mode="once") == ("invalid_input", "mode")
    assert refused(EVENT, mode="twice") == ("invalid_input", "mode")


@pytest.mark.parametrize("text", ["x", "x" * 12_000, "☃" * 4_000])
def test_instruction_within_its_bytes(text: str) -> None:
    """W-002: the instruction is trimmed and then holds 1 to 12000 bytes."""
    assert valid(EVENT, instruction=f" \n{text}\t ").instruction == text


def test_instruction_out_of_bounds() -> None:
    """W-002: blank, too long and missing instructions are invalid, and so is unstorable text."""
    for text in ("", " \n ", "x" * 12_001, "☃" * 4_000 + "x", "a\x00b", "a\ud800b", 5):
        assert refused(EVENT, instruction=text) == ("invalid_input", "instruction"), text
    assert refused(EVENT, instruction=None) == ("missing_field", "instruction")


def test_event_types_are_named_once() -> None:
    """W-004: an event rule names catalogue types; repeated names are stored once."""
    names = ("comment.created", "task.failed", "comment.created")
    assert valid(EVENT, event_types=names).event_types == ("comment.created", "task.failed")
    assert refused(EVENT, event_types=()) == ("invalid_event_type", "event_types")
    assert refused(EVENT, event_types=("comment.exploded",)) == (
        "invalid_event_type",
        "event_types",
    )


def test_event_rules_have_no_due_time() -> None:
    """W-004: an event rule waits for facts, not for a time."""
    rule = valid(EVENT, agent_id=AGENT, parent_comment_id=COMMENT)
    assert rule.next_fire_at is None
    assert (rule.agent_id, rule.parent_comment_id) == (AGENT, COMMENT)
    assert rule.timezone == "UTC"


def test_after_seconds() -> None:
    """W-005: `after_seconds` counts 1 to 31536000 seconds from now."""
    assert valid(AT).next_fire_at == NOW + timedelta(seconds=5)
    assert valid(AT, after_seconds=1).next_fire_at == NOW + timedelta(seconds=1)
    assert valid(AT, after_seconds=YEAR).next_fire_at == NOW + timedelta(seconds=YEAR)
    for seconds in (0, -1, YEAR + 1, True, 5.0, "5"):
        assert refused(AT, after_seconds=seconds) == ("invalid_schedule", "after_seconds"), seconds


def test_at_lies_in_the_future() -> None:
    """W-005: `at` is strictly later than now, with an offset, within the calendar."""
    east = timezone(timedelta(hours=14))
    at = datetime(2027, 1, 2, 2, 0, 0, 1, tzinfo=east)
    planned = valid(AT, after_seconds=None, at=at).next_fire_at
    assert planned == NOW + timedelta(microseconds=1)
    assert planned.tzinfo is UTC
    west = timezone(-timedelta(hours=14))
    for bad in (
        NOW,
        NOW - timedelta(1),
        at.replace(tzinfo=None),
        datetime(9999, 12, 31, 23, 0, tzinfo=west),
    ):
        assert refused(AT, after_seconds=None, at=bad) == ("invalid_schedule", "at"), bad


def test_at_needs_exactly_one_time() -> None:
    """W-005: both `at` and `after_seconds`, or neither, are invalid."""
    assert refused(AT, after_seconds=None) == ("invalid_schedule", "at")
    assert refused(AT, at=NOW + timedelta(1)) == ("invalid_schedule", "at")


def test_every_starts_one_interval_from_now() -> None:
    """W-005: `interval_seconds` is 60 to 31536000 and the first firing lies one interval away."""
    rule = valid(EVERY)
    assert rule.next_fire_at == NOW + timedelta(seconds=60)
    assert rule.interval_seconds == 60
    assert valid(EVERY, interval_seconds=YEAR).interval_seconds == YEAR
    for seconds in (59, 0, -60, YEAR + 1, True, 60.5, "60"):
        assert refused(EVERY, interval_seconds=seconds) == (
            "invalid_schedule",
            "interval_seconds",
        ), seconds
    assert refused(EVERY, interval_seconds=None) == ("invalid_schedule", "interval_seconds")


def test_cron_has_a_next_occurrence() -> None:
    """W-006: a cron rule starts at its next occurrence, and one that has none is invalid."""
    rule = valid(CRON, timezone="Europe/Berlin")
    assert rule.next_fire_at == datetime(2027, 1, 4, 8, 0, tzinfo=UTC)
    assert valid(CRON, cron_expression="0 0 29 2 *").next_fire_at == datetime(
        2028, 2, 29, tzinfo=UTC
    )
    for bad in ("0 0 31 2 *", "@hourly", "* * * * * *", "60 * * * *", None):
        assert refused(CRON, cron_expression=bad) == ("invalid_schedule", "cron_expression"), bad


def test_cron_text_is_kept_as_sent() -> None:
    """W-116: expression and zone are stored exactly as sent."""
    rule = valid(CRON, cron_expression=" 0 9 * *  MON-FRI", timezone="Asia/Shanghai")
    assert (rule.cron_expression, rule.timezone) == (" 0 9 * *  MON-FRI", "Asia/Shanghai")


@pytest.mark.parametrize("draft", [EVENT, AT, EVERY, CRON])
def test_a_zone_is_accepted_and_checked_on_every_kind(draft: RuleDraft) -> None:
    """W-008: `timezone` is an IANA name on every kind, and `UTC` when absent."""
    assert valid(draft).timezone == "UTC"
    assert valid(draft, timezone="Asia/Shanghai").timezone == "Asia/Shanghai"
    for bad in ("Mars/Olympus", "+08:00", "Local", ""):
        assert refused(draft, timezone=bad) == ("invalid_schedule", "timezone"), bad


FOREIGN = {
    "after_seconds": 60,
    "at": NOW + timedelta(1),
    "interval_seconds": 60,
    "cron_expression": "0 9 * * *",
}
OWN = {
    "event": (EVENT, set[str]()),
    "at": (AT, {"after_seconds", "at"}),
    "every": (EVERY, {"interval_seconds"}),
    "cron": (CRON, {"cron_expression"}),
}


@pytest.mark.parametrize("kind", OWN)
def test_schedule_fields_of_other_kinds_are_refused(kind: str) -> None:
    """W-008: a schedule field that belongs to another kind is invalid, never dropped."""
    draft, own = OWN[kind]
    for field in FOREIGN.keys() - own:
        assert refused(draft, **{field: FOREIGN[field]}) == ("invalid_schedule", field)


@pytest.mark.parametrize("draft", [AT, EVERY, CRON])
def test_timers_take_no_events_and_no_filters(draft: RuleDraft) -> None:
    """W-008: filters or event types on a timer are invalid."""
    assert refused(draft, event_types=("comment.created",)) == ("invalid_input", "event_types")
    for field, value in {
        "filter_agent_id": AGENT,
        "filter_task_id": RUN,
        "filter_actor_type": "member",
        "filter_actor_id": PERSON,
    }.items():
        assert refused(draft, **{field: value}) == ("invalid_filter", field)


def test_filters_are_checked_against_the_events() -> None:
    """W-054, W-055: filters must fit the event types."""
    assert refused(EVENT, filter_task_id=RUN) == ("invalid_filter", "filter_task_id")
    assert refused(EVENT, filter_actor_type="member") == ("invalid_filter", "filter_actor_id")


def test_agent_filter_on_changes_is_rewritten() -> None:
    """W-057: a request with changes only stores the agent as actor; a mixed one keeps it."""
    rewritten = valid(EVENT, filter_agent_id=AGENT)
    assert rewritten.filter_agent_id is None
    assert (rewritten.filter_actor_type, rewritten.filter_actor_id) == ("agent", AGENT)
    mixed = valid(EVENT, filter_agent_id=AGENT, event_types=("comment.created", "task.failed"))
    assert (mixed.filter_agent_id, mixed.filter_actor_type) == (AGENT, None)


RUN_EVENTS = ("task.completed",)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (None, None, None, None)),
        (
            {"filter_actor_type": "member", "filter_actor_id": PERSON},
            (PERSON, None, None, None),
        ),
        (
            {"filter_actor_type": "agent", "filter_actor_id": AGENT},
            (None, AGENT, None, None),
        ),
        ({"filter_agent_id": AGENT}, (None, AGENT, None, None)),
        (
            {"filter_agent_id": AGENT, "event_types": RUN_EVENTS},
            (None, AGENT, None, None),
        ),
        (
            {"filter_task_id": RUN, "event_types": RUN_EVENTS, "parent_comment_id": COMMENT},
            (None, None, RUN, COMMENT),
        ),
    ],
)
def test_lookups_name_what_must_exist(
    changes: dict[str, Any], expected: tuple[UUID | None, ...]
) -> None:
    """W-018, W-019, W-055: what only the database knows is listed."""
    assert attrs.astuple(valid(EVENT, **changes).lookups) == expected


def test_lookups_is_empty_for_timers() -> None:
    """W-008: a timer has no filters, hence nothing of them to look up."""
    assert valid(EVERY).lookups == Lookups(
        member_user_id=None, agent_id=None, task_id=None, comment_id=None
    )


def stored(rule: ValidRule) -> Rule:
    return Rule(
        **attrs.asdict(rule, recurse=False),
        id=UUID(int=10),
        workspace_id=UUID(int=11),
        issue_id=UUID(int=12),
        created_by=PERSON,
        source_task_id=None,
        enabled=False,
        disabled_at=NOW,
        revision=1,
        last_task_id=None,
        last_error=None,
        created_at=NOW,
        updated_at=NOW,
    )


@pytest.mark.parametrize("draft", [EVENT, EVERY, CRON])
def test_a_stored_rule_validates_again(draft: RuleDraft) -> None:
    """W-023, W-025: enabling judges the stored configuration as a save and counts from now."""
    later = NOW + timedelta(days=3)
    rule = valid(draft, agent_id=AGENT, timezone="Europe/Berlin")
    again = validate(draft_of(stored(rule)), later)
    assert attrs.evolve(again, next_fire_at=None) == attrs.evolve(rule, next_fire_at=None)
    if rule.kind is not Kind.EVENT:
        assert again.next_fire_at is not None
        assert again.next_fire_at > later


def test_a_stored_time_is_used_or_replaced() -> None:
    """W-024: a future time is kept, a past one needs another; `at` fits no other kind."""
    rule = stored(valid(AT, agent_id=AGENT))
    assert validate(draft_of(rule), NOW).next_fire_at == rule.next_fire_at
    later = NOW + timedelta(days=3)
    with pytest.raises(WakefulError, match="future"):
        validate(draft_of(rule), later)
    replaced = validate(draft_of(rule, at=later + timedelta(1)), later)
    assert replaced.next_fire_at == later + timedelta(1)
    with pytest.raises(WakefulError, match="belongs to kind at"):
        validate(draft_of(stored(valid(EVERY, agent_id=AGENT)), at=later), NOW)
    assert rule.kind is Kind.AT
