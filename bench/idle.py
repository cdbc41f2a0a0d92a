"""What an engine with nothing to do takes: no statement, and hardly any CPU time (W-074).

100,000 rules of 100 workspaces wait for comments that nobody writes; there is no daemon and no
browser, and the plans pause after one second (`sweep_idle_after=1`). The engine is alone in its
process. A statement shows in the server's view of the engine's sessions, each of which says when it
last began or ended something. The start is measured, too: it must not read all rules.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

import trio

from bench.report import Figure, Row
from bench.world import Cluster, Sizes
from engine.actors.postoffice import until_idle
from engine.app import Engine

DATABASE: Final = "idle"
WORKSPACES: Final = 100
PAUSE_AFTER_SECONDS: Final = 1.0
SECONDS_MAX: Final = 30
PERCENT: Final = 100.0
# Asked from another database: whoever looks is not seen.
_SESSIONS: Final = """
SELECT pid, state_change FROM pg_stat_activity
 WHERE datname = '{database}' AND application_name LIKE 'wakeful %' ORDER BY pid
"""


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the row of an idle engine."""
    issues, seconds = (10, 5) if quick else (1_000, 60)
    rules = WORKSPACES * issues
    cluster.create_world(DATABASE, Sizes(workspaces=WORKSPACES, issues=issues, last_rule=rules))
    row = trio.run(_rest, cluster, rules, seconds)
    cluster.drop(DATABASE)
    return [row]


async def _rest(cluster: Cluster, rules: int, seconds: int) -> Row:
    look = partial(
        trio.to_thread.run_sync, cluster.psql, "postgres", _SESSIONS.format(database=DATABASE)
    )
    started = time.monotonic()
    async with Engine.open(
        cluster.settings(DATABASE, sweep_idle_after=PAUSE_AFTER_SECONDS)
    ) as engine:
        start = time.monotonic() - started
        with trio.fail_after(SECONDS_MAX):
            while not engine.alarm.is_idle():  # noqa: ASYNC110 - nothing tells when it pauses
                await trio.sleep(0.1)  # paced: nothing tells when it pauses
            await until_idle(engine.ledger)
        before = set((await look()).split("\n"))
        cpu = time.process_time()
        await trio.sleep(seconds)
        cpu = time.process_time() - cpu
        busy = len(set((await look()).split("\n")) - before)
    return Row(
        what=f"{rules:,} dormant rules, {seconds} idle s",
        figures=(
            Figure(name="sessions with a statement", value=busy, at_most=0),
            Figure(name="CPU of a core", value=cpu / seconds * PERCENT, unit=" %", at_most=0.5),
            Figure(name="start", value=start, unit=" s"),
        ),
        proves=("W-074",),
    )
