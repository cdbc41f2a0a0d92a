"""Four servers and four daemons on one database, one of which dies every two seconds (W-083).

`make chaos` runs the full size, 10,000 facts on 500 issues; `CHAOS_FACTS` is any other size.
"""

from __future__ import annotations

import gc
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import attrs
import pytest
import trio

from engine.storage.database import Query, open_loop
from tests.cli.serving import folder
from tests.faults import accounting, claim_audit
from tests.faults.fleet import SIZE, Kind, fleet_of_servers
from tests.faults.flood import FACTS_PER_ISSUE, Flood, agents

FACTS: Final = int(os.environ.get("CHAOS_FACTS", "1200"))
FACTS_PER_SECOND: Final = 60
SECONDS_BETWEEN_KILLS: Final = 2
STUCK_SECONDS: Final = 120  # a claim that nobody gives back is redelivered after 90
SEED: Final = 83

KILLS: Final = round(FACTS / FACTS_PER_SECOND / SECONDS_BETWEEN_KILLS)

# Every run says that it is carried out; half of them take a while, so that kills find them at work.
MIND: Final = 'echo "$WAKEFUL_RUN" >> executed; case "$WAKEFUL_RUN" in *[0-7]) sleep 0.4 ;; esac'

DEADLOCKS: Final = Query(
    "many_servers.deadlocks",
    "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
)
RULES: Final = Query(
    "many_servers.rules",
    "SELECT count(*) FROM issue_wakeup WHERE enabled AND last_error IS NULL",
)
DOUBLED: Final = Query(
    "many_servers.doubled",
    "SELECT id FROM issue_wakeup_receipt WHERE task_id IS NOT NULL"
    " GROUP BY id HAVING count(DISTINCT task_id) > 1",
)

# A request whose server dies while it is being sent leaves httpx's generator unfinished.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What a killed server left of our own requests is collected here, not in another test."""
    yield
    gc.collect()


async def test_the_accounts_balance_while_servers_and_daemons_die(database_url: str) -> None:
    """W-083, W-101, W-105, W-110, G-01, G-05: whoever dies, nothing is lost, doubled or stuck."""
    choice, times = random.Random(SEED), Times()
    with folder() as cwd:
        async with open_loop(), fleet_of_servers(cwd, database_url) as fleet:
            for number in range(SIZE):
                fleet.enlist_daemon(number, agents(number), MIND)
            for daemon in fleet.of(Kind.DAEMON):
                daemon.start()
            await fleet.wait_until_ready()
            times.lap("start")
            flood = Flood(fleet, choice)
            await flood.prepare(FACTS // FACTS_PER_ISSUE, SIZE)
            await claim_audit.begin(database_url)
            times.lap("prepare")
            async with trio.open_nursery() as keepers:
                for member in fleet.members:
                    keepers.start_soon(member.keep_running)
                await _flood_under_fire(flood, choice)
                times.lap("flood")
                await fleet.wait_until_ready()
                newest = await flood.write_last()
                await _settle(database_url)
                keepers.cancel_scope.cancel()
            times.lap("settle")
            assert fleet.stop(Kind.DAEMON) == [0] * SIZE
            assert fleet.stop(Kind.SERVER) == [0] * SIZE
            await _audit(flood, newest, (cwd / "executed").read_text().split())
            times.lap("audit")
            await _expect_faults(flood, times)


@attrs.define
class Times:
    """How many seconds each part took."""

    last: float = attrs.field(factory=trio.current_time)
    seconds: dict[str, float] = attrs.field(factory=dict)

    def lap(self, part: str) -> None:
        """A part has ended."""
        now = trio.current_time()
        self.seconds[part] = round(now - self.last, 1)
        self.last = now


async def _flood_under_fire(flood: Flood, choice: random.Random) -> None:
    """Write all facts while processes die, and look at the accounts all along."""
    async with trio.open_nursery() as watch:
        watch.start_soon(_watch_accounts, flood.fleet.database_url)
        async with trio.open_nursery() as fire:
            fire.start_soon(flood.fleet.kill_now_and_then, KILLS, SECONDS_BETWEEN_KILLS, choice)
            fire.start_soon(flood.write, FACTS_PER_SECOND)
        watch.cancel_scope.cancel()


async def _watch_accounts(dsn: str) -> None:
    while True:
        await trio.sleep(5)  # paced: any moment will do
        assert await accounting.faults(dsn) == []


async def _settle(dsn: str) -> None:
    """Wait until everything is done, as long as it goes on."""
    before: dict[str, int] = {}
    while left := await _left(dsn):
        if left != before:
            before, deadline = left, trio.current_time() + STUCK_SECONDS
        assert trio.current_time() < deadline, f"nothing goes on: {left}"
        await trio.sleep(0.2)  # paced: the end of the last run signals nothing to us


async def _left(dsn: str) -> dict[str, int]:
    """Return how much there still is to do."""
    queries = {"receipts": accounting.FREE, "runs": accounting.UNFINISHED}
    counted = {
        what: (await accounting.ask(dsn, query))[0]["count"] for what, query in queries.items()
    }
    return {what: count for what, count in counted.items() if count}


async def _audit(flood: Flood, newest: dict[str, str], executed: list[str]) -> None:
    """Everything is accounted for, nothing happened twice, nothing went wrong inside."""
    dsn = flood.fleet.database_url
    assert await accounting.faults(dsn) == []
    assert await accounting.ask(dsn, DOUBLED) == []
    named = await accounting.ask(dsn, accounting.NEWEST)
    assert {str(row["issue_id"]): row["comment_id"] for row in named} == newest
    stored = {row["id"] for row in await accounting.ask(dsn, accounting.COMMENTS)}
    assert flood.acknowledged <= stored, "an acknowledged comment is lost"
    assert len(stored) >= FACTS
    assert await accounting.ask(dsn, RULES) == [{"count": 2 * len(flood.issues)}]
    assert await claim_audit.overlaps(dsn) == []
    twice = [run for run, times in Counter(executed).items() if times > 1]
    assert twice == [], "a run was carried out twice"
    started = await claim_audit.started(dsn)
    assert set(executed) <= started.keys(), "a run was carried out that nobody started"
    completed = {run for run, status in started.items() if status == "completed"}
    assert completed <= set(executed), "a run was completed that nobody carried out"
    assert await accounting.ask(dsn, DEADLOCKS) == [{"deadlocks": 0}]
    for member in flood.fleet.members:
        for word in ("internal_error", "level=error", "Traceback"):
            assert word not in member.logs(), (member.name, word)


async def _expect_faults(flood: Flood, times: Times) -> None:
    """Both kinds died, clients met dead servers, claims were lost and given again."""
    kills, lost = flood.fleet.kills(), await claim_audit.lost(flood.fleet.database_url)
    figures: dict[str, Any] = {
        "facts": FACTS,
        "issues": len(flood.issues),
        "seconds": times.seconds,
        "kills": dict(kills),
        "daemons_started_again": sum(each.given_up for each in flood.fleet.members),
        "answers": dict(flood.answers),
        **lost,
    }
    print(json.dumps(figures))  # noqa: T201 - shown by `make chaos`
    assert kills[Kind.SERVER] + kills[Kind.DAEMON] > KILLS / 2, figures
    assert min(kills[Kind.SERVER], kills[Kind.DAEMON]) > KILLS / 6, figures
    assert flood.answers["lost"] > 0, figures
    assert lost["given_back"] + lost["redelivered"] > 0, figures
    assert lost["recovered"] > 0, figures
