"""Wakeful beside other job queues on PostgreSQL: one server, one run, the same trials.

`bench/trial.py` says what a trial is. Each system gets databases of its own; its trials follow
those of the others, the order turns with each round, and a figure is the median of the rounds. A
round in which others took more of the machine than `FOREIGN_MAX` counts only where no better one is
there; the remark tells how many were better. The last rows tell what a job of the burst costs each
process in CPU time, which a busy neighbour changes less than it changes a rate.

The peers are pinned in `bench/peers-requirements.txt` and live in `bench/.venv` (`make peers`).
Ours is more work: a fact is captured and matched against rules, the engine decides, and a daemon
learns of it over HTTP with a prompt and a credential; theirs is a row in a table.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

import attrs
import trio

from bench import trial
from bench.report import FOREIGN_MAX, MS, Figure, Row
from bench.trial import WAKEFUL, Kind, Outcome, System
from bench.world import Cluster

PEERS: Final = (
    System(module="pgqueuer", title="PgQueuer 1.6"),
    System(module="oban", title="Oban-py 0.7"),
    System(module="procrastinate", title="Procrastinate 3.10"),
    System(module="dbos", title="DBOS 3.4"),
)
AHEAD_OF: Final = "pgqueuer"  # the peer that is to be beaten
ROUNDS: Final = 3


@attrs.frozen
class _Sizes:
    """How many jobs each measurement has."""

    latency: int
    timers: int
    burst: int
    sleepers: int

    def trials(self) -> tuple[tuple[tuple[Kind, int], ...], ...]:
        """Return the measurements of each trial."""
        return (
            (
                (Kind.LATENCY, self.latency),
                (Kind.TIMERS, self.timers),
                (Kind.BURST, self.burst),
            ),
            ((Kind.SLEEPERS, self.sleepers),),
        )

    @property
    def most(self) -> int:
        """The jobs of the largest trial."""
        return max(sum(jobs for _, jobs in each) for each in self.trials())


@attrs.frozen(kw_only=True)
class _Comparison:
    """One row: what is compared, and which side of 1 the ratio to the peer is to be on."""

    kind: Kind
    what: str
    compared: str
    figures: tuple[tuple[str, str], ...]  # of an outcome, with the name in the table
    unit: str
    scale: float = 1.0
    is_rate: bool = False


Outcomes = dict[tuple[str, Kind], list[Outcome]]


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of each comparison, ours first."""
    sizes = _Sizes(20, 50, 100, 50) if quick else _Sizes(150, 1_000, 1_000, 1_000)
    present = [WAKEFUL, *(peer for peer in PEERS if peer.is_installed)]
    for system in present:
        trio.run(trial.install, cluster, system, sizes.most)
    outcomes: Outcomes = {}
    for turn in range(1 if quick else ROUNDS):
        for measurements in sizes.trials():
            for place in range(len(present)):
                system = present[(turn + place) % len(present)]
                found = trio.run(trial.run, cluster, system, measurements)
                trial.forget(cluster, system)
                for kind, outcome in found.items():
                    outcomes.setdefault((system.module, kind), []).append(outcome)
    for system in present:
        cluster.drop(system.template)
    missing = [peer.title for peer in PEERS if peer not in present]
    rows = [row for each in _comparisons(sizes) for row in _rows(each, present, outcomes)]
    return [*rows, *_cost_rows(present, outcomes, sizes), *map(_missing_row, missing)]


def _comparisons(sizes: _Sizes) -> tuple[_Comparison, ...]:
    return (
        _Comparison(
            kind=Kind.LATENCY,
            what=f"commit to start at low load, {sizes.latency} jobs",
            compared="p50",
            figures=(("p50", "p50"), ("p99", "p99")),
            unit=" ms",
            scale=MS,
        ),
        _Comparison(
            kind=Kind.TIMERS,
            what=f"{sizes.timers:,} jobs due at one instant, all started after",
            compared="all",
            figures=(("all", ""), ("first", "first")),
            unit=" s",
        ),
        _Comparison(
            kind=Kind.SLEEPERS,
            what=f"{sizes.sleepers:,} jobs of one second, done, beyond the second",
            compared="beyond",
            figures=(("beyond", ""), ("started", "all started")),
            unit=" s",
        ),
        _Comparison(
            kind=Kind.BURST,
            what=f"{sizes.burst:,} jobs enqueued by {trial.WRITERS} connections, until done",
            compared="rate",
            figures=(("rate", ""), ("enqueued", "enqueued")),
            unit="/s",
            is_rate=True,
        ),
    )


def _rows(comparison: _Comparison, present: Sequence[System], outcomes: Outcomes) -> list[Row]:
    """Return one row for each system, a peer's with ours as a ratio to it."""
    ours = _median(outcomes[WAKEFUL.module, comparison.kind], comparison.compared)
    rows = []
    for system in present:
        found = outcomes[system.module, comparison.kind]
        figures = [
            Figure(name=name, value=_median(found, value) * comparison.scale, unit=comparison.unit)
            for value, name in comparison.figures
        ]
        if not system.is_own:
            ratio = ours / _median(found, comparison.compared)
            figures.append(_ratio(comparison, ratio, is_asked=system.module == AHEAD_OF))
        rows.append(
            Row(
                what=f"{comparison.what}: {system.title}",
                figures=tuple(figures),
                remark=_noise(found),
            )
        )
    return rows


def _ratio(comparison: _Comparison, ratio: float, *, is_asked: bool) -> Figure:
    if not is_asked:
        return Figure(name="ours to theirs", value=ratio)
    if comparison.is_rate:
        return Figure(name="ours to theirs", value=ratio, at_least=1.0)
    return Figure(name="ours to theirs", value=ratio, at_most=1.0)


def _cost_rows(present: Sequence[System], outcomes: Outcomes, sizes: _Sizes) -> list[Row]:
    """Return what a job of the burst costs, process by process."""
    rows = []
    for system in present:
        found = outcomes[system.module, Kind.BURST]
        names = sorted(name for name in found[0].values if name.startswith("cpu "))
        each = {name.removeprefix("cpu "): _median(found, name) * MS for name in names}
        rows.append(
            Row(
                what=f"CPU a job of {sizes.burst:,}: {system.title}",
                figures=(
                    Figure(name="", value=sum(each.values()), unit=" ms"),
                    *(Figure(name=name, value=value) for name, value in each.items()),
                ),
            )
        )
    return rows


def _missing_row(title: str) -> Row:
    return Row(
        what=f"{title}: not installed",
        figures=(),
        remark="`make peers` installs the peers that the Python of bench/.venv can run; Oban-py "
        "needs Python 3.12 or newer (PEERS_PYTHON=python3.12).",
    )


def _clean(found: Sequence[Outcome]) -> list[Outcome]:
    return [each for each in found if each.foreign <= FOREIGN_MAX]


def _median(found: Sequence[Outcome], name: str) -> float:
    return statistics.median(each.values[name] for each in _clean(found) or found)


def _noise(found: Sequence[Outcome]) -> str:
    """Say how many rounds were clean, unless all were."""
    clean = len(_clean(found))
    if clean == len(found):
        return ""
    shares = ", ".join(f"{100 * each.foreign:.0f} %" for each in found)
    return f"{clean} of {len(found)} rounds clean; others' CPU {shares}"
