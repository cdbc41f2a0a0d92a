"""Which orders of some players' turns there are, and in which order to try them.

An order is found by playing it: at each turn the players that are ready say who else could have
gone on. So every order is played once, whatever the players do on the way, and a player that waits
for another one opens no orders that cannot happen. Orders with the fewest switches away from a
player that could have gone on come first, because most errors need one or two ("iterative context
bounding", Musuvathi and Qadeer, PLDI 2007); among as many switches the choice is arbitrary, and the
same every time.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from zlib import crc32

import attrs


@attrs.frozen
class Turn:
    """One decision: who went on, of those who could."""

    chosen: int
    ready: tuple[int, ...]


def choose(prefix: Sequence[int], turns: Sequence[Turn], ready: tuple[int, ...]) -> int:
    """Return who goes on: as the prefix says, else the one of before, else the first.

    A prefix that names somebody who is not ready, because something took another time, is left.
    """
    place = len(turns)
    if place < len(prefix) and prefix[place] in ready:
        return prefix[place]
    last = turns[-1].chosen if turns else None
    return last if last in ready else ready[0]


class Orders:
    """The orders that are known and not yet played, at most `most` of them in all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
        self.count = 0

    @property
    def is_complete(self) -> bool:
        """Whether every order has been played."""
        return not self._open

    def next(self) -> tuple[int, ...] | None:
        """Return the beginning of the next order to play, None when there is none."""
        if not self._open or self.count >= self._most:
            return None
        self.count += 1
        return heapq.heappop(self._open)[2]

    def played(self, prefix: Sequence[int], turns: Sequence[Turn]) -> None:
        """Take note of the orders that branch off behind the prefix of one that was played."""
        chosen = tuple(turn.chosen for turn in turns)
        switches = 0
        for place, turn in enumerate(turns):
            before = chosen[place - 1] if place else None
            if place >= len(prefix):
                for other in turn.ready:
                    if other != turn.chosen:
                        cost = switches + (before in turn.ready and other != before)
                        branch = (*chosen[:place], other)
                        heapq.heappush(self._open, (cost, crc32(bytes(branch)), branch))
            switches += before in turn.ready and turn.chosen != before
