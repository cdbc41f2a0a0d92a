"""What a daemon calls, with its daemon token: register, claim, report (api.md, Daemon side).

Each answer is read closely, because a command lives and dies by it: what Wakeful never answers to
the call is no answer at all (`unexpected_answer`), and the call is to be made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import attrs

from client import limits
from client.connection import AsyncConnection

CAPABILITIES: Final = "joined-wakeups-v1"
RUNNING: Final = "running"
_STATUSES: Final = frozenset(  # of a run (W-097)
    (
        "queued",
        "deferred",
        "dispatched",
        "waiting_local_directory",
        RUNNING,
        "completed",
        "failed",
        "cancelled",
    )
)
_text: Final = attrs.validators.instance_of(str)


@attrs.frozen(kw_only=True)
class Claim:
    """A run that was handed out; `generation` names this very claim (W-104).

    `agent` is the name of the agent that it is for, `issue` the id of its issue.
    """

    run_id: str = attrs.field(validator=_text)
    generation: str = attrs.field(validator=_text)
    prompt: str = attrs.field(validator=_text)
    token: str = attrs.field(validator=_text, repr=False)
    agent: str = attrs.field(validator=_text)
    issue: str = attrs.field(validator=_text)
    identifier: str = attrs.field(validator=_text)
    wakeup_id: str | None

    @classmethod
    def read(cls, task: dict[str, Any]) -> Claim:
        """Return the claim in one element of `tasks`."""
        return cls(
            run_id=task["id"],
            generation=task["dispatched_at"],
            prompt=task["prompt"],
            token=task["token"],
            agent=task["agent"]["name"],
            issue=task["issue"]["id"],
            identifier=task["issue"]["identifier"],
            wakeup_id=task["wakeup_id"],
        )


class DaemonApi:
    """The calls of one daemon. Every method raises `ApiError`; none calls twice."""

    def __init__(self, connection: AsyncConnection, daemon_id: str) -> None:
        self._call = connection.call
        self.daemon_id = daemon_id

    async def register(
        self, *, runtime_name: str, provider: str, device_name: str, version: str
    ) -> str:
        """Announce this daemon with one runtime and return the runtime's id.

        The server takes back what an earlier process of this daemon left in flight.
        """
        body = {
            "daemon_id": self.daemon_id,
            "device_name": device_name,
            "version": version,
            "runtimes": [{"name": runtime_name, "provider": provider}],
        }
        runtime_id: str = await self._call(
            "POST", "/daemon/register", body=body, read=_first_runtime
        )
        return runtime_id

    async def heartbeat(self, runtime_ids: Sequence[str]) -> None:
        """Say that this daemon is alive."""
        body = {"daemon_id": self.daemon_id, "runtime_ids": list(runtime_ids)}
        await self._call("POST", "/daemon/heartbeat", body=body, read=_nothing)

    async def claim(
        self, runtime_ids: Sequence[str], *, max_tasks: int, wait_seconds: int
    ) -> tuple[Claim, ...]:
        """Claim runs; where there is none, wait for the first up to `wait_seconds`."""
        body = {
            "daemon_id": self.daemon_id,
            "runtime_ids": list(runtime_ids),
            "max_tasks": max_tasks,
            "wait_seconds": wait_seconds,
        }
        claims: tuple[Claim, ...] = await self._call(
            "POST",
            "/daemon/tasks/claim",
            body=body,
            headers={"X-Client-Capabilities": CAPABILITIES},
            answer_seconds=wait_seconds + limits.CLAIM_GRACE_SECONDS,
            read=_claims,
        )
        return claims

    async def renew_lease(self, run_id: str) -> None:
        """Say that a claimed run is still being prepared."""
        await self._report(run_id, "prepare-lease")

    async def start(self, claim: Claim) -> None:
        """Start a claimed run; 409 `stale_claim` where it was handed out again since."""
        await self._report(claim.run_id, "start", dispatched_at=claim.generation)

    async def append(self, run_id: str, lines: Sequence[Mapping[str, Any]]) -> None:
        """Add lines to the transcript of a run that was claimed; repeating it repeats them."""
        body = {"lines": list(lines)}
        await self._call("POST", _task(run_id, "messages"), body=body, read=_nothing)

    async def complete(self, claim: Claim, output: str) -> None:
        """Report success."""
        await self._report(claim.run_id, "complete", output=output, dispatched_at=claim.generation)

    async def fail(self, claim: Claim, error: str, reason: str) -> None:
        """Report that the run could not be done."""
        await self._report(
            claim.run_id,
            "fail",
            error=error,
            failure_reason=reason,
            dispatched_at=claim.generation,
        )

    async def status(self, run_id: str) -> str:
        """Return the status of a run."""
        status: str = await self._call(
            "GET",
            _task(run_id, "status"),
            answer_seconds=limits.STATUS_ANSWER_SECONDS,
            read=_status,
        )
        return status

    async def _report(self, run_id: str, report: str, **body: Any) -> None:
        """Make a call that is answered with the run."""
        await self._call(
            "POST", _task(run_id, report), body=body or None, read=partial(_run, run_id)
        )


def _task(run_id: str, what: str) -> str:
    return f"/daemon/tasks/{quote(run_id, safe='')}/{what}"


# --- Reading answers: what raises here is not Wakeful's ------------------------------------------


def _first_runtime(answered: Any) -> str:
    runtime_id = answered["runtimes"][0]["id"]
    if not isinstance(runtime_id, str):
        raise TypeError
    return runtime_id


def _claims(answered: Any) -> tuple[Claim, ...]:
    return tuple(map(Claim.read, answered["tasks"]))


def _status(answered: Any) -> str:
    status: str = answered["status"]
    if status not in _STATUSES:
        raise ValueError
    return status


def _run(run_id: str, answered: Any) -> None:
    if answered["id"] != run_id:
        raise ValueError


def _nothing(answered: Any) -> None:
    if answered is not None:
        raise ValueError
