"""Reading what an engine exposes, as a collector of metrics does."""

from __future__ import annotations

from typing import TypeAlias

from prometheus_client.parser import text_string_to_metric_families

from engine.app import Engine

Samples: TypeAlias = dict[str, float]


def samples(text: str) -> Samples:
    """Return every sample of an exposition by its name and the values of its labels."""
    return {
        " ".join((sample.name, *(sample.labels[label] for label in sorted(sample.labels)))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(engine: Engine) -> Samples:
    """Scrape an engine; the figures of the database have to be there."""
    found = samples((await engine.exposition()).decode())
    assert found["wakeful_database_readable"] == 1
    return found


def grown(before: Samples, after: Samples) -> Samples:
    """Return by how much each sample is larger than it was, without those that are not."""
    return {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] != before.get(name, 0)
    }
