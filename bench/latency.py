"""From a fact to its run, to the daemon that waits for it, and from a planned time to its run.

500 facts on 500 issues, one at a time, with a pause after each, so that the system is idle (W-070):
once by the engine's own caller, who is hinted in the process, and once by a foreign SQL writer, who
is heard through NOTIFY. Time runs from the moment COMMIT has returned until another process sees
the queued run. A claim waits while such a fact comes (W-103); timers are compared by the database's
clock alone (W-119).
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import trio

from bench.report import MS, Figure, Row, percentile
from bench.witness import Sighting, Witness
from bench.world import Cluster, Kind, Sizes, bench_id, daemon, member
from engine.app import Engine
from engine.domain.commands.runs import ClaimRuns
from engine.domain.commands.tracker import CreateComment

DATABASE: Final = "latency"
WARM_UP: Final = 20
PAUSE_SECONDS: Final = 0.02  # several times what a fact takes, so that each meets an idle system
CLAIM_WAIT_SECONDS: Final = 30
CLAIMING: Final = 2  # the workspace of the waiting daemon, which has no other runs

# Timers from a second ahead on, evenly over some seconds, on issues without any other rule.
_TIMERS: Final = """
INSERT INTO issue_wakeup (
  workspace_id, issue_id, agent_id, created_by, instruction, kind, mode, next_fire_at)
SELECT i.workspace_id, i.id, bench_id('8005', 1), bench_id('8002', 1), 'Look again.', 'at', 'once',
       wakeful_now() + make_interval(secs => 1 + n * :seconds / :timers::float)
  FROM generate_series(1, :timers) n JOIN issue i ON i.id = bench_id('8000', :ruled + n)
"""
_PUNCTUALITY: Final = """
SELECT extract(epoch FROM q.created_at - r.next_fire_at)
  FROM issue_wakeup r JOIN agent_task_queue q ON q.wakeup_id = r.id WHERE r.kind = 'at'
"""


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of facts, of a waiting claim and of timers."""
    facts, claims, timers = (50, 10, 20) if quick else (500, 100, 100)
    ruled = issues_used(facts)
    issues = ruled + timers
    # Those of the second workspace have rules, too, except for the last ones.
    last_rule = issues + claims + WARM_UP
    cluster.create_world(DATABASE, Sizes(workspaces=CLAIMING, issues=issues, last_rule=last_rule))
    cluster.psql(
        DATABASE,
        "DELETE FROM issue_wakeup WHERE issue_id BETWEEN bench_id('8000', :first)"
        " AND bench_id('8000', :last)",
        first=ruled + 1,
        last=issues,
    )
    return trio.run(_measure, cluster, facts, claims, timers)


def issues_used(facts: int) -> int:
    """Return how many issues with a rule `fact_rows` uses up, from the first on."""
    return 2 * (facts + WARM_UP)


