"""When timers are due, told without a library and one minute at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from engine.domain.records import Kind, Rule

MINUTE = timedelta(minutes=1)

# Schedules whose occurrences the model can tell without a library: minute and hour of the day.
CRONS: dict[str, Callable[[datetime], bool]] = {
    "*/5 * * * *": lambda at: at.minute % 5 == 0,
    "30 * * * *": lambda at: at.minute == 30,
    "0 9 * * *": lambda at: (at.hour, at.minute) == (9, 0),
}


def occurrences(rule: Rule, until: datetime) -> list[datetime]:
    """Return the planned instants of a timer from its stored one to the first after `until`."""
    at = rule.next_fire_at
    assert at is not None
    found = [at]
    while found[-1] <= until:
        if rule.kind is Kind.EVERY:
            at = found[-1] + timedelta(seconds=rule.interval_seconds or 0)
        else:
            at = found[-1] + MINUTE
            while not CRONS[rule.cron_expression or ""](at):
                at += MINUTE
        found.append(at)
    return found
