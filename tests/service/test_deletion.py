"""Nothing that hangs on an issue or a workspace outlives it: there are no cascades (W-189)."""

from __future__ import annotations

from uuid import UUID

# Importing a module of use cases registers them.
import engine.service.all  # noqa: F401 - as above
from engine.domain.commands.catalogue import (
    CreateLabel,
    CreateProject,
    CreateProperty,
    CreateSquad,
    CreateStatus,
    SquadMember,
)
from engine.domain.commands.tracker import (
    AttachLabel,
    CreateComment,
    DeleteIssue,
    DeleteWorkspace,
    SetProperty,
    UpdateIssue,
)
from tests.service.conftest import Executor, Sql, World

RULE = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    " mode, event_types) VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous',"
    " '{issue.labels_changed,reaction.removed,attachment.detached,comment.deleted}')"
)
# What hangs on an issue and on a comment of it, and has use cases of its own.
HANGING = """
WITH reaction AS (
  INSERT INTO issue_reaction (issue_id, workspace_id, actor_type, actor_id, emoji)
  VALUES ($2, $1, 'member', $4, '+')
), remark AS (
  INSERT INTO comment_reaction (comment_id, workspace_id, actor_type, actor_id, emoji)
  VALUES ($3, $1, 'member', $4, '+')
), file AS (
  INSERT INTO attachment (workspace_id, issue_id, comment_id, uploader_type, uploader_id, filename)
  VALUES ($1, $2, NULL, 'member', $4, 'a'), ($1, NULL, $3, 'member', $4, 'b')
  RETURNING id
), content AS (
  INSERT INTO attachment_content (attachment_id, content) SELECT file.id, 'x' FROM file
)
INSERT INTO inbox_item (workspace_id, recipient_id, type, issue_id, title)
VALUES ($1, $4, 'mentioned', $2, 'Look')
"""
TABLES_WITH = (
    "SELECT t.table_name AS name FROM information_schema.tables t"
    " JOIN information_schema.columns c USING (table_schema, table_name)"
    " WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.column_name = $1"
    " ORDER BY 1"
)
OUTLIVING = {"agent_task_queue"}  # a run ends in an issue that is not there any more
BY_OTHERS = ("attachment_content", "comment_reaction", "squad_member")  # neither column


async def fill(execute: Executor, sql: Sql, world: World, issue_id: UUID, name: str) -> None:
    """Hang on an issue whatever can hang on one."""
    assert world.m.user_id is not None
    place = world.workspace_id
    label = await execute(world.m, CreateLabel(workspace_id=place, name=name))
    prop = await execute(world.m, CreateProperty(workspace_id=place, name=name))
    project = await execute(world.m, CreateProject(workspace_id=place, name=name))
    person = SquadMember(type="member", id=world.m.user_id)
    squad = await execute(
        world.m, CreateSquad(workspace_id=place, name=name, leader_id=world.a, members=(person,))
    )
    status = await execute(
        world.o, CreateStatus(workspace_id=place, key=name, name=name, category="todo")
    )
    await execute(world.m, AttachLabel(issue_id=issue_id, label_id=label.id))
    await execute(world.m, SetProperty(issue_id=issue_id, property_id=prop.id, value="x"))
    await execute(
        world.m,
        UpdateIssue(
            issue_id=issue_id,
            project_id=project.id,
            status=status.key,
            assignee_type="squad",
            assignee_id=squad.id,
        ),
    )
    comment = await execute(world.m, CreateComment(issue_id=issue_id, body="hello"))
    await sql(HANGING, place, issue_id, comment.id, world.m.user_id)
    await sql(RULE, place, issue_id, world.a, world.m.user_id)


async def rows_of(sql: Sql, column: str, value: UUID) -> dict[str, int]:
    """Return how many rows each table with this column has for a value."""
    found = {}
    for table in await sql(TABLES_WITH, column):
        statement = f"SELECT count(*) AS rows FROM {table['name']} WHERE {column} = $1"
        (row,) = await sql(statement, value)
        found[table["name"]] = row["rows"]
    return found


async def test_deleting_an_issue_takes_what_hangs_on_it(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-189: no row of any table names the issue any more, whereas another issue keeps all it has.

    The tables are those that the database has, so that a new one cannot be forgotten.
    """
    for issue_id, name in ((world.issue, "first"), (world.other_issue, "second")):
        await fill(execute, sql, world, issue_id, name)
    before = await rows_of(sql, "issue_id", world.issue)
    kept = await rows_of(sql, "issue_id", world.other_issue)
    assert {
        "issue_to_label", "issue_reaction", "attachment", "inbox_item", "comment", "activity_log",
        "issue_wakeup",
    } <= {name for name, rows in before.items() if rows}  # fmt: skip
    await execute(world.m, DeleteIssue(issue_id=world.issue))
    left = {name for name, rows in (await rows_of(sql, "issue_id", world.issue)).items() if rows}
    assert left <= OUTLIVING
    assert await rows_of(sql, "issue_id", world.other_issue) == kept
    for table, rows in (("attachment_content", 2), ("comment_reaction", 1)):
        assert len(await sql(f"SELECT FROM {table}")) == rows
    assert await sql("SELECT FROM issue_wakeup_receipt") == []
    assert len(await sql("SELECT FROM issue_label")) == 2


async def test_deleting_a_workspace_takes_its_catalogues(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-189: no row of any table names the workspace, or hangs on what was in it; others stay."""
    elsewhere = next(iter(world.s.roles))
    await execute(world.s, CreateLabel(name="Theirs"))
    others = await rows_of(sql, "workspace_id", elsewhere)
    await fill(execute, sql, world, world.issue, "first")
    assert sum((await rows_of(sql, "workspace_id", world.workspace_id)).values()) > 20
    await execute(world.o, DeleteWorkspace(workspace_id=world.workspace_id))
    found = await rows_of(sql, "workspace_id", world.workspace_id)
    assert {name: rows for name, rows in found.items() if rows} == {}
    for table in (*BY_OTHERS, "agent_task_queue", "issue_wakeup_receipt", "issue_to_label"):
        assert await sql(f"SELECT FROM {table}") == [], table
    assert await rows_of(sql, "workspace_id", elsewhere) == others
