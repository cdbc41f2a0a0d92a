"""A server whose database stops and comes back: what it says of itself meanwhile (W-258)."""

from __future__ import annotations

from typing import Any

import httpx
import trio

from engine.storage.postgres import Postgres
from tests.engine.foreign import until
from tests.engine.scraping import samples
from tests.engine.world import running
from tests.web.conftest import serving

READY_WITHIN = 5.0


async def test_a_stopped_database_is_seen_within_five_seconds(durable_postgres: Postgres) -> None:
    """W-258: with the database stopped `ready` is 503 within 5 s, and `health` stays 200.

    W-256: a scrape still tells of the engine, and that it has no figures of the database.
    """
    server = durable_postgres
    async with (
        running(server.dsn("wakeful")) as engine,
        serving(engine) as web,
        web.client(None) as client,
    ):

        async def ready() -> httpx.Response | None:
            response = await client.get("/ready")
            return response if response.status_code == 200 else None

        state: Any = (await until(ready, "it is ready")).json()
        assert {state[part] for part in ("database", "listener", "scheduler")} == {"up"}
        server.stop()
        assert server.pid is None, "the database has stopped"
        began = trio.current_time()
        answer = await client.get("/ready")
        assert trio.current_time() - began < READY_WITHIN
        assert answer.status_code == 503
        state = answer.json()
        assert state["database"] in ("slow", "database_unavailable")
        assert state["listener"] == "down"
        assert state["scheduler"] == "up"
        assert (await client.get("/health")).status_code == 200
        began = trio.current_time()
        told = samples((await engine.exposition()).decode())
        assert trio.current_time() - began < READY_WITHIN
        assert told["wakeful_database_readable"] == 0
        assert told["wakeful_listener_connected"] == 0
        assert "wakeful_facts_captured_total" not in told
        assert told["wakeful_runs_claimed_total"] == 0
        server.start()
        await until(ready, "it is ready again", within=20)
        told = samples((await engine.exposition()).decode())
        assert told["wakeful_database_readable"] == 1
        assert told["wakeful_lane_replaced_total api"] >= 1
