"""The whole way of a fact, by one daemon over HTTP: committed, queued, claimed, started, completed.

10,000 facts on as many issues, written by 16 connections at full speed; `wakeful serve` in one
process; one daemon in another, which claims up to 100 runs at a time and whose runs do nothing
(`bench/jobs/wakeful.py`). The rate is from the first INSERT to the last completed run. Beside it
stands where the runs spent their time, by the database's clock, and what one costs each process.
"""

from __future__ import annotations

from typing import Final

import trio

from bench import trial
from bench.report import MS, Figure, Row
from bench.trial import WAKEFUL, Kind
from bench.world import Cluster

FACTS: Final = 10_000
_STAGES: Final = """
SELECT count(*),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY queued),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY claimed),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY started),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY completed)
  FROM (SELECT extract(epoch FROM q.created_at - c.created_at) AS queued,
               extract(epoch FROM q.dispatched_at - q.created_at) AS claimed,
               extract(epoch FROM q.started_at - q.dispatched_at) AS started,
               extract(epoch FROM q.completed_at - q.started_at) AS completed
          FROM agent_task_queue q JOIN comment c ON c.issue_id = q.issue_id
         WHERE q.status = 'completed') x
"""


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the row of the whole way, of its stages and of its costs."""
    facts = 200 if quick else FACTS
    trio.run(trial.install, cluster, WAKEFUL, facts)
    outcome = trio.run(trial.run, cluster, WAKEFUL, ((Kind.BURST, facts),))[Kind.BURST]
    values = outcome.values
    said = cluster.psql(WAKEFUL.database, _STAGES).strip().split("|")
    trial.forget(cluster, WAKEFUL)
    cluster.drop(WAKEFUL.template)
    runs, *stages = map(float, said)
    assert runs == facts + trial.WARM_UP, runs
    costs = {name: values[f"cpu {name}"] * MS for name in ("server", "database", "worker")}
    return [
        Row(
            what=f"{facts:,} facts to completed runs, one daemon over HTTP",
            figures=(
                Figure(name="", value=values["rate"], unit="/s"),
                Figure(name="facts committed", value=values["enqueued"], unit="/s"),
            ),
        ),
        Row(
            what="where their runs waited, p50",
            figures=tuple(
                Figure(name=name, value=seconds * MS, unit=" ms")
                for name, seconds in zip(
                    ("to queued", "to claimed", "to started", "to completed"), stages, strict=True
                )
            ),
        ),
        Row(
            what="CPU a fact and its run",
            figures=tuple(
                Figure(name=name, value=value, unit=" ms") for name, value in costs.items()
            ),
        ),
    ]
