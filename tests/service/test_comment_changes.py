from __future__ import annotations

from uuid import UUID

import pytest

from engine.domain.commands.conversation import (
    DeleteComment,
    GetComment,
    ResolveComment,
    UnresolveComment,
    UpdateComment,
)
from engine.domain.commands.tracker import CreateComment, ListComments, ListTimeline
from engine.domain.views.conversation import CommentView
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.test_comments import called, say


async def told(execute: Executor, world: World) -> list[str]:
    """Return what the issue's timeline tells of comments, oldest first."""
    page = await execute(world.m, ListTimeline(issue_id=world.issue))
    return [each.action for each in reversed(page.items) if each.action.startswith("comment_")]


# --- Editing ------------------------------------------------------------------------------------


async def test_an_author_edits_the_text(execute: Executor, world: World) -> None:
    """The new text stands as it was sent; author, thread and time of the comment stay."""
    comment = await say(execute, world.m, world.issue, "frist")
    edited = await execute(world.m, UpdateComment(comment_id=comment.id, body="  first\n"))
    assert isinstance(edited, CommentView)
    assert edited.body == "  first\n"
    assert (edited.author_id, edited.created_at) == (comment.author_id, comment.created_at)
    assert edited.updated_at > comment.updated_at
    assert await execute(world.n, GetComment(comment_id=comment.id)) == edited
    assert await told(execute, world) == ["comment_created", "comment_updated"]


async def test_the_same_text_is_no_edit(execute: Executor, sql: Sql, world: World) -> None:
    """W-043: sending what stands there changes no row and no timeline."""
    comment = await say(execute, world.m, world.issue, "first")
    before = await sql("SELECT * FROM comment")
    assert await execute(world.m, UpdateComment(comment_id=comment.id, body="first")) == comment
    assert await sql("SELECT * FROM comment") == before
    assert await told(execute, world) == ["comment_created"]