async def _measure(cluster: Cluster, facts: int, claims: int, timers: int) -> list[Row]:
    ruled = issues_used(facts)
    async with (
        Engine.open(cluster.settings(DATABASE)) as engine,
        Witness.open(cluster.url(DATABASE)) as witness,
    ):
        return [
            *await fact_rows(engine, witness, facts),
            await _claim_row(engine, witness, ruled + timers, claims),
            await _timer_row(cluster, witness, ruled, timers, seconds=timers // 10),
        ]


# --- Facts --------------------------------------------------------------------------------------


async def fact_rows(engine: Engine, witness: Witness, facts: int, where: str = "") -> list[Row]:
    """Return both rows of W-070; each fact comes on an issue of its own (`issues_used`)."""
    half = facts + WARM_UP
    by_caller = await _by_caller(engine, witness, 1, half)
    by_writer = await _by_writer(witness, 1 + half, half)
    return [
        _fact_row(f"fact to run, caller of the engine{where}", by_caller[WARM_UP:]),
        _fact_row(f"fact to run, foreign SQL writer{where}", by_writer[WARM_UP:]),
    ]


def _fact_row(what: str, seconds: list[float]) -> Row:
    return Row(
        what=what,
        figures=(
            Figure(name="p50", value=percentile(seconds, 50) * MS, unit=" ms", at_most=5, bound=10),
            Figure(
                name="p99", value=percentile(seconds, 99) * MS, unit=" ms", at_most=25, bound=50
            ),
            Figure(name="max", value=max(seconds) * MS, unit=" ms"),
        ),
        proves=("W-070",),
    )


async def _by_caller(engine: Engine, witness: Witness, first: int, count: int) -> list[float]:
    seconds = []
    for number in range(first, first + count):
        issue_id = bench_id(Kind.ISSUE, number)
        comment = CreateComment(issue_id=issue_id, body="What about the second half?")
        await engine.submit(member(), comment)
        committed = time.monotonic()
        seconds.append(await witness.next_run() - committed)
        await trio.sleep(PAUSE_SECONDS)
    return seconds


async def _by_writer(witness: Witness, first: int, count: int) -> list[float]:
    seconds = []
    for number in range(first, first + count):
        sighting = await witness.write(bench_id(Kind.ISSUE, number))
        seconds.append(sighting.seconds)
        await trio.sleep(PAUSE_SECONDS)
    return seconds


# --- A waiting claim ----------------------------------------------------------------------------


async def _claim_row(engine: Engine, witness: Witness, after: int, count: int) -> Row:
    """Return the row of W-103; uses the `count + WARM_UP` issues after the one of that number."""
    from_run, from_fact = [], []
    for number in range(after + 1, after + 1 + count + WARM_UP):
        sighting, answered = await _claimed(engine, witness, number)
        from_run.append(answered - sighting.seen)
        from_fact.append(answered - sighting.committed)
    from_run, from_fact = from_run[WARM_UP:], from_fact[WARM_UP:]
    return Row(
        what="queued run to the answer of a waiting claim",
        figures=(
            Figure(name="p50", value=percentile(from_run, 50) * MS, unit=" ms"),
            Figure(name="max", value=max(from_run) * MS, unit=" ms", at_most=100),
            Figure(name="from the fact p50", value=percentile(from_fact, 50) * MS, unit=" ms"),
            Figure(name="max", value=max(from_fact) * MS, unit=" ms"),
        ),
        proves=("W-103",),
    )


async def _claimed(engine: Engine, witness: Witness, number: int) -> tuple[Sighting, float]:
    """Let a daemon wait, write a fact, and return what was seen and when the daemon had its run."""
    claim = ClaimRuns(
        daemon_id="bench",
        runtime_ids=(bench_id(Kind.RUNTIME, CLAIMING),),
        max_tasks=1,
        wait_seconds=CLAIM_WAIT_SECONDS,
    )
    answered = 0.0

    async def wait() -> None:
        nonlocal answered
        runs = await engine.claim(daemon(CLAIMING), claim)
        answered = time.monotonic()
        assert [run.issue.id for run in runs] == [bench_id(Kind.ISSUE, number)]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(PAUSE_SECONDS)
        assert engine.desk.waiting == 1
        sighting = await witness.write(bench_id(Kind.ISSUE, number))
    return sighting, answered


# --- Timers -------------------------------------------------------------------------------------


async def _timer_row(
    cluster: Cluster, witness: Witness, ruled: int, timers: int, *, seconds: int
) -> Row:
    """Return the row of W-119: timers written by psql while the scheduler sleeps."""
    values = {"ruled": ruled, "timers": timers, "seconds": seconds}
    await trio.to_thread.run_sync(partial(cluster.psql, DATABASE, _TIMERS, **values))
    for _ in range(timers):
        await witness.next_run()
    said = await trio.to_thread.run_sync(cluster.psql, DATABASE, _PUNCTUALITY)
    late = [float(line) for line in said.split()]
    assert len(late) == timers
    return Row(
        what=f"planned time to run, {timers} timers over {seconds} s",
        figures=(
            Figure(name="p50", value=percentile(late, 50) * MS, unit=" ms"),
            Figure(name="max", value=max(late) * MS, unit=" ms", at_most=100),
            Figure(name="min", value=min(late) * MS, unit=" ms", at_least=0),
        ),
        proves=("W-119",),
    )
