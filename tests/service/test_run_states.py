"""Every report in every state: what the table of states does not name is refused (W-097)."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from engine.domain.commands.runs import (
    CancelRun,
    CompleteRun,
    FailRun,
    StartRun,
    WaitLocalDirectory,
)
from engine.domain.lifecycle import may_move
from engine.domain.records import RunStatus
from engine.errors import KINDS, WakefulError
from tests.service.runs_seed import Floor, floor

__all__ = ["floor"]

REPORTS: dict[RunStatus, Any] = {
    RunStatus.RUNNING: lambda run, at: StartRun(run_id=run, dispatched_at=at),
    RunStatus.WAITING: lambda run, _: WaitLocalDirectory(run_id=run, reason="busy"),
    RunStatus.COMPLETED: lambda run, _: CompleteRun(run_id=run),
    RunStatus.FAILED: lambda run, _: FailRun(run_id=run),
    RunStatus.CANCELLED: lambda run, _: CancelRun(run_id=run),
}


async def attempt(floor: Floor, run: UUID, at: datetime, target: RunStatus) -> int:
    """Ask for one step and return the HTTP status of its answer."""
    caller = floor.world.m if target is RunStatus.CANCELLED else floor.world.daemon
    try:
        await floor.execute(caller, REPORTS[target](run, at))
    except WakefulError as error:
        return KINDS[error.code].status
    return 200


@pytest.mark.parametrize("target", list(REPORTS))
async def test_other_transitions_are_refused(floor: Floor, target: RunStatus) -> None:
    """W-097, W-113: a report is 200 exactly if its step is listed or taken already, else 400."""
    await floor.enqueue()
    run = await floor.claim_one()
    assert run.dispatched_at is not None
    for source in RunStatus:
        await floor.sql(
            "UPDATE agent_task_queue SET status = $2, completed_at = NULL WHERE id = $1",
            run.id,
            source,
        )
        answer = await attempt(floor, run.id, run.dispatched_at, target)
        # A queued run fails by the platform alone: no daemon has it.
        is_listed = may_move(source, target) and (source, target) != (
            RunStatus.QUEUED,
            RunStatus.FAILED,
        )
        expected = 200 if is_listed or source is target else 400
        assert answer == expected, (source, target)
        assert await floor.status(run.id) == (target if expected == 200 else source)
