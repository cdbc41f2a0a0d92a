"""Changes of what is said beside open transactions of others: each sees what the other left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
import trio

from engine.domain.commands import Command
from engine.domain.commands.conversation import (
    AddCommentReaction,
    AddIssueReaction,
    BindAttachment,
    CreateAttachment,
    DeleteAttachment,
    DeleteComment,
    ResolveComment,
    UpdateComment,
)
from engine.errors import WakefulError
from tests.service.conftest import Executor, Sql, World
from tests.service.test_comments import say
from tests.sql.psql_session import PsqlSession


async def beside(
    execute: Executor, world: World, writer: PsqlSession, statement: str, command: Command
) -> Any:
    """Call as M while another writer holds a change back; return the view, or the error's code.

    The call must have waited for the other's commit.
    """
    outcome: list[Any] = []

    async def call() -> None:
        try:
            outcome.append(await execute(world.m, command))
        except WakefulError as error:
            outcome.append(error.code)

    writer.ask(f"BEGIN; {statement}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await writer.wait_blocking()
        assert outcome == []
        writer.ask("COMMIT")
    return outcome[0]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda comment, _: UpdateComment(comment_id=comment, body="x"), "not_found"),
        (lambda comment, _: ResolveComment(comment_id=comment), "not_found"),
        (lambda comment, _: AddCommentReaction(comment_id=comment, emoji="+1"), "not_found"),
        (lambda comment, file: BindAttachment(attachment_id=file, comment_id=comment),
         "invalid_input"),
        (lambda comment, _: DeleteComment(comment_id=comment), None),
    ],
)  # fmt: skip
async def test_a_comment_that_is_being_deleted_takes_nothing_more(
    execute: Executor,
    sql: Sql,
    world: World,
    database_url: str,
    make: Callable[[UUID, UUID], Command],
    code: str | None,
) -> None:
    """W-019: a change that meets an open deletion waits for it, and then finds no live comment."""
    comment = await say(execute, world.m, world.issue, "here")
    file = await execute(world.m, CreateAttachment(filename="a", content=b""))
    deletion = f"UPDATE comment SET deleted_at = wakeful_now() WHERE id = '{comment.id}'"
    with PsqlSession(database_url) as writer:
        command = make(comment.id, file.id)
        assert await beside(execute, world, writer, deletion, command) == code
    assert await sql("SELECT FROM comment_reaction") == []
    assert await sql("SELECT FROM attachment WHERE comment_id IS NOT NULL") == []


async def test_two_who_move_a_file_do_not_both_win(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-048: who finds a file moved meanwhile is told to try again, and then succeeds."""
    file = await execute(world.m, CreateAttachment(filename="a", content=b""))
    move = f"UPDATE attachment SET issue_id = '{world.other_issue}' WHERE id = '{file.id}'"
    bind = BindAttachment(attachment_id=file.id, issue_id=world.issue)
    with PsqlSession(database_url) as writer:
        assert await beside(execute, world, writer, move, bind) == "contention"
        assert (await execute(world.m, bind)).issue_id == world.issue
        delete = DeleteAttachment(attachment_id=file.id)
        assert await beside(execute, world, writer, move, delete) == "contention"
        removal = f"DELETE FROM attachment_content; DELETE FROM attachment WHERE id = '{file.id}'"
        assert await beside(execute, world, writer, removal, bind) == "not_found"
    assert await sql("SELECT FROM attachment") == []


async def test_a_reaction_that_is_being_made_is_found(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-047: of two reactions at the same moment one is made, and both are answered with it."""
    insert = (
        "INSERT INTO issue_reaction (issue_id, workspace_id, actor_type, actor_id, emoji) VALUES"
        f" ('{world.issue}', '{world.workspace_id}', 'member', '{world.m.user_id}', '+1')"
    )
    react = AddIssueReaction(issue_id=world.issue, emoji="+1")
    with PsqlSession(database_url) as writer:
        found = await beside(execute, world, writer, insert, react)
        (row,) = await sql("SELECT id FROM issue_reaction")
        assert (found.id, found.created) == (row["id"], False)
        made = await beside(execute, world, writer, "DELETE FROM issue_reaction", react)
        assert made.created
    assert [row["id"] for row in await sql("SELECT id FROM issue_reaction")] == [made.id]


async def test_what_goes_with_its_issue_is_not_there(
    execute: Executor, sql: Sql, world: World, database_url: str
) -> None:
    """W-190: a change that meets an open deletion of the issue waits, and then finds nothing."""
    issue = str(world.other_issue)
    for make in (
        lambda comment, _: UpdateComment(comment_id=comment, body="x"),
        lambda comment, _: AddCommentReaction(comment_id=comment, emoji="+1"),
        lambda _, file: BindAttachment(attachment_id=file),
    ):
        comment = await say(execute, world.m, world.other_issue, "here")
        file = await execute(world.m, CreateAttachment(filename="a", content=b""))
        await execute(world.m, BindAttachment(attachment_id=file.id, comment_id=comment.id))
        deletion = (
            f"SELECT FROM issue WHERE id = '{issue}' FOR UPDATE;"
            " DELETE FROM attachment_content; DELETE FROM attachment;"
            f" DELETE FROM comment WHERE issue_id = '{issue}'"
        )
        with PsqlSession(database_url) as writer:
            command = make(comment.id, file.id)
            assert await beside(execute, world, writer, deletion, command) == "not_found"
