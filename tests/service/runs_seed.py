"""Small steps that the tests of runs share: queue, claim, start, move the clock."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import attrs
import pytest

# Importing a module of use cases registers them.
import engine.service.claims
import engine.service.reports  # noqa: F401 - as above
from engine.domain.commands.runs import ClaimRuns, CreateRun, Heartbeat, StartRun
from engine.domain.commands.tracker import CreateAgent, CreateIssue
from engine.domain.principal import Principal
from engine.domain.views.runs import ClaimAttempt, ClaimedRun, CreatedRunView, RunView
from engine.errors import WakefulError
from engine.service.enqueue import OrdinaryRun, QueuedRun, enqueue_run
from engine.service.registry import Work
from engine.storage.database import Lane, Session
from tests.service.conftest import Executor, Sql, World


@attrs.frozen
class Floor:
    """A world with its use cases at hand, and one daemon at work in it."""

    execute: Executor
    sql: Sql
    world: World

    async def enqueue(self, **changes: Any) -> QueuedRun:
        """Queue an ordinary run of agent A on issue I, as a use case of the tracker does."""
        asked = {
            "agent_id": self.world.a,
            "issue_id": self.world.issue,
            "reason": "assignment",
            "originator_user_id": self.world.m.user_id,
        }
        draft = OrdinaryRun(**{**asked, **changes})

        async def unit(session: Session) -> QueuedRun:
            self.execute.work = Work(session=session, caller=self.world.m)
            return await enqueue_run(self.execute.work, draft)

        return (await self.execute.database.write(Lane.API, unit)).result

    async def create(self, **changes: Any) -> CreatedRunView:
        """Queue a run by hand as M."""
        asked = {"agent_id": self.world.a, "issue_id": self.world.issue}
        view = await self.execute(self.world.m, CreateRun(**{**asked, **changes}))
        assert isinstance(view, CreatedRunView)
        return view

    def claiming(self, **changes: Any) -> ClaimRuns:
        """Return the command with which the daemon of the world claims."""
        asked = {"daemon_id": "daemon-1", "runtime_ids": (self.world.runtime_id,), "max_tasks": 1}
        return ClaimRuns(**{**asked, **changes})

    async def attempt(self, **changes: Any) -> ClaimAttempt:
        """Claim once, on whatever connection is free."""
        found = await self.execute(self.world.daemon, self.claiming(**changes))
        assert isinstance(found, ClaimAttempt)
        return found

    async def claim(self, **changes: Any) -> tuple[ClaimedRun, ...]:
        """Return what one attempt hands out."""
        return (await self.attempt(**changes)).runs

    async def claim_one(self) -> ClaimedRun:
        """Return the one run that is handed out."""
        (run,) = await self.claim()
        return run

    async def report(self, command: Any) -> Any:
        """Report as the daemon."""
        return await self.execute(self.world.daemon, command)

    async def start(self, run: ClaimedRun) -> RunView:
        """Start a claim as the daemon."""
        assert run.dispatched_at is not None
        started = await self.report(StartRun(run_id=run.id, dispatched_at=run.dispatched_at))
        assert isinstance(started, RunView)
        return started

    async def beat(self) -> None:
        """Give a sign of life for the runtime of the world."""
        await self.report(Heartbeat(daemon_id="daemon-1", runtime_ids=(self.world.runtime_id,)))

    async def issue(self, **changes: Any) -> UUID:
        """Make another issue."""
        asked = {"workspace_id": self.world.workspace_id, "title": "another"}
        view = await self.execute(self.world.m, CreateIssue(**{**asked, **changes}))
        identifier: UUID = view.id
        return identifier

    async def agent(self, name: str, **changes: Any) -> UUID:
        """Make another agent on the runtime of the world."""
        new = partial(
            CreateAgent, workspace_id=self.world.workspace_id, runtime_id=self.world.runtime_id
        )
        view = await self.execute(self.world.o, new(name=name, **changes))
        identifier: UUID = view.id
        return identifier

    async def status(self, run_id: UUID) -> str:
        """Return what the table says of a run."""
        (row,) = await self.sql("SELECT status FROM agent_task_queue WHERE id = $1", run_id)
        return str(row["status"])

    async def pass_seconds(self, seconds: float) -> None:
        """Move the one clock of this database forward, from its present distance."""
        await self.sql("CREATE TABLE IF NOT EXISTS time_passed (seconds float8)")
        await self.sql("INSERT INTO time_passed VALUES ($1)", seconds)
        (row,) = await self.sql("SELECT sum(seconds) AS total FROM time_passed")
        await self.sql(
            "CREATE OR REPLACE FUNCTION wakeful_now() RETURNS timestamptz LANGUAGE sql VOLATILE"
            f" PARALLEL SAFE AS $$ SELECT clock_timestamp() + interval '{row['total']} seconds' $$"
        )

    async def wakeup(self, **changes: Any) -> UUID:
        """Insert a spent rule of M for agent A on issue I, and return its id."""
        columns = {
            "workspace_id": self.world.workspace_id,
            "issue_id": self.world.issue,
            "agent_id": self.world.a,
            "created_by": self.world.m.user_id,
            "instruction": "look again",
            "kind": "at",
            "mode": "once",
            "enabled": False,
            **changes,
        }
        names, places = ", ".join(columns), ", ".join(f"${n + 1}" for n in range(len(columns)))
        (row,) = await self.sql(
            f"INSERT INTO issue_wakeup ({names}) VALUES ({places}) RETURNING id",
            *columns.values(),
        )
        identifier: UUID = row["id"]
        return identifier

    async def fire(self, wakeup_id: UUID, **context: Any) -> UUID:
        """Insert the run of a rule as a dispatch does, and return its id."""
        (row,) = await self.sql(
            "INSERT INTO agent_task_queue (agent_id, issue_id, runtime_id, originator_user_id,"
            "   handoff_note, context)"
            " SELECT r.agent_id, r.issue_id, $2, r.created_by, r.instruction, $3"
            "   FROM issue_wakeup r WHERE r.id = $1 RETURNING id",
            wakeup_id,
            self.world.runtime_id,
            {"wakeup_id": str(wakeup_id), "wakeup_revision": 1, **context},
        )
        identifier: UUID = row["id"]
        return identifier

    async def wait_for(self, wakeup_id: UUID) -> None:
        """Insert a fact that waits for a rule, as capture does."""
        await self.sql(
            "INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type,"
            "   coalesce_key, payload)"
            " VALUES ($1, 1, gen_random_uuid(), 'comment.created', 'comment.created', '{}')",
            wakeup_id,
        )


@pytest.fixture
def floor(execute: Executor, sql: Sql, world: World) -> Floor:
    return Floor(execute, sql, world)


async def refused(floor: Floor, caller: Principal, command: Any) -> str:
    """Return the code with which a command is refused."""
    with pytest.raises(WakefulError) as caught:
        await floor.execute(caller, command)
    return caught.value.code
