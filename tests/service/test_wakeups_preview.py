"""Previews: what a save would do, what it would refuse, and that nothing is stored."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import attrs
import pytest

from engine import limits
from engine.domain.commands.wakeups import DisableRule, PreviewRule
from engine.domain.principal import Principal
from engine.domain.views.explain import PreviewView
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.wakeup_steps import a_draft, a_timer, create, refused, stored

NOBODY = UUID(int=1)


def asking(world: World, **changes: Any) -> PreviewRule:
    """Return the question about a comment rule on issue I, changed as said."""
    return PreviewRule(issue_id=world.issue, draft=a_draft(world, **changes))


def cron(world: World, expression: str, timezone: str = "UTC", start: str = "") -> PreviewRule:
    """Return the question about a cron rule, with its times from an instant."""
    draft = attrs.evolve(
        a_timer(world, kind="cron", cron_expression=expression, timezone=timezone),
        interval_seconds=None,
    )
    begin = datetime.fromisoformat(start) if start else None
    return PreviewRule(issue_id=world.issue, draft=draft, start=begin)


async def preview(
    execute: Executor, world: World, query: PreviewRule, caller: Principal | None = None
) -> PreviewView:
    """Ask as M unless said otherwise."""
    view = await execute(caller or world.m, query)
    assert isinstance(view, PreviewView)
    return view


def utc(*times: str) -> list[datetime]:
    """Return these instants of UTC."""
    return [datetime.fromisoformat(f"{time}:00+00:00") for time in times]


async def test_a_preview_stores_nothing(execute: Executor, world: World, sql: Sql) -> None:
    """W-034: valid with its words, or invalid with a blocking reason; no row is added."""
    before = await stored(sql)
    good = await preview(execute, world, cron(world, "0 9 * * 1-5", "Europe/Berlin"))
    assert (good.valid, good.label) == (True, "on weekdays at 09:00 (Europe/Berlin)")
    assert len(good.next_times) == limits.NEXT_TIMES_MAX
    assert good.warnings == ()
    never = await preview(execute, world, cron(world, "0 0 31 2 *"))
    assert (never.valid, never.next_times) == (False, ())
    (warning,) = never.warnings
    assert (warning.code, warning.blocking) == ("cron_never_fires", True)
    assert "cron_expression" in warning.text
    lost = PreviewRule(issue_id=NOBODY, draft=a_draft(world))
    assert await refused(execute, world.m, lost) == "not_found"
    assert await stored(sql) == before


async def test_who_may_not_save_may_not_preview(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-034, W-191: visibility and the right to invoke are those of create."""
    assert await refused(execute, world.s, asking(world)) == "not_found"
    private = asking(world, agent_id=world.p)
    assert await refused(execute, world.n, private) == "cannot_invoke_agent"
    assert (await preview(execute, world, private, world.o)).valid
    nobody = await run_of(world.a, world.issue, None)
    assert await refused(execute, nobody, asking(world)) == "no_human_principal"
    by_run = await run_of(world.b, world.issue, world.m.user_id)
    assert (await preview(execute, world, asking(world, agent_id=None), by_run)).valid
    assert await refused(execute, world.m, asking(world, agent_id=None)) == "missing_field"


