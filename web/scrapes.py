"""`GET /metrics`, outside the API: for administrators of the instance, or on a port of its own.

A port of its own asks nobody who he is, because collectors of metrics seldom can say: it belongs
behind a firewall, and it has this one address. A scrape is a pure read: it is no work that keeps
the instance awake (S-224).
"""

from __future__ import annotations

import socket
from http import HTTPStatus
from typing import Final, cast

import structlog
import trio
from hypercorn.typing import ASGIFramework
from quart import Request, Response

from engine.app import Engine
from engine.errors import WakefulError
from engine.metrics import CONTENT_TYPE
from web.admission import METRICS_PATH, ASGIScope
from web.auth import authenticate
from web.exchange import Exchange, Receive, Send
from web.listening import address
from web.problems import Problem, problem, problem_of
from web.routing import MEMBERS
from web.server import run

_log = structlog.get_logger(__name__)
_METHODS: Final = ("GET", "HEAD")


async def scrape(engine: Engine, request: Request) -> Response:
    """Answer an administrator of the instance; 401 and 403 for everybody else."""
    caller = await authenticate(engine, request, MEMBERS)
    if not caller.instance_admin:
        raise WakefulError("not_allowed", "Only administrators of the instance see its metrics.")
    text = await engine.exposition()
    return Response(text, content_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})


async def serve_scrapes(
    engine: Engine,
    listener: socket.socket,
    *,
    shutdown: trio.Event,
    task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve /metrics and nothing else on a bound socket until `shutdown` is set."""
    where = address(listener)
    application = cast("ASGIFramework", _Scrapes(engine))
    async with trio.open_nursery() as nursery:
        await nursery.start(run, application, listener, shutdown.wait)
        _log.info("metrics_served", url=f"{where}{METRICS_PATH}")
        task_status.started(where)


class _Scrapes:
    """The application of the port: a plain ASGI one, for one address."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Answer one request; what is neither its address nor its method is a problem."""
        exchange = Exchange(scope, receive, send, may_leave=True)
        await exchange.refuse(await self._answer(scope))

    async def _answer(self, scope: ASGIScope) -> Problem:
        if scope["raw_path"] != METRICS_PATH.encode():
            return problem(WakefulError("not_found", "There is nothing at this address."))
        if scope["method"] not in _METHODS:
            error = WakefulError("method_not_allowed", "This address does not take this method.")
            return problem(error, headers=[("Allow", ", ".join(_METHODS))])
        try:
            text = await self._engine.exposition()
        except Exception as error:  # noqa: BLE001 - the last resort of this port
            return problem_of(error)
        headers = (("Content-Type", CONTENT_TYPE), ("Content-Length", str(len(text))))
        return Problem(status=HTTPStatus.OK, headers=headers, body=text)
