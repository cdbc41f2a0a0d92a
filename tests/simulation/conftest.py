"""The fixtures of simulated worlds: each test has its own, in a database whose guarantees hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from engine.simulation import World

START = datetime(2027, 3, 1, 8, 0, 30, 250_000, tzinfo=UTC)


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with World.open(
        start=START, database_url=database_url, sweep_every=timedelta(hours=6)
    ) as opened:
        yield opened
