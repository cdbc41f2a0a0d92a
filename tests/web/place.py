"""A whole installation to call: HTTP over a real engine over a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import httpx

from tests.engine.world import running
from tests.web.conftest import Server, serving
from tests.web.sample import Sample
from tests.web.test_openapi import misfits, operation

Json = dict[str, Any]
RUNTIMES: Final = [{"name": "laptop", "provider": "exec"}]


@attrs.frozen(kw_only=True)
class Place:
    """A server just started for the first time, and a client for each of its two credentials."""

    server: Server
    member: httpx.AsyncClient
    daemon: httpx.AsyncClient

    async def call(self, method: str, path: str, body: object = None, *, status: int = 200) -> Any:
        """Make a request as the owner, or for a daemon's path as the daemon, and expect a status.

        The answer must be as the description of the API says.
        """
        client = self.daemon if path.startswith("/daemon/") else self.member
        response = await client.request(method, path, json=body)
        assert response.status_code == status, response.text
        described = operation(Sample(method, path, {}, None, None))["responses"]
        content = described.get(str(status), {}).get("content")
        if content is None:
            return response.json() if response.content else None
        assert list(misfits(response.json(), content["application/json"]["schema"])) == []
        return response.json()

    async def agent(self, **fields: object) -> Json:
        """Make an agent on a runtime that is online."""
        registered = await self.call(
            "POST", "/daemon/register", {"daemon_id": "d1", "runtimes": RUNTIMES}
        )
        runtime_id = registered["runtimes"][0]["id"]
        body = {"name": "Builder", "runtime_id": runtime_id, **fields}
        made: Json = await self.call("POST", "/agents", body, status=201)
        return made

    async def claim(self, agent: Json, **fields: object) -> list[Json]:
        """Claim runs for the runtime of an agent."""
        body = {"daemon_id": "d1", "runtime_ids": [agent["runtime_id"]], **fields}
        tasks: list[Json] = (await self.call("POST", "/daemon/tasks/claim", body))["tasks"]
        return tasks


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Place]:
    """Start an engine and a server over an empty database, for the first time."""
    async with running(url) as engine:
        made = await engine.bootstrap()
        async with (
            serving(engine) as server,
            server.client(made.member_token) as member,
            server.client(made.daemon_token) as daemon,
        ):
            yield Place(server=server, member=member, daemon=daemon)
