"""Idempotency keys: a POST that arrives again under its key is answered, not repeated (W-033).

The key's request is told from others by a digest; what the engine keeps is the answer as it went
out, without the tokens that are shown only once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

import attrs
from quart import Request

from engine import limits
from engine.domain.commands import Kept, Once
from engine.errors import invalid
from web import wire

HEADER: Final = "Idempotency-Key"
_KEY: Final = re.compile(rf"[ -~]{{1,{limits.IDEMPOTENCY_KEY_CHARS_MAX}}}")
_SHOWN_ONCE: Final = "token"

Unpack = Callable[[Any], tuple[HTTPStatus, Any]]


@attrs.frozen(kw_only=True)
class Key:
    """A key with the route that it belongs to and the digest of its request."""

    route: str
    text: str
    digest: bytes

    def once(self, unpack: Unpack) -> Once:
        """Return what the engine has to know; `unpack` makes status and view of a result."""
        return Once(
            route=self.route, key=self.text, digest=self.digest, render=partial(_render, unpack)
        )


def read(request: Request, *, taken: bool) -> str | None:
    """Return the key of a POST, None for a request without one.

    Raises 400 for a text that is no key, and where no key is `taken`: its sender would repeat the
    call in good faith.
    """
    given = request.headers.getlist(HEADER) if request.method == "POST" else []
    if not given:
        return None
    if not taken:
        raise invalid(HEADER, "the calls of daemons may be repeated as they are; send no key")
    if len(given) > 1 or not _KEY.fullmatch(given[0]):
        characters = limits.IDEMPOTENCY_KEY_CHARS_MAX
        raise invalid(HEADER, f"a key has 1 to {characters} printable ASCII characters")
    return given[0]


def digest(path: str, workspace_id: UUID | None, fields: Mapping[str, Any]) -> bytes:
    """Return what tells one request from another: where it goes, and what it says."""
    said = [path, str(workspace_id), fields]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).digest()


def _render(unpack: Unpack, result: Any) -> Kept:
    status, view = unpack(result)
    if status is HTTPStatus.NO_CONTENT:
        return Kept(status, "")
    if hasattr(view, _SHOWN_ONCE):
        view = attrs.evolve(view, **{_SHOWN_ONCE: None})
    return Kept(status, wire.dumps(view).decode())
