"""Long spans in virtual time: the short form of what `make year` lives in full."""

from __future__ import annotations

from engine.simulation import World
from tests.simulation.year import MONTH, START, check_for_nobody, daily_in_berlin, live


async def test_a_town_of_rules_fires_as_the_oracle_says(database_url: str) -> None:
    """W-260: of cron rules in ten zones, intervals, alarms and events every firing is right.

    W-115, W-116, W-120, W-121, W-122, W-123, W-124: and on time, at every rule.
    """
    async with World.open(start=START, database_url=database_url, sweep_every=MONTH) as world:
        town = await live(world, days=14, rules=70)
        assert town.firings > 150
        assert sum(town.comments.values()) > 10


async def test_four_hundred_days_in_berlin(database_url: str) -> None:
    """W-260: 400 days of a daily cron rule in Berlin are 400 firings."""
    async with World.open(start=START, database_url=database_url, sweep_every=MONTH) as world:
        assert await daily_in_berlin(world, 400) == 400


async def test_a_minute_s_check_for_nobody_is_one_run(database_url: str) -> None:
    """W-118: `every 60s` for a runtime that is offline is one queued run with the latest time."""
    async with World.open(start=START, database_url=database_url, sweep_every=MONTH) as world:
        firings, runs, newest = await check_for_nobody(world, 300)
        assert (firings, runs, newest) == (300, 1, world.now)
