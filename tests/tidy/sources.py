"""What the tidy tests look at: the files that a clone holds, parsed once, and how they complain.

Every rule is a function from one file to findings, so that its test can feed it a bad file and
prove that the rule bites.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

import attrs
import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("engine", "web", "client", "cli", "migrations")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen(order=True)
class Finding:
    """One place that breaks a rule, and what to do about it."""

    path: str
    line: int
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}; {self.remedy}"


@attrs.frozen
class Source:
    """One text file: its path from the root with forward slashes, and its text."""

    path: str
    text: str

    @property
    def lines(self) -> list[str]:
        """The text without line ends."""
        return self.text.splitlines()

    @property
    def module(self) -> str:
        """The dotted name that a Python file is imported by."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def tree(self) -> ast.Module:
        """The syntax tree of a Python file."""
        return _parse(self)

    @property
    def comments(self) -> dict[int, str]:
        """The comments of a Python file by line."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    def line_of(self, offset: int) -> int:
        """Return the number of the line that holds the character at `offset`."""
        return self.text.count("\n", 0, offset) + 1

    def functions(self) -> Iterator[Function]:
        """Yield every function of a Python file, nested ones and methods too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    def tests(self) -> Iterator[Function]:
        """Yield the test functions of a Python file."""
        return (node for node in self.functions() if node.name.startswith("test_"))


@cache
def _parse(source: Source) -> ast.Module:
    return ast.parse(source.text, source.path)


@cache
def files() -> tuple[str, ...]:
    """Return the path of every file that is, or could be, committed: tracked or not ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    present = {path for path in listing.split("\0") if path and (ROOT / path).is_file()}
    return tuple(sorted(present))


@cache
def read(path: str) -> Source:
    """Read one file of the repository."""
    if not (ROOT / path).is_file():
        pytest.fail(f"{path} does not exist; write it", pytrace=False)
    return Source(path, (ROOT / path).read_text(encoding="utf-8"))


def sources(*suffixes: str, under: Iterable[str] = ()) -> Iterator[Source]:
    """Yield the files that end in one of `suffixes`, in the folders `under` or anywhere."""
    folders = tuple(f"{folder}/" for folder in under)
    for path in files():
        if path.endswith(suffixes) and (not folders or path.startswith(folders)):
            yield read(path)


def python(*, under: Iterable[str] = ()) -> Iterator[Source]:
    """Yield the Python files in the folders `under`, or all of them."""
    return sources(".py", under=under)


def texts() -> Iterator[Source]:
    """Yield every file that is text."""
    for path in files():
        with (ROOT / path).open("rb") as file:
            is_text = b"\0" not in file.read(8192)
        if is_text:
            yield read(path)


def findings(
    rule: Callable[[Source], Iterable[Finding]], looked_at: Iterable[Source]
) -> list[Finding]:
    """Apply one rule to many files."""
    return sorted(finding for source in looked_at for finding in rule(source))


def lines(rule: Callable[[Source], Iterable[Finding]], text: str, path: str = "x.py") -> list[int]:
    """Return the lines of a text that a rule finds, for the proof that the rule bites."""
    return [finding.line for finding in findings(rule, [Source(path, text)])]


def expect_none(found: Iterable[Finding]) -> None:
    """Fail a tidy test with one line for each finding, if there is any."""
    if message := "\n".join(map(str, found)):
        pytest.fail(message, pytrace=False)


def words(name: str) -> list[str]:
    """Split a snake_case or CamelCase name into lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]
