"""The migration runner: numbered SQL files up and down, a ledger with checksums (W-237, W-246).

The files are described in the package `migrations`. Functions here run inside `open_loop()`, open
a connection of their own, and hold an advisory lock for as long as they change anything: a second
migrator waits, then finds nothing left to do. A killed run leaves whole steps: each is one
transaction with its row in the ledger, or one repeatable statement.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from enum import StrEnum
from importlib import resources
from typing import TYPE_CHECKING, Final

import attrs
import structlog

from engine import limits
from engine.errors import WakefulError, not_found
from engine.storage import queries
from engine.storage.database import DatabaseError, with_connection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from importlib.resources.abc import Traversable

    from engine.storage.database import Dedicated

NO_TRANSACTION: Final = "-- no-transaction"
NOTHING: Final = "0"  # the number before the first: where `down` undoes every step
RAISED: Final = "P0001"  # RAISE EXCEPTION in one of our own files
_FILE: Final = re.compile(r"(?P<name>(?P<number>\d{4})_[a-z0-9_]+)\.(?P<way>up|down)\.sql")
_GENERATED: Final = "schema.sql"
_REPEATABLE: Final = re.compile(r"\bIF\s+(NOT\s+)?EXISTS\b", re.IGNORECASE)

_log = structlog.get_logger()
_sql = queries.load("migrations")


@attrs.frozen(kw_only=True)
class Step:
    """One numbered pair of files."""

    name: str
    up: str
    down: str

    @property
    def checksum(self) -> str:
        """SHA-256 over both texts: an edit of either is noticed."""
        return hashlib.sha256(f"{self.up}\0{self.down}".encode()).hexdigest()


class State(StrEnum):
    """How a step stands in a database."""

    APPLIED = "applied"
    PENDING = "pending"
    EDITED = "edited"  # applied, but the files have changed since
    UNKNOWN = "unknown"  # applied by a newer version, which has files that this one has not


@attrs.frozen(kw_only=True)
class StepStatus:
    """One line of `wakeful migrate status`."""

    name: str
    state: State
    applied_at: datetime | None


@attrs.frozen(kw_only=True)
class _Entry:
    checksum: str
    applied_at: datetime


def read_steps(source: Traversable | None = None) -> list[Step]:
    """Read the steps of a folder, the package's own by default, in their order.

    Raises `migration_invalid` for a file that is misnamed, lacks its counterpart or shares its
    number, and for a step without transaction that could not be repeated.
    """
    texts: dict[str, dict[str, str]] = {}
    numbers: dict[str, str] = {}
    for file in (source or resources.files("migrations")).iterdir():
        if not file.name.endswith(".sql") or file.name == _GENERATED:
            continue
        match = _FILE.fullmatch(file.name)
        if match is None:
            raise _invalid(f"{file.name} is not named NNNN_verb_object.up.sql or .down.sql")
        name = match["name"]
        if numbers.setdefault(match["number"], name) != name:
            raise _invalid(f"{name} and {numbers[match['number']]} have the same number")
        text = file.read_text(encoding="utf-8").replace("\r\n", "\n")
        if _stands_alone(text) and not _REPEATABLE.search(text):
            raise _invalid(f"{file.name} runs without a transaction: use IF [NOT] EXISTS")
        texts.setdefault(name, {})[match["way"]] = text
    for name, ways in texts.items():
        if len(ways) != 2:  # noqa: PLR2004 - up and down
            raise _invalid(f"{name} has only its {next(iter(ways))} file")
    return [
        Step(name=name, up=texts[name]["up"], down=texts[name]["down"]) for name in sorted(texts)
    ]


async def up(dsn: str, to: str | None = None, *, source: Traversable | None = None) -> list[str]:
    """Apply the pending steps, up to and with `to` (a name or its number); return their names.

    Raises `migration_edited` when an applied file changed, `migration_refused` when a pending step
    sorts before an applied one, `migration_failed` with the step's name; what was applied before
    it stays.
    """
    steps = read_steps(source)
    last = _position(steps, to) if to is not None else len(steps) - 1

    async def run(session: Dedicated) -> list[str]:
        applied = await _prepare(session, steps)
        pending = [step for step in steps[: last + 1] if step.name not in applied]
        if pending and (late := [name for name in applied if name > pending[0].name]):
            raise WakefulError(
                "migration_refused", f"{pending[0].name} comes before {late[0]}, which is applied"
            )
        for step in pending:
            await _run(session, step, step.up, applied=True)
            _log.info("migration_applied", step=step.name)
        return [step.name for step in pending]

    return await with_connection(dsn, run)


async def down(dsn: str, to: str, *, source: Traversable | None = None) -> list[str]:
    """Undo the applied steps after `to`, the newest first; return their names.

    `to` (a name or its number) stays applied; `NOTHING` undoes everything. Raises
    `migration_refused` with the words of the down file when it refuses (W-244), or when a newer
    version applied steps; `migration_edited` and `migration_failed` like `up`.
    """
    steps = read_steps(source)
    last = -1 if to == NOTHING else _position(steps, to)

    async def run(session: Dedicated) -> list[str]:
        applied = await _prepare(session, steps)
        undo = [step for step in reversed(steps[last + 1 :]) if step.name in applied]
        known = {step.name for step in steps}
        if unknown := [name for name in applied if name not in known]:
            raise WakefulError(
                "migration_refused",
                f"a newer version applied {unknown[-1]}; undo it with that version first",
            )
        for step in undo:
            await _run(session, step, step.down, applied=False)
            _log.info("migration_undone", step=step.name)
        return [step.name for step in undo]

    return await with_connection(dsn, run)


async def status(dsn: str, *, source: Traversable | None = None) -> list[StepStatus]:
    """Return every known or applied step in order. Changes nothing, waits for nobody."""
    steps = {step.name: step for step in read_steps(source)}
    applied = await with_connection(dsn, _ledger)
    return [
        StepStatus(
            name=name,
            state=_state(steps.get(name), applied.get(name)),
            applied_at=applied[name].applied_at if name in applied else None,
        )
        for name in sorted(steps.keys() | applied.keys())
    ]


async def require_current(dsn: str, *, source: Traversable | None = None) -> None:
    """Refuse a database that lacks a step of this version (W-246); a newer one passes.

    Raises `schema_behind` with the names of the missing steps, `migration_edited`.
    """
    steps = await status(dsn, source=source)
    if edited := [step.name for step in steps if step.state is State.EDITED]:
        raise _edited(edited)
    if pending := [step.name for step in steps if step.state is State.PENDING]:
        raise WakefulError(
            "schema_behind",
            f"the database lacks {', '.join(pending)}; run: wakeful migrate up",
            details={"steps": pending},
        )


async def _prepare(session: Dedicated, steps: Sequence[Step]) -> dict[str, _Entry]:
    """Become the only migrator, make the ledger if there is none, and return it checked."""
    try:
        async with asyncio.timeout(limits.MIGRATION_LOCK_SECONDS):
            while not await session.fetchval(_sql.lock):  # noqa: ASYNC110 - see the query
                await asyncio.sleep(limits.MIGRATION_LOCK_POLL_SECONDS)
    except TimeoutError as error:
        raise WakefulError("contention", "another process is still migrating") from error
    if not await session.fetchval(_sql.ledger_exists):
        await session.execute(_sql.create_ledger)
    applied = await _ledger(session)
    if edited := [
        step.name for step in steps if _state(step, applied.get(step.name)) is State.EDITED
    ]:
        raise _edited(edited)
    return applied


async def _ledger(session: Dedicated) -> dict[str, _Entry]:
    if not await session.fetchval(_sql.ledger_exists):
        return {}
    return {
        row["name"]: _Entry(checksum=row["checksum"], applied_at=row["applied_at"])
        for row in await session.fetch(_sql.ledger)
    }


async def _run(session: Dedicated, step: Step, text: str, *, applied: bool) -> None:
    """Run one file and write the ledger: in one transaction, or the statement first."""
    try:
        if _stands_alone(text):
            for row in await session.fetch(_sql.drop_invalid_indexes, text):
                await session.script(row["statement"])
            await session.script(text)
            await _write(session, step, applied=applied)
            return
        await session.begin()
        try:
            await session.script(text)
            await _write(session, step, applied=applied)
        except BaseException:
            await session.rollback()
            raise
        await session.commit()
    except DatabaseError as error:
        # The gateway keeps the server's words back, as they may hold values. Here they are about
        # the schema, and a file that refuses says why in them.
        said = error.__cause__ or error.__context__
        words = str(said.args[0]) if said is not None and said.args else "no message"
        if error.sqlstate == RAISED:
            raise WakefulError("migration_refused", f"{step.name}: {words}") from error
        raise WakefulError(
            "migration_failed", f"{step.name}: {words} (SQLSTATE {error.sqlstate})"
        ) from error


async def _write(session: Dedicated, step: Step, *, applied: bool) -> None:
    if applied:
        await session.execute(_sql.record, step.name, step.checksum)
    else:
        await session.execute(_sql.forget, step.name)


def _state(step: Step | None, entry: _Entry | None) -> State:
    if step is None:
        return State.UNKNOWN
    if entry is None:
        return State.PENDING
    return State.APPLIED if entry.checksum == step.checksum else State.EDITED


def _stands_alone(text: str) -> bool:
    return text.split("\n", 1)[0].strip() == NO_TRANSACTION


def _position(steps: Sequence[Step], name: str) -> int:
    """Return the index of the step of a full name or a number."""
    for index, step in enumerate(steps):
        if step.name == name or (name.isdigit() and int(step.name[:4]) == int(name)):
            return index
    raise not_found(f"migration step {name!r}")


def _invalid(message: str) -> WakefulError:
    return WakefulError("migration_invalid", message)


def _edited(names: Sequence[str]) -> WakefulError:
    return WakefulError(
        "migration_edited",
        f"{', '.join(names)} changed after being applied; restore the file and append a new step",
        details={"steps": list(names)},
    )
