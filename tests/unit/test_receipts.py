"""Receipts as values: states, coalescing, merging."""

import copy
from typing import Any

import pytest

from engine.domain.receipts import Pending, ReceiptState, coalesce, facts_count, merge, state_of
from tests.unit.samples import AGENT, MEMBER, NOW, OTHER, RUN, a_payload, an_id


@pytest.mark.parametrize(
    ("task_id", "processed_at", "state"),
    [
        (None, None, ReceiptState.FREE),
        (RUN, None, ReceiptState.RESERVED),
        (RUN, NOW, ReceiptState.CONSUMED),
        (None, NOW, ReceiptState.DISCARDED),
    ],
)
def test_states(task_id: Any, processed_at: Any, state: ReceiptState) -> None:
    """W-061: two columns tell free, reserved, consumed and discarded apart."""
    assert state_of(task_id, processed_at) is state


def test_the_first_fact_opens_a_receipt() -> None:
    """W-062: without a free receipt of the type a fact opens one under its own key."""
    payload = a_payload(number=1)
    assert coalesce(None, "key-1", payload) == Pending(event_key="key-1", payload=payload)


def test_a_merge_keeps_the_first_and_shows_the_newest() -> None:
    """W-063: newest payload, added count, first time and first key."""
    first = coalesce(None, "key-1", a_payload(number=1, comment_id="a"))
    both = coalesce(first, "key-2", a_payload(number=2, comment_id="b"))
    assert both.event_key == "key-1"
    assert both.payload["event_id"] == "key-2"
    assert both.payload["comment_id"] == "b"
    assert both.payload["coalesced_count"] == 2
    assert both.payload["first_occurred_at"] == a_payload(number=1)["occurred_at"]
    assert both.payload["occurred_at"] == a_payload(number=2)["occurred_at"]


def test_repeats_are_not_counted() -> None:
    """W-062: a repeat of the first key or of the latest event changes nothing."""
    pending = coalesce(None, "key-1", a_payload(number=1))
    pending = coalesce(pending, "key-2", a_payload(number=2))
    assert coalesce(pending, "key-1", a_payload(number=1)) is pending
    assert coalesce(pending, "key-2", a_payload(number=2)) is pending
    assert coalesce(pending, "key-3", a_payload(number=3)).payload["coalesced_count"] == 3


def test_a_merge_names_all_actors_and_source_runs() -> None:
    """W-065: two comments by an agent and one by a member name both, in order of appearance."""
    run = an_id(77)
    payload = a_payload(number=1, actor=("agent", AGENT), source=run)
    for number, actor, source in [
        (2, ("agent", AGENT), run),
        (3, ("member", MEMBER), None),
        (4, ("system", None), an_id(78)),
    ]:
        payload = merge(payload, a_payload(number=number, actor=actor, source=source))
    assert payload["actors"] == [
        {"type": "agent", "id": str(AGENT)},
        {"type": "member", "id": str(MEMBER)},
        {"type": "system", "id": None},
    ]
    assert payload["source_task_ids"] == [str(run), str(an_id(78))]
    assert payload["coalesced_count"] == 4
    assert "actors_more" not in payload
    assert "source_task_ids_more" not in payload


def test_an_overflowing_set_is_marked_for_good() -> None:
    """W-065: 32 actors and source runs are kept, then a marker says that there were more."""
    payload = a_payload(actor=("member", an_id(100)), source=an_id(100))
    for number in range(101, 132):
        payload = merge(payload, a_payload(actor=("member", an_id(number)), source=an_id(number)))
    assert len(payload["actors"]) == len(payload["source_task_ids"]) == 32
    assert "actors_more" not in payload
    payload = merge(payload, a_payload(actor=("member", OTHER), source=OTHER))
    assert len(payload["actors"]) == len(payload["source_task_ids"]) == 32
    payload = merge(payload, a_payload(actor=("member", an_id(100)), source=an_id(100)))
    assert payload["actors_more"] is True
    assert payload["source_task_ids_more"] is True


def test_a_merge_of_two_merged_payloads_adds_both() -> None:
    """W-065: two sets that only together exceed 32 are marked, and both counts are added."""

    def twenty(start: int) -> dict[str, Any]:
        payload = a_payload(actor=("member", an_id(start)))
        for number in range(start + 1, start + 20):
            payload = merge(payload, a_payload(actor=("member", an_id(number))))
        return payload

    both = merge(twenty(100), twenty(200))
    assert both["coalesced_count"] == 40
    assert len(both["actors"]) == 32
    assert both["actors_more"] is True


def test_payloads_without_newer_fields_merge() -> None:
    """W-040: an older payload without bookkeeping counts once and makes the set of actors open."""
    merged = merge({"event_type": "task.completed", "task_id": "t"}, a_payload())
    assert merged["coalesced_count"] == 2
    assert merged["first_occurred_at"] == a_payload()["first_occurred_at"]
    assert merged["actors"] == [{"type": "member", "id": str(MEMBER)}]
    assert merged["actors_more"] is True
    assert merge({}, {}) == {
        "coalesced_count": 2,
        "first_occurred_at": None,
        "actors": [],
        "actors_more": True,
        "source_task_ids": [],
    }


def test_single_actor_and_source_stand_for_missing_sets() -> None:
    """W-065: where a payload has no sets, its own actor and source run are the set."""
    old = {"actor_type": "agent", "actor_id": str(AGENT), "source_task_id": str(RUN)}
    merged = merge(old, a_payload())
    assert merged["actors"][0] == {"type": "agent", "id": str(AGENT)}
    assert merged["source_task_ids"] == [str(RUN)]
    assert "actors_more" not in merged


def test_an_unknown_first_time_stays_unknown() -> None:
    """W-017: the null time of a registration snapshot is not replaced by a later fact's."""
    snapshot = a_payload("task.completed", occurred_at=None, first_occurred_at=None)
    assert merge(snapshot, a_payload("task.completed"))["first_occurred_at"] is None


def test_merging_leaves_its_arguments_alone() -> None:
    """W-063: a merge makes a new payload; what a consumer has read does not change under it."""
    stored, incoming = a_payload(number=1), a_payload(number=2, actor=("agent", AGENT))
    before = copy.deepcopy((stored, incoming))
    merge(stored, incoming)
    assert (stored, incoming) == before


@pytest.mark.parametrize("count", [None, 0, -3, 1, "7", 1.5, True])
def test_a_payload_counts_at_least_once(count: Any) -> None:
    """W-040: a missing or senseless count is one fact."""
    assert facts_count({"coalesced_count": count}) == 1
    assert facts_count({}) == 1
    assert facts_count({"coalesced_count": 5}) == 5
