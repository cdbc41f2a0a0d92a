"""Modules and functions stay small enough to read in one go."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.tidy import sources
from tests.tidy.sources import Finding, Function, Source

MODULE_LINES_MAX: Final = 500
FUNCTION_LINES_MAX: Final = 70


def length(function: Function) -> int:
    """Count the lines of a function, from `def` to its end, without its docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def oversized(source: Source) -> Iterator[Finding]:
    """Find a module and the functions that are past the hard limits."""
    lines = len(source.lines)
    if lines > MODULE_LINES_MAX:
        rule = f"the module has {lines} lines, more than {MODULE_LINES_MAX}"
        yield Finding(source.path, 1, rule, "look for the seam and split it there")
    for function in source.functions():
        if length(function) > FUNCTION_LINES_MAX:
            rule = f"{function.name} has {length(function)} lines, more than {FUNCTION_LINES_MAX}"
            yield Finding(source.path, function.lineno, rule, "name a part of it and move it out")


def test_modules_and_functions_are_small() -> None:
    """No module has more than 500 lines and no function more than 70, its docstring aside."""
    found = sources.findings(oversized, sources.python())
    sources.expect_none(found)


def test_the_limits_count_lines_but_no_docstring() -> None:
    """A docstring costs a function nothing; the line after the last allowed one is found."""
    head = 'def f():\n    """Explain.\n\n    Much.\n    """\n'
    body = "    x = 1\n" * (FUNCTION_LINES_MAX - 1)
    assert not list(oversized(Source("x.py", head + body)))
    (finding,) = oversized(Source("x.py", f"{head}{body}    x = 1\n"))
    assert "f has 71 lines" in str(finding)
    (finding,) = oversized(Source("x.py", "x = 1\n" * (MODULE_LINES_MAX + 1)))
    assert "the module has 501 lines" in str(finding)
