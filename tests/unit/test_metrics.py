"""The exposition: every metric is declared, and a scrape of it can be read."""

from __future__ import annotations

import pytest

from engine.metrics import READINGS, Metrics
from engine.work import WorkKind, WorkLedger
from tests.engine.scraping import samples


def test_readings_stand_beside_the_counters() -> None:
    """W-256: one text has the engine's counters and whatever was read, under their full names."""
    metrics = Metrics()
    metrics.claimed.inc(3)
    metrics.dispatches.labels("started").inc()
    metrics.timer_lateness.observe(0.02)
    text = metrics.text({"wakeful_receipts": {("free",): 2}, "wakeful_facts_captured": {(): 7}})
    found = samples(text.decode())
    assert found["wakeful_runs_claimed_total"] == 3
    assert found["wakeful_dispatches_total started"] == 1
    assert found["wakeful_timer_lateness_seconds_bucket 0.025"] == 1
    assert found["wakeful_timer_lateness_seconds_bucket 0.01"] == 0
    assert found["wakeful_receipts free"] == 2
    assert found["wakeful_facts_captured_total"] == 7
    assert not any(name.endswith("_created") for name in found)


def test_two_engines_of_one_process_count_apart() -> None:
    """W-256: what one engine counts, another one in the same process does not."""
    one, two = Metrics(), Metrics()
    one.claimed.inc()
    assert samples(two.text({}).decode())["wakeful_runs_claimed_total"] == 0


def test_a_reading_has_all_its_labels() -> None:
    """A reading that nobody declared, or with a label missing, is a defect."""
    metrics = Metrics()
    with pytest.raises(KeyError):
        metrics.text({"wakeful_unheard_of": {(): 1}})
    with pytest.raises(AssertionError):
        metrics.text({"wakeful_receipts": {(): 1}})


def test_every_metric_is_named_alike() -> None:
    """Names begin with what they belong to, and say their unit where they have one."""
    for name in Metrics().names():
        assert name.startswith(("wakeful_", "process_")), name
    for name, reading in READINGS.items():
        assert not name.endswith("_total"), name
        assert reading.text.endswith("."), name


def test_open_work_is_counted_by_kind() -> None:
    """W-256: the ledger tells how much work of each kind is open, and nothing of what has ended."""
    ledger = WorkLedger()
    with ledger.begin(WorkKind.HTTP), ledger.begin(WorkKind.HTTP), ledger.begin(WorkKind.THREAD):
        assert ledger.open_by_kind() == {WorkKind.HTTP: 2, WorkKind.THREAD: 1}
    assert not ledger.open_by_kind()
