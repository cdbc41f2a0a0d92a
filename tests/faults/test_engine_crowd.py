"""Fifty writers of every family of events on one issue with 32 rules, beside a running engine."""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Final
from uuid import UUID

import attrs
import trio

from engine.domain.events import EVENTS, Family
from engine.errors import WakefulError
from tests.engine.foreign import Psql, foreign
from tests.engine.world import World, running, settled, stage

SECONDS: Final = float(os.environ.get("CHAOS_SECONDS", "8"))
WRITERS: Final = 50
RULES: Final = 32
FACTS: Final = (
    "SELECT event_type, sum((payload ->> 'coalesced_count')::bigint)::int AS facts"
    "  FROM issue_wakeup_receipt WHERE wakeup_id = ANY ($1) GROUP BY event_type"
)
COMMENT: Final = (
    "INSERT INTO comment (id, issue_id, workspace_id, content) VALUES ($1, $2, $3, 'x')"
)
CLOSE: Final = "UPDATE issue SET status = 'done' WHERE id = $1"
REOPEN: Final = "UPDATE issue SET status = 'todo' WHERE id = $1"
SWITCH_ON: Final = (
    "UPDATE issue_wakeup SET enabled = true, disabled_at = NULL, revision = revision + 1"
    " WHERE issue_id = $1"
)
# What each field of the issue becomes, so that it is always another value, and what that is.
FIELDS: Final = {
    "title = gen_random_uuid()": "issue.updated",
    "status = CASE status WHEN 'todo' THEN 'blocked' ELSE 'todo' END": "issue.status_changed",
    "assignee_type = 'member', assignee_id = gen_random_uuid()": "issue.assignee_changed",
    "parent_issue_id = CASE WHEN parent_issue_id IS NULL THEN $2::uuid END": "issue.parent_changed",
    "project_id = CASE WHEN project_id IS NULL THEN $3::uuid END": "issue.project_changed",
    "properties = jsonb_build_object('p', gen_random_uuid())": "issue.properties_changed",
    "metadata = jsonb_build_object('m', gen_random_uuid())": "issue.metadata_changed",
}

FILE: Final = (
    "INSERT INTO attachment (id, workspace_id, uploader_type, uploader_id, filename)"
    " VALUES ($1, $2, 'member', $3, 'f')"
)

Statement = tuple[object, ...]
Step = tuple[list[Statement], list[str]]


async def test_a_crowd_changes_everything_at_once(database_url: str) -> None:
    """W-051, G-01, G-03: fifty writers of every family in any order, 32 rules: no deadlock.

    Beside them another issue is closed, reopened and its rules are switched on again. In the end
    each rule has counted every fact.
    """
    async with (
        stage(database_url, connections=WRITERS + 2) as (psql, world),
        running(database_url) as engine,
    ):
        rules = [await psql.rule(world, event_types=[*EVENTS]) for _ in range(RULES)]
        await psql.rule(world, event_types=[*EVENTS], issue_id=world.other_issue)
        project = await psql.insert("project", {"workspace_id": world.workspace_id, "name": "P"})
        written: Counter[str] = Counter()
        crowd = [
            Writer(psql=psql, world=world, project=project, random=Random(number), written=written)
            for number in range(WRITERS - 4)
        ]
        deadline = trio.current_time() + SECONDS
        other = OtherIssue(psql=psql, world=world, deadline=deadline)
        async with trio.open_nursery() as nursery:
            for writer in crowd:
                nursery.start_soon(writer.write, deadline)
            for step in (other.close, other.reopen, other.comment, other.comment):
                nursery.start_soon(step)
        await psql.drained(*rules, within=60)
        await settled(engine)
        facts = {row["event_type"]: row["facts"] for row in await psql(FACTS, rules)}
        assert written.keys() == {
            name for name, event in EVENTS.items() if event.family is not Family.TASK
        }
        assert {name: facts[name] for name in written} == {
            name: RULES * count for name, count in written.items()
        }
        assert facts["task.deferred"] > RULES
        assert other.closings > 1
    async with foreign(database_url) as psql:
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert await psql.value(deadlocks) == 0


def new_id(random: Random) -> UUID:
    """Return an id that nothing else has."""
    return UUID(int=random.getrandbits(128), version=4)


