"""Rendezvous: which of several engines works an issue first."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

from engine.actors.fleet import first_for

ISSUES = [UUID(int=number << 64 | 0x8000_0000_0000_0000) for number in range(3_000)]
ENGINES = (101, 202, 303)


def test_every_engine_gets_its_share() -> None:
    """W-083: three engines share the issues about evenly, whatever the order they are named in."""
    shares = Counter(first_for(issue, ENGINES) for issue in ISSUES)
    assert shares.keys() == set(ENGINES)
    assert all(900 < share < 1_100 for share in shares.values())
    backwards = ENGINES[::-1]
    assert [first_for(i, backwards) for i in ISSUES] == [first_for(i, ENGINES) for i in ISSUES]


def test_an_engine_that_goes_moves_only_its_own_share() -> None:
    """W-083: when an engine dies the issues of the others stay where they are."""
    for issue in ISSUES:
        before = first_for(issue, ENGINES)
        after = first_for(issue, ENGINES[1:])
        assert after == before or before == ENGINES[0]
