"""How the instance is: open to everybody, because a load balancer has no token."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from web.routing import ANYBODY, Answer, Call, Routes, Scope
from web.schemas.inputs import Nothing

routes: Final = Routes("Instance", kinds=ANYBODY, scope=Scope.INSTANCE)


@routes("GET", "/health", answers=Mapping[str, str])
async def get_health(call: Call[Nothing]) -> Any:
    """Say that the process is alive, without looking at the database."""
    return call.engine.health()


@routes(
    "GET",
    "/ready",
    answers=Mapping[str, Any],
    statuses=(HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE),
)
async def get_readiness(call: Call[Nothing]) -> Answer:
    """Say whether requests can be served, with the state of each part."""
    is_ready, state = await call.engine.ready()
    return Answer(state, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)
