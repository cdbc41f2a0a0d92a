"""`make bench`: one table from one run, and the same as JSON in `bench/results/latest.json`.

`make bench ARGS="--quick"` takes small sizes: it shows that everything works, its figures say
little. `ARGS="latency capture"` runs these families only. `ARGS=--markdown` measures nothing: it
prints the last run's table for `docs/benchmarks.md`. Each family runs in a process of its own,
so that none inherits another one's memory. A missed target fails nothing; a broken one raises.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import (
    capture,
    columns,
    dispatch,
    hot_issue,
    idle,
    journey,
    latency,
    mailboxes,
    peers,
    reading,
    resident,
    startup,
    timers,
)
from bench.machine import ForeignShare, environment, load
from bench.report import FOREIGN_MAX, Family, Row, markdown, table
from bench.world import HERE, Cluster, running_cluster

RESULTS: Final = HERE / "results" / "latest.json"
Measure = Callable[..., list[Row]]
FAMILIES: Final[dict[str, Measure]] = {
    "latency": latency.measure,
    "timers": timers.measure,
    "idle": idle.measure,
    "resident": resident.measure,
    "hot_issue": hot_issue.measure,
    "dispatch": dispatch.measure,
    "journey": journey.measure,
    "peers": peers.measure,
    "reading": reading.measure,
    "capture": capture.measure,
    "columns": columns.measure,
    "startup": startup.measure,
    "mailboxes": mailboxes.measure,
}


def main() -> None:
    """Measure what was asked for, print the table, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--quick", action="store_true", help="small sizes, to try everything out")
    parser.add_argument("--markdown", action="store_true", help="print the last run's table")
    asked = parser.parse_args()
    if unknown := set(asked.families) - set(FAMILIES):
        parser.error(f"no such family: {', '.join(sorted(unknown))}")
    if asked.markdown:
        print(markdown(json.loads(RESULTS.read_text(encoding="utf-8"))))
        return
    _silence()
    started = time.monotonic()
    with running_cluster() as (cluster, folder):
        version = cluster.psql("postgres", "SHOW server_version").strip()
        about = environment(folder, version) | {"quick": asked.quick}
        print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
        families = [
            run(name, cluster, quick=asked.quick)
            for name in FAMILIES
            if not asked.families or name in asked.families
        ]
    print(f"\n{table(families)}\n")
    if any(family.foreign > FOREIGN_MAX for family in families):
        print("Others kept this machine busy: times say little, ratios of one family say more.")
    about["seconds"] = round(time.monotonic() - started)
    RESULTS.parent.mkdir(exist_ok=True)
    record = {"environment": about, "families": [family.record() for family in families]}
    RESULTS.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"{about['seconds']} s; the same in {RESULTS.relative_to(HERE.parent)}")


def run(name: str, cluster: Cluster, *, quick: bool) -> Family:
    """Measure one family in a fresh process, and how busy others kept the machine meanwhile."""
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    load_before, started, foreign = load(), time.monotonic(), ForeignShare()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=_silence) as executor:
        rows = executor.submit(FAMILIES[name], cluster, quick=quick).result()
        share = foreign.read()
    seconds = round(time.monotonic() - started, 1)
    return Family(name=name, seconds=seconds, load=load_before, foreign=share, rows=tuple(rows))


def _silence() -> None:
    """Have the engine log warnings only, and not into the table."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )


if __name__ == "__main__":
    main()
