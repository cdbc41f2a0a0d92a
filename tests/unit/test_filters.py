from __future__ import annotations

from uuid import UUID

import pytest

from engine.domain.filters import Filters, actor_words, parse_filters, run_words
from engine.errors import WakefulError

AGENT, RUN, PERSON = UUID(int=1), UUID(int=2), UUID(int=3)
RUNS, CHANGES = ("task.completed", "task.failed"), ("comment.created", "issue.status_changed")
MIXED = (*RUNS, *CHANGES)


@pytest.mark.parametrize(
    ("filters", "event_types"),
    [
        (Filters(), RUNS),
        (Filters(), CHANGES),
        (Filters(agent_id=AGENT), RUNS),
        (Filters(task_id=RUN), RUNS),
        (Filters(agent_id=AGENT, task_id=RUN), RUNS),
        (Filters(agent_id=AGENT), MIXED),
        (Filters(actor_type="member", actor_id=PERSON), CHANGES),
        (Filters(actor_type="agent", actor_id=AGENT), CHANGES),
    ],
)
def test_valid_filters_are_kept(filters: Filters, event_types: tuple[str, ...]) -> None:
    """W-053, W-054, W-055, W-057: admissible filters are stored as they were sent."""
    assert parse_filters(filters, event_types) == filters


def test_agent_filter_on_changes_becomes_an_actor() -> None:
    """W-057: with changes only, `filter_agent_id` is stored as the actor pair."""
    stored = parse_filters(Filters(agent_id=AGENT), CHANGES)
    assert stored == Filters(actor_type="agent", actor_id=AGENT)


@pytest.mark.parametrize(
    ("filters", "event_types", "field"),
    [
        (Filters(actor_type="member"), CHANGES, "filter_actor_id"),
        (Filters(actor_id=PERSON), CHANGES, "filter_actor_type"),
        (Filters(actor_type="system", actor_id=PERSON), CHANGES, "filter_actor_type"),
        (Filters(actor_type="", actor_id=PERSON), CHANGES, "filter_actor_type"),
        (Filters(actor_type="member", actor_id=PERSON), RUNS, "filter_actor_type"),
        (Filters(actor_type="member", actor_id=PERSON), MIXED, "filter_actor_type"),
        (
            Filters(actor_type="agent", actor_id=AGENT, agent_id=AGENT),
            CHANGES,
            "filter_agent_id",
        ),
        (Filters(actor_type="agent", actor_id=AGENT, task_id=RUN), CHANGES, "filter_task_id"),
        (Filters(actor_type="agent", actor_id=AGENT, task_id=RUN), RUNS, "filter_task_id"),
        (Filters(task_id=RUN), CHANGES, "filter_task_id"),
        (Filters(task_id=RUN), MIXED, "filter_task_id"),
        (Filters(task_id=RUN, agent_id=AGENT), CHANGES, "filter_task_id"),
    ],
)
def test_bad_combinations_are_refused(
    filters: Filters, event_types: tuple[str, ...], field: str
) -> None:
    """W-054, W-055: half a pair, mixed families and mixed filters are invalid."""
    with pytest.raises(WakefulError) as caught:
        parse_filters(filters, event_types)
    assert caught.value.code == "invalid_filter"
    assert caught.value.details == {"field": field}


def test_emptiness() -> None:
    """W-053: a rule without filters is one that restricts nothing."""
    assert Filters().is_empty
    assert not Filters(task_id=RUN).is_empty


@pytest.mark.parametrize(
    ("filters", "name", "actor", "run"),
    [
        (Filters(), None, "someone", "a run"),
        (Filters(agent_id=AGENT), None, "the selected agent", "the selected agent's run"),
        (Filters(agent_id=AGENT), "Bo", "Bo", "Bo's run"),
        (Filters(task_id=RUN), None, "someone", "the selected run"),
        (Filters(task_id=RUN, agent_id=AGENT), "Bo", "Bo", "the selected run"),
        (Filters(actor_type="member", actor_id=PERSON), None, "the selected member", "a run"),
        (Filters(actor_type="member", actor_id=PERSON), "Mia", "Mia", "a run"),
        (Filters(actor_type="agent", actor_id=AGENT), "Bo", "Bo", "a run"),
        (Filters(actor_type="agent"), None, "the selected agent", "a run"),
    ],
)
def test_words(filters: Filters, name: str | None, actor: str, run: str) -> None:
    """W-060: the name if the reader may know it, else a generic phrase; also after redaction."""
    assert actor_words(filters, name) == actor
    assert run_words(filters, name) == run
