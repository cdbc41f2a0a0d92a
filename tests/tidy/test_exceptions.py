"""An exception to a rule of the checkers says its reason where it is made."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Final

from tests.tidy import sources
from tests.tidy.sources import Finding, Source

# What an exception looks like, and what it looks like with its reason after ` - ` or ` # `.
EXCEPTION: Final = re.compile(r"#\s*(?:noqa|type:\s*ignore|mypy:|ruff:|pragma:)")
EXPLAINED: Final = re.compile(
    r"# (?:noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|type: ignore\[[\w, -]+\]|"
    r"(?:mypy|ruff|pragma): .+?)\s+(?:-|#) \S"
)


def unexplained(source: Source) -> Iterator[Finding]:
    """Find exceptions in a Python file that name no rule or no reason."""
    for line, comment in source.comments.items():
        if EXCEPTION.search(comment) and not EXPLAINED.search(comment):
            rule, remedy = f"{comment!r} explains nothing", "write `# noqa: CODE - why`"
            yield Finding(source.path, line, rule, remedy)


def unexplained_settings(source: Source) -> Iterator[Finding]:
    """Find rules that the settings of ruff switch off without a comment on the same line."""
    lint = tomllib.loads(source.text)["tool"]["ruff"]["lint"]
    codes = {*lint["ignore"], *(code for per in lint["per-file-ignores"].values() for code in per)}
    for number, line in enumerate(source.lines, start=1):
        quoted = set(re.findall(r'"([A-Z]+\d*)"', line.partition("#")[0]))
        if quoted & codes and not re.search(r"# \S", line):
            rule = f"{', '.join(sorted(quoted & codes))} is switched off without a reason"
            yield Finding(source.path, number, rule, "say why in a comment on the same line")


def test_exceptions_in_code_are_explained() -> None:
    """Every noqa, type: ignore and pragma names its rule and a reason."""
    found = sources.findings(unexplained, sources.python())
    sources.expect_none(found)


def test_exceptions_in_settings_are_explained() -> None:
    """Ruff starts from ALL, and every rule that is switched off says why."""
    settings = sources.read("pyproject.toml")
    assert tomllib.loads(settings.text)["tool"]["ruff"]["lint"]["select"] == ["ALL"]
    assert tomllib.loads(settings.text)["tool"]["mypy"]["strict"] is True
    found = list(unexplained_settings(settings))
    sources.expect_none(found)


def test_an_exception_without_a_reason_is_found() -> None:
    """Blanket exceptions and those without a reason are found, the others are not."""
    text = (
        "a = 1  # noqa\n"
        "a = 1  # noqa: S603\n"
        "a = 1  # noqa: S603, S607 - the command is ours\n"
        "a = 1  # type: ignore\n"
        "a = 1  # type: ignore[misc]\n"
        "a = 1  # type: ignore[misc]  # the library has no types\n"
        "a = 1  # pragma: no cover\n"
    )
    assert sources.lines(unexplained, text) == [1, 2, 4, 5, 7]
    toml = (
        '[tool.ruff.lint]\nignore = [\n  "D1",\n  "D2", # why\n]\n'
        '[tool.ruff.lint.per-file-ignores]\n"x/**" = ["T201"]\n'
    )
    assert sources.lines(unexplained_settings, toml) == [3, 7]
