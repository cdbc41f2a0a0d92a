"""The fixtures of the command line: one server for all tests that do not stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import serving
from tests.cli.serving import Site


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A server in a folder of its own, which all tests share."""
    with serving.folder() as cwd, serving.site(cwd) as shared:
        yield shared


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder to serve in."""
    with serving.folder() as cwd:
        yield cwd
