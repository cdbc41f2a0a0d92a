"""Rows of the table that `bench/run.py` prints: figures, what is asked of them, and the verdict."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

MS: Final = 1_000.0  # milliseconds in a second
NONE: Final = "-"
REMARK_WIDTH: Final = 100
FOREIGN_MAX: Final = 0.15  # of the machine's CPU: what may be lost and still count as clean


@attrs.frozen(kw_only=True)
class Figure:
    """One number of a row, and what is asked of it, if anything.

    `at_most` or `at_least` is the aim. `bound` is what the requirement itself allows where the
    aim is stricter; it bounds in the same direction.
    """

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    bound: float | None = None

    @property
    def is_asked(self) -> bool:
        """Whether anything is asked of this figure."""
        return self.at_most is not None or self.at_least is not None

    @property
    def is_met(self) -> bool:
        """Whether the figure reaches its aim."""
        return self._reaches(self.at_most, self.at_least)

    @property
    def is_within_bound(self) -> bool:
        """Whether the figure is as the requirement says; its aim may be stricter."""
        if self.bound is None:
            return self.is_met
        if self.at_least is not None:
            return self._reaches(None, self.bound)
        return self._reaches(self.bound, None)

    def _reaches(self, at_most: float | None, at_least: float | None) -> bool:
        return (at_most is None or self.value <= at_most) and (
            at_least is None or self.value >= at_least
        )

    def __str__(self) -> str:
        return f"{self.name} {number(self.value)}{self.unit}".lstrip()

    def aim(self) -> str:
        """Return what is asked of the figure, in words for the table."""
        for sign, aim in (("≤", self.at_most), ("≥", self.at_least)):
            if aim is not None:
                bound = "" if self.bound is None else f" ({self.bound:g})"
                return f"{self.name} {sign} {aim:g}{bound}".lstrip()
        return ""


@attrs.frozen(kw_only=True)
class Row:
    """One line of the table; `proves` names the requirements whose check is this figure."""

    what: str
    figures: tuple[Figure, ...]
    proves: tuple[str, ...] = ()
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Say `met`, `bound met` where only the stricter aim was missed, `missed`, or nothing."""
        asked = [figure for figure in self.figures if figure.is_asked]
        if not asked:
            return NONE
        if all(figure.is_met for figure in asked):
            return "met"
        return "bound met" if all(figure.is_within_bound for figure in asked) else "missed"

    def cells(self) -> tuple[str, ...]:
        """Return the row as the table's cells."""
        return (
            self.what,
            ", ".join(map(str, self.figures)),
            ", ".join(aim for figure in self.figures if (aim := figure.aim())) or NONE,
            self.verdict,
            " ".join(self.proves) or NONE,
        )

    def record(self) -> dict[str, Any]:
        """Return the row for the JSON file."""
        return attrs.asdict(self) | {"verdict": self.verdict}


@attrs.frozen(kw_only=True)
class Family:
    """The rows of one module, and how the machine was while they were measured.

    `foreign` is the share of the machine's CPU that processes which are not ours took.
    """

    name: str
    seconds: float
    load: float
    foreign: float
    rows: tuple[Row, ...]

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows with the share of the others in front of the requirements."""
        others = f"{100 * self.foreign:.0f} %"
        return [(*row.cells()[:4], others, row.cells()[4]) for row in self.rows]

    def record(self) -> dict[str, Any]:
        """Return the family for the JSON file."""
        values = attrs.asdict(self, recurse=False)
        return values | {"rows": [row.record() for row in self.rows]}


HEAD: Final = ("what", "figures", "asked", "verdict", "others' CPU", "proves")


def number(value: float) -> str:
    """Return a figure with three significant digits, large ones in full."""
    if not math.isfinite(value):
        return str(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that so many percent of the values do not exceed."""
    assert values
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def table(families: Iterable[Family]) -> str:
    """Return all rows as one table, each remark on lines of its own below its row."""
    remarks = [row.remark for family in families for row in family.rows]
    cells = [cell for family in families for cell in family.cells()]
    widths = [max(map(len, column)) for column in zip(HEAD, *cells, strict=True)]

    def line(row: tuple[str, ...]) -> str:
        return "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()

    lines = [line(HEAD), line(tuple("-" * width for width in widths))]
    for row, remark in zip(cells, remarks, strict=True):
        lines.append(line(row))
        lines += textwrap.wrap(
            remark, REMARK_WIDTH, initial_indent="    ", subsequent_indent="    "
        )
    return "\n".join(lines)


def markdown(record: dict[str, Any]) -> str:
    """Return the table of a JSON file, and what it was measured on, for a document."""
    about = ", ".join(f"{name} {value}" for name, value in record["environment"].items())
    lines = [f"{about}.", "", f"| family | {' | '.join(HEAD)} |", "|---" * (len(HEAD) + 1) + "|"]
    for family in record["families"]:
        rows = [
            Row(
                what=row["what"],
                figures=tuple(Figure(**figure) for figure in row["figures"]),
                proves=tuple(row["proves"]),
                remark=row["remark"],
            )
            for row in family["rows"]
        ]
        measured = Family(**{**family, "rows": tuple(rows)})
        for row, cells in zip(rows, measured.cells(), strict=True):
            remark = f"<br>{row.remark}" if row.remark else ""
            first, *rest = cells
            lines.append(f"| {family['name']} | {first}{remark} | {' | '.join(rest)} |")
    return "\n".join(lines)
