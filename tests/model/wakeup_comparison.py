"""What the engine shows, held against what the model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tests.model.wakeup_model import Model
from tests.model.wakeup_place import Place
from tests.model.wakeup_records import DUE, Rule, Run


def differences(model: Model, place: Place, seen: dict[str, Any]) -> Iterator[str]:
    """Say what is not as the model says."""
    rules, runs = seen["rules"] or {}, seen["runs"] or []
    if len(rules) != len(model.rules) or len(runs) != len(model.runs):
        shown = [(run["status"], run["evidence"]) for run in runs]
        told = [(run.status, dict(run.evidence)) for run in model.runs]
        yield f"{len(rules)} rules, runs {shown}; expected {len(model.rules)}, runs {told}"
        return
    counts: Counter[tuple[str, str, str]] = Counter()
    for each in seen["receipts"] or []:
        counts[each["rule"], each["type"], each["state"]] += each["count"] or 0
    for number, told_rule in model.rules.items():
        rule_id = str(place.rules[number])
        yield from _compare(f"rule {number}", _of_rule(told_rule, rules[rule_id]))
        for state in ("free", "reserved", "consumed", "discarded"):
            expected = getattr(told_rule, state, Counter())
            found = {k: n for (r, k, s), n in counts.items() if (r, s) == (rule_id, state)}
            if state != "free":
                expected = {k: n for k, n in expected.items() if k != DUE}
                found.pop(DUE, None)
            if dict(expected) != found:
                yield f"rule {number}: {state} {found}, expected {dict(expected)}"
    ids = {str(place.rules[number]): number for number in place.rules}
    for number, (run, told_run) in enumerate(zip(runs, model.runs, strict=True)):
        yield from _compare(f"run {number}", _of_run(told_run, run, ids, place, model))


def _of_rule(told: Rule, seen: dict[str, Any]) -> dict[str, tuple[object, object]]:
    """Return pairs of what the engine shows of a rule and what the model says."""
    due = None if seen["due"] is None else datetime.fromisoformat(seen["due"])
    has_error = seen["has_error"] if told.has_error is None else told.has_error
    return {
        "enabled": (seen["enabled"], told.enabled),
        "off": (seen["off"], told.off),
        "revision": (seen["revision"], told.revision),
        "due": (due, told.due),
        "has_error": (seen["has_error"], has_error),
        "spent": (seen["spent"] is not None, told.is_spent),
    }


def _of_run(
    told: Run, seen: dict[str, Any], ids: dict[str, int], place: Place, model: Model
) -> dict[str, tuple[object, object]]:
    """Return pairs of what the engine shows of a run and what the model says."""
    evidence = seen["evidence"] or {}
    expected: object = dict(told.evidence)
    if told.is_timers and len(evidence) == 1:  # W-086: only the newest
        expected = evidence if set(evidence) <= set(told.evidence) else expected
    origin = {
        name: None if number is None else str(place.runs[number])
        for name, number in (("retry_of", told.retry_of), ("rerun_of", told.rerun_of))
    }
    return {
        "status": (seen["status"], told.status),
        "rule": (ids.get(seen["rule"]) if seen["rule"] else None, told.rule),
        "agent": (seen["agent"], str(place.agents[told.agent])),
        "attempt": (seen["attempt"], told.attempt),
        "evidence": (evidence, expected),
        "retry_of": (seen["retry_of"], origin["retry_of"]),
        "rerun_of": (seen["rerun_of"], origin["rerun_of"]),
    }


def _compare(what: str, pairs: dict[str, tuple[object, object]]) -> Iterator[str]:
    for name, (found, expected) in pairs.items():
        if found != expected:
            yield f"{what}: {name} is {found}, expected {expected}"
