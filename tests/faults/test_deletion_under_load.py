"""Issues, agents, runtimes and whole workspaces that are deleted while everybody writes to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

import attrs
import structlog
import trio

from engine.app import Engine
from engine.domain.commands.tracker import DeleteIssue, DeleteWorkspace
from tests.engine.foreign import Psql, foreign
from tests.engine.world import register, running, say, settled, stage
from tests.faults.leftovers import HISTORY, columns, orphans
from tests.faults.town import Town, found, settle
from tests.faults.townspeople import Crew, Tally, Writer

SECONDS: Final = 6
ISSUES: Final = 6  # of a town at a time
WRITERS: Final = 6  # of a town
AGENTS_GONE: Final = 2
# A foreign writer removes agents: no use case does. Their rules and runs stay, as history.
BY_FOREIGN_HANDS: Final = frozenset(
    {"issue_wakeup.agent_id", "agent_task_queue.agent_id", "agent_task_queue.runtime_id",
     "task_token.agent_id"}
)  # fmt: skip
_REMOVED: Final = "DELETE FROM agent WHERE id = $1"
_WITHDRAWN: Final = (
    "UPDATE agent_task_queue SET status = 'cancelled', completed_at = wakeful_now()"
    " WHERE agent_id = $1 AND status NOT IN ('completed', 'failed', 'cancelled')"
)
_RUNTIME_REMOVED: Final = "DELETE FROM agent_runtime WHERE id = $1"
_RUNS: Final = "SELECT count(*) FROM agent_task_queue WHERE {} = $1"
_UNSTARTED: Final = (
    "SELECT count(*) FROM agent_task_queue"
    " WHERE issue_id = $1 AND status IN ('queued', 'deferred') AND started_at IS NULL"
)


async def test_everything_is_deleted_while_everybody_writes(database_url: str) -> None:
    """W-189, W-190: whatever is deleted under load leaves nothing, and nobody meets a defect.

    Issues of two workspaces, agents and runtimes of a third, then the workspaces. At no instant
    does a row of any table name an issue, workspace, rule or run that is not there; no run is made
    for what is gone; no deadlock, no internal error, no code but the documented ones.
    """
    with structlog.testing.capture_logs() as logs:
        async with (
            stage(database_url, connections=24) as (psql, world),
            running(database_url) as engine,
        ):
            await register(engine, world)
            towns = [
                await found(engine, psql, world, name, issues=ISSUES) for name in ("n", "s", "e")
            ]
            load = Load(engine=engine, psql=psql, towns=towns)
            await load.run()
            await say(engine, world.n, world.issue)
            await settled(engine)
            load.expect_faults()
            assert load.tally.surprises() == {}
            assert await orphans(psql, await columns(psql)) == {}
            assert await psql.value("SELECT count(*) FROM workspace") == 1
            assert await psql.value("SELECT count(*) FROM comment") == 1
    errors = [log for log in logs if log["log_level"] in ("error", "critical")]
    assert errors == []
    assert not [log for log in logs if log.get("code") == "internal_error"]
    async with foreign(database_url) as psql:
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert await psql.value(deadlocks) == 0


@attrs.define(kw_only=True)
class Load:
    """Everybody who writes to these towns, and who deletes what they write to."""

    engine: Engine
    psql: Psql
    towns: list[Town]
    tally: Tally = attrs.field(factory=Tally)
    agents_gone: dict[UUID, int] = attrs.field(factory=dict)
    looks: int = 0

    async def run(self) -> None:
        """Write for a while, delete issues and agents all along, and the workspaces at the end."""
        async with trio.open_nursery() as watch:
            watch.start_soon(self._watch)
            async with trio.open_nursery() as people:
                for number, town in enumerate(self.towns):
                    start = partial(self._start, people, town)
                    start(Crew, 100 * number)
                    for each in range(1, WRITERS + 1):
                        start(partial(Writer, psql=self.psql), 100 * number + each)
                async with trio.open_nursery() as deleters:
                    deadline = trio.current_time() + SECONDS
                    for town in self.towns[:-1]:
                        deleters.start_soon(self._delete_issues, town, deadline)
                    deleters.start_soon(self._delete_agents, self.towns[-1], deadline)
                for town in self.towns:
                    await self._look_at_runs(town)
                    await self._delete(town)
            watch.cancel_scope.cancel()

    def _start(self, people: trio.Nursery, town: Town, kind: Callable[..., Any], seed: int) -> None:
        person = kind(engine=self.engine, town=town, random=Random(seed), tally=self.tally)
        people.start_soon(person.work if isinstance(person, Crew) else person.write)

    async def _watch(self) -> None:
        """At no instant is anything left of what is gone."""
        pairs = await columns(self.psql, without=HISTORY | BY_FOREIGN_HANDS)
        while True:
            assert await orphans(self.psql, pairs) == {}
            self.looks += 1
            await trio.sleep(0.2)  # paced: any moment will do

    # --- Who deletes --------------------------------------------------------------------------

    async def _delete_issues(self, town: Town, deadline: float) -> None:
        """Delete the oldest issue while somebody writes to it; another one takes its place."""
        while trio.current_time() < deadline:
            with self.tally.counting("settle"):
                await settle(self.engine, town)
            issue = town.issues[0]
            if town.busy[issue]:
                town.met += 1
            with self.tally.counting("delete issue"):
                await self.engine.submit(town.owner, DeleteIssue(issue_id=issue))
                town.gone[issue] = await self.psql.value(_RUNS.format("issue_id"), issue)
                town.issues.remove(issue)

    async def _delete_agents(self, town: Town, deadline: float) -> None:
        """Remove agents with their runtimes by SQL, spread over the time; one of them stays."""
        pause = (deadline - trio.current_time()) / (AGENTS_GONE + 1)
        for _ in range(AGENTS_GONE):
            await trio.sleep(pause)  # paced: so that the agents have work until then
            agent, runtime = town.agents.pop(0), town.runtimes.pop(0)
            await self.psql.together(
                (_REMOVED, agent), (_RUNTIME_REMOVED, runtime), (_WITHDRAWN, agent)
            )
            self.agents_gone[agent] = await self.psql.value(_RUNS.format("agent_id"), agent)

    async def _delete(self, town: Town) -> None:
        """Delete a workspace, again if somebody held what was needed for too long."""
        command = DeleteWorkspace(workspace_id=town.workspace_id)
        while not town.is_gone:
            assert town.busy[town.workspace_id] > 0, "nobody is writing"
            began = trio.current_time()
            with self.tally.counting("delete workspace"):
                await self.engine.submit(town.owner, command)
                town.is_gone = True
                assert town.written_until > began - 0.5, "nothing was written any more"

    # --- What came of it ----------------------------------------------------------------------

    async def _look_at_runs(self, town: Town) -> None:
        """No run was made for an issue or an agent after it was deleted, and none waits."""
        for issue, runs in town.gone.items():
            assert await self.psql.value(_RUNS.format("issue_id"), issue) == runs
            assert await self.psql.value(_UNSTARTED, issue) == 0
        if town is self.towns[-1]:
            for agent, runs in self.agents_gone.items():
                assert await self.psql.value(_RUNS.format("agent_id"), agent) == runs

    def expect_faults(self) -> None:
        """Deletions met writers, and writers met deletions, at whatever they were doing."""
        done, gone = self.tally.done, self.tally.refusals
        deleted = sum(len(town.gone) for town in self.towns)
        figures = {
            "issues deleted": deleted,
            "while written to": sum(town.met for town in self.towns),
            "looks": self.looks,
            "done": dict(done),
            "refused": {" ".join(each): count for each, count in self.tally.refused.items()},
        }
        print(figures)  # noqa: T201 - a figure for whoever reads the log
        assert deleted >= SECONDS, figures
        assert sum(town.met for town in self.towns) > deleted / 2, figures
        assert gone("not_found") >= deleted, figures
        assert gone("23503") > 0, figures
        assert len(self.agents_gone) == AGENTS_GONE, figures
        assert all(self.agents_gone.values()), figures
        assert self.looks >= SECONDS, figures
        assert min(done[name] for name in ("create", "claim", "end", "SQL save")) > 0, figures
