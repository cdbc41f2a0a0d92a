"""What 100,000 resident issue actors weigh, and whether facts are as fast beside them (W-070).

The actors come as in production: each issue is hinted, its actor is made, looks into the database,
finds nothing to dispatch, and stays. The figure is the growth of the process's memory (RSS) from
an engine at rest to an engine at rest, divided by their number: actor, address, key and the places
where the runtime keeps them. It is measured in a fresh process.
"""

from __future__ import annotations

import gc
import os
from typing import Final

import trio

from bench.dispatch import settle
from bench.latency import fact_rows, issues_used
from bench.machine import resident_bytes
from bench.report import Figure, Row
from bench.witness import Witness
from bench.world import Cluster, Kind, Sizes, bench_id
from engine.actors.postoffice import until_idle
from engine.app import Engine

DATABASE: Final = "resident"
BATCH: Final = 500  # hinted at a time, so that what the looking itself takes stays small
SPARE: Final = 2_000  # places for the actors of the facts


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the row of memory, and the rows of W-070 once more."""
    actors, facts = (5_000, 50) if quick else (100_000, 500)
    ruled = issues_used(facts)
    cluster.create_world(DATABASE, Sizes(issues=ruled, last_rule=ruled))
    return trio.run(_measure, cluster, actors, facts)


async def _measure(cluster: Cluster, actors: int, facts: int) -> list[Row]:
    first = issues_used(facts) + 1
    settings = cluster.settings(DATABASE, max_resident=actors + SPARE)
    async with (
        Engine.open(settings) as engine,
        Witness.open(cluster.url(DATABASE)) as witness,
    ):
        await _look_at(engine, first + actors, BATCH)  # warms up: code, statements, free lists
        before = await _resting_bytes(engine)
        for number in range(first, first + actors, BATCH):
            await _look_at(engine, number, BATCH)
        each = (await _resting_bytes(engine) - before) / actors
        resident = engine._runtime.statistics().resident  # noqa: SLF001 - proves what was weighed
        assert resident >= actors, resident
        where = f", {actors:,} actors resident"
        return [
            Row(
                what=f"{actors:,} resident issue actors",
                figures=(Figure(name="each", value=each, unit=" B", at_most=4_096),),
            ),
            *await fact_rows(engine, witness, facts, where),
        ]


async def _look_at(engine: Engine, first: int, count: int) -> None:
    engine.hints.look_at(bench_id(Kind.ISSUE, number) for number in range(first, first + count))
    await until_idle(engine.ledger)


async def _resting_bytes(engine: Engine) -> int:
    await settle(engine)
    gc.collect()
    return resident_bytes(os.getpid())
