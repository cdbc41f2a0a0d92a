"""Links and paths in the documents lead somewhere."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from tests.tidy import documents, sources
from tests.tidy.sources import Finding, Source

LINK: Final = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|mention:)([^)#\s]*)(?:#([^)\s]*))?\)")
# A path in backticks that begins with a folder of the project and has no placeholder in it.
PATH: Final = re.compile(
    r"`(?!\S*NNNN)((?:engine|web|client|cli|migrations|tests|bench|docs|tools|\.ci)/[\w./-]*)(?:::\w+)?`"
)


def broken_links(source: Source) -> Iterator[Finding]:
    """Find links in a Markdown file to files or headings that do not exist."""
    text = documents.prose(source)
    for match in LINK.finditer(text):
        target, fragment = match[1], match[2]
        line = text.count("\n", 0, match.start()) + 1
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source.path), target))
        aimed = source.path if not target else path
        if target and not (sources.ROOT / aimed).exists():
            remedy = "link from the document's own folder"
            yield Finding(source.path, line, f"{target} does not exist", remedy)
        elif fragment and aimed.endswith(".md"):
            linked = source if aimed == source.path else sources.read(aimed)
            if fragment not in documents.anchors(linked):
                rule, remedy = f"{aimed} has no heading for #{fragment}", "correct the fragment"
                yield Finding(source.path, line, rule, remedy)


def dead_paths(source: Source) -> Iterator[Finding]:
    """Find paths of the project in backticks that do not exist."""
    text = documents.prose(source)
    for match in PATH.finditer(text):
        if not (sources.ROOT / match[1]).exists():
            line = text.count("\n", 0, match.start()) + 1
            yield Finding(source.path, line, f"{match[1]} does not exist", "correct the path")


def test_links_lead_somewhere() -> None:
    """Every relative link resolves to a file, and its fragment to a heading."""
    found = sources.findings(broken_links, sources.sources(".md"))
    sources.expect_none(found)


def test_paths_lead_somewhere() -> None:
    """Every path of the project that a document shows in backticks exists."""
    found = sources.findings(dead_paths, sources.sources(".md"))
    sources.expect_none(found)


def test_every_decision_is_listed() -> None:
    """docs/decisions/README.md links every page beside it."""
    folder = "docs/decisions/"
    index = sources.read(f"{folder}README.md").text
    pages = [path.removeprefix(folder) for path in sources.files() if path.startswith(folder)]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []


def test_a_dead_link_is_found() -> None:
    """Missing files, missing headings and dead paths are found; code blocks are not read."""
    text = (
        "# One heading: `here`\n"
        "[ok](../Makefile) [ok](#one-heading-here) [ok](https://example.test)\n"
        "[gone](Makefile)\n"
        "[gone](#another)\n"
        "```\n[gone](in-a-block.md)\n```\n"
        "`tests/tidy` `tests/gone.py` `tests/<area>/test_x.py`\n"
    )
    assert sources.lines(broken_links, text, "docs/x.md") == [3, 4]
    assert sources.lines(dead_paths, text, "docs/x.md") == [8]
