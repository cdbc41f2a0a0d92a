"""What an engine counts, and the text in which it tells all of it (Prometheus, W-256).

Counting is synchronous, in memory and below everything, so that whoever acts can count it. What an
engine counts is its own and begins at 0 with its process; what is read from the database or from
other counters when somebody asks (`READINGS`) is given to `text` by who has read it. The page
docs/operate/metrics.md says what each of them means; a test holds both together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import attrs
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Values: TypeAlias = Mapping[tuple[str, ...], float]
Readings: TypeAlias = Mapping[str, Values]

# Buckets in seconds. W-070 asks for 10 ms (p50) and 50 ms (p99); beyond 30 s a sweep has helped.
_LATENCY: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 35, 60, 300)

disable_created_metrics()  # type: ignore[no-untyped-call] # a series more for each counter, that says nothing to an operator


@attrs.frozen
class Reading:
    """What is read when somebody asks: its kind, its labels, and what it is in one sentence."""

    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    text: str


READINGS: Final[Mapping[str, Reading]] = {
    "wakeful_database_readable": Reading(
        "gauge", (), "Whether this scrape has the figures of the database; 1 or 0."
    ),
    "wakeful_facts_captured": Reading("counter", (), "Facts that reached a rule, one for each."),
    "wakeful_facts_merged": Reading(
        "counter", (), "Captured facts that joined a receipt that was there already."
    ),
    "wakeful_facts_ignored": Reading(
        "counter", ("reason",), "Facts of a type that a rule listens to, and that did not reach it."
    ),
    "wakeful_receipts": Reading("gauge", ("state",), "Receipts that wait: free or reserved."),
    "wakeful_receipts_processed": Reading(
        "counter", ("state",), "Receipts that do not wait any more: consumed or discarded."
    ),
    "wakeful_oldest_free_receipt_seconds": Reading(
        "gauge", ("workspace",), "Age of the oldest input that no run carries."
    ),
    "wakeful_oldest_queued_wakeup_run_seconds": Reading(
        "gauge", ("workspace",), "How long the oldest unclaimed run of a rule has waited."
    ),
    "wakeful_dispatch_failures": Reading(
        "counter", (), "Rules whose dispatch failed; each stays out of groups for a while."
    ),
    "wakeful_dispatch_contention": Reading(
        "counter", (), "Dispatches that somebody else's locks kept from an issue."
    ),
    "wakeful_dispatch_left_to_sweep": Reading(
        "counter", (), "Issues that were given up for now; the sweep tries them again."
    ),
    "wakeful_claims_waiting": Reading("gauge", (), "Claims of daemons that wait for a run."),
    "wakeful_work_tokens": Reading("gauge", ("kind",), "Work that has begun and not ended."),
    "wakeful_actors_resident": Reading("gauge", (), "Actors in memory, nearly all of them idle."),
    "wakeful_actor_failures": Reading("counter", (), "Defects that an actor was restarted for."),
    "wakeful_lane_connections": Reading("gauge", ("lane",), "Connections of a lane."),
    "wakeful_lane_busy": Reading("gauge", ("lane",), "Connections of a lane that are in use."),
    "wakeful_lane_waiting": Reading("gauge", ("lane",), "Units of work that wait for a lane."),
    "wakeful_lane_units": Reading("counter", ("lane",), "Units of work that got a connection."),
    "wakeful_lane_replaced": Reading(
        "counter", ("lane",), "Connections that were opened in place of broken ones."
    ),
    "wakeful_lane_unknown_commits": Reading(
        "counter", ("lane",), "Commits that the server did not answer."
    ),
    "wakeful_listener_connected": Reading(
        "gauge", (), "Whether the connection that listens stands; 1 or 0."
    ),
    "wakeful_hints_dropped": Reading(
        "counter", (), "Notifications that a slow engine let fall; a sweep followed."
    ),
}


class Metrics:
    """The counters of one engine."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.dispatches = self._counter(
            "wakeful_dispatches", "Rules that were looked at, by what became of it.", "outcome"
        )
        self.found_by_sweep = self._counter(
            "wakeful_facts_found_by_sweep", "Inputs that no hint told of though all were heard."
        )
        self.claimed = self._counter("wakeful_runs_claimed", "Runs that were handed to a daemon.")
        self.claim_refusals = self._counter(
            "wakeful_claim_refusals",
            "Runs that ended when they were to be claimed, by outcome and failed check.",
            "outcome",
            "check",
        )
        self.requests = self._counter(
            "wakeful_http_requests", "HTTP requests answered.", "method", "route", "status"
        )
        self.commit_to_run = self._histogram(
            "wakeful_commit_to_run_seconds", "From the commit of a fact to its queued run."
        )
        self.timer_lateness = self._histogram(
            "wakeful_timer_lateness_seconds", "From the instant of a timer to its dispatch."
        )

    def text(self, readings: Readings) -> bytes:
        """Return everything as Prometheus text: the counters, and these readings beside them.

        Every reading has to be one of `READINGS`, with a value for each of its labels.
        """
        return generate_latest(_Everything(self._registry, readings))

    def names(self) -> dict[str, str]:
        """Return the name of each metric, as a query has it, with its kind."""
        given: Readings = {name: {} for name in READINGS}
        return {
            f"{metric.name}_total" if metric.type == "counter" else metric.name: metric.type
            for metric in _Everything(self._registry, given).collect()
        }

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, registry=self._registry, buckets=_LATENCY)


@attrs.frozen
class _Everything:
    """One scrape: a `Collector` of the library."""

    registry: CollectorRegistry
    readings: Readings

    def collect(self) -> Iterable[Metric]:
        yield from self.registry.collect()
        for name, values in self.readings.items():
            yield _family(name, READINGS[name], values)


def _family(name: str, reading: Reading, values: Values) -> Metric:
    kind = CounterMetricFamily if reading.kind == "counter" else GaugeMetricFamily
    family = kind(name, reading.text, labels=reading.labels)
    for labels, value in values.items():
        assert len(labels) == len(reading.labels), (name, labels)
        family.add_metric(labels, value)
    return family
