"""What callers may ask of the engine: one frozen record per use case, one module an aggregate.

A command changes something and goes through `Engine.submit`; a query only reads and goes through
`Engine.read`. Ids are already parsed, texts are not validated yet: that is the use case's part.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias
from uuid import UUID

import attrs


class _Unset(Enum):
    UNSET = "unset"


UNSET: Final = _Unset.UNSET
"""The value of a field that a PATCH did not send; None is a value of its own."""

Unset: TypeAlias = Literal[_Unset.UNSET]


@attrs.frozen(kw_only=True)
class Command:
    """A change. `workspace_id` is the workspace that the call is about, once it is known."""

    workspace_id: UUID | None = None


@attrs.frozen(kw_only=True)
class IssueCommand(Command):
    """A change on one issue: it runs in the issue's actor, one after the other."""

    issue_id: UUID


@attrs.frozen(kw_only=True)
class Query:
    """A question. `workspace_id` as in `Command`."""

    workspace_id: UUID | None = None
