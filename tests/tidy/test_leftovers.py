"""Nothing is left behind: no notes to self, skipped tests, sleeps, stubs or traces of a machine."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from tests.tidy import sources
from tests.tidy.sources import Finding, Source

# Put together from parts, so that this file does not find itself.
NOTES: Final = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
HOSTS: Final = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("debian", "org"),
    )
)
NOTE: Final = re.compile(rf"\b(?:{'|'.join(NOTES)})\b")
HOST: Final = re.compile("|".join(map(re.escape, HOSTS)))
MACHINE_PATH: Final = re.compile(r"(?<![\w.~-])/(?:work/|root/\.\w)")

SKIPS: Final = frozenset(("skip", "skipif", "skipIf", "skipUnless", "xfail", "importorskip"))
SLEEPS: Final = frozenset(("sleep", "sleep_until", "sleep_relative"))


def notes(source: Source) -> Iterator[Finding]:
    """Find notes to self in a text."""
    for match in NOTE.finditer(source.text):
        remedy = "do it now, or file it as an issue"
        yield Finding(source.path, source.line_of(match.start()), f"{match[0]} left", remedy)


def traces(source: Source) -> Iterator[Finding]:
    """Find package hosts and absolute paths of a developer's machine in a text."""
    for match in HOST.finditer(source.text):
        rule, remedy = f"names the package host {match[0]}", "name the package alone"
        yield Finding(source.path, source.line_of(match.start()), rule, remedy)
    for match in MACHINE_PATH.finditer(source.text):
        rule, remedy = f"holds the machine path {match[0]}", "make it relative or a setting"
        yield Finding(source.path, source.line_of(match.start()), rule, remedy)


def skips(source: Source) -> Iterator[Finding]:
    """Find uses of what lets a test pass without running."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in SKIPS:
            rule, remedy = f"{node.attr} hides a test", "make it pass everywhere or delete it"
            yield Finding(source.path, node.lineno, rule, remedy)


def stubs(source: Source) -> Iterator[Finding]:
    """Find code that only says that it is missing."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield Finding(source.path, node.lineno, "a stub", "write it, or leave it out")


def sleeps(source: Source) -> Iterator[Finding]:
    """Find sleeps in tests that no `# paced: reason` on the same line justifies."""
    paced = {
        line for line, comment in source.comments.items() if re.search(r"# paced: \S", comment)
    }
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        is_checkpoint = [ast.unparse(argument) for argument in node.args] == ["0"]
        if name in SLEEPS and not is_checkpoint:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if paced.isdisjoint(lines):
                remedy = "wait for a signal, or justify it with `# paced: reason`"
                yield Finding(source.path, node.lineno, "a sleep in a test", remedy)


def test_no_notes_to_self() -> None:
    """What is left to do stands in an issue, not in a file."""
    found = sources.findings(notes, sources.texts())
    sources.expect_none(found)


def test_no_traces_of_a_machine() -> None:
    """No file names a package host or a path of the machine that it was written on."""
    found = sources.findings(traces, sources.texts())
    sources.expect_none(found)


def test_no_skipped_tests() -> None:
    """No test is skipped or expected to fail."""
    found = sources.findings(skips, sources.python(under=["tests"]))
    sources.expect_none(found)


def test_no_stubs() -> None:
    """No code only says that it is not implemented."""
    found = sources.findings(stubs, sources.python())
    sources.expect_none(found)


def test_no_sleeping_in_tests() -> None:
    """Tests wait for signals; the few lines that pace something say why."""
    found = sources.findings(sleeps, sources.python(under=["tests"]))
    sources.expect_none(found)


def test_leftovers_are_found() -> None:
    """A note, a host, a path, a stub and each way of skipping are found with their line."""
    folder = "work"
    text = f"\n# {NOTES[0]}: later\nfetch('https://{HOSTS[0]}/simple')\nopen('/{folder}/x')\n"
    assert sources.lines(notes, text) == [2]
    assert sources.lines(traces, text) == [3, 4]
    text = (
        "@pytest.mark.skipif(x)\ndef test_a():\n    pytest.skip()\n    raise NotImplementedError\n"
    )
    assert sources.lines(skips, text) == [1, 3]
    assert sources.lines(stubs, text) == [4]


def test_a_sleep_is_found_unless_it_is_paced() -> None:
    """Every way to sleep is found; a checkpoint and a paced line with a reason are not."""
    text = (
        "time.sleep(1)\n"
        "await trio.sleep(seconds)\n"
        "await trio.sleep(0)\n"
        "await trio.sleep(1)  # paced: the writer keeps a rate\n"
        "sleep(0.1)  # paced:\n"
        "await trio.sleep_forever()\n"
    )
    assert sources.lines(sleeps, text) == [1, 2, 5]
