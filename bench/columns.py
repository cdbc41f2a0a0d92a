"""What capture and an engine cost foreign writers together, in three columns; and bulk inserts.

Throughput: 16 pgbench clients comment at full speed on 1,000 issues with one rule each, as any
program with SQL would, so a commit that opens a receipt NOTIFYs. Without triggers; with capture and
nobody who listens; with `wakeful serve` on the same machine, which queues a run for each receipt
while a process ends each run at once, so that the next fact needs another one. Rounds of the three
follow each other, and the figure is the median of the rounds' ratios to the first column.

Bulk: one INSERT of 1,000 comments on an issue with 32 rules, and on one without, in microseconds a
row, COMMIT included.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import trio

from bench.capture import prepare, random_comment
from bench.children import serving
from bench.report import Figure, Row
from bench.witness import Witness
from bench.world import NOTIFYING, Cluster, Sizes

DATABASE: Final = "columns"
BULK: Final = "bulk"
CLIENTS: Final = 16
ISSUES: Final = 1_000
ROUNDS: Final = 3
RULES: Final = 32
ROWS: Final = 1_000
MICROSECONDS: Final = 1e6

_INSERT_MANY: Final = """
INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
SELECT bench_id('8000', :issue), bench_id('8001', 1), 'member', bench_id('8002', 1), 'Part ' || n
  FROM generate_series(1, :rows) n
"""
_START_OVER: Final = """
UPDATE agent_task_queue SET status = 'cancelled', completed_at = wakeful_now()
 WHERE status = 'queued';
TRUNCATE issue_wakeup_receipt;
"""


class _Column(StrEnum):
    """Who takes part besides the writers."""

    NOBODY = "no triggers"
    CAPTURE = "capture"
    ENGINE = "capture and engine"


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of throughput and of bulk inserts."""
    rounds = 1 if quick else ROUNDS
    cluster.create_world(DATABASE, Sizes(issues=ISSUES, last_rule=ISSUES))
    rates: dict[_Column, list[float]] = {column: [] for column in _Column}
    columns = tuple(_Column)
    for turn in range(rounds):
        for place in range(len(columns)):
            column = columns[(turn + place) % len(columns)]
            rates[column].append(trio.run(_rate, cluster, column, 1 if quick else 5))
    cluster.drop(DATABASE)
    return [*_throughput_rows(rates), _bulk_row(cluster, rounds)]


async def _rate(cluster: Cluster, column: _Column, seconds: int) -> float:
    """Return the inserts per second of one round."""
    cluster.psql(DATABASE, _START_OVER)
    prepare(cluster, DATABASE, is_captured=column is not _Column.NOBODY)
    options = ("-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-D", "after=0")
    script = partial(
        cluster.pgbench,
        DATABASE,
        random_comment(),
        *(*options, "-D", f"own={ISSUES // CLIENTS}"),
        session=NOTIFYING,
    )
    async with AsyncExitStack() as stack:
        if column is _Column.ENGINE:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wakeful-bench-"))
            await stack.enter_async_context(serving(cluster, DATABASE, Path(folder)))
            witness = await stack.enter_async_context(Witness.open(cluster.url(DATABASE)))
            await witness.finish_runs()
        return await trio.to_thread.run_sync(script)


def _throughput_rows(rates: dict[_Column, list[float]]) -> list[Row]:
    rows = []
    for column, found in rates.items():
        ratios = [rate / base for rate, base in zip(found, rates[_Column.NOBODY], strict=True)]
        rows.append(
            Row(
                what=f"comments of {CLIENTS} foreign clients: {column}",
                figures=(
                    Figure(name="", value=statistics.median(found), unit="/s"),
                    Figure(name="ratio", value=statistics.median(ratios)),
                ),
            )
        )
    return rows


def _bulk_row(cluster: Cluster, rounds: int) -> Row:
    """Return the row of the bulk insert: the first issue has 32 rules, the second one none."""
    cluster.create_world(BULK, Sizes(issues=2, last_rule=1, rules_each=RULES))
    ruled, plain = [], []
    for _ in range(rounds):
        plain.append(_bulk(cluster, issue=2))
        ruled.append(_bulk(cluster, issue=1))
    cluster.drop(BULK)
    return Row(
        what=f"{ROWS:,} comments in one INSERT, {RULES} rules on the issue",
        figures=(
            Figure(name="", value=statistics.median(ruled), unit=" µs a row"),
            Figure(name="no rule", value=statistics.median(plain), unit=" µs a row"),
        ),
    )


def _bulk(cluster: Cluster, *, issue: int) -> float:
    """Return the microseconds a row of one bulk insert, a psql that does nothing taken off."""
    prepare(cluster, BULK, is_captured=True)
    started = time.monotonic()
    cluster.psql(BULK, "SELECT 1")
    idle = time.monotonic() - started
    started = time.monotonic()
    cluster.psql(BULK, _INSERT_MANY, issue=issue, rows=ROWS)
    return (time.monotonic() - started - idle) * MICROSECONDS / ROWS
