"""Logs of the long-running commands: one line an event on standard error, `key=value`.

Events carry ids, codes and numbers; never bodies, prompts or tokens (house style, Code). The text
of an exception, its notes and the variables around it may hold any of these, so that a log says of
an exception no more than what it is and where it arose.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from traceback import walk_tb
from typing import Final

import structlog
from structlog.typing import ExcInfo

from engine.errors import WakefulError

_ERRORS_MAX: Final = 20  # of a chain or group: enough for every cause of ours, short in a log
_FRAMES_MAX: Final = 12  # innermost ones of each error: where it arose, and who asked for that


def log_to_stderr() -> None:
    """Configure structlog for this process; events below `info` are dropped."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.ExceptionRenderer(_trace),
            structlog.processors.LogfmtRenderer(key_order=["at", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _trace(exc_info: ExcInfo) -> str:
    """Return types, codes and places of an exception and of what led to it, without any text."""
    return "; ".join(_errors(exc_info[1]))


def _errors(error: BaseException | None) -> Iterator[str]:
    """Yield an error, what a group holds, and the causes: each once, to the bound."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < _ERRORS_MAX:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        yield _place(error)
        waiting.append(error.__cause__)
        if not error.__suppress_context__:
            waiting.append(error.__context__)
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(reversed(error.exceptions))


def _place(error: BaseException) -> str:
    kind = type(error)
    code = f" {error.code}" if isinstance(error, WakefulError) else ""
    frames = [
        f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
        for frame, line in walk_tb(error.__traceback__)
    ]
    places = ", ".join(reversed(frames[-_FRAMES_MAX:]))
    return f"{kind.__module__}.{kind.__qualname__}{code} at {places or 'no place'}"
