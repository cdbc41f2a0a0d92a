"""The figures of `bench/actors.py` as rows: actors against Pykka's own ThreadingActor."""

from __future__ import annotations

from typing import Any

from bench import actors
from bench.report import Figure, Row
from bench.world import Cluster


def measure(_cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of memory, of a told message and of an asked one; no database takes part.

    The sizes are those of `bench/actors.py` also when it is to be `quick`, which leaves it out.
    """
    if quick:
        return []
    figures: dict[str, Any] = actors.measure()
    return [
        Row(
            what=f"{actors.RESIDENT:,} plain resident actors",
            figures=(
                Figure(name="each", value=figures["resident_bytes_each"], unit=" B", at_most=4_096),
                Figure(name="full collection", value=figures["gc_full_ms"], unit=" ms"),
                Figure(name="frozen", value=figures["gc_full_frozen_ms"], unit=" ms"),
            ),
        ),
        Row(
            what="told message, CPU, ratio to ThreadingActor",
            figures=(
                Figure(name="", value=figures["tell_cpu_ratio"], at_most=1.0),
                Figure(name="each", value=figures["tell_cpu_us"], unit=" µs"),
            ),
        ),
        Row(
            what="asked message, p50, ratio to ThreadingActor",
            figures=(
                Figure(name="", value=figures["ask_ratio"], at_most=0.33),
                Figure(name="p50", value=figures["ask_us_p50"], unit=" µs"),
                Figure(name="p99", value=figures["ask_us_p99"], unit=" µs"),
            ),
        ),
    ]
