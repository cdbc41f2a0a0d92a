"""A process that writes facts like any foreign program, and sees when their runs are there.

It shares no loop with the engine, so that neither delays the other's clock; both read the monotonic
clock, which is one for all processes of a machine. A queued run is announced by NOTIFY, which the
server delivers once the run's transaction is committed and visible.

`Witness` is the near side. On the far side, `python bench/witness.py URL` reads one JSON object a
line and answers each with one: `{"write": issue}` inserts a comment and answers when COMMIT
returned and when a run was seen, `{"next": true}` when the next run was seen, `{"finish": true}`
ends each run as soon as it is queued, from now on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self
from uuid import UUID

import attrs
import trio

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.children import Child, lines
from engine.storage.database import (
    Database,
    Hint,
    Lane,
    LaneLimits,
    Query,
    Reconnected,
    Session,
    open_loop,
)

RUNS: Final = "wakeful_runs"
_LANES: Final = {Lane.API: LaneLimits(connections=1, statement_ms=10_000)}
_COMMENT: Final = Query(
    "witness.comment",
    "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)"
    " SELECT i.id, i.workspace_id, i.creator_type, i.creator_id, 'What about the second half?'"
    "   FROM issue i WHERE i.id = $1",
)
_FINISH: Final = Query(
    "witness.finish",
    "UPDATE agent_task_queue SET status = 'cancelled', completed_at = wakeful_now()"
    " WHERE status = 'queued'",
)


@attrs.frozen
class Sighting:
    """When COMMIT of a fact returned, and when its run was seen; monotonic seconds."""

    committed: float
    seen: float

    @property
    def seconds(self) -> float:
        """From the one to the other."""
        return self.seen - self.committed


class Witness:
    """The near side: one question at a time."""

    def __init__(self, child: Child) -> None:
        self._child = child

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str) -> AsyncIterator[Self]:
        """Start the process and return when it listens; it ends with the block."""
        async with Child.open([sys.executable, __file__, dsn]) as child:
            yield cls(child)

    async def write(self, issue_id: UUID) -> Sighting:
        """Comment on an issue as a foreign writer and wait for the run."""
        answer = await self._child.ask({"write": str(issue_id)})
        return Sighting(**answer)

    async def next_run(self) -> float:
        """Return when the next run was seen."""
        answer = await self._child.ask({"next": True})
        return float(answer["seen"])

    async def finish_runs(self) -> None:
        """Have each run ended as soon as it is queued; nothing else can be asked any more."""
        await self._child.ask({"finish": True})


# --- The far side -------------------------------------------------------------------------------


async def _write(database: Database, issue_id: UUID) -> float:
    """Insert a comment in a transaction of its own and return when its COMMIT returned."""

    async def unit(session: Session) -> float:
        await session.execute(_COMMENT, issue_id)
        return time.monotonic()

    return await database.read(Lane.API, unit)


async def _seen(hints: trio.MemoryReceiveChannel[Hint]) -> float:
    hint = await hints.receive()
    assert not isinstance(hint, Reconnected), "runs may have been missed"
    return time.monotonic()


async def _finish(database: Database, hints: trio.MemoryReceiveChannel[Hint]) -> None:
    async def unit(session: Session) -> None:
        await session.execute(_FINISH)

    async for _ in hints:
        await database.read(Lane.API, unit)


async def _serve(dsn: str) -> None:
    async with (
        open_loop(),
        Database.open(dsn, lanes=_LANES) as database,
        database.listen([RUNS]) as hints,
        trio.open_nursery() as nursery,
    ):
        first = await hints.receive()
        assert isinstance(first, Reconnected)
        print("{}", flush=True)
        async for line in lines(trio.lowlevel.FdStream(sys.stdin.fileno())):
            match json.loads(line):
                case {"write": issue_id}:
                    committed = await _write(database, UUID(issue_id))
                    answer = {"committed": committed, "seen": await _seen(hints)}
                case {"next": True}:
                    answer = {"seen": await _seen(hints)}
                case {"finish": True}:
                    nursery.start_soon(_finish, database, hints)
                    answer = {}
                case other:
                    raise AssertionError(other)
            print(json.dumps(answer), flush=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(_serve, sys.argv[1])
