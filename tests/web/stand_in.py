"""An engine that only remembers what it was asked: for tests of the transport, not of the product.

Its contract is the part of `engine.app.Engine` that the web uses. Every answer is a sample of the
view that the route promises, unless a test says what happens instead.
"""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime
from enum import StrEnum
from types import UnionType
from typing import Any, Final, TypeVar, Union
from uuid import UUID

import attrs

from engine.domain.commands import Command, Query
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.errors import WakefulError, not_found
from engine.metrics import Metrics
from engine.work import WorkLedger

WORKSPACE: Final = UUID(int=0x100)
OTHER_WORKSPACE: Final = UUID(int=0x200)
ISSUE: Final = UUID(int=0x101)
RUN: Final = UUID(int=0x102)
USER: Final = UUID(int=0x103)
AGENT: Final = UUID(int=0x104)

MEMBER: Final = "wkm_member"
WANDERER: Final = "wkm_wanderer"
ADMINISTRATOR: Final = "wkm_administrator"
RUN_TOKEN: Final = "wkr_run"
DAEMON: Final = "wkd_daemon"

PRINCIPALS: Final[Mapping[str, Principal]] = {
    MEMBER: Principal(kind=PrincipalKind.MEMBER, user_id=USER, roles={WORKSPACE: Role.OWNER}),
    WANDERER: Principal(
        kind=PrincipalKind.MEMBER,
        user_id=USER,
        roles={WORKSPACE: Role.MEMBER, OTHER_WORKSPACE: Role.ADMIN},
    ),
    ADMINISTRATOR: Principal(kind=PrincipalKind.MEMBER, user_id=USER, instance_admin=True),
    RUN_TOKEN: Principal(
        kind=PrincipalKind.RUN,
        workspace_id=WORKSPACE,
        agent_id=AGENT,
        run_id=RUN,
        originator_user_id=USER,
    ),
    DAEMON: Principal(kind=PrincipalKind.DAEMON, workspace_id=WORKSPACE),
}

Asked = Command | Query


class StandInEngine:
    """Remembers every command and query in `asked`; `answer` decides what they return."""

    def __init__(self, answers: Mapping[type[Any], Any]) -> None:
        self.ledger = WorkLedger()
        self.metrics = Metrics()
        self.stop_grace_seconds = 5.0
        self.asked: list[Asked] = []
        self.callers: list[Principal] = []
        self.is_ready = True
        self._answers = answers
        self.answer: Callable[[Asked], Awaitable[Any]] = self.sample

    async def sample(self, asked: Asked) -> Any:
        """Return a sample of the view that belongs to the question."""
        return sample(self._answers[type(asked)])

    async def submit(self, caller: Principal, command: Command) -> Any:
        """Remember a command and answer it."""
        return await self._ask(caller, command)

    async def read(self, caller: Principal, query: Query) -> Any:
        """Remember a query and answer it."""
        return await self._ask(caller, query)

    async def claim(self, caller: Principal, command: Command) -> Any:
        """Remember a claim and answer it."""
        return await self._ask(caller, command)

    async def _ask(self, caller: Principal, asked: Asked) -> Any:
        self.asked.append(asked)
        self.callers.append(caller)
        return await self.answer(asked)

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of one of the tokens."""
        if token not in PRINCIPALS:
            raise WakefulError("not_authenticated", "The token means nothing.")
        return PRINCIPALS[token]

    async def resolve_workspace(self, caller: Principal, ref: str | None) -> UUID:
        """Return the workspace with this id, or the caller's only one."""
        if ref is None and len(caller.workspace_ids) == 1:
            return next(iter(caller.workspace_ids))
        for found in caller.workspace_ids:
            if str(found) == ref:
                return found
        if ref is None:
            raise WakefulError("missing_field", "Name a workspace.", field="X-Workspace-ID")
        raise not_found("workspace")

    async def resolve_issue(self, _caller: Principal, _workspace_id: UUID, ref: str) -> UUID:
        """Return the one issue there is, by its id or as WF-12."""
        if ref not in {"WF-12", str(ISSUE)}:
            raise not_found("issue")
        return ISSUE

    def health(self) -> dict[str, str]:
        """Return what a started engine says of itself."""
        return {"status": "ok", "version": "0.0.0", "startup": "complete"}

    async def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return what the test has set."""
        return self.is_ready, {"database": "up" if self.is_ready else "down"}

    async def exposition(self) -> bytes:
        """Return the counters that the transport keeps, and no readings."""
        return self.metrics.text({})


_SAMPLES: Final[Mapping[Any, Any]] = {
    Any: {"any": "thing"},
    str: "text",
    bytes: b"\x00\xff",
    int: 7,
    float: 1.5,
    bool: True,
    None: None,
    type(None): None,
    UUID: UUID(int=0xABC),
    datetime: datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    date: date(2030, 1, 2),
}


def sample(kind: Any, variables: Mapping[Any, Any] | None = None) -> Any:
    """Return a value of an annotation, with every optional part present."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    kind = (variables or {}).get(kind, kind) if isinstance(kind, TypeVar) else kind
    if kind in _SAMPLES:
        return _SAMPLES[kind]
    if origin in {Union, UnionType}:
        return sample(arguments[0], variables)
    if origin is tuple:
        return (sample(arguments[0], variables),)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return next(iter(kind))
    if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
        return {"key": sample(arguments[1] if arguments else Any)}
    return _sample_view(origin or kind, arguments)


def _sample_view(view: Any, arguments: tuple[Any, ...]) -> Any:
    bound = dict(zip(getattr(view, "__parameters__", ()), arguments, strict=True))
    hints = typing.get_type_hints(view)
    return view(**{field.name: sample(hints[field.name], bound) for field in attrs.fields(view)})
