"""Steps that the tests of wakeup rules share: drafts, facts, dispatches, and what is stored."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pytest

import engine.service.switching  # noqa: F401 - registers the use cases, those of registration, too
from engine.domain.commands import Command, Query
from engine.domain.commands.wakeups import CreateRule
from engine.domain.principal import Principal
from engine.domain.rules import RuleDraft
from engine.domain.views.wakeups import RuleView
from engine.errors import WakefulError
from engine.service.dispatch import Dispatched, dispatch_alone
from engine.storage.database import Database, Lane, Record
from tests.service.conftest import Executor, Sql, World

TABLES = ("issue_wakeup", "issue_wakeup_receipt", "agent_task_queue", "activity_log")


def a_draft(world: World, **changes: Any) -> RuleDraft:
    """Return a continuous rule that wakes A at every comment, changed as said."""
    values: dict[str, Any] = {
        "agent_id": world.a,
        "instruction": "Read the newest comment.",
        "kind": "event",
        "mode": "continuous",
        "event_types": ("comment.created",),
    }
    return RuleDraft(**{**values, **changes})


def a_timer(world: World, **changes: Any) -> RuleDraft:
    """Return a rule that wakes A every hour, changed as said."""
    values: dict[str, Any] = {
        "agent_id": world.a,
        "instruction": "Look again.",
        "kind": "every",
        "interval_seconds": 3_600,
    }
    return RuleDraft(**{**values, **changes})


async def create(
    execute: Executor, world: World, caller: Principal | None = None, **changes: Any
) -> RuleView:
    """Register a comment rule on issue I, as M unless said otherwise."""
    view = await execute(
        caller or world.m, CreateRule(issue_id=world.issue, draft=a_draft(world, **changes))
    )
    assert isinstance(view, RuleView)
    return view


async def refused(execute: Executor, caller: Principal, command: Command | Query) -> str:
    """Return the code with which a call is refused."""
    with pytest.raises(WakefulError) as caught:
        await execute(caller, command)
    return caught.value.code


async def comment(sql: Sql, issue_id: UUID, author: UUID | None = None) -> UUID:
    """Write a comment like psql, by a member if one is named."""
    rows = await sql(
        "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)"
        " SELECT i.id, i.workspace_id, CASE WHEN $2::uuid IS NULL THEN 'system' ELSE 'member' END,"
        " $2, 'words' FROM issue i WHERE i.id = $1 RETURNING id",
        issue_id,
        author,
    )
    identifier = rows[0]["id"]
    assert isinstance(identifier, UUID)
    return identifier


async def run_for(sql: Sql, rule: RuleView, status: str, **context: Any) -> UUID:
    """Make a run of a rule in this status."""
    rows = await sql(
        "INSERT INTO agent_task_queue (agent_id, issue_id, status, started_at, context)"
        " VALUES ($1, $2, $3, CASE WHEN $3 IN ('running', 'completed') THEN wakeful_now() END, $4)"
        " RETURNING id",
        rule.agent_id,
        rule.issue_id,
        status,
        {"wakeup_id": str(rule.id), "wakeup_revision": rule.revision, **context},
    )
    identifier = rows[0]["id"]
    assert isinstance(identifier, UUID)
    return identifier


async def statuses(sql: Sql, *run_ids: UUID) -> list[str]:
    """Return the statuses of runs, in the order given."""
    rows = await sql("SELECT id, status FROM agent_task_queue WHERE id = ANY ($1)", run_ids)
    found = {row["id"]: row["status"] for row in rows}
    return [found[run_id] for run_id in run_ids]


async def receipts(sql: Sql, rule: RuleView, *, pending: bool = True) -> list[Record]:
    """Return the receipts of a rule, oldest first."""
    return await sql(
        "SELECT * FROM issue_wakeup_receipt"
        " WHERE wakeup_id = $1 AND (processed_at IS NULL OR NOT $2) ORDER BY seq",
        rule.id,
        pending,
    )


async def stored(sql: Sql) -> dict[str, list[str]]:
    """Return every row of what a change of a rule may touch, to compare byte for byte."""
    return {
        table: [
            row["line"] for row in await sql(f"SELECT t::text AS line FROM {table} t ORDER BY 1")
        ]
        for table in TABLES
    }


async def dispatch(database: Database, issue_id: UUID) -> Dispatched:
    """Dispatch the rules of an issue, as its actor does."""
    done = Dispatched()
    unit = partial(dispatch_alone, done=done, issue_id=issue_id, barred=[])
    await database.write(Lane.DISPATCH, unit)
    return done
