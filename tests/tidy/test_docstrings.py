"""What is public says its contract, and a test says the rule that it proves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.tidy import sources
from tests.tidy.sources import Finding, Function, Source

RULE_WORDS_MIN: Final = 4  # fewer cannot be a sentence that states a rule

Definition = ast.ClassDef | Function


def public(node: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Yield the public classes and functions of a module, and those of its public classes.

    Left out are overloads (their implementation speaks), overrides (the base class speaks),
    setters (the getter speaks) and the members of protocols (the class speaks).
    """
    spoken_for = {"overload", "override", "setter"}
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Definition) or child.name.startswith("_"):
            continue
        marks = {ast.unparse(mark).rpartition(".")[2] for mark in child.decorator_list}
        if marks & spoken_for:
            continue
        yield child
        if isinstance(child, ast.ClassDef) and "Protocol" not in map(ast.unparse, child.bases):
            yield from public(child)


def silent(source: Source) -> Iterator[Finding]:
    """Find public modules, classes and functions without a docstring."""
    remedy = "say its contract in one line, then its effects and errors"
    if source.tree.body and ast.get_docstring(source.tree) is None:
        yield Finding(source.path, 1, "the module has no docstring", remedy)
    for node in public(source.tree):
        if ast.get_docstring(node) is None:
            yield Finding(source.path, node.lineno, f"{node.name} has no docstring", remedy)


def ruleless(source: Source) -> Iterator[Finding]:
    """Find test functions whose docstring is missing or too short to state a rule."""
    for test in source.tests():
        rule = ast.get_docstring(test) or ""
        if len(rule.split()) < RULE_WORDS_MIN:
            remedy = "say the rule that it proves in one sentence, with the requirement's id"
            yield Finding(source.path, test.lineno, f"{test.name} states no rule", remedy)


def test_public_things_have_docstrings() -> None:
    """Every public module, class and function of the product says its contract."""
    found = sources.findings(silent, sources.python(under=[*sources.PRODUCT, "bench"]))
    sources.expect_none(found)


def test_tests_state_the_rule_that_they_prove() -> None:
    """Every test function has a docstring of at least four words."""
    found = sources.findings(ruleless, sources.python(under=["tests"]))
    sources.expect_none(found)


def test_silence_is_found_where_it_is_public() -> None:
    """A silent module, class and method are found; private and spoken-for ones are not."""
    text = (
        "class Open:\n    def method(self): ...\n    def _private(self): ...\n"
        "    @override\n    def inherited(self): ...\n"
        "class _Hidden:\n    def method(self): ...\n"
        'def spoken():\n    """Speak."""\n    def inner(): ...\n'
        "@typing.overload\ndef typed(): ...\n"
        'class Shape(Protocol):\n    """Speak."""\n    def method(self): ...\n'
    )
    assert sources.lines(silent, text) == [1, 1, 2]
    assert sources.lines(silent, "", "__init__.py") == []


def test_a_test_without_a_rule_is_found() -> None:
    """A missing docstring and one that only labels the test are found."""
    text = (
        "def test_a(): ...\n"
        'def test_b():\n    """It works."""\n'
        'def test_c():\n    """A rule fires at most once."""\n'
    )
    assert sources.lines(ruleless, text) == [1, 2]
