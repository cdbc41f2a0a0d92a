"""What callers may ask of the engine: one frozen record per use case, one module an aggregate.

A command changes something and goes through `Engine.submit`; a query only reads and goes through
`Engine.read`. Ids are already parsed, texts are not validated yet: that is the use case's part.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

import attrs


class _Unset(Enum):
    UNSET = "unset"


UNSET: Final = _Unset.UNSET
"""The value of a field that a PATCH did not send; None is a value of its own."""

Unset: TypeAlias = Literal[_Unset.UNSET]


@attrs.frozen
class Kept:
    """What is kept of the answer to a request: HTTP status and body, in case it arrives again."""

    status: int
    body: str


@attrs.frozen(kw_only=True)
class Once:
    """A key under which a change is carried out at most once by its caller (W-033).

    `digest` stands for the request: another one under the same key is an error. `render` makes of
    the result what is kept of it, without secrets.
    """

    route: str
    key: str
    digest: bytes
    render: Callable[[Any], Kept]


@attrs.frozen(kw_only=True)
class Command:
    """A change. `workspace_id` is the workspace that the call is about, once it is known.

    With `once` the engine answers `Kept` where the change was made before.
    """

    workspace_id: UUID | None = None
    once: Once | None = None


@attrs.frozen(kw_only=True)
class IssueCommand(Command):
    """A change on one issue: it runs in the issue's actor, one after the other."""

    issue_id: UUID


@attrs.frozen(kw_only=True)
class Query:
    """A question. `workspace_id` as in `Command`."""

    workspace_id: UUID | None = None
