"""Readers of the documents that promise something: requirements, guarantees and links.

`docs/requirements.md` holds tables `| id | clause | test | open |`. A row's `test` names
`path::test_name` one or more times; `open` is `-` when the clause is done, starts with `part:`
when a part is missing, and says anything else when nothing is done yet. An id may have several
rows, one a clause. `docs/guarantees.md` holds one `## G-01 Title` a guarantee, with prose and,
where SQL can say it, one block of SQL that returns no row.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final, Literal

import attrs

from tests.tidy.sources import Finding, Source

ID: Final = re.compile(r"\b(?:[WS]-\d{3}|F-\d{2})\b")
GUARANTEE: Final = re.compile(r"\bG-\d{2}\b")
TEST: Final = re.compile(r"[\w/]+\.py::\w+")

State = Literal["done", "part", "open"]


@attrs.frozen(kw_only=True)
class Requirement:
    """One row of docs/requirements.md."""

    path: str
    line: int
    id: str
    clause: str
    tests: tuple[str, ...]
    open: str

    @property
    def state(self) -> State:
        """Whether the clause is done, partly done or open."""
        if self.open == "-":
            return "done"
        return "part" if self.open.startswith("part:") else "open"


@attrs.frozen(kw_only=True)
class Guarantee:
    """One section of docs/guarantees.md; `sql` holds its blocks of SQL."""

    path: str
    line: int
    id: str
    title: str
    prose: str
    sql: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Promise:
    """One test function and the rule that its docstring states."""

    path: str
    line: int
    name: str
    rule: str

    @property
    def address(self) -> str:
        """The test as pytest and the documents name it."""
        return f"{self.path}::{self.name}"


class MalformedError(AssertionError):
    """A document is not in the form that its reader expects; the message is the finding."""


def requirements(source: Source) -> list[Requirement]:
    """Read every row of every table; raise `MalformedError` for a row of another shape."""
    rows = []
    for number, line in enumerate(source.lines, start=1):
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if cells == ["id", "clause", "test", "open"] or set("".join(cells)) <= set("-: "):
            continue
        rows.append(_requirement(source, number, cells))
    return rows


def _requirement(source: Source, line: int, cells: list[str]) -> Requirement:
    def malformed(rule: str, remedy: str) -> MalformedError:
        return MalformedError(str(Finding(source.path, line, rule, remedy)))

    if len(cells) != 4:
        raise malformed(f"the row has {len(cells)} cells", "write | id | clause | test | open |")
    identity, clause, tests, left = cells
    if not ID.fullmatch(identity):
        raise malformed(f"{identity!r} is no id", "write one id such as W-001, S-001 or F-01")
    rest = re.sub(r"<br>|[`\s,-]", "", TEST.sub("", tests))
    if rest:
        raise malformed(f"{rest!r} is no test", "write path::test_name, separated by <br>, or -")
    if not left:
        raise malformed("the open part is empty", "write - when done, else what is left")
    return Requirement(
        path=source.path,
        line=line,
        id=identity,
        clause=clause,
        tests=tuple(TEST.findall(tests)),
        open=left,
    )


def guarantees(source: Source) -> list[Guarantee]:
    """Read every section; raise `MalformedError` for a heading that is no guarantee."""
    sections = []
    text = "\n".join(source.lines)
    for match in re.finditer(r"^## (.*)\n((?:(?!## ).*(?:\n|\Z))*)", f"{text}\n", re.MULTILINE):
        line = source.line_of(match.start())
        heading = re.fullmatch(r"(G-\d{2}) (\S.*)", match[1])
        if heading is None:
            rule, remedy = f"{match[1]!r} is no guarantee", "write ## G-01 Title"
            raise MalformedError(str(Finding(source.path, line, rule, remedy)))
        block = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
        sections.append(
            Guarantee(
                path=source.path,
                line=line,
                id=heading[1],
                title=heading[2],
                prose=block.sub("", match[2]).strip(),
                sql=tuple(sql.strip() for sql in block.findall(match[2])),
            )
        )
    return sections


def promises(test_files: Iterable[Source]) -> Iterator[Promise]:
    """Yield every test function with its docstring."""
    for source in test_files:
        for node in source.tests():
            rule = ast.get_docstring(node) or ""
            yield Promise(path=source.path, line=node.lineno, name=node.name, rule=rule)


def prose(source: Source) -> str:
    """Return a Markdown text with its code blocks blanked, so that line numbers still hold."""
    blank = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)
    return blank.sub(lambda block: "\n" * block[0].count("\n"), source.text)


@cache
def anchors(source: Source) -> frozenset[str]:
    """Return the fragments that the headings of a Markdown file can be linked by."""
    headings = re.findall(r"^#{1,6} +(.+?) *$", prose(source), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return frozenset(heading.replace(" ", "-") for heading in plain)
