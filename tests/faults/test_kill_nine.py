"""Whatever dies, at whatever moment: no committed fact is lost, no run is doubled (W-083)."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import pytest
import trio

from engine.storage.database import open_loop
from tests.cli.serving import folder
from tests.faults import accounting
from tests.faults.site import Load, Site, serving

KILLS: Final = int(os.environ.get("CHAOS_KILLS", "25"))  # of the server, and of PostgreSQL
WRITERS: Final = 8
SETTLE_SECONDS: Final = 60

# A request whose server dies while it is being sent leaves httpx's generator unfinished.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a killed server left of our own requests is collected here, not in another test."""
    yield
    gc.collect()


async def _kill_under_load(
    kill: Callable[[Site], Awaitable[None]], restart: Callable[[Site], Awaitable[None]]
) -> Load:
    """Kill at random moments under load, look at the accounts each time, then settle."""
    moments = random.Random(83)
    with folder() as cwd:
        async with open_loop(), serving(cwd) as site, trio.open_nursery() as nursery:
            load = Load(site)
            runtime_id = await load.prepare(issues=4)
            nursery.start_soon(load.serve_runs, runtime_id)
            async with trio.open_nursery() as writers:
                for seed in range(WRITERS):
                    writers.start_soon(load.write, seed)
                for _ in range(KILLS):
                    await trio.sleep(moments.uniform(0.05, 0.6))  # paced: a random moment
                    await kill(site)
                    await restart(site)
                    assert await accounting.faults(site.dsn) == []
                load.is_writing = False
            await _settle(load)
            nursery.cancel_scope.cancel()
        assert site.stop() == 0, site.log()
    return load


async def _settle(load: Load) -> None:
    """Write the newest fact of each issue, wait for everything to end, and count once more."""
    newest = {}
    async with load.client(load.site.credentials["member_token"]) as owner:
        for issue in load.issues:
            path = f"/api/issues/{issue}/comments"
            while (comment := await load.call(owner, "POST", path, body="the last")) is None:
                pass
            newest[issue] = comment["id"]
    await load.register()  # as a daemon does that lost its server: answers to claims were lost
    dsn = load.site.dsn
    with trio.fail_after(SETTLE_SECONDS):
        while await _is_busy(dsn):  # noqa: ASYNC110 - see paced
            await trio.sleep(0.1)  # paced: the end of the last run signals nothing to us
    assert await accounting.faults(dsn) == []
    named = await accounting.ask(dsn, accounting.NEWEST)
    assert {str(row["issue_id"]): row["comment_id"] for row in named} == newest
    stored = {row["id"] for row in await accounting.ask(dsn, accounting.COMMENTS)}
    assert load.acknowledged <= stored, "an acknowledged comment is lost"
    assert load.unexpected == []
    assert load.completed > 0
    assert load.refused > 0, "no call ever met a dead server: the fault did not happen"


async def _is_busy(dsn: str) -> bool:
    free, unfinished = [
        (await accounting.ask(dsn, query))[0]["count"]
        for query in (accounting.FREE, accounting.UNFINISHED)
    ]
    return bool(free or unfinished)


async def test_the_accounts_balance_after_each_death_of_the_server() -> None:
    """W-083, W-038, G-01, G-02: `kill -9` of the server at any moment loses and doubles nothing."""

    async def restart(site: Site) -> None:
        await site.start()

    load = await _kill_under_load(lambda site: site.kill_server(), restart)
    assert load.acknowledged


async def test_the_accounts_balance_after_each_death_of_postgresql() -> None:
    """W-083, G-01: `kill -9` of PostgreSQL at any moment; the server lives and goes on."""

    async def still_lives(site: Site) -> None:
        assert site.process is not None
        assert site.process.poll() is None, site.log()

    load = await _kill_under_load(lambda site: site.kill_postgres(), still_lives)
    assert load.acknowledged
