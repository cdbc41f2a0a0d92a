"""Logs of the long-running commands: one line an event on standard error, `key=value`.

Events carry ids, codes and numbers; never bodies, prompts or tokens (house style, Code).
"""

from __future__ import annotations

import logging
import sys

import structlog


def log_to_stderr() -> None:
    """Configure structlog for this process; events below `info` are dropped."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.dict_tracebacks,
            structlog.processors.LogfmtRenderer(key_order=["at", "level", "event"]),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