@attrs.define(kw_only=True)
class Writer:
    """One of many writers, with a comment, a label, a reaction and a file of its own.

    Every transaction has two steps of different families in any order, on the shared issue. Its
    row changes in at most one of them: rows that two writers change in opposite orders are their
    own affair.
    """

    psql: Psql
    world: World
    project: UUID
    random: Random
    written: Counter[str]
    own_comment: UUID = attrs.field(init=False)
    own_label: UUID = attrs.field(init=False)
    own_file: UUID = attrs.field(init=False)
    actor: UUID = attrs.field(init=False)
    is_on: dict[str, bool] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        """Choose the ids of what is its own."""
        self.own_comment, self.own_label = new_id(self.random), new_id(self.random)
        self.own_file, self.actor = new_id(self.random), new_id(self.random)

    async def write(self, deadline: float) -> None:
        """Write until the deadline, and count what was committed."""
        workspace_id = self.world.workspace_id
        await self.psql.together(
            (COMMENT, self.own_comment, self.world.issue, workspace_id),
            (
                "INSERT INTO issue_label (id, workspace_id, name) VALUES ($1, $2, $3)",
                self.own_label,
                workspace_id,
                str(self.own_label),
            ),
            (FILE, self.own_file, workspace_id, self.actor),
        )
        self.written["comment.created"] += 1
        while trio.current_time() < deadline:
            makers = (self.comment, self.label, self.reaction, self.file, self.run, self.field)
            steps = [make() for make in self.random.sample(makers, 2)]
            await self.psql.together(*(each for statements, _ in steps for each in statements))
            self.written.update(fact for _, facts in steps for fact in facts)

    def turns(self, name: str) -> bool:
        """Tell whether something of this writer's goes on now; every other time it does."""
        self.is_on[name] = not self.is_on.get(name, False)
        return self.is_on[name]

    def comment(self) -> Step:
        """Write a comment and take it back, or change the own one."""
        match self.random.randrange(3):
            case 0:
                new = new_id(self.random)
                gone = "UPDATE comment SET deleted_at = now() WHERE id = $1"
                first: Statement = (COMMENT, new, self.world.issue, self.world.workspace_id)
                return [first, (gone, new)], ["comment.created", "comment.deleted"]
            case 1:
                sql = "UPDATE comment SET content = gen_random_uuid() WHERE id = $1"
                return [(sql, self.own_comment)], ["comment.updated"]
            case _:
                is_on = self.turns("resolution")
                sql = "UPDATE comment SET resolved_at = CASE WHEN $2 THEN now() END WHERE id = $1"
                fact = "comment.resolved" if is_on else "comment.unresolved"
                return [(sql, self.own_comment, is_on)], [fact]

    def label(self) -> Step:
        """Attach the own label, or detach it."""
        sql = (
            "INSERT INTO issue_to_label (issue_id, label_id) VALUES ($1, $2)"
            if self.turns("label")
            else "DELETE FROM issue_to_label WHERE issue_id = $1 AND label_id = $2"
        )
        return [(sql, self.world.issue, self.own_label)], ["issue.labels_changed"]

    def reaction(self) -> Step:
        """React to the issue or to the own comment, or take that back."""
        table, target = self.random.choice(
            (("issue", self.world.issue), ("comment", self.own_comment))
        )
        if self.turns(table):
            sql = (
                f"INSERT INTO {table}_reaction ({table}_id, actor_id, workspace_id, actor_type,"
                " emoji) VALUES ($1, $2, $3, 'member', '+1')"
            )
            return [(sql, target, self.actor, self.world.workspace_id)], ["reaction.added"]
        sql = f"DELETE FROM {table}_reaction WHERE {table}_id = $1 AND actor_id = $2"
        return [(sql, target, self.actor)], ["reaction.removed"]

    def file(self) -> Step:
        """Bind the own file to the own comment, or to nothing."""
        is_on = self.turns("file")
        sql = "UPDATE attachment SET comment_id = $2 WHERE id = $1"
        fact = "attachment.attached" if is_on else "attachment.detached"
        return [(sql, self.own_file, self.own_comment if is_on else None)], [fact]

    def run(self) -> Step:
        """Put a run off; what an engine queues is not counted here."""
        sql = (
            "INSERT INTO agent_task_queue (agent_id, issue_id, status) VALUES ($1, $2, 'deferred')"
        )
        return [(sql, self.world.b, self.world.issue)], []

    def field(self) -> Step:
        """Change one field of the issue to something else."""
        change, fact = self.random.choice([*FIELDS.items()])
        sql = f"UPDATE issue SET {change} WHERE id = $1 AND $2::uuid <> $3::uuid"
        statement = (sql, self.world.issue, self.world.other_issue, self.project)
        return [statement], list({"issue.updated", fact})


@attrs.define(kw_only=True)
class OtherIssue:
    """Those who close an issue, comment on it, open it again and switch its rules on."""

    psql: Psql
    world: World
    deadline: float
    closings: int = 0

    def _comment(self) -> Statement:
        return (
            "INSERT INTO comment (issue_id, workspace_id, content) VALUES ($1, $2, 'x')",
            self.world.other_issue,
            self.world.workspace_id,
        )

    async def close(self) -> None:
        """Say something last, and close; nobody may make this fail."""
        while trio.current_time() < self.deadline:
            await self.psql.together(self._comment(), (CLOSE, self.world.other_issue))
            self.closings += 1

    async def reopen(self) -> None:
        """Open, and switch the rules on; that may meet a writer who is in its way (55P03)."""
        issue = self.world.other_issue
        while trio.current_time() < self.deadline:
            try:
                await self.psql.together((REOPEN, issue), (SWITCH_ON, issue), self._comment())
            except WakefulError as error:
                if "55P03" not in str(error):
                    raise

    async def comment(self) -> None:
        """Comment all the time."""
        while trio.current_time() < self.deadline:
            await self.psql.together(self._comment())
