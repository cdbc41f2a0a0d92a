"""A flood of facts on many issues: by SQL, and over HTTP through whichever server lives.

Each issue has two rules of two agents: one listens to comments, the other to the ends of runs. A
rule is woken nine times at most, below what stops a runaway within an hour (W-148).
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs
import httpx
import trio

from engine.storage.database import Dedicated, Query, with_connection
from tests.faults.fleet import Fleet

FACTS_PER_ISSUE: Final = 20
SINGLES: Final = 4  # comments over HTTP, one a call
SHOWERS: Final = 4  # parts of a transaction by SQL, of four comments each
SHOWER: Final = (FACTS_PER_ISSUE - SINGLES) // SHOWERS
CALLERS: Final = 6
WRITERS: Final = 2
BUSY: Final = 503

_COMMENTS: Final = Query(
    "flood.comments",
    "INSERT INTO comment (issue_id, workspace_id, content)"
    " SELECT i.id, i.workspace_id, 'by SQL' FROM issue i CROSS JOIN generate_series(1, $2::int)"
    " WHERE i.id = $1",
)
_LAST: Final = Query(
    "flood.last",
    "INSERT INTO comment (issue_id, workspace_id, content)"
    " SELECT i.id, i.workspace_id, 'the last' FROM issue i WHERE i.id = ANY ($1::uuid[])"
    " RETURNING issue_id::text, id::text",
)


def agents(number: int) -> tuple[str, str]:
    """Return the agents that a daemon serves: one that answers comments, one that follows runs."""
    return f"answers-{number}", f"follows-{number}"


@attrs.define
class Flood:
    """What was written, and what the servers said to it.

    `acknowledged` are the comments that a server said it has; `answers` counts the answers by their
    codes, and the calls that a killed server left without one as `lost`.
    """

    fleet: Fleet
    choice: random.Random
    issues: list[str] = attrs.field(factory=list)
    acknowledged: set[str] = attrs.field(factory=set)
    answers: Counter[str] = attrs.field(factory=Counter)
    unexpected: list[str] = attrs.field(factory=list)

    # --- Before -------------------------------------------------------------------------------

    async def prepare(self, issues: int, daemons: int) -> None:
        """Make the issues and their rules; the agents are there."""
        async with self._client() as client:
            found = await self._call(client, "GET", "/api/agents?limit=100")
            ids = {each["name"]: each["id"] for each in found["items"]}
            await self._share(
                CALLERS, list(range(issues)), partial(self._make, client, ids, daemons)
            )

    async def _make(
        self, client: httpx.AsyncClient, ids: dict[str, str], daemons: int, number: int
    ) -> None:
        issue = await self._call(client, "POST", "/api/issues", {"title": f"flood {number}"})
        answering, _ = agents(number % daemons)
        _, following = agents((number + 1) % daemons)
        for name, event in ((answering, "comment.created"), (following, "task.completed")):
            body = {
                "agent_id": ids[name],
                "instruction": "look",
                "kind": "event",
                "mode": "continuous",
                "event_types": [event],
            }
            await self._call(client, "POST", f"/api/issues/{issue['id']}/wakeups", body)
        self.issues.append(issue["id"])

    # --- The flood ----------------------------------------------------------------------------

    async def write(self, facts_per_second: float) -> None:
        """Write all facts at about this rate, in a random order; twice what had no answer."""
        calls = self.issues * SINGLES
        parts = self.issues * SHOWERS
        self.choice.shuffle(calls)
        self.choice.shuffle(parts)
        showers = list(zip(parts[::2], parts[1::2], strict=True))
        seconds = len(self.issues) * FACTS_PER_ISSUE / facts_per_second
        async with self._client() as client, trio.open_nursery() as nursery:
            comment = partial(self._comment, client)
            nursery.start_soon(self._share, CALLERS, calls, comment, seconds)
            nursery.start_soon(self._share, WRITERS, showers, self._rain, seconds)

    async def write_last(self) -> dict[str, str]:
        """Comment on each issue once more, when nobody else does; return the comments by issue."""

        async def insert(session: Dedicated) -> dict[str, str]:
            rows = await session.fetch(_LAST, list(map(UUID, self.issues)))
            return {row["issue_id"]: row["id"] for row in rows}

        return await with_connection(self.fleet.database_url, insert)

    async def _comment(self, client: httpx.AsyncClient, issue: str) -> None:
        path = f"/api/issues/{issue}/comments"
        comment = await self._call(client, "POST", path, {"body": "over HTTP"})
        self.acknowledged.add(comment["id"])

    async def _rain(self, pair: tuple[str, str]) -> None:
        """Comment on two issues in one transaction, in whatever order; nobody tells an engine."""

        async def insert(session: Dedicated) -> None:
            await session.begin()
            for issue in pair:
                await session.execute(_COMMENTS, UUID(issue), SHOWER)
            await session.commit()

        await with_connection(self.fleet.database_url, insert)

    async def _call(
        self, client: httpx.AsyncClient, method: str, path: str, body: Any = None
    ) -> Any:
        """Ask one server after the other until one has done it; it may be done more than once."""
        while True:
            url = self.choice.choice(self.fleet.urls) + path
            try:
                answer = await client.request(method, url, json=body)
            except httpx.TransportError:
                self.answers["lost"] += 1
                await trio.sleep(0.02)  # paced: that server is away for a while
                continue
            if answer.is_success:
                return answer.json()
            code = answer.json()["code"]
            self.answers[code] += 1
            assert answer.status_code == BUSY, f"{method} {path}: {answer.text}"
            await trio.sleep(0.05)  # paced: the server is starting, stopping or busy

    def _client(self) -> httpx.AsyncClient:
        token = self.fleet.credentials["member_token"]
        return httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20)

    async def _share(self, hands: int, jobs: list[Any], do: Any, seconds: float = 0) -> None:
        """Do all jobs with so many hands, evenly spread over at least so many seconds."""
        began, waiting = trio.current_time(), list(enumerate(jobs))
        waiting.reverse()

        async def work() -> None:
            while waiting:
                place, job = waiting.pop()
                await trio.sleep_until(began + seconds * place / len(jobs))  # paced: the rate
                await do(job)

        async with trio.open_nursery() as nursery:
            for _ in range(hands):
                nursery.start_soon(work)
