"""Receipts as values: their states, and how facts of one type are folded into one.

The database captures and merges; this module says what the result has to be. `decide` folds the
facts of a waiting run by the same rules, and the tests hold the SQL against them.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import attrs

from engine.domain.records import Json
from engine.limits import ACTORS_MAX


class ReceiptState(StrEnum):
    """The four states of a receipt, told by two columns (W-061)."""

    FREE = "free"
    RESERVED = "reserved"
    CONSUMED = "consumed"
    DISCARDED = "discarded"


@attrs.frozen(kw_only=True)
class Pending:
    """The one free receipt of a rule revision and type: its first key, its folded payload."""

    event_key: str
    payload: Json


def state_of(task_id: UUID | None, processed_at: datetime | None) -> ReceiptState:
    """Return the state that the columns `task_id` and `processed_at` stand for (W-061)."""
    if processed_at is None:
        return ReceiptState.FREE if task_id is None else ReceiptState.RESERVED
    return ReceiptState.DISCARDED if task_id is None else ReceiptState.CONSUMED


def coalesce(pending: Pending | None, event_key: str, payload: Json) -> Pending:
    """Return the free receipt after one more fact of its type (W-062, W-063).

    A repeat of the stored first key or of the latest `event_id` changes nothing: the same object
    comes back. `pending` is None while nothing is free; a reserved receipt does not count, so a
    fact that arrives meanwhile opens a new one (W-064).
    """
    if pending is None:
        return Pending(event_key=event_key, payload=payload)
    if event_key in (pending.event_key, pending.payload.get("event_id")):
        return pending
    return Pending(event_key=pending.event_key, payload=merge(pending.payload, payload))


def merge(stored: Json, incoming: Json) -> dict[str, Any]:
    """Lay a newer payload over an older one of the same type (W-063, W-065).

    The newest facts win, counts are added, the first time stays. Actors and source runs become
    the union of both, in order of appearance; what exceeds 32 is left out and the marker
    `actors_more` or `source_task_ids_more` says so. Both arguments stay untouched.
    """
    merged: dict[str, Any] = {
        **incoming,
        "coalesced_count": facts_count(stored) + facts_count(incoming),
        "first_occurred_at": _first_occurred_at(stored, incoming),
    }
    _unite(merged, "actors", [_actors(stored), _actors(incoming)], (stored, incoming))
    _unite(merged, "source_task_ids", [_sources(stored), _sources(incoming)], (stored, incoming))
    return merged


def facts_count(payload: Json) -> int:
    """Return for how many facts a payload stands, at least one (W-040)."""
    count = payload.get("coalesced_count")
    return count if isinstance(count, int) and count > 1 else 1


def _first_occurred_at(stored: Json, incoming: Json) -> Any:
    # A null is kept: the first fact's time is unknown, and a later one's would be false (W-017).
    for payload in (stored, incoming):
        for key in ("first_occurred_at", "occurred_at"):
            if key in payload:
                return payload[key]
    return None


def _actors(payload: Json) -> list[Any] | None:
    """Return who stands behind a payload; None if it does not say (older payloads, W-040)."""
    actors = payload.get("actors")
    if isinstance(actors, list):
        return actors
    if "actor_type" in payload:
        return [{"type": payload["actor_type"], "id": payload.get("actor_id")}]
    return None


def _sources(payload: Json) -> list[Any]:
    """Return the runs behind a payload."""
    sources = payload.get("source_task_ids")
    if isinstance(sources, list):
        return sources
    source = payload.get("source_task_id")
    return [] if source is None else [source]


def _unite(
    merged: dict[str, Any], key: str, sets: list[list[Any] | None], payloads: tuple[Json, Json]
) -> None:
    """Write the union of `sets` under `key`; mark it if it does not name everybody."""
    union: list[Any] = []
    is_whole = True
    for members in sets:
        if members is None:
            is_whole = False
            continue
        union.extend(member for member in members if member not in union)
    more = f"{key}_more"
    if len(union) > ACTORS_MAX or not is_whole or any(more in payload for payload in payloads):
        merged[more] = True
    merged[key] = union[:ACTORS_MAX]
