"""Durations as people write them: `10m`, `1h30m`, `90s` (W-201)."""

from __future__ import annotations

import re
from typing import Any, Final

import click

_PARTS: Final = re.compile(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?", re.ASCII)
_NUMBER: Final = re.compile(r"\d+", re.ASCII)
_UNIT_SECONDS: Final = (3600, 60, 1)


def seconds(text: str) -> int:
    """Return the whole seconds of a duration. Raises ValueError for anything else, zero too."""
    if _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} has no unit: write '{text}s', '{text}m' or '{text}h', or 1h30m")
    match = _PARTS.fullmatch(text)
    parts = match.groups(default="0") if match else ()
    total = sum(int(part) * unit for part, unit in zip(parts, _UNIT_SECONDS, strict=False))
    if total <= 0:
        raise ValueError(f"{text!r} is no duration: write 10m, 1h30m or 90s")
    return total


class Duration(click.ParamType[int]):
    """An option that takes a duration and gives seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds; a text that is no duration ends the command."""
        if isinstance(value, int):
            return value
        try:
            return seconds(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


DURATION: Final = Duration()
