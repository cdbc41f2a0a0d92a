"""What capture makes of comments, reactions and files: whose fact it is, and how often."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from engine.domain.commands import Command
from engine.domain.commands.conversation import (
    AddCommentReaction,
    AddIssueReaction,
    BindAttachment,
    CreateAttachment,
    DeleteAttachment,
    DeleteComment,
    RemoveCommentReaction,
    RemoveIssueReaction,
    ResolveComment,
    UnresolveComment,
    UpdateComment,
)
from engine.domain.principal import Principal
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.test_comments import say

COMMENTS = ("comment.updated", "comment.deleted", "comment.resolved", "comment.unresolved")
REACTIONS = ("reaction.added", "reaction.removed")
FILES = ("attachment.attached", "attachment.detached")


async def listen(sql: Sql, world: World, *types: str, issue: UUID | None = None) -> UUID:
    """Make a rule of M's for agent B that waits for these events on an issue."""
    rows = await sql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
        " mode, event_types) VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous', $5)"
        " RETURNING id",
        world.workspace_id,
        issue or world.issue,
        world.b,
        world.m.user_id,
        list(types),
    )
    rule_id: UUID = rows[0]["id"]
    return rule_id


async def facts(sql: Sql, rule_id: UUID) -> dict[str, dict[str, Any]]:
    """Return the payload of the one receipt that a rule has of each event."""
    rows = await sql("SELECT * FROM issue_wakeup_receipt WHERE wakeup_id = $1", rule_id)
    found = {row["event_type"]: row["payload"] for row in rows}
    assert len(found) == len(rows)
    return found


async def twice(execute: Executor, caller: Principal, command: Command, issue_id: UUID) -> None:
    """Call twice with the same input; the first time opens the issue's receipt, the second none."""
    opened = []
    for _ in range(2):
        await execute(caller, command)
        opened.append(execute.opened)
    assert opened == [(issue_id,), ()]


def actor(fact: dict[str, Any]) -> tuple[Any, ...]:
    return (fact["actor_type"], fact["actor_id"], fact["source_task_id"], fact["agent_id"])


def person(caller: Principal) -> tuple[Any, ...]:
    return ("member", str(caller.user_id), None, None)


def agent(run: Principal) -> tuple[Any, ...]:
    return ("agent", str(run.agent_id), str(run.run_id), str(run.agent_id))


