"""Reports on many runs whose transaction fails: what they come to, and what that costs."""

from __future__ import annotations

from math import ceil, log2
from uuid import UUID

import pytest

from engine.actors.reports import Reports, report_all
from engine.domain.commands.runs import CompleteRun, CompleteRuns
from engine.domain.records import RunStatus
from engine.domain.views.runs import ReportedRun
from engine.errors import WakefulError


class Place:
    """A database in which some runs make every transaction fail that touches them."""

    def __init__(self, bad: set[int], code: str = "contention") -> None:
        self.bad = {UUID(int=n) for n in bad}
        self.code = code
        self.transactions = 0

    async def submit(self, command: Reports) -> tuple[ReportedRun, ...]:
        """Carry out one transaction."""
        self.transactions += 1
        ids = [each.run_id for each in command.reports]
        if self.bad.intersection(ids):
            raise WakefulError(self.code, "no")
        return tuple(ReportedRun(id=run_id, status=RunStatus.COMPLETED) for run_id in ids)


def ends(count: int) -> CompleteRuns:
    return CompleteRuns(reports=tuple(CompleteRun(run_id=UUID(int=n)) for n in range(count)))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("bad", [set[int](), {0}, {99}, {1, 2}, set(range(100))])
async def test_a_failing_run_fails_alone(count: int, bad: set[int]) -> None:
    """W-113: each run that fails has the error as its outcome, all others end, in their order."""
    place = Place(bad)
    outcomes = await report_all(ends(count), place.submit)
    assert [each.id.int for each in outcomes] == list(range(count))
    assert [each.code for each in outcomes] == [
        "contention" if n in bad else None for n in range(count)
    ]
    failing = len({n for n in bad if n < count})
    assert place.transactions <= 1 + 2 * failing * ceil(log2(max(count, 2)))


@pytest.mark.parametrize(
    "code", ["database_unavailable", "commit_unknown", "overloaded", "not_allowed", "invalid_input"]
)
async def test_what_is_about_the_whole_call_is_raised(code: str) -> None:
    """W-113: a database that is away and a refusal of the call itself are nobody's outcome."""
    place = Place({1}, code)
    with pytest.raises(WakefulError) as caught:
        await report_all(ends(4), place.submit)
    assert (caught.value.code, place.transactions) == (code, 1)
