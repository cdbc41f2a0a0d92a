"""All routes, in the order in which the description shows them."""

from __future__ import annotations

from typing import Final

from web.api import (
    attachments,
    catalogue,
    comments,
    daemon,
    inbox,
    instance,
    inventory,
    issues,
    reactions,
    runs,
    tracker,
    wakeups,
)
from web.routing import Route

ROUTES: Final[tuple[Route, ...]] = (
    *tracker.routes,
    *catalogue.routes,
    *issues.routes,
    *comments.routes,
    *reactions.routes,
    *attachments.routes,
    *inbox.routes,
    *runs.routes,
    *wakeups.routes,
    *inventory.routes,
    *daemon.routes,
    *instance.routes,
)
