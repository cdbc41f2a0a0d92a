"""A busy issue is not starved: 16 writers at full speed on 2 issues with one rule each (W-077).

Measured for each receipt, by the database's clock: from the fact that opened it until a dispatch
put it into a run. Runs are ended as soon as they are queued, so that the next receipt needs
another one. Receipts that are still free when the writers stop are waited for and count.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from bench.report import MS, Figure, Row
from bench.witness import Witness
from bench.world import Cluster, Sizes
from engine.app import Engine

DATABASE: Final = "hot_issue"
WRITERS: Final = 16
ISSUES: Final = 2
DRAIN_SECONDS_MAX: Final = 90  # three sweeps, which find what dispatch has left

_COMMENT: Final = f"""
\\set number 1 + :client_id % {ISSUES}
INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
VALUES (bench_id('8000', :number), bench_id('8001', 1), 'member', bench_id('8002', 1),
        'What about the second half?');
"""
_FREE: Final = "SELECT count(*) FROM issue_wakeup_receipt WHERE processed_at IS NULL"
_FIGURES: Final = """
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds),
       percentile_disc(0.99) WITHIN GROUP (ORDER BY seconds), max(seconds),
       (SELECT count(*) FROM agent_task_queue)
  FROM (SELECT extract(epoch FROM processed_at - created_at) AS seconds
          FROM issue_wakeup_receipt WHERE task_id IS NOT NULL) x
"""


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the row of the busy issues."""
    cluster.create_world(DATABASE, Sizes(issues=ISSUES, last_rule=ISSUES))
    return trio.run(_measure, cluster, 3 if quick else 15)


async def _count_free(cluster: Cluster) -> int:
    return int(await trio.to_thread.run_sync(cluster.psql, DATABASE, _FREE))


async def _measure(cluster: Cluster, seconds: int) -> list[Row]:
    async with Engine.open(cluster.settings(DATABASE)) as engine:
        async with Witness.open(cluster.url(DATABASE)) as witness:
            await witness.finish_runs()
            options = ("-c", str(WRITERS), "-j", "1", "-T", str(seconds))
            write = partial(cluster.pgbench, DATABASE, _COMMENT, *options)
            rate = await trio.to_thread.run_sync(write)
            with trio.fail_after(DRAIN_SECONDS_MAX):
                while await _count_free(cluster):  # noqa: ASYNC110 - a row tells nobody
                    await trio.sleep(0.1)
        statistics = engine.dispatcher.statistics
    said = cluster.psql(DATABASE, _FIGURES).strip().split("|")
    p50, p99, most, runs = map(float, said)
    return [
        Row(
            what=f"first fact to run, {WRITERS} writers on {ISSUES} issues",
            figures=(
                Figure(name="p50", value=p50 * MS, unit=" ms"),
                Figure(name="p99", value=p99 * MS, unit=" ms", at_most=150),
                Figure(name="max", value=most * MS, unit=" ms"),
                Figure(name="runs", value=runs / seconds, unit="/s"),
                Figure(name="facts", value=rate, unit="/s"),
                Figure(name="dispatched alone", value=statistics.alone / seconds, unit="/s"),
                Figure(name="left to the sweep", value=statistics.left_to_sweep),
            ),
            proves=("W-077",),
        )
    ]
