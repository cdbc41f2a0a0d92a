"""A sound request for every route about the wakeup rules of a whole workspace."""

from __future__ import annotations

from typing import Final

from engine.domain.commands import inventory as ask
from engine.domain.views import inventory as views
from tests.web.sample import IN_PLACE, PAGE, PART, Sample
from tests.web.stand_in import AGENT

_NARROWED: Final = f"scope=all&kind=recurring&source=agent&agent_id={AGENT}&search=100%25"

INVENTORY: Final = (
    Sample(
        "GET",
        f"/issue-wakeups{PAGE}&{_NARROWED}",
        {},
        ask.ListInventory(
            **IN_PLACE,
            **PART,
            scope="all",
            kind="recurring",
            source="agent",
            agent_id=AGENT,
            search="100%",
        ),
        views.InventoryView,
    ),
    Sample(
        "GET",
        "/issue-wakeup-summaries",
        {},
        ask.ListSummaries(**IN_PLACE),
        tuple[views.IssueSummaryView, ...],
    ),
    Sample(
        "GET",
        "/issue-wakeup-paused",
        {},
        ask.ListPaused(**IN_PLACE),
        tuple[views.PausedRuleView, ...],
    ),
)
