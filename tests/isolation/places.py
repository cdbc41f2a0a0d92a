"""The place where the parts of a specification meet: an issue of their own, with what they need.

All of it is written by the connection of the specification, like psql: set-up is quick, so that
there can be many orders.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain.principal import Principal, PrincipalKind
from engine.service.dispatch import Dispatched, dispatch_alone
from engine.storage import queries
from engine.storage.database import Query, Record, Session
from engine.storage.units import Dedicated
from tests.engine.world import DAEMON, World

COMMENT: Final = "comment.created"
NOTHING: Final = UUID(int=0)
_gateway: Final = queries.load("gateway")

_PLACE: Final = Query(
    "place.make",
    "WITH t AS (INSERT INTO agent_runtime (workspace_id, daemon_id, name, provider, last_seen_at)"
    "   VALUES ($1, $2, gen_random_uuid(), 'test', wakeful_now()) RETURNING id),"
    " a AS (INSERT INTO agent (workspace_id, name, owner_id, runtime_id)"
    "   SELECT $1, gen_random_uuid(), $3, t.id FROM t RETURNING id, runtime_id),"
    " n AS (UPDATE workspace SET issue_counter = issue_counter + 1 WHERE id = $1"
    "   RETURNING issue_counter),"
    " i AS (INSERT INTO issue (workspace_id, number, title)"
    "   SELECT $1, issue_counter, 'Where they meet' FROM n RETURNING id)"
    " SELECT i.id AS issue, a.id AS agent, a.runtime_id AS runtime FROM i, a",
)
_COMMENT: Final = Query(
    "place.comment",
    "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)"
    " SELECT i.id, i.workspace_id, 'member', $2, 'words' FROM issue i WHERE i.id = $1 RETURNING id",
)
_TOLD: Final = Query(
    "place.told",
    "SELECT x.event_type, x.processed_at IS NOT NULL AS is_over, x.task_id, x.revision,"
    "       coalesce((x.payload ->> 'coalesced_count')::integer, 1) AS count"
    "  FROM issue_wakeup_receipt x WHERE x.wakeup_id = $1 ORDER BY x.seq",
)
_RUNS: Final = Query(
    "place.runs", "SELECT * FROM agent_task_queue WHERE issue_id = $1 ORDER BY created_at, id"
)
_RULE: Final = Query("place.rule_row", "SELECT * FROM issue_wakeup WHERE id = $1")
_RULES: Final = Query("place.rules", "SELECT * FROM issue_wakeup WHERE issue_id = $1 ORDER BY id")


@attrs.frozen(kw_only=True)
class Place:
    """An issue, an agent on a runtime of its own, and what a specification put there."""

    world: World
    issue: UUID
    agent: UUID
    runtime: UUID
    rule: UUID = NOTHING
    run: UUID = NOTHING
    comment: UUID = NOTHING
    other: UUID = NOTHING

    @property
    def as_run(self) -> Principal:
        """The caller whom the credential of the run makes."""
        m = self.world.m
        return Principal(
            kind=PrincipalKind.RUN,
            workspace_id=self.world.workspace_id,
            roles=m.roles,
            agent_id=self.agent,
            run_id=self.run,
            originator_user_id=m.user_id,
        )


async def a_place(session: Session, world: World) -> Place:
    """Make an empty place."""
    row = await session.fetchrow(_PLACE, world.workspace_id, DAEMON, world.m.user_id)
    assert row is not None, "an insert returns its row"
    return Place(world=world, issue=row["issue"], agent=row["agent"], runtime=row["runtime"])


async def insert(session: Session, table: str, **columns: Any) -> UUID:
    """Insert a row and return its id."""
    names, places = ", ".join(columns), ", ".join(f"${n + 1}" for n in range(len(columns)))
    text = f"INSERT INTO {table} ({names}) VALUES ({places}) RETURNING id"
    identifier = await session.fetchval(Query(f"place.{table}", text), *columns.values())
    assert isinstance(identifier, UUID)
    return identifier


def rule_columns(place: Place, **changes: Any) -> dict[str, Any]:
    """Return the columns of a rule of M that wakes the agent at every comment, changed as said."""
    return {
        "workspace_id": place.world.workspace_id,
        "issue_id": place.issue,
        "agent_id": place.agent,
        "created_by": place.world.m.user_id,
        "instruction": "look",
        "kind": "event",
        "mode": "continuous",
        "event_types": [COMMENT],
        **changes,
    }


async def with_rule(session: Session, place: Place, **changes: Any) -> Place:
    """Save such a rule."""
    rule = await insert(session, "issue_wakeup", **rule_columns(place, **changes))
    return attrs.evolve(place, rule=rule)


async def with_run(session: Session, place: Place, **columns: Any) -> Place:
    """Make a run of the agent on the issue, of the rule if there is one, in the name of M."""
    context: dict[str, Any] = {}
    if place.rule != NOTHING:
        context = {"wakeup_id": str(place.rule), "wakeup_revision": 1}
    values = {
        "agent_id": place.agent,
        "issue_id": place.issue,
        "runtime_id": place.runtime,
        "originator_user_id": place.world.m.user_id,
        "accountable_user_id": place.world.m.user_id,
        "context": context,
        **columns,
    }
    return attrs.evolve(place, run=await insert(session, "agent_task_queue", **values))


async def say(session: Session, place: Place) -> UUID:
    """Write a comment of M like psql."""
    comment = await session.fetchval(_COMMENT, place.issue, place.world.m.user_id)
    assert isinstance(comment, UUID)
    return comment


async def told(session: Session, rule: UUID) -> list[Record]:
    """Return the receipts of a rule, oldest first."""
    return await session.fetch(_TOLD, rule)


async def runs_at(session: Session, place: Place) -> list[Record]:
    """Return the runs of the issue, oldest first."""
    return await session.fetch(_RUNS, place.issue)


async def rules_at(session: Session, place: Place) -> list[Record]:
    """Return the rules of the issue, oldest first."""
    return await session.fetch(_RULES, place.issue)


async def rule_at(session: Session, place: Place) -> Record | None:
    """Return the rule of the place, None when it is gone."""
    return await session.fetchrow(_RULE, place.rule)


async def dispatch_rest(session: Dedicated, place: Place) -> None:
    """Dispatch what is left, as the retry of an issue that was missed does, or the sweep."""
    await session.begin()
    await session.fetch(_gateway.begin, None, None, None, None)
    await dispatch_alone(session, Dispatched(), place.issue, ())
    await session.fetch(_gateway.flush)
    await session.commit()