async def test_a_malformed_body_is_refused_as_by_create(
    execute: Executor, world: World, sql: Sql
) -> None:
    """W-006, W-034: what cannot be read is an error, also beside a schedule that never fires."""
    for expression in ("60 * * * *", "0 0 * *"):
        assert await refused(execute, world.m, cron(world, expression)) == "invalid_schedule"
    silent = cron(world, "0 0 31 2 *")
    silent = attrs.evolve(silent, draft=attrs.evolve(silent.draft, instruction=" "))
    assert await refused(execute, world.m, silent) == "invalid_input"
    assert await refused(execute, world.m, asking(world, filter_actor_id=NOBODY)) == (
        "invalid_filter"
    )
    unknown = asking(world, parent_comment_id=NOBODY)
    assert await refused(execute, world.m, unknown) == "invalid_input"
    distant = cron(world, "0 0 * * *", start="9999-01-01T00:00:00+00:00")
    assert await refused(execute, world.m, distant) == "invalid_input"
    await sql("UPDATE agent SET archived_at = wakeful_now() WHERE id = $1", world.b)
    assert await refused(execute, world.m, asking(world, agent_id=world.b)) == "agent_unavailable"
    await sql("UPDATE issue SET status = 'done' WHERE id = $1", world.issue)
    assert await refused(execute, world.m, asking(world)) == "issue_closed"


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("expression", "zone", "start", "expected"),
    [
        ("0 0 13 * 5", "UTC", "2027-01-01", ["2027-01-08T00:00", "2027-01-13T00:00"]),  # W-006
        ("0 0 29 2 *", "UTC", "2027-01-01", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("*/30 2 * * *", BERLIN, "2027-03-27T12:00", ["2027-03-29T00:00", "2027-03-29T00:30"]),
        ("0,30 2 * * *", BERLIN, "2027-03-27T12:00", ["2027-03-28T01:00", "2027-03-29T00:00"]),
        ("30 2 * * *", BERLIN, "2027-03-27T12:00", ["2027-03-28T01:00", "2027-03-29T00:30"]),
        ("30 2 * * *", BERLIN, "2027-10-30T12:00", ["2027-10-31T00:30", "2027-11-01T01:30"]),
        ("30 2 * * *", BERLIN, "2027-10-31T01:10", ["2027-11-01T01:30"]),  # in the second pass
        (
            "*/30 * * * *",
            BERLIN,
            "2027-03-28T00:10",
            ["2027-03-28T00:30", "2027-03-28T01:00", "2027-03-28T01:30"],
        ),
        (
            "0 * * * *",
            BERLIN,
            "2027-10-30T23:30",
            ["2027-10-31T00:00", "2027-10-31T01:00", "2027-10-31T02:00"],
        ),
        ("0 */2 * * *", BERLIN, "2027-03-27T23:30", ["2027-03-28T02:00"]),
        ("15 2 * * *", "Australia/Lord_Howe", "2027-10-02T12:00", ["2027-10-02T15:30"]),
        ("30 0 * * *", "Africa/Cairo", "2027-04-29T12:00", ["2027-04-29T22:00"]),
        (
            "0 12 * * *",
            "Pacific/Apia",
            "2011-12-29T12:00",
            ["2011-12-29T22:00", "2011-12-30T22:00"],
        ),
    ],
)
async def test_times_begin_where_the_caller_says(
    execute: Executor, world: World, expression: str, zone: str, start: str, expected: list[str]
) -> None:
    """W-006, W-120, W-121, W-122, W-123, W-124: a preview lists the times from an instant on."""
    begin = start if "T" in start else f"{start}T00:00"
    query = cron(world, expression, zone, f"{begin}:00+00:00")
    times = (await preview(execute, world, query)).next_times
    assert [each.at for each in times][: len(expected)] == utc(*expected)


async def test_shifted_times_are_marked(execute: Executor, world: World) -> None:
    """W-120, W-214: UTC, wall time, offset and mark; an overlap marks both passes of a wildcard."""
    query = cron(world, "0 2 * * *", BERLIN, "2027-03-27T12:00:00+00:00")
    made_up = (await preview(execute, world, query)).next_times[0]
    assert (made_up.local, made_up.utc_offset, made_up.dst) == (
        "2027-03-28T03:00:00",
        "+02:00",
        "gap_shifted",
    )
    query = cron(world, "0 * * * *", BERLIN, "2027-10-30T23:30:00+00:00")
    times = (await preview(execute, world, query)).next_times
    assert [(each.local[11:16], each.utc_offset, each.dst) for each in times] == [
        ("02:00", "+02:00", "overlap_first"),
        ("02:00", "+01:00", "overlap_second"),
        ("03:00", "+01:00", None),
        ("04:00", "+01:00", None),
        ("05:00", "+01:00", None),
    ]
    query = cron(world, "30 2 * * *", BERLIN, "2027-10-30T12:00:00+00:00")
    times = (await preview(execute, world, query)).next_times
    assert [each.dst for each in times[:2]] == ["overlap_first", None]


async def test_other_kinds_have_their_times(execute: Executor, world: World) -> None:
    """W-034, W-124: every counts seconds from the start, at has its one time, an event none."""
    begin = datetime(2027, 10, 30, 23, tzinfo=UTC)
    draft = a_timer(world, timezone=BERLIN)
    query = PreviewRule(issue_id=world.issue, draft=draft, start=begin)
    times = (await preview(execute, world, query)).next_times
    assert [each.at.hour for each in times] == [0, 1, 2, 3, 4]
    assert [each.utc_offset for each in times] == ["+02:00"] + 4 * ["+01:00"]
    assert [each.dst for each in times] == 5 * [None]
    at = datetime(2099, 1, 1, tzinfo=UTC)
    draft = attrs.evolve(draft, kind="at", interval_seconds=None, at=at)
    for start, expected in ((None, [at]), (at, [])):
        query = PreviewRule(issue_id=world.issue, draft=draft, start=start)
        assert [each.at for each in (await preview(execute, world, query)).next_times] == expected
    assert (await preview(execute, world, asking(world))).next_times == ()


