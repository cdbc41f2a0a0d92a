from __future__ import annotations

from uuid import UUID

import pytest

from engine.domain.commands.conversation import (
    AddCommentReaction,
    AddIssueReaction,
    DeleteComment,
    ListCommentReactions,
    ListIssueReactions,
    RemoveCommentReaction,
    RemoveIssueReaction,
)
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.test_comments import say

THUMB = "\U0001f44d"


async def test_a_reaction_is_its_actors(execute: Executor, world: World, run_of: RunOf) -> None:
    """W-193: people and agents react in their own name, each emoji once; lists are oldest first."""
    comment = await say(execute, world.m, world.issue, "done")
    run = await run_of(world.a, world.issue, world.m.user_id)
    on_issue = await execute(world.m, AddIssueReaction(issue_id=world.issue, emoji=THUMB))
    on_comment = await execute(run, AddCommentReaction(comment_id=comment.id, emoji="+1"))
    assert (on_issue.created, on_comment.created) == (True, True)
    assert (on_issue.target_type, on_issue.target_id) == ("issue", world.issue)
    assert (on_comment.target_type, on_comment.target_id) == ("comment", comment.id)
    assert (on_issue.actor_type, on_issue.actor_id) == ("member", world.m.user_id)
    assert (on_comment.actor_type, on_comment.actor_id) == ("agent", world.a)
    page = await execute(world.n, ListIssueReactions(issue_id=world.issue))
    assert [(each.id, each.emoji) for each in page.items] == [
        (on_issue.id, THUMB),
        (on_comment.id, "+1"),
    ]
    page = await execute(world.n, ListCommentReactions(comment_id=comment.id))
    assert [each.id for each in page.items] == [on_comment.id]
    page = await execute(world.n, ListIssueReactions(issue_id=world.issue, limit=1, offset=1))
    assert ([each.id for each in page.items], page.total) == ([on_comment.id], 2)


async def test_a_reaction_stands_once(execute: Executor, sql: Sql, world: World) -> None:
    """W-047: the same emoji of the same actor again is the reaction that stands, not another."""
    comment = await say(execute, world.m, world.issue, "done")
    for command in (
        AddIssueReaction(issue_id=world.issue, emoji=THUMB),
        AddCommentReaction(comment_id=comment.id, emoji=THUMB),
    ):
        first = await execute(world.m, command)
        again = await execute(world.m, command)
        assert (again.id, again.created, again.created_at) == (first.id, False, first.created_at)
        assert (await execute(world.n, command)).created
    assert len(await sql("SELECT FROM issue_reaction")) == 2
    assert len(await sql("SELECT FROM comment_reaction")) == 2


async def test_one_takes_back_ones_own(execute: Executor, world: World) -> None:
    """Only the caller's reaction with this emoji goes; what is not there may be taken back."""
    comment = await say(execute, world.m, world.issue, "done")
    for caller in (world.m, world.n):
        await execute(caller, AddIssueReaction(issue_id=world.issue, emoji=THUMB))
        await execute(caller, AddCommentReaction(comment_id=comment.id, emoji=THUMB))
    for _ in range(2):
        await execute(world.m, RemoveIssueReaction(issue_id=world.issue, emoji=THUMB))
        await execute(world.m, RemoveCommentReaction(comment_id=comment.id, emoji=THUMB))
        await execute(world.n, RemoveCommentReaction(comment_id=comment.id, emoji="+1"))
    page = await execute(world.m, ListIssueReactions(issue_id=world.issue))
    assert [each.actor_id for each in page.items] == [world.n.user_id] * 2


async def test_a_deleted_comment_has_no_reactions(execute: Executor, world: World) -> None:
    """W-019: nobody reacts to a deleted comment, and its reactions are not shown any more."""
    comment = await say(execute, world.m, world.issue, "oops")
    await execute(world.n, AddCommentReaction(comment_id=comment.id, emoji=THUMB))
    await execute(world.m, DeleteComment(comment_id=comment.id))
    for asked in (
        AddCommentReaction(comment_id=comment.id, emoji="+1"),
        RemoveCommentReaction(comment_id=comment.id, emoji=THUMB),
        ListCommentReactions(comment_id=comment.id),
    ):
        assert await execute.refused(world.n, asked) == "not_found"
    assert (await execute(world.n, ListIssueReactions(issue_id=world.issue))).total == 0


@pytest.mark.parametrize("emoji", ["", "x" * 65, THUMB * 17, "a\nb", " x", "a/b", "..", "\x00"])
async def test_a_bad_emoji_is_refused(execute: Executor, world: World, emoji: str) -> None:
    """An emoji is 1 to 64 bytes of text, wherever it is given; the error names the field."""
    comment = await say(execute, world.m, world.issue, "done")
    for command in (
        AddIssueReaction(issue_id=world.issue, emoji=emoji),
        RemoveIssueReaction(issue_id=world.issue, emoji=emoji),
        AddCommentReaction(comment_id=comment.id, emoji=emoji),
        RemoveCommentReaction(comment_id=comment.id, emoji=emoji),
    ):
        assert await execute.refused(world.m, command, field="emoji") == "invalid_input"


async def test_what_others_may_not_see_has_no_reactions(execute: Executor, world: World) -> None:
    """W-191: reacting where one may not read, or where nothing is, is 404."""
    comment = await say(execute, world.m, world.issue, "here")
    for caller, issue_id, comment_id in (
        (world.s, world.issue, comment.id),
        (world.m, UUID(int=1), UUID(int=1)),
    ):
        for asked in (
            AddIssueReaction(issue_id=issue_id, emoji=THUMB),
            RemoveIssueReaction(issue_id=issue_id, emoji=THUMB),
            ListIssueReactions(issue_id=issue_id),
            AddCommentReaction(comment_id=comment_id, emoji=THUMB),
            RemoveCommentReaction(comment_id=comment_id, emoji=THUMB),
            ListCommentReactions(comment_id=comment_id),
        ):
            assert await execute.refused(caller, asked) == "not_found"
