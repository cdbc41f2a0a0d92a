"""Where the results of a rule land: in the thread that it was given."""

from __future__ import annotations

from uuid import UUID

from engine.app import Engine
from engine.domain.commands.conversation import GetComment
from engine.domain.commands.runs import CompleteRun
from engine.domain.commands.tracker import CreateComment
from tests.engine.foreign import Psql
from tests.engine.world import World, claim, register, say, start


async def reply(engine: Engine, world: World, to: UUID) -> UUID:
    """Reply to a comment as N."""
    command = CreateComment(issue_id=world.issue, body="a reply", parent_id=to)
    view = await engine.submit(world.n, command)
    comment_id: UUID = view.id
    return comment_id


async def test_results_are_delivered_in_the_thread(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-019, W-095, W-112: the run's output, or what its agent replies, is in the rule's thread.

    W-091: the prompt names the comment to reply to.
    """
    root = await say(engine, world.m, world.issue)
    thread = await reply(engine, world, root)
    rule = await register(
        engine,
        world,
        parent_comment_id=thread,
        filter_actor_type="member",
        filter_actor_id=world.g.user_id,
    )
    for speaks in (False, True):
        await say(engine, world.g, world.issue)
        await psql.drained(rule.id)
        (run,) = await claim(engine, world)
        assert run.wakeup_id == rule.id
        assert run.trigger_comment_id == thread
        assert f"--parent {thread} " in run.prompt
        await start(engine, world, run)
        if speaks:
            agent = await engine.authenticate(run.token)
            body = CreateComment(issue_id=world.issue, body="said", parent_id=thread)
            await engine.submit(agent, body)
        await engine.submit(world.daemon, CompleteRun(run_id=run.id, output="printed"))
        (written,) = await psql("SELECT * FROM comment WHERE source_task_id = $1", run.id)
        assert written["content"] == ("said" if speaks else "printed")
        shown = await engine.read(world.n, GetComment(comment_id=written["id"]))
        assert (shown.parent_id, shown.thread_id) == (thread, root)
