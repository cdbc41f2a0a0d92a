"""What the documents promise has a test, and what the tests name is promised."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.tidy import documents, sources
from tests.tidy.documents import Guarantee, Promise, Requirement
from tests.tidy.sources import Finding, Source

REQUIREMENTS = "docs/requirements.md"
GUARANTEES = "docs/guarantees.md"


@pytest.fixture(scope="module")
def promised() -> list[Promise]:
    """Every test of the project."""
    return list(documents.promises(sources.python(under=["tests"])))


def unproved(rows: Iterable[Requirement], promised: Iterable[Promise]) -> list[Finding]:
    """Find rows without the tests that their state demands, or with tests that do not name them."""
    rules = {promise.address: promise.rule for promise in promised}
    found = []
    for row in rows:
        if row.state != "open" and not row.tests:
            rule, remedy = f"{row.id} is {row.state} without a test", "name the test that proves it"
            found.append(Finding(row.path, row.line, rule, remedy))
        for test in row.tests:
            if test not in rules:
                rule, remedy = f"{test} does not exist", "name a test as path::test_name"
                found.append(Finding(row.path, row.line, rule, remedy))
            elif row.id not in documents.ID.findall(rules[test]):
                rule = f"the docstring of {test} does not name {row.id}"
                found.append(Finding(row.path, row.line, rule, f"begin it with '{row.id}: '"))
    return found


def unknown(rows: Iterable[Requirement], promised: Iterable[Promise]) -> list[Finding]:
    """Find tests whose docstring names an id that no row has."""
    known = {row.id for row in rows}
    return [
        Finding(
            promise.path,
            promise.line,
            f"{promise.name} names {identity}, which {REQUIREMENTS} does not have",
            "correct the id or add its row",
        )
        for promise in promised
        for identity in sorted(set(documents.ID.findall(promise.rule)) - known)
    ]


def unguarded(sections: Iterable[Guarantee], promised: Iterable[Promise]) -> list[Finding]:
    """Find guarantees that no test names, and names of guarantees that do not exist."""
    promised = list(promised)
    named = {each for promise in promised for each in documents.GUARANTEE.findall(promise.rule)}
    known = {section.id for section in sections}
    found = [
        Finding(
            section.path,
            section.line,
            f"no test names {section.id}",
            "name it in the docstring of a test that would fail without it",
        )
        for section in sections
        if section.id not in named
    ]
    found += [
        Finding(
            promise.path,
            promise.line,
            f"{promise.name} names {each}, which {GUARANTEES} does not have",
            "correct the id or add the guarantee",
        )
        for promise in promised
        for each in sorted(set(documents.GUARANTEE.findall(promise.rule)) - known)
    ]
    return found


def repeated(rows: Iterable[Requirement]) -> list[Finding]:
    """Find clauses of one id that stand twice."""
    seen: set[tuple[str, str]] = set()
    found = []
    for row in rows:
        if (row.id, row.clause) in seen:
            found.append(Finding(row.path, row.line, f"{row.id} stands twice", "merge the rows"))
        seen.add((row.id, row.clause))
    return found


def test_every_requirement_that_is_done_has_a_test_that_names_it(promised: list[Promise]) -> None:
    """A row marked done or part names existing tests whose docstrings name its id."""
    rows = documents.requirements(sources.read(REQUIREMENTS))
    assert rows, f"{REQUIREMENTS} has no row"
    found = [*unproved(rows, promised), *repeated(rows)]
    sources.expect_none(found)


def test_every_id_that_a_test_names_is_a_requirement(promised: list[Promise]) -> None:
    """The docstrings of tests name no id that docs/requirements.md does not have."""
    found = unknown(documents.requirements(sources.read(REQUIREMENTS)), promised)
    sources.expect_none(found)


def test_every_guarantee_has_a_test_that_names_it(promised: list[Promise]) -> None:
    """Each guarantee of docs/guarantees.md is named by a test, and no test names another."""
    sections = documents.guarantees(sources.read(GUARANTEES))
    assert sections, f"{GUARANTEES} has no guarantee"
    found = unguarded(sections, promised)
    sources.expect_none(found)


def test_guarantees_are_numbered_once_and_say_something() -> None:
    """Guarantees have distinct, ascending ids, prose, and at most one SELECT each."""
    sections = documents.guarantees(sources.read(GUARANTEES))
    ids = [section.id for section in sections]
    assert ids == sorted(set(ids))
    for section in sections:
        assert section.prose, f"{section.id} says nothing"
        assert len(section.sql) <= 1, f"{section.id} has several blocks of SQL"
        assert all(sql.startswith(("SELECT", "WITH")) for sql in section.sql), section.id


def test_the_reader_of_requirements_tells_done_part_and_open_apart() -> None:
    """A hyphen is done, `part:` is part, all else is open; a cell may name several tests."""
    text = (
        "| id | clause | test | open |\n|---|---|---|---|\n"
        "| W-001 | kinds \\| modes | `tests/a.py::test_a`<br>tests/b.py::test_b | - |\n"
        "| S-002 | holds | tests/a.py::test_a | part: no host yet |\n"
        "| F-03 | later | - | issue 4 |\n"
    )
    done, part, left = documents.requirements(Source("x.md", text))
    assert (done.state, done.tests) == ("done", ("tests/a.py::test_a", "tests/b.py::test_b"))
    assert (part.state, part.line) == ("part", 4)
    assert (left.state, left.tests) == ("open", ())


@pytest.mark.parametrize(
    "row",
    ["| W-001 | three cells | - |", "| W-1 | c | - | - |", "| W-001 | c | later | - |"],
)
def test_the_reader_of_requirements_refuses_another_shape(row: str) -> None:
    """A row that the reader does not understand is named with its line, never passed over."""
    with pytest.raises(documents.MalformedError, match=r"x\.md:2: "):
        documents.requirements(Source("x.md", f"\n{row}\n"))


def test_a_requirement_without_its_proof_is_found() -> None:
    """A missing or unknown test, a silent docstring, an unknown id and a double row are found."""
    table = (
        "| W-001 | a | - | - |\n"
        "| W-002 | b | tests/a.py::test_gone | - |\n"
        "| W-003 | c | tests/a.py::test_a | - |\n"
        "| W-003 | c | tests/a.py::test_a | - |\n"
    )
    rows = documents.requirements(Source("x.md", table))
    test = 'def test_a() -> None:\n    """W-009: proves another rule."""\n'
    promised = list(documents.promises([Source("tests/a.py", test)]))
    assert [finding.line for finding in unproved(rows, promised)] == [1, 2, 3, 4]
    assert [finding.line for finding in repeated(rows)] == [4]
    assert "W-009" in str(unknown(rows, promised))


def test_a_guarantee_without_its_proof_is_found() -> None:
    """A guarantee that no test names and a test that names no guarantee are both found."""
    text = "# Guarantees\n\n## G-01 Nothing is lost\n\nProse.\n\n```sql\nSELECT 1\n```\n"
    sections = documents.guarantees(Source("x.md", text))
    assert [(section.id, section.sql) for section in sections] == [("G-01", ("SELECT 1",))]
    test = 'def test_a() -> None:\n    """G-02: something else."""\n'
    promised = list(documents.promises([Source("tests/a.py", test)]))
    assert [finding.path for finding in unguarded(sections, promised)] == ["x.md", "tests/a.py"]
    with pytest.raises(documents.MalformedError, match=r"x\.md:1: "):
        documents.guarantees(Source("x.md", "## About\n"))
