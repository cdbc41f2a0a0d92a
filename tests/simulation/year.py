"""A town of rules that lives in virtual time, and what every firing of it has to be.

`python -m tests.simulation.year` (`make year`) lives a whole year with 200 rules, 400 days of one
daily rule, and thirty days of a rule that checks every minute for nobody, and prints what it took.
"""

from __future__ import annotations

import logging
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from random import Random
from typing import Any, Final

import attrs
import structlog
import trio

from engine.domain.views.tracker import IssueView
from engine.domain.views.wakeups import RuleView
from engine.simulation import Agent, Person, Work, World
from tests.model.cron_walk import Walk, read_expression

START: Final = datetime(2027, 1, 1, 5, 17, 23, tzinfo=UTC)
DAY: Final = timedelta(days=1)
MONTH: Final = timedelta(days=30)  # between sweeps: nothing is lost here
ISSUES: Final = 50
SEED: Final = 260
ZONES: Final = (
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",  # midnight is skipped
    "Australia/Lord_Howe",  # half an hour
    "Africa/Cairo",  # midnight is skipped, midnight comes twice
    "Antarctica/Troll",  # two hours
    "Pacific/Chatham",
    "America/St_Johns",
    "Asia/Kolkata",
    "UTC",
)
# Each in all the zones, one after the other; the first two meet every change of a clock.
CRONS: Final = (
    "30 2 * * *",
    "*/30 0-3 * 3,4,9-11 sun",
    "0 9 * * 1-5",
    "15 0 1-7 * *",
    "0 12 13 * fri",
    "40 2,14 * * sat,SUN",
    "10 */6 1 * *",
    "59 23 28-31 * *",
    "5 3-4/1 */10 * mon",
)


@attrs.frozen(kw_only=True)
class Planted:
    """A timer rule, and when it has to fire, told without the engine."""

    rule: RuleView
    expected: tuple[datetime, ...]


@attrs.define(kw_only=True)
class Town:
    """Rules and what they have to do from the start to `end`."""

    end: datetime
    timers: list[Planted] = attrs.field(factory=list)
    listeners: list[RuleView] = attrs.field(factory=list)
    comments: dict[Any, int] = attrs.field(factory=dict)  # written, by issue

    @property
    def firings(self) -> int:
        """How often its timers fire."""
        return sum(len(each.expected) for each in self.timers)


@cache
def walk(zone: str, end: datetime) -> Walk:
    """Return every minute that a zone's clock shows in the time of the simulation."""
    return Walk(zone, START - 2 * DAY, end + DAY)