async def test_an_edit_is_its_editors(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-045, W-050: G edits A's comment: the actor is G and no agent, the author stays A."""
    root = await say(execute, world.m, world.issue, "root")
    run = await run_of(world.a, world.issue, world.m.user_id)
    comment = await say(execute, run, world.issue, "secret", root.id)
    rule_id = await listen(sql, world, *COMMENTS)
    edit = UpdateComment(comment_id=comment.id, body="another secret")
    await twice(execute, world.g, edit, world.issue)
    (fact,) = (await facts(sql, rule_id)).values()
    assert fact["event_type"] == "comment.updated"
    assert fact["coalesced_count"] == 1
    assert actor(fact) == person(world.g)
    assert (fact["author_type"], fact["author_id"]) == ("agent", str(world.a))
    assert (fact["comment_id"], fact["parent_comment_id"]) == (str(comment.id), str(root.id))
    assert fact["thread_id"] == str(root.id)
    assert "secret" not in str(fact)


async def test_a_comment_is_deleted_once(execute: Executor, sql: Sql, world: World) -> None:
    """W-046: deleting is one fact of who deletes; deleting again, and purging the row, are none."""
    comment = await say(execute, world.m, world.issue, "oops")
    rule_id = await listen(sql, world, *COMMENTS)
    await twice(execute, world.g, DeleteComment(comment_id=comment.id), world.issue)
    await sql("DELETE FROM comment WHERE id = $1", comment.id)
    (fact,) = (await facts(sql, rule_id)).values()
    assert fact["event_type"] == "comment.deleted"
    assert fact["coalesced_count"] == 1
    assert actor(fact) == person(world.g)
    assert (fact["author_type"], fact["author_id"]) == ("member", str(world.m.user_id))


async def test_resolving_is_whose_it_is(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-046, W-050: resolving and reopening are one fact each, of who does it, run included."""
    comment = await say(execute, world.m, world.issue, "why?")
    rule_id = await listen(sql, world, *COMMENTS)
    run = await run_of(world.a, world.issue, world.m.user_id)
    await twice(execute, run, ResolveComment(comment_id=comment.id), world.issue)
    await twice(execute, world.n, UnresolveComment(comment_id=comment.id), world.issue)
    found = await facts(sql, rule_id)
    assert set(found) == {"comment.resolved", "comment.unresolved"}
    assert actor(found["comment.resolved"]) == agent(run)
    assert actor(found["comment.unresolved"]) == person(world.n)
    assert {fact["coalesced_count"] for fact in found.values()} == {1}
    assert {fact["author_id"] for fact in found.values()} == {str(world.m.user_id)}


@pytest.mark.parametrize("target_type", ["issue", "comment"])
async def test_a_reaction_is_a_fact_of_its_reactor(
    execute: Executor, sql: Sql, world: World, run_of: RunOf, target_type: str
) -> None:
    """W-047: a reaction is one fact when it comes and one when it goes; a duplicate is none."""
    comment = await say(execute, world.m, world.issue, "done")
    rule_id = await listen(sql, world, *REACTIONS)
    run = await run_of(world.a, world.issue, world.m.user_id)
    add: Command = AddCommentReaction(comment_id=comment.id, emoji="+1")
    remove: Command = RemoveCommentReaction(comment_id=comment.id, emoji="+1")
    target_id = comment.id
    if target_type == "issue":
        add = AddIssueReaction(issue_id=world.issue, emoji="+1")
        remove = RemoveIssueReaction(issue_id=world.issue, emoji="+1")
        target_id = world.issue
    await twice(execute, run, add, world.issue)
    await twice(execute, run, remove, world.issue)
    found = await facts(sql, rule_id)
    assert set(found) == set(REACTIONS)
    for fact in found.values():
        assert actor(fact) == agent(run)
        assert (fact["target_type"], fact["target_id"]) == (target_type, str(target_id))
        assert (fact["emoji"], fact["coalesced_count"]) == ("+1", 1)
        assert fact["reaction_actor_type"] == "agent"
        assert fact["reaction_actor_id"] == str(world.a)
    assert len({fact["reaction_id"] for fact in found.values()}) == 1


async def test_a_file_is_a_fact_when_it_is_bound(execute: Executor, sql: Sql, world: World) -> None:
    """W-048: an upload is no fact, binding is one, binding again none; no name is in it."""
    rule_id = await listen(sql, world, *FILES)
    file = await execute(world.m, CreateAttachment(filename="secret.txt", content=b"x"))
    assert execute.opened == ()
    await twice(
        execute, world.m, BindAttachment(attachment_id=file.id, issue_id=world.issue), world.issue
    )
    (fact,) = (await facts(sql, rule_id)).values()
    assert fact["event_type"] == "attachment.attached"
    assert actor(fact) == person(world.m)
    assert (fact["target_type"], fact["target_id"]) == ("issue", str(world.issue))
    assert (fact["attachment_id"], fact["coalesced_count"]) == (str(file.id), 1)
    assert "secret" not in str(fact)
    await twice(execute, world.g, BindAttachment(attachment_id=file.id), world.issue)
    fact = (await facts(sql, rule_id))["attachment.detached"]
    assert actor(fact) == person(world.g)


async def test_a_file_that_moves_comes_and_goes(execute: Executor, sql: Sql, world: World) -> None:
    """W-048: moving detaches from the old target and attaches to the new one, each where it is."""
    here = await listen(sql, world, *FILES)
    there = await listen(sql, world, *FILES, issue=world.other_issue)
    file = await execute(world.m, CreateAttachment(filename="a.txt", content=b"x"))
    await execute(world.m, BindAttachment(attachment_id=file.id, issue_id=world.issue))
    await sql("DELETE FROM issue_wakeup_receipt")
    comment = await say(execute, world.m, world.issue, "here")
    await execute(world.m, BindAttachment(attachment_id=file.id, comment_id=comment.id))
    found = await facts(sql, here)
    assert {
        name: (fact["target_type"], fact["target_id"], fact["coalesced_count"])
        for name, fact in found.items()
    } == {
        "attachment.detached": ("issue", str(world.issue), 1),
        "attachment.attached": ("comment", str(comment.id), 1),
    }
    assert await facts(sql, there) == {}
    await sql("DELETE FROM issue_wakeup_receipt")
    await execute(world.m, BindAttachment(attachment_id=file.id, issue_id=world.other_issue))
    assert set(execute.opened) == {world.issue, world.other_issue}
    assert list(await facts(sql, here)) == ["attachment.detached"]
    assert list(await facts(sql, there)) == ["attachment.attached"]


async def test_a_removed_file_is_detached(execute: Executor, sql: Sql, world: World) -> None:
    """W-048: removing a bound file detaches it, once; removing an unbound one is no fact."""
    rule_id = await listen(sql, world, *FILES)
    bound, unbound = [
        await execute(world.m, CreateAttachment(filename="a.txt", content=b"x")) for _ in range(2)
    ]
    await execute(world.m, BindAttachment(attachment_id=bound.id, issue_id=world.issue))
    await sql("DELETE FROM issue_wakeup_receipt")
    for file in (unbound, bound):
        await execute(world.g, DeleteAttachment(attachment_id=file.id))
        delete = DeleteAttachment(attachment_id=file.id)
        assert await execute.refused(world.g, delete) == "not_found"
    (fact,) = (await facts(sql, rule_id)).values()
    assert (fact["event_type"], fact["coalesced_count"]) == ("attachment.detached", 1)
    assert actor(fact) == person(world.g)
    assert fact["attachment_id"] == str(bound.id)
