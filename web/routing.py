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
from urllib.parse import quote
from uuid import UUID

import attrs
from quart import Request, Response
from werkzeug.http import dump_options_header

from engine import limits
from engine.app import Engine
from engine.domain.attachments import UNKNOWN_TYPE
from engine.domain.commands import Command, Kept, Query
from engine.domain.principal import NOBODY, Principal, PrincipalKind
from engine.errors import invalid, not_found
from web import auth, body, keys, wire
from web.admission import LongPolls
from web.schemas.inputs import Input, Nothing, parse_uuid

I = TypeVar("I", bound=Input)  # noqa: E741 - input, as in `Call[NewIssue]`

MEMBERS: Final = frozenset({PrincipalKind.MEMBER})
PEOPLE: Final = frozenset({PrincipalKind.MEMBER, PrincipalKind.RUN})
DAEMONS: Final = frozenset({PrincipalKind.DAEMON})
ANYBODY: Final = frozenset[PrincipalKind]()
TEXTS: Final = frozenset({"emoji"})  # what a path may name that is no id
_ATTR_CHARS: Final = "!#$&+-.^_`|~"  # beside letters and digits, RFC 8187
_FILE_POLICY: Final = "default-src 'none'; sandbox; frame-ancestors 'none'"


def identity(view: Any) -> Any:
    """Return a view as it is."""
    return view


class Scope(Enum):
    """What a call is about; everything but the instance is looked up before the handler runs."""

    INSTANCE = auto()
    WORKSPACE = auto()
    ISSUE = auto()


@attrs.frozen(kw_only=True)
class Call(Generic[I]):
    """One request, understood: who calls, about what, with which input.

    `query` is the query of a request that has a body besides, as the route's `asks` says.
    """

    engine: Engine
    polls: LongPolls
    principal: Principal
    input: I
    query: Any
    workspace_id: UUID | None
    issue: UUID | None
    ids: Mapping[str, UUID]
    texts: Mapping[str, str]
    key: keys.Key | None = None
    status: HTTPStatus = HTTPStatus.OK

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

    @property
    def text(self) -> str:
        """The text in the path that is no id."""
        (found,) = self.texts.values()
        return found

    async def submit(self, command: Command, answer: Callable[[Any], Any] = identity) -> Any:
        """Have the engine carry out a change as the caller; it ends even if this wait does not.

        Returns what `answer` makes of the view. With a key a change that was made before is not
        made again, and its answer comes back (W-033).
        """
        if self.key is not None:
            once = self.key.once(lambda view: _unpack(answer(view), self.status))
            command = attrs.evolve(command, once=once)
        view = await self.engine.submit(self.principal, command)
        return view if isinstance(view, Kept) else answer(view)

    async def read(self, query: Query) -> Any:
        """Ask the engine as the caller."""
        return await self.engine.read(self.principal, query)


@attrs.frozen
class Answer:
    """A view with a status other than the route's first."""

    view: object
    status: HTTPStatus


@attrs.frozen(kw_only=True)
class Download:
    """A file to be kept by who asked for it: never shown, and nothing in it is run."""

    filename: str
    content: bytes


Handler = Callable[[Call[Any]], Awaitable[object]]


@attrs.frozen(kw_only=True)
class Route:
    """One method of one address, declared completely.

    `answers` is the type of the view, None for an empty answer, `Download` for a file. A route that
    `polls` may wait for long without doing anything: its client may leave, and a server that stops
    ends it. One that takes `uploads` takes a form with a file in place of its input, too. One that
    `asks` has a query beside its body.
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
    uploads: type[Input] | None
    asks: type[Input] | None

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
        uploads: type[Input] | None = None,
        asks: type[Input] | None = None,
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
                uploads=uploads,
                asks=asks,
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
    key_text = keys.read(request, taken=not route.kinds <= DAEMONS)
    read, fields = await _input(route, request)
    asked = None if route.asks is None else route.asks.read(body.query(request.query_string))
    ids = {name: _id(name, text) for name, text in path.items() if name not in TEXTS | {"issue"}}
    workspace_id = issue = None
    if route.scope is not Scope.INSTANCE:
        workspace_id = await auth.workspace(engine, request, principal)
    if route.scope is Scope.ISSUE:
        assert workspace_id is not None
        issue = await _issue(engine, principal, workspace_id, path["issue"])
    key = None
    if key_text is not None:
        key = keys.Key(
            route=f"{route.method} {route.path}",
            text=key_text,
            digest=keys.digest(request.path, workspace_id, fields),
        )
    answer = await route.handler(
        Call(
            engine=engine,
            polls=polls,
            principal=principal,
            input=read,
            query=asked,
            workspace_id=workspace_id,
            issue=issue,
            ids=ids,
            texts={name: text for name, text in path.items() if name in TEXTS},
            key=key,
            status=route.statuses[0],
        )
    )
    return respond(answer, route.statuses[0])


async def _input(route: Route, request: Request) -> tuple[Input, Mapping[str, Any]]:
    """Return the input of a request, and the fields that it was made of."""
    if not route.has_body:
        fields: Mapping[str, Any] = body.query(request.query_string)
        return route.takes.read(fields), fields
    raw = await body.read(request, route.bytes_max, files=route.uploads is not None)
    if route.uploads is not None and body.is_upload(request):
        fields = body.upload(raw, request.mimetype_params.get("boundary"))
        return route.uploads.read(fields), fields
    fields = body.parse(raw)
    return route.takes.read(fields), fields


def respond(answer: object, status: HTTPStatus) -> Response:
    """Return the response with a view, or an empty one for a status that says it all."""
    status, shown = _unpack(answer, status)
    if status is HTTPStatus.NO_CONTENT:
        response = Response(b"", status=status)
        del response.headers["Content-Type"], response.headers["Content-Length"]
    elif isinstance(shown, Download):
        response = _download(shown)
    else:
        text = shown.body if isinstance(shown, Kept) else wire.dumps(shown)
        response = Response(text, status=status, content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response


def _download(file: Download) -> Response:
    """Return a file as RFC 6266 has it; what it calls itself decides nothing about its use."""
    response = Response(file.content, content_type=UNKNOWN_TYPE)
    name = {"filename": file.filename}
    if not file.filename.isascii():
        name = {"filename*": f"UTF-8''{quote(file.filename, safe=_ATTR_CHARS)}"}
    response.headers["Content-Disposition"] = dump_options_header("attachment", name)
    response.headers["Content-Security-Policy"] = _FILE_POLICY
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _unpack(answer: Any, status: HTTPStatus) -> tuple[HTTPStatus, Any]:
    """Return the status of an answer, which is `status` unless it says another, and its view."""
    match answer:
        case Answer(view=view, status=status):
            return status, view
        case Kept(status=number):
            return HTTPStatus(number), answer
        case _:
            return status, answer


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
