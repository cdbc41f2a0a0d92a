"""Where a simulation lives: a database whose time stands in a row, and a server for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.errors import WakefulError
from engine.storage import migrate, queries
from engine.storage.database import Dedicated, with_connection
from engine.storage.postgres import Postgres

_sql: Final = queries.load("simulation")
_NAME: Final = "simulation"
# What a simulation writes goes with it: nothing has to outlive a crash of the machine.
_PASSING: Final = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@contextmanager
def temporary_server() -> Iterator[str]:
    """Run the embedded server over a folder that goes with it; yield the URL of a database.

    From the main thread only, as every embedded server.
    """
    with tempfile.TemporaryDirectory(prefix="wakeful-simulation-") as folder:
        Path(folder).chmod(0o755)  # so that the server's account gets to its data
        server = Postgres(Path(folder) / "data", settings=_PASSING)
        server.start()
        try:
            server.create_database(_NAME)
            yield server.dsn(_NAME)
        finally:
            server.stop()


async def prepare(url: str, start: datetime) -> datetime:
    """Migrate a database, make a simulation of it that begins at `start`, and return its time.

    One that is a simulation already goes on where it stands. Needs `open_loop()` around it. Raises
    `conflict` for a database that anybody works in: its time would stop.
    """
    await migrate.up(url)

    async def set_up(session: Dedicated) -> datetime:
        await session.begin()
        try:
            if not await session.fetchval(_sql.is_one):
                await _make(session, start)
            now: datetime = await session.fetchval(_sql.now)
        except Exception:
            await session.rollback()
            raise
        await session.commit()
        return now

    return await with_connection(url, set_up)


async def _make(session: Dedicated, start: datetime) -> None:
    if await session.fetchval(_sql.is_used):
        raise WakefulError(
            "conflict", "the database is in use: a simulation needs one of its own, an empty one"
        )
    await session.execute(_sql.create_clock)
    await session.execute(_sql.start_clock, start)
    for statement in (
        _sql.follow_clock,
        _sql.create_numbers,
        _sql.number_ids,
        _sql.create_log,
        _sql.index_log,
        _sql.log_firing,
        _sql.log_firings,
    ):
        await session.execute(statement)
