"""Declares routes: what each takes, what it answers, who may call it; once, for all readers.

A `Route` is what Quart dispatches to and what the OpenAPI description is made of. `serve` does
what every route has in common, in this order: credentials, headers that ask for what there is not,
body or query, workspace, issue, then the handler; each step refuses with an error that the
application turns into a problem.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import attrs
from quart import Request, Response

from engine import limits
from engine.app import Engine
from engine.domain.commands import Command, Query
from engine.domain.principal import NOBODY, Principal, PrincipalKind
from engine.errors import invalid, not_found
from web import auth, body, wire
from web.admission import LongPolls
from web.schemas.inputs import Input, Nothing, parse_uuid

I = TypeVar("I", bound=Input)  # noqa: E741 - input, as in `Call[NewIssue]`

MEMBERS: Final = frozenset({PrincipalKind.MEMBER})
PEOPLE: Final = frozenset({PrincipalKind.MEMBER, PrincipalKind.RUN})
DAEMONS: Final = frozenset({PrincipalKind.DAEMON})
ANYBODY: Final = frozenset[PrincipalKind]()
_KEY_HEADER: Final = "Idempotency-Key"


class Scope(Enum):
    """What a call is about; everything but the instance is looked up before the handler runs."""

    INSTANCE = auto()
    WORKSPACE = auto()
    ISSUE = auto()


@attrs.frozen(kw_only=True)
class Call(Generic[I]):
    """One request, understood: who calls, about what, with which input."""

    engine: Engine
    polls: LongPolls
    principal: Principal
    input: I
    workspace_id: UUID | None
    issue: UUID | None
    ids: Mapping[str, UUID]

    @property
    def issue_id(self) -> UUID:
        """The issue that the path names."""
        assert self.issue is not None, "the route is not about an issue"
        return self.issue

    @property
    def id(self) -> UUID:
        """The id in the path that is not the issue's."""
        (found,) = self.ids.values()
        return found

    async def submit(self, command: Command) -> Any:
        """Have the engine carry out a change as the caller; it ends even if this wait does not."""
        return await self.engine.submit(self.principal, command)

    async def read(self, query: Query) -> Any:
        """Ask the engine as the caller."""
        return await self.engine.read(self.principal, query)


@attrs.frozen
class Answer:
    """A view with a status other than the route's first."""

    view: object
    status: HTTPStatus


Handler = Callable[[Call[Any]], Awaitable[object]]


@attrs.frozen(kw_only=True)
class Route:
    """One method of one address, declared completely.

    `answers` is the type of the view, None for an empty answer. A route that `polls` may wait for
    long without doing anything: its client may leave, and a server that stops ends it.
    """

    method: str
    path: str
    tag: str
    handler: Handler
    takes: type[Input]
    answers: Any
    statuses: tuple[HTTPStatus, ...]
    kinds: frozenset[PrincipalKind]
    scope: Scope
    bytes_max: int
    polls: bool

    @property
    def name(self) -> str:
        """The name of the handler, unique among all routes."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """What the route does, in the words of its handler."""
        return (self.handler.__doc__ or "").strip()

    @property
    def has_body(self) -> bool:
        """Whether the input is the body; else it is the query."""
        return self.method != "GET"


class Routes:
    """The routes of one module, declared by decorating their handlers."""

    def __init__(
        self,
        tag: str,
        *,
        kinds: frozenset[PrincipalKind] = PEOPLE,
        scope: Scope = Scope.WORKSPACE,
    ) -> None:
        self._tag = tag
        self._kinds = kinds
        self._scope = scope
        self._routes: list[Route] = []

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes)

    def __call__(  # noqa: PLR0913 - a declaration names everything that it declares
        self,
        method: str,
        path: str,
        *,
        takes: type[I] = Nothing,  # type: ignore[assignment]  # the default of I, PEP 696
        answers: Any = None,
        statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,),
        kinds: frozenset[PrincipalKind] | None = None,
        scope: Scope | None = None,
        bytes_max: int = limits.BODY_BYTES_MAX,
        polls: bool = False,
    ) -> Callable[[Callable[[Call[I]], Awaitable[object]]], Handler]:
        """Declare the decorated function as the handler of a method and an address.

        An address that names an `{issue}` is about that issue, by its id or its identifier.
        """
        if scope is None:
            scope = Scope.ISSUE if "{issue}" in path else self._scope

        def declare(handler: Callable[[Call[I]], Awaitable[object]]) -> Handler:
            route = Route(
                method=method,
                path=path,
                tag=self._tag,
                handler=handler,
                takes=takes,
                answers=answers,
                statuses=statuses if answers is not None else (HTTPStatus.NO_CONTENT,),
                kinds=self._kinds if kinds is None else kinds,
                scope=scope,
                bytes_max=bytes_max,
                polls=polls,
            )
            self._routes.append(route)
            return handler

        return declare


async def serve(
    route: Route, engine: Engine, polls: LongPolls, request: Request, path: Mapping[str, str]
) -> Response:
    """Answer one request on a route. Raises `WakefulError` for what it refuses."""
    principal = NOBODY
    if route.kinds:
        principal = await auth.authenticate(engine, request, route.kinds)
    _refuse_key(route, request)
    if route.has_body:
        fields = body.parse(await body.read(request, route.bytes_max))
    else:
        fields = body.query(request.query_string)
    read = route.takes.read(fields)
    ids = {name: _id(name, text) for name, text in path.items() if name != "issue"}
    workspace_id = issue = None
    if route.scope is not Scope.INSTANCE:
        workspace_id = await auth.workspace(engine, request, principal)
    if route.scope is Scope.ISSUE:
        assert workspace_id is not None
        issue = await _issue(engine, principal, workspace_id, path["issue"])
    answer = await route.handler(
        Call(
            engine=engine,
            polls=polls,
            principal=principal,
            input=read,
            workspace_id=workspace_id,
            issue=issue,
            ids=ids,
        )
    )
    return respond(answer, route.statuses[0])


def respond(answer: object, status: HTTPStatus) -> Response:
    """Return the response with a view, or an empty one for a status that says it all."""
    match answer:
        case Answer(view=view, status=status):
            answer = view
        case _:
            pass
    if status is HTTPStatus.NO_CONTENT:
        response = Response(b"", status=status)
        del response.headers["Content-Type"], response.headers["Content-Length"]
    else:
        response = Response(wire.dumps(answer), status=status, content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _refuse_key(route: Route, request: Request) -> None:
    """Refuse a key that nothing would keep: its sender would repeat the call in good faith."""
    if route.method == "POST" and _KEY_HEADER in request.headers:
        raise invalid(_KEY_HEADER, "idempotency keys are not available yet; send none")


def _id(name: str, text: str) -> UUID:
    """Return an id in a path; a text that cannot be one names nothing."""
    try:
        return parse_uuid(text)
    except ValueError:
        raise not_found(name) from None


async def _issue(engine: Engine, principal: Principal, workspace_id: UUID, text: str) -> UUID:
    if len(text) > limits.HEADER_CHARS_MAX:
        raise invalid("issue", "the path names no issue")
    return await engine.resolve_issue(principal, workspace_id, text)
