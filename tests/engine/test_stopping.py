"""An engine that stops: what it was doing is done, and what went wrong in its block is not lost."""

from __future__ import annotations

import pytest
import trio

from engine.domain.commands.tracker import CreateComment
from tests.engine.foreign import Psql
from tests.engine.world import World, running


class BrokenError(Exception):
    """What goes wrong in the block of an engine."""


async def test_an_error_in_the_block_is_not_lost(world: World, database_url: str) -> None:
    """S-077: whoever leaves the block with an error gets that error, whatever is under way."""

    async def leave() -> None:
        async with running(database_url) as engine, trio.open_nursery() as nursery:
            for _ in range(8):
                command = CreateComment(issue_id=world.issue, body="under way")
                nursery.start_soon(engine.submit, world.m, command)
            await trio.testing.wait_all_tasks_blocked()
            assert engine.ledger.active > 0
            raise BrokenError

    with pytest.raises(BrokenError):
        await leave()


async def test_what_was_accepted_is_done(psql: Psql, world: World, database_url: str) -> None:
    """S-077: whoever leaves the block in order waits for the changes that the engine accepted."""
    comments = 8
    async with running(database_url) as engine:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                for _ in range(comments):
                    command = CreateComment(issue_id=world.issue, body="accepted")
                    nursery.start_soon(engine.submit, world.m, command)
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert engine.ledger.active > 0
    assert await psql.value("SELECT count(*) FROM comment") == comments
