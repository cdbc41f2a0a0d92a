"""The gate: a plain ASGI application in front of everything else.

It counts every request that it admits on the work ledger until the handler has really ended,
whatever became of the client (S-058, S-066, S-067), and refuses what needs no look inside: a body
announced as too large, an address that is no text, everything once the server is stopping. What
it refuses is answered before any of the body is read, and is no work.

A health probe and a scrape of the metrics are pure reads: never refused, never counted (S-060).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import trio

from engine import limits
from engine.errors import WakefulError
from engine.work import WorkKind, WorkLedger
from web.exchange import Exchange, Receive, Send
from web.problems import Problem, problem, problem_of

ASGIScope = MutableMapping[str, Any]
Application = Callable[[ASGIScope, Receive, Send], Awaitable[None]]

# S-054: matched on the raw path, so that no second spelling of it escapes the gate.
HEALTH_PATHS: Final = frozenset({b"/api/health", b"/api/health/"})
METRICS_PATH: Final = "/metrics"  # S-224: a scrape is a pure read
_PURE_PATHS: Final = HEALTH_PATHS | {METRICS_PATH.encode()}
_DIGITS_MAX: Final = len(str(limits.BODY_BYTES_MAX))
_PURE_METHODS: Final = frozenset({"GET", "HEAD"})
_LEAVABLE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class LongPolls:
    """Requests that wait without working; all are ended at once when the server stops (S-049)."""

    def __init__(self) -> None:
        self._scopes: set[trio.CancelScope] = set()
        self._is_over = False

    @contextmanager
    def waiting(self) -> Iterator[trio.CancelScope]:
        """Wait inside this block: `end` cancels it, and the scope tells whether that happened."""
        scope = trio.CancelScope()
        if self._is_over:
            scope.cancel()
        self._scopes.add(scope)
        try:
            with scope:
                yield scope
        finally:
            self._scopes.discard(scope)

    def end(self) -> None:
        """End the waiting of now and of the future."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()


class Gate:
    """Admits and counts requests. `leavable` are the paths of changes that only wait (claims).

    `counts` gets the method and the status of each request that was not let in.
    """

    def __init__(
        self,
        application: Application,
        ledger: WorkLedger,
        polls: LongPolls,
        leavable: frozenset[str] = frozenset(),
        counts: Callable[[str, int], None] = lambda _method, _status: None,
    ) -> None:
        self._application = application
        self._ledger = ledger
        self._polls = polls
        self._leavable = leavable
        self._counts = counts
        self._admitted = 0
        self._is_stopping = False
        self._is_over = trio.Event()

    async def stop(self) -> None:
        """Refuse every further request, end the long polls, wait for what was admitted (S-077)."""
        self._is_stopping = True
        self._polls.end()
        if self._admitted:
            await self._is_over.wait()

    async def __call__(self, scope: ASGIScope, receive: Receive, send: Send) -> None:
        """Take one request; the server offers nothing else (web.server)."""
        assert scope["type"] == "http", scope["type"]
        method = scope["method"]
        if method in _PURE_METHODS and scope["raw_path"] in _PURE_PATHS:
            await self._run(scope, Exchange(scope, receive, send, may_leave=True))
            return
        if refusal := self._refusal(scope):
            self._counts(method, refusal.status)
            await Exchange(scope, receive, send, may_leave=True).refuse(refusal)
            return
        may_leave = method in _LEAVABLE_METHODS or scope["path"].rstrip("/") in self._leavable
        with self._ledger.begin(WorkKind.HTTP, f"{method} {scope['path'][:80]}"):
            self._admitted += 1
            try:
                await self._run(scope, Exchange(scope, receive, send, may_leave=may_leave))
            finally:
                self._admitted -= 1
                if self._is_stopping and not self._admitted:
                    self._is_over.set()

    def _refusal(self, scope: ASGIScope) -> Problem | None:
        """Return the answer for a request that is not let in; decided without awaiting (S-052)."""
        if self._is_stopping:
            return problem(WakefulError("stopping", "The server is stopping."))
        try:
            _check_size(scope)
            _check_target(scope)
        except WakefulError as error:
            return problem(error)
        return None

    async def _run(self, scope: ASGIScope, exchange: Exchange) -> None:
        """Run the application to its end; what it could not answer itself is answered here."""
        try:
            await self._application(scope, exchange.receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - the last resort of the web
            answer = problem_of(error)
            if not exchange.has_answered:
                await exchange.refuse(answer)


def _check_size(scope: ASGIScope) -> None:
    """Refuse a body that is announced as larger than any route takes."""
    for name, value in scope["headers"]:
        if name.lower() != b"content-length":
            continue
        digits = value.lstrip(b"0") or b"0"
        if not digits.isdigit() or len(digits) > _DIGITS_MAX or int(digits) > limits.BODY_BYTES_MAX:
            raise WakefulError(
                "payload_too_large", f"A body may have at most {limits.BODY_BYTES_MAX} bytes."
            )


def _check_target(scope: ASGIScope) -> None:
    """Refuse an address that is not UTF-8 or holds NUL, and give an absolute one its plain form."""
    raw: bytes = scope["raw_path"]
    if raw.lower().startswith((b"http://", b"https://")):
        _, _, rest = raw.partition(b"://")
        raw = b"/" + rest.partition(b"/")[2]
        scope["raw_path"] = raw
    if not raw.startswith(b"/"):
        raise WakefulError("invalid_input", "The request target must be a path.")
    for part in (raw, scope["query_string"]):
        try:
            text = unquote_to_bytes(part).decode()
        except UnicodeDecodeError:
            raise WakefulError("invalid_encoding", "The address is not valid UTF-8.") from None
        if "\x00" in text:
            raise WakefulError("invalid_encoding", "The address holds a NUL character.")
    scope["path"] = unquote_to_bytes(raw).decode()
