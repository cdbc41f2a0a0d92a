"""Wakeful: a comment by a foreign SQL writer is the job, a daemon over HTTP is the worker.

Job `n` is a fact on the issue `n + 1` (`bench/world.sql`), on which one rule waits: the comment is
committed, captured and merged, the engine hears of it by NOTIFY, queues a run, and the daemon
claims it, starts it, does the job and completes it. A planned job is a rule that is due at that
time. The job starts when the daemon has the answer to its report of the start.

The daemon is one process with three connections: on one it waits for claims of up to 100 runs, on
one it reports starts, on one ends. What there is to report while a call is under way goes together
in the next one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final
from uuid import UUID

import asyncpg

from bench.jobs.contract import Body, Enqueue, Place
from bench.jobs.http import Connection

TOKEN: Final = "bench-1"
RUNTIME: Final = "00000000-0000-7000-8004-000000000001"
CLAIM_MAX: Final = 100  # what one claim may ask for
WAIT_SECONDS: Final = 30
HEARTBEAT_SECONDS: Final = 30  # as the daemon of the SDK
REPORTS_MAX: Final = 100  # what one call may report

_COMMENT: Final = """
INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
VALUES (bench_id('8000', $1), bench_id('8001', 1), 'member', bench_id('8002', 1),
        'What about the second half?')
"""
_PLAN: Final = """
INSERT INTO issue_wakeup (
  workspace_id, issue_id, agent_id, created_by, instruction, kind, mode, next_fire_at)
SELECT r.workspace_id, r.issue_id, r.agent_id, r.created_by, 'Look again.', 'at', 'once',
       wakeful_now() + make_interval(secs => $3)
  FROM generate_series($1::bigint, $2) n JOIN issue_wakeup r ON r.id = bench_id('9000', n)
"""
_UNFINISHED: Final = "SELECT count(*) FROM agent_task_queue WHERE status <> 'completed'"


class Wakeful:
    """Facts of Wakeful; a completed run stays as a row that says so."""

    def __init__(self, place: Place) -> None:
        self._dsn = place.dsn
        self._url = place.url

    async def install(self) -> None:
        """The world is cloned, and the server migrates it."""

    @asynccontextmanager
    async def enqueuing(self, connections: int) -> AsyncIterator[Enqueue]:
        """Write comments through a pool, each in a transaction of its own."""
        async with asyncpg.create_pool(
            self._dsn, min_size=connections, max_size=connections
        ) as pool:

            async def enqueue(number: int) -> None:
                await pool.execute(_COMMENT, number + 1)

            yield enqueue

    async def plan(self, numbers: range, seconds: float) -> float:
        """Write the rules in one statement."""
        connection = await asyncpg.connect(self._dsn)
        try:
            due = time.monotonic() + seconds
            await connection.execute(_PLAN, numbers.start + 1, numbers.stop, seconds)
            return due
        finally:
            await connection.close()

    @asynccontextmanager
    async def working(self, concurrency: int, body: Body) -> AsyncIterator[None]:
        """Be the daemon."""
        async with _Daemon.open(self._url, concurrency, body) as daemon:
            claiming = asyncio.create_task(daemon.claim_all())
            yield
            claiming.cancel()
            await asyncio.wait([claiming])

    async def unfinished(self) -> int:
        """Count the runs in a state other than `completed`."""
        connection = await asyncpg.connect(self._dsn)
        try:
            return int(await connection.fetchval(_UNFINISHED))
        finally:
            await connection.close()


class _Daemon:
    """One scripted daemon."""

    def __init__(
        self,
        claims: Connection,
        starts: Connection,
        ends: Connection,
        concurrency: int,
        body: Body,
    ) -> None:
        self._claims = claims
        self._starts = _Reports(starts, "start")
        self._ends = _Reports(ends, "complete")
        self._concurrency = concurrency
        self._body = body
        self._running: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str, concurrency: int, body: Body) -> AsyncIterator[_Daemon]:
        async with AsyncExitStack() as stack:
            claims, starts, ends = (Connection(url, TOKEN) for _ in range(3))
            for each in (claims, starts, ends):
                stack.push_async_callback(each.close)
            yield cls(claims, starts, ends, concurrency, body)

    async def claim_all(self) -> None:
        """Claim for ever, whenever half of the places are free; tell now and then that it lives."""
        alive = {"daemon_id": "bench", "runtime_ids": [RUNTIME]}
        said_at = -math.inf
        while True:
            while (free := self._concurrency - len(self._running)) < (self._concurrency + 1) // 2:
                self._ended.clear()
                await self._ended.wait()
            if time.monotonic() - said_at > HEARTBEAT_SECONDS:
                await self._claims.call("/daemon/heartbeat", alive)
                said_at = time.monotonic()
            asked = {"max_tasks": min(free, CLAIM_MAX), "wait_seconds": WAIT_SECONDS}
            answer = await self._claims.call("/daemon/tasks/claim", alive | asked)
            for run in answer["tasks"]:
                task = asyncio.create_task(self._carry_out(run))
                self._running.add(task)
                task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._ended.set()
        if not task.cancelled() and (error := task.exception()):
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a run failed", "exception": error}
            )

    async def _carry_out(self, run: dict[str, Any]) -> None:
        report = {"id": run["id"], "dispatched_at": run["dispatched_at"]}
        await self._starts.report(report)
        await self._body(UUID(run["issue"]["id"]).int % 2**48 - 1)
        await self._ends.report(report)


class _Reports:
    """The reports of one kind: one call at a time, with all that came during the last one."""

    def __init__(self, connection: Connection, kind: str) -> None:
        self._connection = connection
        self._path = f"/daemon/tasks/{kind}"
        self._waiting: list[tuple[dict[str, Any], asyncio.Future[None]]] = []
        self._sender: asyncio.Task[None] | None = None

    async def report(self, report: dict[str, Any]) -> None:
        """Return once the server has taken this report."""
        taken = asyncio.get_running_loop().create_future()
        self._waiting.append((report, taken))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        await taken

    async def _send_all(self) -> None:
        while self._waiting:
            sent, self._waiting = self._waiting[:REPORTS_MAX], self._waiting[REPORTS_MAX:]
            body = {"tasks": [report for report, _ in sent]}
            try:
                answer = await self._connection.call(self._path, body)
                for outcome in answer["tasks"]:
                    assert outcome["code"] is None, outcome
            except Exception as error:  # noqa: BLE001 - whoever reported has it
                for _, taken in sent:
                    taken.set_exception(error)
            else:
                for _, taken in sent:
                    taken.set_result(None)
