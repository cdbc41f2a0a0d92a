"""The tree of orders: every order once, those with few switches first, the same every time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import comb

from tests.isolation.orders import Orders, Turn, choose


def every_order(lengths: Sequence[int], most: int = 10_000) -> list[tuple[int, ...]]:
    """Play players that each have so many steps and never wait."""
    orders = Orders(most)
    found = []
    while (prefix := orders.next()) is not None:
        left = list(lengths)
        turns: list[Turn] = []
        while ready := tuple(place for place, steps in enumerate(left) if steps):
            turn = Turn(choose(prefix, turns, ready), ready)
            left[turn.chosen] -= 1
            turns.append(turn)
        orders.played(prefix, turns)
        found.append(tuple(turn.chosen for turn in turns))
    assert orders.is_complete == (len(found) < most)
    return found


def test_every_order_is_played_once() -> None:
    """All interleavings that keep each player's own order are played, none of them twice."""
    for lengths, count in (((2, 2), 6), ((3, 4), comb(7, 3)), ((2, 2, 2), 90), ((1, 5), 6)):
        found = every_order(lengths)
        assert len(found) == len(set(found)) == count
        for order in found:
            assert [order.count(place) for place in range(len(lengths))] == list(lengths)


def test_few_switches_come_first() -> None:
    """Orders with fewer switches away from somebody who could go on come before those with more."""

    def switches(order: tuple[int, ...]) -> int:
        return sum(
            a != b and a in order[place + 1 :] for place, (a, b) in enumerate(pairwise(order))
        )

    costs = [switches(order) for order in every_order((4, 4))]
    assert costs == sorted(costs)
    assert costs[:3] == [0, 0, 1]


def test_a_sample_is_the_same_every_time() -> None:
    """More orders than allowed are sampled, and two samples are the same."""
    sample = every_order((6, 6), most=50)
    assert len(sample) == 50
    assert sample == every_order((6, 6), most=50)


def test_a_turn_of_somebody_who_waits_goes_to_another() -> None:
    """A prefix that names a player who is not ready is left: the last one goes on, or another."""
    turns = [Turn(1, (0, 1))]
    assert choose((1, 0), turns, (0, 1)) == 0
    assert choose((1, 0), turns, (1, 2)) == 1
    assert choose((1, 0), turns, (2, 3)) == 2
