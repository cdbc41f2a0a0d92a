"""Reports on many runs: one transaction for all of them, smaller ones where that one fails.

What makes a transaction fail belongs to one run nearly always: a lock that did not come free, a
row that went away at the wrong moment. So it is halved until that run is alone, which then has the
error as its outcome. Reports may be repeated (W-113), so a half that was done before is no harm.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import attrs
import structlog

from engine.domain.commands.runs import CompleteRuns, StartRuns
from engine.domain.views.runs import ReportedRun
from engine.errors import WakefulError
from engine.service.batches import refused

Reports: TypeAlias = StartRuns | CompleteRuns
_log = structlog.get_logger(__name__)
_OF_ONE: Final = frozenset(("contention", "budget_exceeded", "internal_error"))


async def report_all(
    command: Reports, submit: Callable[[Reports], Awaitable[tuple[ReportedRun, ...]]]
) -> tuple[ReportedRun, ...]:
    """Return the outcome of each report, in their order.

    `submit` is one transaction. Raises what is not about one run: a refusal of the whole call, a
    database that is away.
    """
    try:
        return await submit(command)
    except WakefulError as error:
        if error.code not in _OF_ONE or not command.reports:
            raise
        if len(command.reports) == 1:
            (report,) = command.reports
            _log.warning("report.refused", run_id=str(report.run_id), code=error.code)
            return (refused(report.run_id, error),)
    half = len(command.reports) // 2
    outcomes: list[ReportedRun] = []
    for part in (command.reports[:half], command.reports[half:]):
        smaller = attrs.evolve(command, reports=part)  # type: ignore[arg-type] # of the same kind
        outcomes.extend(await report_all(smaller, submit))
    return tuple(outcomes)
