"""Pages of lists: one statement answers the rows and how many there are in all."""

from __future__ import annotations

from engine.domain.fields import page
from engine.storage.database import Record, Session
from engine.storage.queries import Query


async def fetch_page(
    session: Session, query: Query, *args: object, limit: int, offset: int
) -> tuple[list[Record], int]:
    """Return the rows of a page and the `total` of the list.

    `query` takes limit and offset as its last two parameters, and each of its rows has the column
    `total`, `count(*) OVER ()`. Behind the end of a list no row tells it, so it is asked again
    from the start. Raises 400 for bounds that `fields.page` refuses.
    """
    limit, offset = page(limit, offset)
    rows = await session.fetch(query, *args, limit, offset)
    if rows:
        return rows, rows[0]["total"]
    first = await session.fetchrow(query, *args, 1, 0) if offset else None
    return [], 0 if first is None else first["total"]
