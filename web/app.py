"""The web application: every route behind the gate, and the server that runs it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from functools import cache, partial
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, cast

import structlog
import trio
from hypercorn.typing import ASGIFramework
from quart import Response, render_template, request
from quart_trio import QuartTrio

from engine.app import Engine
from engine.errors import KINDS
from engine.metrics import Metrics
from web import openapi, wire
from web.admission import METRICS_PATH, Application, Gate, LongPolls
from web.api import ROUTES
from web.listening import address
from web.openapi import PREFIX
from web.problems import problem_of
from web.routing import Route
from web.routing import serve as serve_route
from web.scrapes import scrape, serve_scrapes
from web.server import run

_log = structlog.get_logger(__name__)
_PAGE_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_REFUSED: Final = "refused"  # what the gate did not let in, and
_UNKNOWN: Final = "unknown"  # what no route is for; the others begin with a slash
_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


class _Application(QuartTrio):
    """Quart, which logs of a failure no more than its type: texts of users stay out of logs."""

    def log_exception(
        self,
        exception_info: tuple[type, BaseException, TracebackType] | tuple[None, None, None],
    ) -> None:
        """Log the type of an exception that escaped the error handler."""
        _log.error("request_crashed", error=getattr(exception_info[0], "__name__", None))


def create_app(engine: Engine) -> Gate:
    """Return the ASGI application of an engine: all routes, behind the gate."""
    application = _Application("web", static_folder=None)
    # One spelling for each address: no redirects, and a slash more at the end changes nothing.
    application.url_map.strict_slashes = False
    application.url_map.merge_slashes = False
    application.config["PROPAGATE_EXCEPTIONS"] = False
    application.config["RESPONSE_TIMEOUT"] = None  # each write has its own (web.server)
    application.register_error_handler(Exception, _refuse)
    application.after_request(_harden)
    application.after_request(partial(_count, engine.metrics))
    polls = LongPolls()
    for route in ROUTES:
        application.add_url_rule(
            PREFIX + route.path.replace("{", "<").replace("}", ">"),
            endpoint=route.name,
            view_func=_view(route, engine, polls),
            methods=[route.method],
            provide_automatic_options=False,
        )
    _describe(application, engine)
    _tell_metrics(application, engine)
    leavable = frozenset(f"{PREFIX}{route.path}" for route in ROUTES if route.polls)
    counts = partial(_count_one, engine.metrics, route=_REFUSED)
    return Gate(cast("Application", application), engine.ledger, polls, leavable, counts)


def _view(route: Route, engine: Engine, polls: LongPolls) -> Callable[..., Awaitable[Response]]:
    async def view(**path: str) -> Response:
        return await serve_route(route, engine, polls, request, path)

    return view


@cache
def _description(version: str) -> tuple[dict[str, Any], bytes]:
    document = openapi.document(ROUTES, version)
    return document, wire.dumps(document)


def _describe(application: QuartTrio, engine: Engine) -> None:
    """Add the description of the API for machines and the page that shows it to people."""
    document, text = _description(engine.health()["version"])

    async def describe_api() -> Response:
        return Response(text, content_type="application/json")

    async def show_api() -> Response:
        page = await render_template("docs.html", document=document, codes=KINDS)
        return Response(page, headers={"Content-Security-Policy": _PAGE_POLICY})

    async def lead_to_docs() -> Response:
        return Response("", status=HTTPStatus.FOUND, headers={"Location": f"{PREFIX}/docs"})

    for path, view in (
        (f"{PREFIX}/openapi.json", describe_api),
        (f"{PREFIX}/docs", show_api),
        ("/", lead_to_docs),
    ):
        application.add_url_rule(path, view_func=view, provide_automatic_options=False)


def _tell_metrics(application: QuartTrio, engine: Engine) -> None:
    async def tell_metrics() -> Response:
        return await scrape(engine, request)

    application.add_url_rule(METRICS_PATH, view_func=tell_metrics, provide_automatic_options=False)


async def _refuse(error: Exception) -> Response:
    answer = problem_of(error)
    return Response(answer.body, status=answer.status, headers=dict(answer.headers))


async def _harden(response: Response) -> Response:
    response.headers.update(_HEADERS)
    return response


async def _count(metrics: Metrics, response: Response) -> Response:
    route = _UNKNOWN if request.url_rule is None else request.url_rule.rule
    _count_one(metrics, request.method, response.status_code, route=route)
    return response


def _count_one(metrics: Metrics, method: str, status: int, *, route: str) -> None:
    """Count a request that was answered; whatever a client makes up is one series (W-256)."""
    method = method if method in _METHODS else "other"
    metrics.requests.labels(method, route, str(status)).inc()


async def serve(
    engine: Engine,
    listener: socket.socket,
    *,
    shutdown: trio.Event,
    scrapes: socket.socket | None = None,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve an engine over HTTP until `shutdown` is set, then finish what was admitted.

    `listener` is bound (web.listening) and closed in the end; its address is reported by
    `task_status` once connections are accepted. `scrapes` is such a socket for the metrics alone.
    After `shutdown` every further request is refused with `stopping`, long polls end, and requests
    in progress have the engine's stop grace to finish; then the sockets close. Raises OSError when
    another process took a port meanwhile.
    """
    gate = create_app(engine)

    async def wait_for_shutdown() -> None:
        await shutdown.wait()
        with trio.move_on_after(engine.stop_grace_seconds):
            await gate.stop()

    where = address(listener)
    async with trio.open_nursery() as nursery:
        await nursery.start(run, cast("ASGIFramework", gate), listener, wait_for_shutdown)
        if scrapes is not None:
            await nursery.start(partial(serve_scrapes, engine, scrapes, shutdown=shutdown))
        task_status.started(where)