def instants(start: datetime, interval: timedelta, end: datetime) -> tuple[datetime, ...]:
    """Return the instants of a grid after its start, up to the end."""
    return tuple(start + k * interval for k in range(1, (end - start) // interval + 1))


async def plant(world: World, days: int, rules: int) -> Town:
    """Let so many rules be made: cron in ten zones, intervals, alarms and events.

    One agent in ten works; the runtime of the others is offline, so their runs wait and are
    refreshed.
    """
    random = Random(SEED)
    town = Town(end=START + days * DAY)
    ann = await world.person("Ann")
    there, away = await world.daemon("there"), await world.daemon("away")
    worker = await world.agent("Worker", there, Work(takes=timedelta(minutes=7)))
    sleeper = await world.agent("Sleeper", away)
    await away.go_offline()
    issues = [await ann.create_issue(f"Issue {number}") for number in range(ISSUES)]
    for number in range(rules):
        agent = worker if number % 10 == 7 or number % 20 == 9 else sleeper
        make = (_cron, _cron, _every, _at, _event)[number % 5]
        await make(town, ann, issues[number % ISSUES], agent, random)
    for issue in issues:
        _plan_comments(world, town, ann, issue, random)
    return town


async def _cron(town: Town, ann: Person, issue: IssueView, agent: Agent, random: Random) -> None:
    number = sum(each.rule.cron_expression is not None for each in town.timers)
    zone, text = ZONES[number % len(ZONES)], CRONS[number // len(ZONES) % len(CRONS)]
    rule = await ann.add_rule(
        issue.id, agent.id, "look", kind="cron", cron_expression=text, timezone=zone
    )
    found = walk(zone, town.end).firings(read_expression(text), rule.created_at, town.end)
    town.timers.append(Planted(rule=rule, expected=tuple(found)))


async def _every(town: Town, ann: Person, issue: IssueView, agent: Agent, random: Random) -> None:
    seconds = random.randrange(86_400, 14 * 86_400)
    rule = await ann.add_rule(issue.id, agent.id, "look", kind="every", interval_seconds=seconds)
    expected = instants(rule.created_at, timedelta(seconds=seconds), town.end)
    town.timers.append(Planted(rule=rule, expected=expected))


async def _at(town: Town, ann: Person, issue: IssueView, agent: Agent, random: Random) -> None:
    at = START + timedelta(seconds=random.randrange(60, 31_000_000))
    rule = await ann.add_rule(issue.id, agent.id, "look", kind="at", at=at)
    town.timers.append(Planted(rule=rule, expected=(at,) if at <= town.end else ()))


async def _event(town: Town, ann: Person, issue: IssueView, agent: Agent, random: Random) -> None:
    rule = await ann.add_rule(
        issue.id,
        agent.id,
        "look",
        kind="event",
        mode="continuous",
        event_types=("comment.created",),
    )
    town.listeners.append(rule)


def _plan_comments(world: World, town: Town, ann: Person, issue: IssueView, random: Random) -> None:
    """Have a person say something on an issue about once a month."""
    at = START
    while (at := at + timedelta(seconds=random.randrange(60 * 86_400))) < town.end:
        world.plan(at, partial(ann.comment, issue.id, "what about this?"))
        town.comments[issue.id] = town.comments.get(issue.id, 0) + 1


async def differences(world: World, town: Town) -> list[str]:
    """Return where the firings are not what they have to be; nothing, if all is well."""
    found = []
    for each in town.timers:
        firings = await world.firings(each.rule)
        planned = tuple(firing.planned_at for firing in firings)
        late = [firing for firing in firings if firing.fired_at != firing.planned_at]
        if planned != each.expected or late:
            what = each.rule.cron_expression or each.rule.interval_seconds
            found.append(f"{each.rule.kind} {what} {each.rule.timezone}: {len(planned)} firings")
    for rule in town.listeners:
        runs = await world.runs(rule.issue_id, rule=rule)
        heard = sum(
            fact["payload"]["coalesced_count"]
            for run in runs
            for fact in run.context["wakeup_evidence"]["facts"]
        )
        if heard != town.comments.get(rule.issue_id, 0):
            found.append(f"event: {heard} facts of {town.comments.get(rule.issue_id, 0)}")
    return found


async def live(world: World, days: int, rules: int) -> Town:
    """Let a town live for so many days; raise `AssertionError` if a firing is not the oracle's."""
    town = await plant(world, days, rules)
    await world.advance(town.end)
    found = await differences(world, town)
    assert not found, "\n".join(found)
    return town


async def daily_in_berlin(world: World, days: int) -> int:
    """Let a daily cron rule run in Berlin, and return how often it fired (W-260)."""
    ann = await world.person("Bea")
    daemon = await world.daemon("daily")
    agent = await world.agent("Daily", daemon)
    await daemon.go_offline()
    issue = await ann.create_issue("Daily")
    rule = await ann.add_rule(
        issue.id,
        agent.id,
        "look",
        kind="cron",
        cron_expression="30 2 * * *",
        timezone="Europe/Berlin",
    )
    await world.advance(days * DAY)
    return len(await world.firings(rule))


async def check_for_nobody(world: World, periods: int) -> tuple[int, int, datetime | None]:
    """Let `every 60s` run for an offline runtime; return its firings, its runs, the newest time."""
    ann = await world.person("Cid")
    daemon = await world.daemon("nobody")
    agent = await world.agent("Nobody", daemon)
    await daemon.go_offline()
    issue = await ann.create_issue("Nobody")
    rule = await ann.add_rule(issue.id, agent.id, "look", kind="every", interval_seconds=60)
    await world.advance(timedelta(seconds=60 * periods))
    runs = await world.runs(issue.id, rule=rule)
    (fact,) = runs[0].context["wakeup_evidence"]["facts"]
    newest = datetime.fromisoformat(fact["payload"]["planned_at"].replace("000Z", "Z"))
    return len(await world.firings(rule)), len(runs), newest


# --- The command ----------------------------------------------------------------------------------


@asynccontextmanager
async def _timed(what: str, found: Callable[[], str]) -> AsyncIterator[World]:
    """Run a world of its own, and print what came of it and what it took, server included."""
    own, children, began = time.process_time(), _children(), time.monotonic()
    async with World.open(start=START, sweep_every=MONTH) as world:
        yield world
        stops = world.stops
    sys.stdout.write(
        f"{what}: {found()}; {stops} stops; {time.process_time() - own:.0f} s of CPU for the engine"
        f" and {_children() - children:.0f} s for PostgreSQL, {time.monotonic() - began:.0f} s\n"
    )
    sys.stdout.flush()


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _main(days: int, rules: int) -> None:
    said = ""
    async with _timed(f"{days} days of {rules} rules", lambda: said) as world:
        town = await live(world, days, rules)
        said = f"{town.firings} firings as the oracle says, {sum(town.comments.values())} comments"
    async with _timed("400 days of a daily rule in Berlin", lambda: said) as world:
        fired = await daily_in_berlin(world, 400)
        said = f"{fired} firings"
        assert fired == 400, said
    async with _timed("30 days of every 60 s for nobody", lambda: said) as world:
        firings, runs, _ = await check_for_nobody(world, 43_200)
        said = f"{firings} firings, {runs} queued run"
        assert (firings, runs) == (43_200, 1), said


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    trio.run(_main, 365, 200)
