"""All routes, in the order in which the description shows them."""

from __future__ import annotations

from typing import Final

from web.api import comments, daemon, instance, issues, runs, tracker, wakeups
from web.routing import Route

ROUTES: Final[tuple[Route, ...]] = (
    *tracker.routes,
    *issues.routes,
    *comments.routes,
    *runs.routes,
    *wakeups.routes,
    *daemon.routes,
    *instance.routes,
)
