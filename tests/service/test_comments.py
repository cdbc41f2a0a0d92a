from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from engine.domain.commands.tracker import (
    ArchiveAgent,
    CreateComment,
    CreateIssue,
    ListComments,
    UpdateAgent,
)
from engine.domain.principal import Principal
from engine.domain.views.conversation import CommentView
from engine.storage.database import Record
from tests.service.conftest import Executor, RunOf, Sql, World


async def say(
    execute: Executor, caller: Principal, issue_id: UUID, body: str, parent: UUID | None = None
) -> CommentView:
    view = await execute(caller, CreateComment(issue_id=issue_id, body=body, parent_id=parent))
    assert isinstance(view, CommentView)
    return view


async def called(sql: Sql) -> list[Record]:
    """Return the runs that wait, by agent's name."""
    return await sql(
        "SELECT q.*, a.name FROM agent_task_queue q JOIN agent a ON a.id = q.agent_id"
        " WHERE q.status IN ('queued', 'deferred') ORDER BY a.name"
    )


# --- Saying and reading -------------------------------------------------------------------------


async def test_a_comment_is_its_authors(execute: Executor, sql: Sql, world: World) -> None:
    """W-193: with a person's token the author is the person, and there is no source run."""
    view = await say(execute, world.m, world.issue, "  hello\n")
    assert (view.body, view.issue_id) == ("  hello\n", world.issue)
    assert (view.author_type, view.author_id) == ("member", world.m.user_id)
    assert (view.parent_id, view.thread_id, view.source_task_id) == (None, view.id, None)
    assert view.resolved_at is None
    page = await execute(world.n, ListComments(issue_id=world.issue))
    assert (page.items, page.total) == ((view,), 1)


