from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sql.capture_town import Town


@pytest.fixture
def town(database_url: str) -> Iterator[Town]:
    """A town in a database of its own."""
    town = Town.found(database_url)
    with town.session:
        yield town