async def test_no_slot_is_left(execute: Executor, world: World, sql: Sql) -> None:
    """W-035: one rule too many is a blocking warning; an edit needs no slot."""
    rule = await create(execute, world)
    fill = (
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
        " mode, event_types) SELECT r.workspace_id, $2, r.agent_id, r.created_by, 'x', 'event',"
        " 'once', '{comment.created}' FROM issue_wakeup r, generate_series(1, $3) WHERE r.id = $1"
    )
    await sql(fill, rule.id, world.issue, limits.RULES_PER_ISSUE_MAX - 1)
    full = await preview(execute, world, asking(world))
    assert not full.valid
    assert [(each.code, each.blocking) for each in full.warnings] == [
        ("wakeup_capacity_exceeded", True)
    ]
    assert "issue" in full.warnings[0].text
    query = attrs.evolve(asking(world), rule_id=rule.id)
    assert (await preview(execute, world, query)).valid
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    assert (await preview(execute, world, asking(world))).valid


async def test_an_edit_is_judged_by_who_may_edit(execute: Executor, world: World) -> None:
    """W-034: with a rule the errors are those of replacing it."""
    rule = await create(execute, world)
    query = attrs.evolve(asking(world), rule_id=rule.id)
    assert (await preview(execute, world, query, world.g)).valid
    assert await refused(execute, world.n, query) == "not_allowed"
    assert await refused(execute, world.m, attrs.evolve(query, rule_id=NOBODY)) == "not_found"


async def test_an_offline_agent_is_a_warning(execute: Executor, world: World, sql: Sql) -> None:
    """W-035: an agent whose daemon is silent may be chosen; the sentence names it."""
    await sql("UPDATE agent_runtime SET last_seen_at = wakeful_now() - interval '151 seconds'")
    view = await preview(execute, world, asking(world))
    assert view.valid
    assert [(each.code, each.blocking) for each in view.warnings] == [("agent_offline", False)]
    assert "A" in view.warnings[0].text
    await sql("UPDATE agent_runtime SET last_seen_at = NULL")
    (warning,) = (await preview(execute, world, asking(world))).warnings
    assert warning.text.startswith("No daemon has served A yet")


LOOPS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {}, True),
    ({"event_types": ("issue.updated",)}, {"event_types": ("task.completed",)}, True),
    ({"mode": "once"}, {}, False),
    ({}, {"mode": "once"}, False),
    ({"filter_actor_type": "member", "filter_actor_id": "m"}, {}, False),
    ({}, {"filter_actor_type": "member", "filter_actor_id": "m"}, False),
    ({"filter_actor_type": "agent", "filter_actor_id": "a"}, {}, True),
    ({"filter_actor_type": "agent", "filter_actor_id": "b"}, {}, False),
    ({}, {"filter_agent_id": "b"}, True),
    ({}, {"filter_agent_id": "a"}, False),
]


@pytest.mark.parametrize(("theirs", "mine", "is_circle"), LOOPS)
async def test_two_rules_may_go_in_a_circle(
    execute: Executor,
    world: World,
    theirs: dict[str, Any],
    mine: dict[str, Any],
    is_circle: bool,
) -> None:
    """W-035, W-153: opposite repeating rules are a warning, unless either waits for a person."""

    def named(changes: dict[str, Any]) -> dict[str, Any]:
        people: dict[Any, UUID | None] = {"m": world.m.user_id, "a": world.a, "b": world.b}
        return {name: people.get(value, value) for name, value in changes.items()}

    rule = await create(execute, world, agent_id=world.b, **named(theirs))
    view = await preview(execute, world, asking(world, **named(mine)))
    assert view.valid
    assert [each.code for each in view.warnings] == (["may_loop"] if is_circle else [])
    if is_circle:
        assert "wakes B" in view.warnings[0].text
        assert "filter_actor_type" in view.warnings[0].text
    same = attrs.evolve(asking(world, **named(mine)), rule_id=rule.id)
    assert (await preview(execute, world, same)).warnings == ()
    await execute(world.m, DisableRule(issue_id=world.issue, rule_id=rule.id))
    assert (await preview(execute, world, asking(world, **named(mine)))).warnings == ()


async def test_the_words_name_only_whom_the_caller_may_see(execute: Executor, world: World) -> None:
    """W-060, W-194: a filter is named in the label, a private agent is "the selected agent"."""
    member = asking(world, filter_actor_type="member", filter_actor_id=world.n.user_id)
    assert (await preview(execute, world, member)).label == "when N comments"
    private = asking(world, filter_actor_type="agent", filter_actor_id=world.p)
    assert (await preview(execute, world, private, world.o)).label == "when P comments"
    assert (await preview(execute, world, private)).label == "when the selected agent comments"
