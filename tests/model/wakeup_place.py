"""Where the histories happen: one engine, one database, virtual time, a thread of its own.

Hypothesis is synchronous and the engine is not: the engine runs in a Trio loop in a thread, and
`Place.call` carries one step in. Every history has an issue of its own; people, agents, daemons and
the clock are shared, and are put back at the end of each.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs
import trio

from engine.domain.commands.catalogue import CreateLabel, CreateProperty
from engine.domain.commands.conversation import BindAttachment, CreateAttachment
from engine.domain.commands.runs import CancelRun, ClaimRuns
from engine.domain.commands.tracker import (
    AddMember,
    CreateAgent,
    DeleteIssue,
    ListMembers,
    RemoveMember,
    UnarchiveAgent,
    UpdateAgent,
)
from engine.domain.principal import Principal, Role
from engine.errors import WakefulError
from engine.simulation import Daemon, World
from engine.storage.database import Lane, Query, Session
from tests.tidy import documents, sources

T = TypeVar("T")

START: Final = datetime(2027, 3, 1, 8, 0, 30, 250_000, tzinfo=UTC)
DAEMONS: Final = {"A": "d", "B": "e"}

_LOOK: Final = Query(
    "test.look",
    """
SELECT jsonb_build_object(
  'rules', (
    SELECT jsonb_object_agg(r.id, jsonb_build_object(
             'enabled', r.enabled, 'off', r.disabled_at IS NOT NULL, 'revision', r.revision,
             'due', r.next_fire_at, 'has_error', r.last_error IS NOT NULL, 'spent', r.last_task_id))
      FROM issue_wakeup r WHERE r.issue_id = $1),
  'receipts', (
    SELECT jsonb_agg(x) FROM (
      SELECT c.wakeup_id AS rule, c.event_type AS type,
             CASE WHEN c.processed_at IS NULL AND c.task_id IS NULL THEN 'free'
                  WHEN c.processed_at IS NULL THEN 'reserved'
                  WHEN c.task_id IS NOT NULL THEN 'consumed' ELSE 'discarded' END AS state,
             sum((c.payload ->> 'coalesced_count')::int) AS count
        FROM issue_wakeup_receipt c JOIN issue_wakeup r ON r.id = c.wakeup_id
       WHERE r.issue_id = $1 GROUP BY 1, 2, 3) x),
  'runs', (
    SELECT jsonb_agg(jsonb_build_object(
             'id', q.id, 'status', q.status, 'rule', q.wakeup_id, 'agent', q.agent_id,
             'attempt', q.attempt, 'retry_of', q.retry_of_task_id,
             'rerun_of', q.rerun_of_task_id, 'note', q.handoff_note, 'evidence', (
               SELECT jsonb_object_agg(f ->> 'event_type', f #> '{payload,coalesced_count}')
                 FROM jsonb_array_elements(q.context #> '{wakeup_evidence,facts}') f))
           ORDER BY q.id)
      FROM agent_task_queue q WHERE q.issue_id = $1))::text""",
)
_LEFT: Final = Query(
    "test.left",
    """
SELECT (SELECT count(*) FROM issue_wakeup WHERE issue_id = $1)
     + (SELECT count(*) FROM issue_wakeup_receipt WHERE payload ->> 'issue_id' = $1::text)
     + (SELECT count(*) FROM agent_task_queue
         WHERE issue_id = $1 AND status IN ('queued', 'deferred'))""",
)


def _promises() -> Query:
    """Return one statement with every counter-example to a guarantee that SQL can state."""
    parts = [
        f"SELECT '{guarantee.id}' AS id, to_jsonb(x)::text AS row FROM ({sql.rstrip(';')}) x"
        for guarantee in documents.guarantees(sources.read("docs/guarantees.md"))
        for sql in guarantee.sql
    ]
    return Query("test.promises", " UNION ALL ".join(parts))


class HandDaemon(Daemon):
    """A daemon that claims when the machine says so, and not by itself."""

    async def look(self) -> bool:
        """Leave the queue alone."""
        return False


@attrs.define
class Claim:
    """What a daemon holds of a claimed run."""

    dispatched_at: datetime
    token: str


class Place:
    """The engine's side of the machine: who is there, and how to act and to look."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.people: dict[str, Principal] = {}
        self.agents: dict[str, UUID] = {}
        self.daemons: dict[str, HandDaemon] = {}
        self.label: UUID
        self.property: UUID
        self.parent: UUID
        self.attachment: UUID
        self.issue: UUID
        self.rules: dict[int, UUID] = {}
        self.comments: dict[int, UUID] = {}
        self.runs: list[UUID] = []
        self.claims: dict[UUID, Claim] = {}
        self._promises = _promises()

    @property
    def now(self) -> datetime:
        """The virtual time."""
        return self.world.now

    # --- Before and after a history --------------------------------------------------------------

    async def furnish(self) -> None:
        """Bring in who and what all histories share."""
        world = self.world
        self.people["O"] = world.owner.principal
        for name in ("M", "N"):
            self.people[name] = (await world.person(name)).principal
        for agent, name in DAEMONS.items():
            daemon = await self._daemon(name)
            view = await self.submit(
                "O",
                CreateAgent(
                    workspace_id=world.workspace_id, name=agent, runtime_id=daemon.runtime_id
                ),
            )
            self.agents[agent] = view.id
        within = world.workspace_id
        self.label = (await self.submit("O", CreateLabel(workspace_id=within, name="urgent"))).id
        self.property = (
            await self.submit("O", CreateProperty(workspace_id=within, name="Size"))
        ).id
        self.parent = (await world.owner.create_issue("Parent")).id

    async def _daemon(self, name: str) -> HandDaemon:
        made = await self.world.daemon(name)
        daemon = HandDaemon(self.world, name, made._principal)
        await daemon.register()
        self.world._daemons[self.world._daemons.index(made)] = daemon
        self.daemons[name] = daemon
        return daemon

    async def begin(self) -> datetime:
        """Open an issue for a new history and return the time."""
        self.issue = (await self.world.owner.create_issue("Issue")).id
        command = CreateAttachment(
            workspace_id=self.world.workspace_id, filename="a.txt", url="https://example.com/a"
        )
        self.attachment = (await self.submit("O", command)).id
        self.rules, self.comments, self.runs, self.claims = {}, {}, [], {}
        return self.now

    async def end(self, members: set[str], archived: set[str]) -> None:
        """W-189: delete the issue, of which nothing may be left, and put everybody back."""
        seen = await self.look()
        for run in seen["runs"] or []:
            if run["status"] not in ("completed", "failed", "cancelled"):
                await self.submit("O", CancelRun(run_id=UUID(run["id"])))
        await self.submit("O", BindAttachment(attachment_id=self.attachment))
        await self.submit("O", DeleteIssue(issue_id=self.issue))
        assert await self.sql(_LEFT, self.issue) == [(0,)], "W-189: something is left"
        await self.psql("DELETE FROM agent_task_queue WHERE issue_id = $1", self.issue)
        for name in ("M", "N"):
            if name not in members:
                await self.admit(name)
        for agent in self.agents:
            if agent in archived:
                await self.submit("O", UnarchiveAgent(agent_id=self.agents[agent]))
            await self.submit(
                "O", UpdateAgent(agent_id=self.agents[agent], visibility="workspace", invokers=())
            )
        for daemon in self.daemons.values():
            if not daemon.is_online:
                await daemon.come_back()

    # --- Acting ----------------------------------------------------------------------------------

    async def submit(self, person: str, command: Any) -> Any:
        """Carry out a change of a person's."""
        return await self.world.submit(self.people[person], command)

    async def act_as_run(self, number: int, command: Any) -> Any:
        """Carry out a change of the agent in a running run."""
        token = self.claims[self.runs[number]].token
        return await self.world.submit(await self.world.authenticate(token), command)

    async def admit(self, name: str) -> None:
        """Make a person a member again."""
        email = f"{name.lower()}@example.com"
        within = self.world.workspace_id
        await self.submit(
            "O", AddMember(workspace_id=within, email=email, name=name, role=Role.MEMBER)
        )

    async def expel(self, name: str) -> None:
        """End a membership."""
        page = await self.world.read(ListMembers(workspace_id=self.world.workspace_id))
        [member] = [each for each in page.items if each.user_id == self.people[name].user_id]
        await self.submit("O", RemoveMember(member_id=member.id))

    async def claim(self, name: str) -> None:
        """One claim for one run, again where rows were locked."""
        daemon = self.daemons[name]
        command = ClaimRuns(daemon_id=name, runtime_ids=(daemon.runtime_id,), max_tasks=1)
        for _ in range(10):
            try:
                attempt = await self.world.submit(daemon._principal, command)
            except WakefulError as error:
                if error.code != "contention":
                    raise
                continue
            for run in attempt.runs:
                self.claims[run.id] = Claim(run.dispatched_at, run.token)
            return
        raise AssertionError("a claim never got through")

    async def report(self, name: str, command: Any) -> None:
        """Carry out a daemon's report."""
        await self.world.submit(self.daemons[name]._principal, command)

    async def psql(self, text: str, *args: object) -> Any:
        """Run a statement as a writer that knows nothing of the engine; return its first value."""
        rows = await self.sql(Query("test.psql", text), *args)
        return rows[0][0] if rows else None

    async def sweep(self) -> None:
        """Let the engine find what nobody told it."""
        await self.world.advance(timedelta(0))

    # --- Looking ---------------------------------------------------------------------------------

    async def sql(self, query: Query, *args: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""

        async def fetch(session: Session) -> list[tuple[Any, ...]]:
            return [tuple(row.values()) for row in await session.fetch(query, *args)]

        return await self.world._database.read(Lane.BACKGROUND, fetch)

    async def look(self) -> dict[str, Any]:
        """Return the visible state of the issue."""
        [(text,)] = await self.sql(_LOOK, self.issue)
        seen: dict[str, Any] = json.loads(text)
        self.runs = [UUID(run["id"]) for run in seen["runs"] or []]
        return seen

    async def broken(self) -> list[tuple[Any, ...]]:
        """Return the counter-examples to the guarantees."""
        return await self.sql(self._promises)


class Thread:
    """The thread with the engine; `call` runs one asynchronous function in it."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._token: trio.lowlevel.TrioToken
        self._leave: trio.Event
        self._ready: queue.Queue[Place | BaseException] = queue.Queue()
        self._thread = threading.Thread(  # noqa: TID251 - Hypothesis has the main one, and waits
            target=self._main, name="engine"
        )

    def start(self) -> Place:
        """Open the engine and furnish the place."""
        self._thread.start()
        ready = self._ready.get()
        if isinstance(ready, BaseException):
            self._thread.join()
            raise ready
        return ready

    def call(self, do: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run a step in the engine's thread and return its answer."""
        return trio.from_thread.run(do, *args, trio_token=self._token)

    def stop(self) -> None:
        """Close the engine."""
        self._token.run_sync_soon(self._leave.set)
        self._thread.join()

    def _main(self) -> None:
        try:
            trio.run(self._run)
        except BaseException as error:  # noqa: BLE001 - the test's thread raises it
            self._ready.put(error)

    async def _run(self) -> None:
        self._token, self._leave = trio.lowlevel.current_trio_token(), trio.Event()
        hours = timedelta(hours=6)
        async with World.open(start=START, database_url=self._url, sweep_every=hours) as world:
            place = Place(world)
            await place.furnish()
            self._ready.put(place)
            await self._leave.wait()


@contextmanager
def engine_thread(url: str) -> Iterator[tuple[Thread, Place]]:
    """Run an engine in virtual time in a thread of its own."""
    thread = Thread(url)
    place = thread.start()
    try:
        yield thread, place
    finally:
        thread.stop()