async def test_a_run_comments_as_its_agent(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-193, W-049: with a run token the author is the agent, the source the run, so facts, too."""
    await sql(
        "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
        " mode, event_types) VALUES ($1, $2, $3, $4, 'look', 'event', 'continuous',"
        " '{comment.created}')",
        world.workspace_id,
        world.issue,
        world.b,
        world.m.user_id,
    )
    run = await run_of(world.a, world.issue, world.m.user_id)
    view = await say(execute, run, world.issue, "done")
    assert (view.author_type, view.author_id) == ("agent", world.a)
    assert view.source_task_id == run.run_id
    assert execute.opened == (world.issue,)
    (receipt,) = await sql("SELECT payload FROM issue_wakeup_receipt")
    fact = receipt["payload"]
    assert (fact["actor_type"], fact["actor_id"]) == ("agent", str(world.a))
    assert fact["source_task_id"] == str(run.run_id)


async def test_threads_have_a_root(execute: Executor, world: World) -> None:
    """W-045: a reply to a reply belongs to the thread of the first comment; lists: oldest first."""
    root = await say(execute, world.m, world.issue, "root")
    reply = await say(execute, world.n, world.issue, "reply", root.id)
    deep = await say(execute, world.m, world.issue, "deep", reply.id)
    assert (deep.parent_id, deep.thread_id) == (reply.id, root.id)
    page = await execute(world.m, ListComments(issue_id=world.issue))
    assert page.items == (root, reply, deep)
    page = await execute(world.m, ListComments(issue_id=world.issue, limit=1, offset=2))
    assert (page.items, page.total) == ((deep,), 3)


async def test_a_deleted_comment_is_no_parent(execute: Executor, sql: Sql, world: World) -> None:
    """W-019: nobody replies to a deleted comment, or to a comment elsewhere."""
    comment = await say(execute, world.m, world.issue, "here")
    elsewhere = CreateComment(issue_id=world.other_issue, body="x", parent_id=comment.id)
    assert await execute.refused(world.m, elsewhere, field="parent_id") == "invalid_input"
    await sql("UPDATE comment SET deleted_at = wakeful_now()")
    reply = CreateComment(issue_id=world.issue, body="x", parent_id=comment.id)
    assert await execute.refused(world.m, reply, field="parent_id") == "invalid_input"
    (tombstone,) = (await execute(world.m, ListComments(issue_id=world.issue))).items
    assert (tombstone.id, tombstone.body) == (comment.id, "")


@pytest.mark.parametrize("body", ["", " \n", "nul\x00", "\ud800", "x" * 262_145, "ä" * 131_073])
async def test_a_bad_body_is_refused(execute: Executor, world: World, body: str) -> None:
    """A comment says something, in at most 256 KiB of text that can be stored."""
    command = CreateComment(issue_id=world.issue, body=body)
    assert await execute.refused(world.m, command, field="body") == "invalid_input"


async def test_an_issue_that_is_not_there_has_no_comments(execute: Executor, world: World) -> None:
    """W-191: commenting or reading where there is nothing, or nothing for the caller, is 404."""
    for caller, issue_id in ((world.m, UUID(int=1)), (world.s, world.issue)):
        for command in (
            CreateComment(issue_id=issue_id, body="x"),
            ListComments(issue_id=issue_id),
        ):
            assert await execute.refused(caller, command) == "not_found"


# --- Calling agents -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("@A please", ["A"]),
        ("hey @a, and @B!", ["A", "B"]),
        ("`@A` and mail@A.example", []),
        ("nobody", []),
        ("@P", []),
        ("@Unknown", []),
    ],
)
async def test_a_mention_calls_the_agent(
    execute: Executor, sql: Sql, world: World, body: str, names: list[str]
) -> None:
    """A mention queues a run of each agent that the person may invoke, with their authority."""
    view = await say(execute, world.m, world.issue, body)
    runs = await called(sql)
    assert [run["name"] for run in runs] == names
    for run in runs:
        assert (run["issue_id"], run["trigger_comment_id"]) == (world.issue, view.id)
        assert run["context"]["reason"] == "mention"
        assert run["originator_user_id"] == world.m.user_id
        assert run["comment_thread_id"] == view.thread_id
    assert execute.work is not None
    assert execute.work.runtimes == ({world.runtime_id} if names else set())


async def test_a_link_calls_an_agent_whose_name_has_blanks(
    execute: Executor, sql: Sql, world: World
) -> None:
    """An agent is mentioned by id, whatever its name; the text of the link does not matter."""
    await execute(world.o, UpdateAgent(agent_id=world.b, name="Big Helper"))
    await say(execute, world.m, world.issue, f"[@Big Helper](mention://agent/{world.b}) go")
    assert [run["name"] for run in await called(sql)] == ["Big Helper"]


async def test_a_private_agent_is_called_by_whom_it_admits(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-012: mentioning a private agent calls it for its owner, and says nothing to others."""
    link = f"[@x](mention://agent/{world.p})"
    await say(execute, world.g, world.issue, link)
    assert await called(sql) == []
    await say(execute, world.o, world.issue, link)
    assert [run["name"] for run in await called(sql)] == ["P"]


async def test_who_cannot_work_is_not_called(execute: Executor, sql: Sql, world: World) -> None:
    """Archived agents and those without a runtime are passed over; the comment stands."""
    await execute(world.o, ArchiveAgent(agent_id=world.a))
    await execute(world.o, UpdateAgent(agent_id=world.b, runtime_id=None))
    await say(execute, world.m, world.issue, "@A @B")
    assert await called(sql) == []
    assert (await execute(world.m, ListComments(issue_id=world.issue))).total == 1


async def test_an_agent_of_another_workspace_is_not_called(
    execute: Executor, sql: Sql, world: World
) -> None:
    """Nothing crosses workspaces, neither by name nor by id."""
    made = await execute(
        world.s, CreateIssue(workspace_id=next(iter(world.s.roles)), title="Theirs")
    )
    await say(execute, world.s, made.id, f"@A [@A](mention://agent/{world.a})")
    assert await called(sql) == []


async def test_a_reply_calls_the_agent_that_it_answers(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """A direct reply to an agent's comment queues a run of that agent, a reply to a reply none."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    comment = await say(execute, run, world.issue, "What now?")
    await execute.end(run)
    reply = await say(execute, world.n, world.issue, "Go on.", comment.id)
    (queued,) = await called(sql)
    assert (queued["name"], queued["context"]["reason"]) == ("A", "reply")
    assert queued["trigger_comment_id"] == reply.id
    assert queued["originator_user_id"] == world.n.user_id
    await sql("DELETE FROM agent_task_queue WHERE id = $1", queued["id"])
    await say(execute, world.n, world.issue, "Or not.", reply.id)
    assert await called(sql) == []


async def test_an_agent_does_not_call_itself(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """A run calls other agents with the authority of its person, and never its own agent."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    comment = await say(execute, run, world.issue, "@A @B look")
    await say(execute, run, world.issue, "more", comment.id)
    (queued,) = await called(sql)
    assert queued["name"] == "B"
    assert queued["originator_source"] == "delegation"
    assert queued["delegated_from_task_id"] == run.run_id
    assert queued["originator_user_id"] == world.m.user_id


async def test_a_run_without_a_person_calls_nobody(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-192: where no person stands behind a run, or one who has left, nobody is called."""
    run = await run_of(world.a, world.issue, None)
    await say(execute, run, world.issue, "@B look")
    stale = attrs.evolve(run, originator_user_id=world.n.user_id)
    await say(execute, stale, world.issue, "@B look")
    assert await called(sql) == []


async def test_mentions_of_one_thread_share_a_run(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-098: a second mention in the thread joins the queued run, another thread gets its own."""
    root = await say(execute, world.m, world.issue, "@A please")
    second = await say(execute, world.n, world.issue, "@A now", root.id)
    (run,) = await called(sql)
    assert run["trigger_comment_id"] == root.id
    assert run["context"]["coalesced_comment_ids"] == [str(second.id)]
    await say(execute, world.m, world.issue, "@A this, too")
    assert len(await called(sql)) == 2
