"""A served site under load: writers and a daemon over HTTP that outlive any death of the server."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import httpx
import trio

from tests.cli.serving import environment

SERVE_SECONDS: Final = 30
PASSING: Final = (429, 500, 502, 503, 504)  # and no answer at all


@attrs.define
class Site:
    """One data directory on one port, with whichever server process serves it at the moment."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def postmaster(self) -> list[str]:
        """The lines of postmaster.pid; the first is the process id."""
        return (self.folder / "data/postgres/postmaster.pid").read_text().splitlines()

    @property
    def dsn(self) -> str:
        """The database, over the socket that the running server uses."""
        return f"postgresql://postgres@/wakeful?host={self.postmaster[4]}&port=5432"

    @property
    def credentials(self) -> dict[str, str]:
        """What the first start wrote."""
        text = (self.folder / "data/credentials.json").read_text()
        parsed: dict[str, str] = json.loads(text)
        return parsed

    async def start(self) -> None:
        """Serve, and return when the server says that it is ready."""
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self._launch("--port", str(self.port), "--ready-file", str(ready))
        assert self.process is not None
        with trio.fail_after(SERVE_SECONDS):
            while not (ready.exists() and ready.read_text()):
                assert self.process.poll() is None, self.log()
                await trio.sleep(0.01)  # paced: another process signals by a file

    def _launch(self, *arguments: str) -> None:
        with (self.folder / "serve.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["wakeful", "serve", *arguments],
                cwd=self.folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    async def kill_server(self) -> None:
        """Kill the server in the middle of whatever it does, and reap it."""
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        self.process.kill()
        assert await trio.to_thread.run_sync(self.process.wait) == -signal.SIGKILL

    async def kill_postgres(self) -> None:
        """Kill the postmaster, and return when its successor accepts connections."""
        before = self.postmaster[0]
        os.kill(int(before), signal.SIGKILL)
        with trio.fail_after(SERVE_SECONDS):
            while not self._is_replaced(before):  # noqa: ASYNC110 - see paced
                await trio.sleep(0.01)  # paced: another process signals by a file

    def _is_replaced(self, before: str) -> bool:
        try:
            lines = self.postmaster
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] != before and lines[7].strip() == "ready"

    def stop(self) -> int:
        """End the server as an operator would; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(SERVE_SECONDS)

    def log(self) -> str:
        """What the servers wrote, its end."""
        return (self.folder / "serve.log").read_text()[-4_000:]


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Site]:
    """Serve a fresh site in a folder; no process of it is left afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    site = Site(folder, port)
    await site.start()
    try:
        yield site
    finally:
        if site.process is not None and site.process.poll() is None:
            site.process.terminate()
            site.process.wait(SERVE_SECONDS)


@attrs.define
class Load:
    """Writers and a daemon; `acknowledged` are the comments that the server said it has."""

    site: Site
    issues: list[str] = attrs.field(factory=list)
    acknowledged: set[str] = attrs.field(factory=set)
    completed: int = 0
    refused: int = 0
    is_writing: bool = True
    unexpected: list[str] = attrs.field(factory=list)

    async def call(self, client: httpx.AsyncClient, method: str, path: str, **body: Any) -> Any:
        """Make one call; None when it failed as calls to a dying server may."""
        try:
            answer = await client.request(method, self.site.url + path, json=body or None)
        except httpx.TransportError:
            self.refused += 1
            await trio.sleep(0.02)  # paced: the server is away for a while
            return None
        if answer.status_code in PASSING and answer.status_code != 500:
            self.refused += 1
            return None
        if answer.status_code >= 400:
            problem = answer.json()
            if problem["code"] not in ("stale_claim", "invalid_transition"):
                self.unexpected.append(f"{method} {path}: {answer.text}")
            return None
        return answer.json() if answer.content else {}

    def client(self, token: str) -> httpx.AsyncClient:
        """Return a client with a credential, that waits longer than any restart takes."""
        return httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20)

    async def write(self, seed: int) -> None:
        """Comment on one issue after the other until writing ends."""
        choice = random.Random(seed)
        async with self.client(self.site.credentials["member_token"]) as client:
            while self.is_writing:
                issue = choice.choice(self.issues)
                path = f"/api/issues/{issue}/comments"
                comment = await self.call(client, "POST", path, body=f"writer {seed}")
                if comment:
                    self.acknowledged.add(comment["id"])

    async def serve_runs(self, runtime_id: str) -> None:
        """Claim, start and complete every run that comes."""
        async with self.client(self.site.credentials["daemon_token"]) as client:
            while True:
                claim = {"daemon_id": "load", "runtime_ids": [runtime_id], "max_tasks": 8}
                await self.call(
                    client,
                    "POST",
                    "/api/daemon/heartbeat",
                    daemon_id="load",
                    runtime_ids=[runtime_id],
                )
                path = "/api/daemon/tasks/claim"
                found = await self.call(client, "POST", path, **claim, wait_seconds=1)
                for run in (found or {"tasks": []})["tasks"]:
                    await self._run(client, run)

    async def _run(self, client: httpx.AsyncClient, run: dict[str, Any]) -> None:
        path = f"/api/daemon/tasks/{run['id']}"
        generation = run["dispatched_at"]
        await self.call(client, "POST", f"{path}/start", dispatched_at=generation)
        for _ in range(100):  # a report is repeated until it is answered (W-113)
            if await self.call(client, "POST", f"{path}/complete", output="") is not None:
                self.completed += 1
                return

    async def register(self) -> str:
        """Register the daemon and return its runtime; runs it left in flight are recovered."""
        async with self.client(self.site.credentials["daemon_token"]) as daemon:
            runtimes = [{"name": "load", "provider": "test"}]
            body = {"daemon_id": "load", "runtimes": runtimes}
            registered = await self.call(daemon, "POST", "/api/daemon/register", **body)
            runtime_id: str = registered["runtimes"][0]["id"]
            return runtime_id

    async def prepare(self, issues: int) -> str:
        """Make agents, issues and rules; return the daemon's runtime."""
        runtime_id = await self.register()
        async with self.client(self.site.credentials["member_token"]) as owner:
            agents = [
                (await self.call(owner, "POST", "/api/agents", name=name, runtime_id=runtime_id))
                for name in ("answers", "follows")
            ]
            events = ("comment.created", "task.completed")
            for number in range(issues):
                issue = await self.call(owner, "POST", "/api/issues", title=f"load {number}")
                self.issues.append(issue["id"])
                for agent, event in zip(agents, events, strict=True):
                    rule = await self.call(
                        owner,
                        "POST",
                        f"/api/issues/{issue['id']}/wakeups",
                        agent_id=agent["id"],
                        instruction="look",
                        kind="event",
                        mode="continuous",
                        event_types=[event],
                    )
                    assert rule is not None, self.unexpected
        return runtime_id
