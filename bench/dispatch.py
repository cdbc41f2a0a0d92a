"""Free receipts to queued runs, per second, and against `bench/baseline.sql`.

20,000 rules on 20,000 issues of 20 workspaces (W-014 allows 1,000 each), each with a receipt that
capture made of a comment while no engine ran. The engine is opened without sweeps, then hinted at
all issues at once; time runs from the first hint to the last commit, notes and evidence included.
The baseline runs before and after, on clones of the same database, by 8 pgbench clients.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Final

import attrs
import trio

from bench.report import Figure, Row
from bench.world import HERE, Cluster, Kind, Sizes, bench_id
from engine.actors.postoffice import until_idle
from engine.app import Engine

PENDING: Final = "pending"  # the database with the receipts, cloned for each measurement
CLONE: Final = "dispatch"
WORKSPACES: Final = 20
CLIENTS: Final = 8
THREADS: Final = 2
ROUNDS: Final = 2  # of the engine; one of the baseline before each and one after the last
NEVER_SECONDS: Final = 86_400
SECONDS_MAX: Final = 120

_COMMENTS: Final = """
SET wakeful.hinted = 'on';
INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
SELECT i.id, i.workspace_id, i.creator_type, i.creator_id, 'What about the second half?'
  FROM issue i WHERE i.workspace_id = bench_id('8001', :workspace)
"""
_ANALYZE: Final = "VACUUM ANALYZE"
# How many runs there are, and the mean sizes of what was written for each.
_WRITTEN: Final = """
SELECT jsonb_build_object(
  'runs', count(*),
  'free', (SELECT count(*) FROM issue_wakeup_receipt x WHERE x.processed_at IS NULL),
  'note', avg(octet_length(q.handoff_note)),
  'evidence', avg(octet_length(q.context::text)),
  'activity', (SELECT avg(octet_length(a.details::text)) FROM activity_log a
                WHERE a.action = 'wakeup_triggered'))
  FROM agent_task_queue q
"""
_SIZES: Final = ("note", "evidence", "activity")
_SIZE_TOLERANCE: Final = 0.05  # of the baseline's bytes against the product's


@attrs.frozen
class _Result:
    """Dispatches per second, and what they wrote."""

    rate: float
    written: dict[str, float]


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of the engine, of the baseline and of their ratio."""
    issues = 100 if quick else 1_000
    total = issues * WORKSPACES
    cluster.create_world(PENDING, Sizes(workspaces=WORKSPACES, issues=issues, last_rule=total))
    for workspace in range(1, WORKSPACES + 1):
        cluster.psql(PENDING, _COMMENTS, workspace=workspace)
    cluster.psql(PENDING, _ANALYZE)
    baseline, product = [_baseline(cluster, total)], []
    for _ in range(ROUNDS):
        product.append(_product(cluster, total))
        baseline.append(_baseline(cluster, total))
    _compare(product[0].written, baseline[0].written)
    cluster.drop(PENDING)
    ours = statistics.median(each.rate for each in product)
    theirs = statistics.median(each.rate for each in baseline)
    sizes = ", ".join(f"{name} {product[0].written[name]:.0f}" for name in _SIZES)
    return [
        Row(
            what=f"{total:,} free receipts to queued runs",
            figures=(
                Figure(name="", value=ours, unit="/s"),
                *_spread([each.rate for each in product]),
            ),
            remark=f"bytes a run: {sizes}",
        ),
        Row(
            what=f"baseline.sql, {CLIENTS} pgbench clients",
            figures=(
                Figure(name="", value=theirs, unit="/s"),
                *_spread([each.rate for each in baseline]),
            ),
        ),
        Row(
            what="receipts to runs, ratio to baseline.sql",
            figures=(Figure(name="", value=ours / theirs, at_least=1.0),),
        ),
    ]


def _spread(rates: list[float]) -> tuple[Figure, Figure]:
    return Figure(name="min", value=min(rates)), Figure(name="max", value=max(rates))


def _compare(product: dict[str, float], baseline: dict[str, float]) -> None:
    """Make sure that the baseline does not write less than the product."""
    for name in _SIZES:
        difference = abs(baseline[name] / product[name] - 1)
        assert difference < _SIZE_TOLERANCE, (name, baseline[name], product[name])


def _written(cluster: Cluster, total: int) -> dict[str, float]:
    """Return what stands in the runs, of which there must be one for each receipt."""
    written: dict[str, float] = json.loads(cluster.psql(CLONE, _WRITTEN))
    assert (written["runs"], written["free"]) == (total, 0)
    return written


def _baseline(cluster: Cluster, total: int) -> _Result:
    cluster.create(CLONE, PENDING)
    cluster.psql(CLONE, (HERE / "baseline.sql").read_text())
    options = ("-c", str(CLIENTS), "-j", str(THREADS), "-t", str(total // CLIENTS))
    rate = cluster.pgbench(CLONE, "SELECT bench_dispatch(nextval('bench_turn'));", *options)
    result = _Result(rate, _written(cluster, total))
    cluster.drop(CLONE)
    return result


def _product(cluster: Cluster, total: int) -> _Result:
    cluster.create(CLONE, PENDING)
    rate = trio.run(_dispatch, cluster, total)
    result = _Result(rate, _written(cluster, total))
    cluster.drop(CLONE)
    return result


async def _dispatch(cluster: Cluster, total: int) -> float:
    """Return the rate at which an engine dispatches what its start has left."""
    issue_ids = [bench_id(Kind.ISSUE, number) for number in range(1, total + 1)]
    settings = cluster.settings(CLONE, sweep_seconds=NEVER_SECONDS, sweep_idle_after=NEVER_SECONDS)
    async with Engine.open(settings) as engine:
        await settle(engine)
        early = engine.dispatcher.statistics.started
        started = time.monotonic()
        engine.hints.look_at(issue_ids)
        with trio.fail_after(SECONDS_MAX):
            await until_idle(engine.ledger)
        seconds = time.monotonic() - started
        assert engine.dispatcher.statistics.started == total
        return (total - early) / seconds


async def settle(engine: Engine) -> None:
    """Return when the start is over: it sweeps once more as soon as the listener stands."""
    with trio.fail_after(SECONDS_MAX):
        while not (await engine.ready())[0]:  # noqa: ASYNC110 - nothing tells when it stands
            await trio.sleep(0.01)
    await trio.sleep(0.2)
    await until_idle(engine.ledger)
