"""Credentials: the bearer token of a request to the principal that the engine finds for it.

Who calls is decided by the token alone; no other header and no field of a body has a say (W-193).
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final
from uuid import UUID

from quart import Request

from engine import limits
from engine.app import Engine
from engine.domain.principal import Principal, PrincipalKind
from engine.errors import WakefulError, invalid

WORKSPACE_HEADER: Final = "X-Workspace-ID"
_CREDENTIALS: Final = re.compile(r"bearer +([A-Za-z0-9._~+/=-]+) *", re.IGNORECASE | re.ASCII)


async def authenticate(
    engine: Engine, request: Request, kinds: AbstractSet[PrincipalKind]
) -> Principal:
    """Return who calls, if such callers may use the route at all.

    Raises `not_authenticated` for no, several or unreadable credentials and for a token that means
    nothing (any more), `not_allowed` for a kind of token that the route does not take.
    """
    principal = await engine.authenticate(_token(request))
    if principal.kind not in kinds:
        raise WakefulError("not_allowed", f"A {principal.kind} token cannot do this.")
    return principal


def _token(request: Request) -> str:
    given = request.headers.getlist("Authorization")
    if not given:
        raise WakefulError("not_authenticated", "Send a token as `Authorization: Bearer`.")
    match = _CREDENTIALS.fullmatch(given[0]) if len(given) == 1 else None
    if match is None or len(match[1]) > limits.HEADER_CHARS_MAX:
        raise WakefulError("not_authenticated", "The Authorization header holds no token.")
    return match[1]


async def workspace(engine: Engine, request: Request, principal: Principal) -> UUID:
    """Return the workspace that a request is about: the named one, or the caller's only one.

    Raises `not_found` for one that the caller is not in, `missing_field` when there is a choice.
    """
    named = request.headers.getlist(WORKSPACE_HEADER)
    if len(named) > 1 or any(len(name) > limits.HEADER_CHARS_MAX for name in named):
        raise invalid(WORKSPACE_HEADER, "the header names no workspace")
    return await engine.resolve_workspace(principal, named[0].strip() if named else None)
