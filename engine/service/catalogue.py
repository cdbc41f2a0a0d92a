"""What the catalogues of a workspace have in common: entries with a name, read by all its members.

Members change them; statuses, on which closing and rules hang, only owners and admins do. A run
may make labels, and everything else about a catalogue is for people.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from engine.domain.access import may_read
from engine.errors import WakefulError, not_found
from engine.service import standing
from engine.service.registry import Work
from engine.storage.database import ConstraintViolation, Record
from engine.storage.queries import Query


async def read_entry(work: Work, get: Query, entry_id: UUID, what: str) -> Record:
    """Return the row of an entry. Raises 403 for a daemon, 404 where the caller may not read it."""
    standing.refuse_daemon(work)
    row = await work.session.fetchrow(get, entry_id)
    if row is None or not may_read(work.caller, row["workspace_id"]):
        raise not_found(what)
    return row


async def manage_entry(
    work: Work, get: Query, lock: Query, entry_id: UUID, what: str
) -> tuple[standing.Standing, Record]:
    """Return where the calling person stands, and the row of an entry as `lock` locks it.

    Locks workspace and member KEY SHARE before it. Raises 403 for anybody but a person, and 404.
    """
    standing.require_person(work)
    row = await read_entry(work, get, entry_id, what)
    place = await standing.stand_in(work, row["workspace_id"])
    locked = await work.session.fetchrow(lock, entry_id)
    if locked is None:
        raise not_found(what)
    return place, locked


@contextmanager
def one_of_a_name(index: str, what: str, field: str = "name") -> Iterator[None]:
    """Turn the refusal of a unique index into `conflict`, which names the field."""
    try:
        yield
    except ConstraintViolation as error:
        if error.constraint != index:
            raise
        raise WakefulError("conflict", f"another {what} has this {field}", field=field) from None
