"""Whole workspaces that are deleted beside who writes to them by SQL, and beside their daemon."""

from __future__ import annotations

from typing import Final

import attrs

from engine import limits
from engine.domain.commands.runs import AppendMessages, RenewLease, ReportProgress
from engine.domain.commands.tracker import DeleteWorkspace
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import DAEMON, World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import A_COMMENT, use_case, writer
from tests.isolation.places import Place, with_run
from tests.isolation.specification import SAMPLE_MAX, Ends, Part, Specification

BUSY: Final = "55P03"
ELSEWHERE: Final = A_COMMENT.replace("{issue}", "{other}")
_TOWN: Final = Query(
    "town.make",
    "WITH w AS (INSERT INTO workspace (name, slug, issue_prefix, issue_counter)"
    "   VALUES ('Town', gen_random_uuid(), 'TOWN', 2) RETURNING id),"
    " m AS (INSERT INTO member (workspace_id, user_id, role) SELECT w.id, $1, 'owner' FROM w),"
    " k AS (INSERT INTO access_token (kind, name, user_id, workspace_id, token_hash)"
    "   SELECT 'daemon', 'daemon', $1, w.id, sha256(w.id::text::bytea) FROM w RETURNING id),"
    " d AS (INSERT INTO daemon (workspace_id, daemon_id, token_id)"
    "   SELECT w.id, $2, k.id FROM w, k),"
    " t AS (INSERT INTO agent_runtime (workspace_id, daemon_id, name, provider, last_seen_at)"
    "   SELECT w.id, $2, 'main', 'test', wakeful_now() FROM w RETURNING id),"
    " a AS (INSERT INTO agent (workspace_id, name, owner_id, runtime_id)"
    "   SELECT w.id, 'A', $1, t.id FROM w, t RETURNING id),"
    " i AS (INSERT INTO issue (workspace_id, number, title)"
    "   SELECT w.id, n, 'Where they meet' FROM w, generate_series(1, 2) n ORDER BY n RETURNING id)"
    " SELECT w.id AS workspace, k.id AS token, t.id AS runtime, a.id AS agent,"
    "        ARRAY(SELECT i.id FROM i ORDER BY i.id) AS issues FROM w, k, t, a",
)
_LEFT: Final = Query(
    "town.left",
    "SELECT (SELECT count(*) FROM workspace w WHERE w.id = $1)"
    "     + (SELECT count(*) FROM comment c WHERE c.workspace_id = $1)"
    "     + (SELECT count(*) FROM agent_task_queue q WHERE q.id = $2)"
    "     + (SELECT count(*) FROM run_lease l WHERE l.task_id = $2)"
    "     + (SELECT count(*) FROM run_progress p WHERE p.task_id = $2)"
    "     + (SELECT count(*) FROM run_message m WHERE m.task_id = $2)",
)


async def a_town(session: Session, world: World) -> Place:
    """A workspace of the place's own, with two issues: `other` is the one that is locked first."""
    row = await session.fetchrow(_TOWN, world.o.user_id, DAEMON)
    assert row is not None, "an insert returns its row"
    owner = attrs.evolve(world.o, roles={row["workspace"]: Role.OWNER})
    daemon = Principal(
        kind=PrincipalKind.DAEMON,
        workspace_id=row["workspace"],
        token_id=row["token"],
        daemon_id=DAEMON,
    )
    other, issue = row["issues"]
    town = attrs.evolve(
        world, workspace_id=row["workspace"], o=owner, daemon=daemon, runtime_id=row["runtime"]
    )
    return Place(world=town, issue=issue, other=other, agent=row["agent"], runtime=row["runtime"])


async def a_town_at_work(session: Session, world: World) -> Place:
    """The same with a run that its daemon prepares."""
    place = await a_town(session, world)
    return await with_run(session, place, status="dispatched")


def delete() -> Part:
    """The owner deletes the workspace; a writer may be in the way for too long."""
    return use_case(
        "delete",
        lambda place: DeleteWorkspace(workspace_id=place.world.workspace_id),
        by=lambda place: place.world.o,
        stops=("workspaces.lock_for_delete", "workspaces.lock_issues", "workspaces.delete_runs"),
        may=(BUSY,),
        lock_timeout_ms=limits.DELETION_LOCK_MS_MAX,
    )


async def left(session: Dedicated, place: Place, ends: Ends) -> str:
    """Return how both ended; nothing is left of a workspace that was deleted."""
    if ends["delete"].is_done:
        assert await session.fetchval(_LEFT, place.world.workspace_id, place.run) == 0
    (writing,) = [ended.code for name, ended in ends.items() if name != "delete"]
    return f"delete {ends['delete'].code}, {writing}"


async def test_a_writer_who_takes_the_issues_the_other_way_round(explored: Exploring) -> None:
    """W-189, W-051: who comments on two issues never fails for a deadlock with their deletion."""
    found = await explored(
        Specification(
            parts=(delete(), writer("psql", A_COMMENT, ELSEWHERE, may=("23503",))),
            prepare=a_town,
            judge=left,
            orders_max=12,  # each of those that wait for each other takes seven tenths of a second
        )
    )
    assert {"delete done, done", f"delete {BUSY}, done"} <= found.outcomes.keys()
    assert found.all_waited > 0


async def test_reports_beside_the_end_of_their_workspace(explored: Exploring) -> None:
    """W-189: what a daemon reports on a run goes with the workspace, or finds no run: 404."""
    reports = {
        "lease": lambda place: RenewLease(run_id=place.run),
        "progress": lambda place: ReportProgress(run_id=place.run, summary="half"),
        "messages": lambda place: AppendMessages(run_id=place.run, lines=({"line": 1},)),
    }
    for name, make in reports.items():
        report = use_case(name, make, by=lambda place: place.world.daemon, may=("not_found",))
        found = await explored(
            Specification(
                parts=(delete(), report),
                prepare=a_town_at_work,
                judge=left,
                orders_max=SAMPLE_MAX,
            )
        )
        assert found.outcomes.keys() == {"delete done, done", "delete done, not_found"}
