"""Reads the figures of the database for /metrics and makes counters of them that never fall.

What the rows say is right for all engines and for every writer, so captured, merged and ignored
facts and processed receipts are counted there (docs/decisions/0004). But rows go: retention
deletes what was processed, a deleted rule takes its receipts along. So of the processed receipts
each reading adds those since the reading before, and a sum that is smaller than it was counts on
from where it was. A counter begins anew with its process, as counters do.
"""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Final

import structlog
import trio

from engine import limits
from engine.errors import WakefulError
from engine.metrics import Readings
from engine.service.figures import Figures, Mark, Since, read_figures
from engine.storage.database import Database, Lane, Session

_log = structlog.get_logger(__name__)
_MARGIN: Final = timedelta(seconds=limits.SCRAPE_MARGIN_SECONDS)
_UNREADABLE: Final[Readings] = {"wakeful_database_readable": {(): 0}}


class _Rising:
    """A sum over rows that may go, as a counter: where it falls, it counts on from where it was."""

    def __init__(self) -> None:
        self._last = 0
        self._gone = 0

    def take(self, now: int) -> int:
        """Return the counter for a sum that is `now`."""
        self._gone += max(0, self._last - now)
        self._last = now
        return now + self._gone


class Meter:
    """The figures of one engine's scrapes; they follow each other."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = trio.Lock()
        self._marks: deque[Mark] = deque(maxlen=limits.SCRAPE_MARKS_MAX)
        self._consumed = self._discarded = 0
        self._ended_facts = self._ended_captured = 0
        self._facts, self._merged = _Rising(), _Rising()
        self._ignored: dict[str, _Rising] = {}

    async def read(self) -> Readings:
        """Read the figures within SCRAPE_SECONDS_MAX; without them, say only that there are none.

        Runs in the background lane, takes no token and is no sign of life: whoever scrapes keeps
        nothing awake.
        """
        with trio.move_on_after(limits.SCRAPE_SECONDS_MAX):
            async with self._turn:
                return await self._read()
        return _UNREADABLE

    async def _read(self) -> Readings:
        since = self._since()

        async def unit(session: Session) -> Figures:
            return await read_figures(session, since)

        try:
            figures = await self._database.read(Lane.BACKGROUND, unit, snapshot=True)
        except WakefulError as error:
            _log.warning("metrics.not_read", code=error.code)
            if error.code == "budget_exceeded":
                self._marks.clear()  # too much since the last reading: count on from the next one
            return _UNREADABLE
        self._marks.append(figures.mark)
        return self._readings(figures)

    def _since(self) -> Since | None:
        """Return from where on the next reading reads what was processed.

        A transaction that the last snapshot did not see began after the last mark that had seen
        every number below it; what it processed, it processed after that.
        """
        if not self._marks:
            return None
        last = self._marks[-1]
        while len(self._marks) > 1 and self._marks[1].xmax <= last.xmin:
            self._marks.popleft()
        return Since(snapshot=last.snapshot, processed_at=self._marks[0].now - _MARGIN)

    def _readings(self, figures: Figures) -> Readings:
        ended = (figures.consumed, figures.discarded)
        self._consumed += figures.consumed.receipts
        self._discarded += figures.discarded.receipts
        self._ended_facts += sum(each.facts for each in ended)
        self._ended_captured += sum(each.captured for each in ended)
        waiting = (figures.free, figures.reserved)
        facts = self._ended_facts + sum(each.facts for each in waiting)
        captured = self._ended_captured + sum(each.captured for each in waiting)
        for reason in figures.ignored:
            self._ignored.setdefault(reason, _Rising())
        return {
            "wakeful_database_readable": {(): 1},
            "wakeful_facts_captured": {(): self._facts.take(facts)},
            "wakeful_facts_merged": {(): self._merged.take(facts - captured)},
            "wakeful_facts_ignored": {
                (reason,): rising.take(figures.ignored[reason])
                for reason, rising in self._ignored.items()
            },
            "wakeful_receipts": {
                ("free",): figures.free.receipts,
                ("reserved",): figures.reserved.receipts,
            },
            "wakeful_receipts_processed": {
                ("consumed",): self._consumed,
                ("discarded",): self._discarded,
            },
            "wakeful_oldest_free_receipt_seconds": {
                (str(each),): age for each, age in figures.oldest_receipt_seconds.items()
            },
            "wakeful_oldest_queued_wakeup_run_seconds": {
                (str(each),): age for each, age in figures.oldest_run_seconds.items()
            },
        }