async def test_who_may_change_a_comment(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-050: the author, owners and admins edit and delete; other members and runs are refused."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    comment = await say(execute, run, world.issue, "mine")
    for caller in (world.m, world.n, await run_of(world.b, world.issue, world.m.user_id)):
        for command in (
            UpdateComment(comment_id=comment.id, body="x"),
            DeleteComment(comment_id=comment.id),
        ):
            assert await execute.refused(caller, command) == "not_allowed"
    for caller in (run, world.g, world.o):
        body = f"{comment.body}, {caller.actor_id}"
        edited = await execute(caller, UpdateComment(comment_id=comment.id, body=body))
        assert (edited.body, edited.author_id) == (body, world.a)


@pytest.mark.parametrize("body", ["", " \n", "nul\x00", "\ud800", "x" * 262_145])
async def test_a_bad_text_is_refused(execute: Executor, world: World, body: str) -> None:
    """An edited comment is held to the rules of a new one."""
    comment = await say(execute, world.m, world.issue, "first")
    command = UpdateComment(comment_id=comment.id, body=body)
    assert await execute.refused(world.m, command, field="body") == "invalid_input"


async def test_an_edit_calls_whom_it_is_the_first_to_mention(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An agent that only the new text mentions gets a run, as by a new comment; others get none."""
    comment = await say(execute, world.m, world.issue, "look, @A")
    assert [run["name"] for run in await called(sql)] == ["A"]
    await sql("DELETE FROM agent_task_queue")
    body = f"look again, [@A](mention://agent/{world.a}) and @b, not @P"
    await execute(world.m, UpdateComment(comment_id=comment.id, body=body))
    (run,) = await called(sql)
    assert (run["name"], run["context"]["reason"]) == ("B", "mention")
    assert (run["trigger_comment_id"], run["issue_id"]) == (comment.id, world.issue)
    assert run["originator_user_id"] == world.m.user_id
    assert execute.work is not None
    assert execute.work.runtimes == {world.runtime_id}


async def test_an_edit_calls_with_the_authority_of_the_editor(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-012, W-192: an admin who adds a mention asks for the run, not the author."""
    comment = await say(execute, world.m, world.issue, "look")
    await execute(world.g, UpdateComment(comment_id=comment.id, body="look @A @P"))
    (run,) = await called(sql)
    assert (run["name"], run["originator_user_id"]) == ("A", world.g.user_id)


# --- Deleting -----------------------------------------------------------------------------------


async def test_a_deleted_comment_leaves_its_place(
    execute: Executor, sql: Sql, world: World
) -> None:
    """A tombstone keeps the thread's shape: id, author and time; its text is nowhere any more."""
    root = await say(execute, world.m, world.issue, "secret")
    reply = await say(execute, world.n, world.issue, "reply", root.id)
    await execute(world.m, DeleteComment(comment_id=root.id))
    page = await execute(world.n, ListComments(issue_id=world.issue))
    tombstone, kept = page.items
    assert kept == reply
    assert (tombstone.id, tombstone.author_id, tombstone.body) == (root.id, root.author_id, "")
    assert tombstone.deleted_at is not None
    later = await say(execute, world.m, world.issue, "later", reply.id)
    assert later.thread_id == root.id
    assert [row["content"] for row in await sql("SELECT content FROM comment ORDER BY id")] == [
        "",
        "reply",
        "later",
    ]


async def test_deleting_twice_is_deleting_once(execute: Executor, sql: Sql, world: World) -> None:
    """Deleting is idempotent: the second time keeps the first time and adds no entry."""
    comment = await say(execute, world.m, world.issue, "oops")
    await execute(world.m, DeleteComment(comment_id=comment.id))
    before = await sql("SELECT * FROM comment")
    await execute(world.m, DeleteComment(comment_id=comment.id))
    await execute(world.g, DeleteComment(comment_id=comment.id))
    assert await sql("SELECT * FROM comment") == before
    assert await told(execute, world) == ["comment_created", "comment_deleted"]
    delete = DeleteComment(comment_id=comment.id)
    assert await execute.refused(world.n, delete) == "not_allowed"


async def test_a_deleted_comment_takes_part_in_nothing(execute: Executor, world: World) -> None:
    """W-019: by its id a deleted comment is not there: no look, no edit, no resolving, no reply."""
    comment = await say(execute, world.m, world.issue, "oops")
    await execute(world.m, DeleteComment(comment_id=comment.id))
    for asked in (
        GetComment(comment_id=comment.id),
        UpdateComment(comment_id=comment.id, body="x"),
        ResolveComment(comment_id=comment.id),
        UnresolveComment(comment_id=comment.id),
    ):
        assert await execute.refused(world.m, asked) == "not_found"
    reply = CreateComment(issue_id=world.issue, body="x", parent_id=comment.id)
    assert await execute.refused(world.m, reply, field="parent_id") == "invalid_input"


# --- Resolving ----------------------------------------------------------------------------------


async def test_whoever_sees_the_issue_resolves(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """A comment says who dealt with it and when; a second time changes nothing, nor whose it is."""
    comment = await say(execute, world.m, world.issue, "which colour?")
    run = await run_of(world.a, world.issue, world.m.user_id)
    resolved = await execute(run, ResolveComment(comment_id=comment.id))
    assert resolved.resolved_at is not None
    assert (resolved.resolved_by_type, resolved.resolved_by_id) == ("agent", world.a)
    assert resolved.author_id == world.m.user_id
    assert await execute(world.n, ResolveComment(comment_id=comment.id)) == resolved
    opened = await execute(world.n, UnresolveComment(comment_id=comment.id))
    assert (opened.resolved_at, opened.resolved_by_type, opened.resolved_by_id) == (None,) * 3
    assert await execute(world.n, UnresolveComment(comment_id=comment.id)) == opened
    assert await told(execute, world) == [
        "comment_created",
        "comment_resolved",
        "comment_unresolved",
    ]


async def test_the_timeline_names_the_comment_and_who_acted(
    execute: Executor, world: World
) -> None:
    """W-233: an entry about a comment holds its id and the actor, and nothing of its text."""
    comment = await say(execute, world.m, world.issue, "secret text")
    await execute(world.g, DeleteComment(comment_id=comment.id))
    newest = (await execute(world.m, ListTimeline(issue_id=world.issue))).items[0]
    assert (newest.action, newest.actor_id) == ("comment_deleted", world.g.user_id)
    assert newest.details == {"comment_id": str(comment.id)}


async def test_what_others_may_not_see_is_not_there(execute: Executor, world: World) -> None:
    """W-191: a comment of another workspace, or of none, is 404; a daemon has no comments."""
    comment = await say(execute, world.m, world.issue, "here")
    for caller, comment_id, code in (
        (world.s, comment.id, "not_found"),
        (world.m, UUID(int=1), "not_found"),
        (world.daemon, comment.id, "not_allowed"),
    ):
        for asked in (
            GetComment(comment_id=comment_id),
            UpdateComment(comment_id=comment_id, body="x"),
            DeleteComment(comment_id=comment_id),
            ResolveComment(comment_id=comment_id),
            UnresolveComment(comment_id=comment_id),
        ):
            assert await execute.refused(caller, asked) == code
