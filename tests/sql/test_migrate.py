"""The migration runner, on steps made for it in a folder of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import trio

from engine.errors import WakefulError
from engine.storage import migrate
from engine.storage.database import open_loop
from engine.storage.migrate import State
from engine.storage.postgres_programs import program
from tests.tidy import sources

TABLE = "CREATE TABLE {name} (id int);\nINSERT INTO {name} VALUES (1);"
INDEX = "-- no-transaction\nCREATE INDEX CONCURRENTLY IF NOT EXISTS {name}_id_idx ON {name} (id);"
MIGRATOR = """
import sys, trio, pathlib
from engine.storage import database, migrate
async def main():
    async with database.open_loop():
        await migrate.up(sys.argv[1], source=pathlib.Path(sys.argv[2]))
trio.run(main)
"""
HOLD = "BEGIN; {statement}; \\echo held\n"


class Steps:
    """A folder of migration files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, up: str, down: str = "SELECT 1;") -> None:
        """Write one step."""
        (self.folder / f"{name}.up.sql").write_text(up)
        (self.folder / f"{name}.down.sql").write_text(down)

    def table(self, number: str, name: str) -> None:
        """Write a step that makes a table with one row."""
        self.add(f"{number}_create_{name}", TABLE.format(name=name), f"DROP TABLE {name};")

    def index(self, number: str, name: str) -> None:
        """Write a step that builds an index of such a table concurrently."""
        down = f"-- no-transaction\nDROP INDEX CONCURRENTLY IF EXISTS {name}_id_idx;"
        self.add(f"{number}_index_{name}", INDEX.format(name=name), down)


class Holder:
    """A psql that keeps one transaction open until `release`."""

    def __init__(self, url: str, statement: str) -> None:
        self._process = subprocess.Popen(
            [str(program("psql")), "-XqAt", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(HOLD.format(statement=statement))
        self._process.stdin.flush()
        while self._process.stdout.readline() not in ("held\n", ""):
            pass

    def release(self) -> None:
        """Commit and leave."""
        self._process.communicate("COMMIT;\n")


def ask(url: str, sql: str) -> str:
    done = subprocess.run(
        [str(program("psql")), "-XAt", url, "-c", sql], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


async def waits(url: str, pattern: str) -> int:
    """Wait until a statement like the pattern waits for a lock; return its backend."""
    sql = (
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        f" AND datname = current_database() AND query ~ '{pattern}' AND pid <> pg_backend_pid()"
    )
    with trio.fail_after(30):
        while not (pid := ask(url, sql)):  # noqa: ASYNC110 - no event of the server's
            await trio.sleep(0.01)  # paced: the server announces no lock waits
    return int(pid)


def states(listed: list[migrate.StepStatus]) -> list[tuple[str, str]]:
    return [(step.name, step.state.value) for step in listed]


@pytest.fixture
def steps(tmp_path: Path) -> Steps:
    folder = tmp_path / "steps"
    folder.mkdir()
    made = Steps(folder)
    made.table("0001", "apple")
    made.table("0002", "pear")
    made.index("0003", "pear")
    return made


@pytest.fixture
async def url(empty_url: str) -> AsyncIterator[str]:
    async with open_loop():
        yield empty_url


@pytest.fixture
def held(empty_url: str) -> Iterator[list[Holder]]:
    holders: list[Holder] = []
    yield holders
    for holder in holders:
        holder._process.kill()
        holder._process.communicate()


async def test_up_applies_in_order_and_once(url: str, steps: Steps) -> None:
    """W-237: pending steps are applied in the order of their names and recorded by name."""
    assert states(await migrate.status(url, source=steps.folder)) == [
        ("0001_create_apple", "pending"),
        ("0002_create_pear", "pending"),
        ("0003_index_pear", "pending"),
    ]
    assert await migrate.up(url, "0001", source=steps.folder) == ["0001_create_apple"]
    assert await migrate.up(url, source=steps.folder) == ["0002_create_pear", "0003_index_pear"]
    assert await migrate.up(url, source=steps.folder) == []
    names = ask(url, "SELECT string_agg(name, ' ' ORDER BY name) FROM schema_migrations")
    assert names == "0001_create_apple 0002_create_pear 0003_index_pear"
    assert ask(url, "SELECT count(*) FROM apple, pear") == "1"
    await migrate.require_current(url, source=steps.folder)


async def test_status_changes_nothing(url: str, steps: Steps) -> None:
    """W-237: `status` on a new database lists every step and creates nothing, not even a ledger."""
    listed = await migrate.status(url, source=steps.folder)
    assert [step.applied_at for step in listed] == [None, None, None]
    assert ask(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"


async def test_down_undoes_the_newest_first(url: str, steps: Steps) -> None:
    """W-237: `down` undoes what follows the named step, newest first; "0" undoes everything."""
    await migrate.up(url, source=steps.folder)
    undone = await migrate.down(url, "0001_create_apple", source=steps.folder)
    assert undone == ["0003_index_pear", "0002_create_pear"]
    assert ask(url, "SELECT to_regclass('apple') IS NULL, to_regclass('pear') IS NULL") == "f|t"
    assert await migrate.down(url, migrate.NOTHING, source=steps.folder) == ["0001_create_apple"]
    assert await migrate.down(url, migrate.NOTHING, source=steps.folder) == []
    assert len(await migrate.up(url, source=steps.folder)) == 3


@pytest.mark.parametrize("target", ["0009", "0001_create_app", "", "last"])
async def test_an_unknown_target_is_refused(url: str, steps: Steps, target: str) -> None:
    """W-237: a target that names no step is an error, and nothing is applied or undone."""
    await migrate.up(url, "2", source=steps.folder)
    for move in (migrate.up, migrate.down):
        with pytest.raises(WakefulError, match="migration step") as refused:
            await move(url, target, source=steps.folder)
        assert refused.value.code == "not_found"
    assert ask(url, "SELECT count(*) FROM schema_migrations") == "2"


async def test_a_failing_step_leaves_no_trace(url: str, steps: Steps) -> None:
    """W-237: a step that fails is undone as a whole and named; the steps before it stay."""
    steps.add("0004_break_things", "CREATE TABLE half ();\nSELECT 1 FROM absent;")
    with pytest.raises(WakefulError, match=r'0004_break_things: relation "absent"') as failed:
        await migrate.up(url, source=steps.folder)
    assert failed.value.code == "migration_failed"
    assert ask(url, "SELECT to_regclass('half') IS NULL") == "t"
    assert (await migrate.status(url, source=steps.folder))[-2].state is State.APPLIED
    assert (await migrate.status(url, source=steps.folder))[-1].state is State.PENDING


@pytest.mark.parametrize("way", ["up", "down"])
async def test_an_edited_applied_file_is_an_error(url: str, steps: Steps, way: str) -> None:
    """W-237: an applied step whose files changed is named; nothing runs until it is restored."""
    await migrate.up(url, "0002", source=steps.folder)
    path = steps.folder / f"0001_create_apple.{way}.sql"
    text = path.read_text()
    path.write_text(text + "-- a remark")
    assert (await migrate.status(url, source=steps.folder))[0].state is State.EDITED
    with pytest.raises(WakefulError, match="0001_create_apple") as edited:
        await migrate.up(url, source=steps.folder)
    assert edited.value.code == "migration_edited"
    for call in (migrate.down(url, "0", source=steps.folder), require(url, steps)):
        with pytest.raises(WakefulError, match="0001_create_apple"):
            await call
    path.write_text(text.replace("\n", "\r\n"))
    assert await migrate.up(url, source=steps.folder) == ["0003_index_pear"]


async def require(url: str, steps: Steps) -> None:
    await migrate.require_current(url, source=steps.folder)


async def test_a_schema_that_lacks_a_step_is_refused(url: str, steps: Steps) -> None:
    """W-246: without a step it needs, a version refuses the database and names the step."""
    await migrate.up(url, "0002", source=steps.folder)
    with pytest.raises(WakefulError, match="0003_index_pear") as refused:
        await migrate.require_current(url, source=steps.folder)
    assert refused.value.code == "schema_behind"
    assert refused.value.details == {"steps": ["0003_index_pear"]}


async def test_unknown_later_steps_are_tolerated(url: str, steps: Steps) -> None:
    """W-246: a version starts on a newer schema, but does not undo what it does not know."""
    steps.table("0009", "quince")
    await migrate.up(url, source=steps.folder)
    for file in steps.folder.glob("0009*"):
        file.unlink()
    await migrate.require_current(url, source=steps.folder)
    assert await migrate.up(url, source=steps.folder) == []
    assert states(await migrate.status(url, source=steps.folder))[-1] == (
        "0009_create_quince",
        "unknown",
    )
    with pytest.raises(WakefulError, match="0009_create_quince") as refused:
        await migrate.down(url, "0001", source=steps.folder)
    assert refused.value.code == "migration_refused"


async def test_a_step_in_the_past_is_refused(url: str, steps: Steps) -> None:
    """W-237: a new step that sorts before an applied one is refused, not applied out of order."""
    steps.table("0005", "fig")
    await migrate.up(url, source=steps.folder)
    steps.table("0004", "date")
    with pytest.raises(WakefulError, match=r"0004_create_date comes before 0005") as refused:
        await migrate.up(url, source=steps.folder)
    assert refused.value.code == "migration_refused"


async def test_a_down_file_can_refuse(url: str, steps: Steps) -> None:
    """W-244: what a down file raises reaches the caller in its words, and the schema stays."""
    check = "DO $$ BEGIN RAISE EXCEPTION '% rules are enabled', 3; END $$;"
    steps.add("0004_hold_rules", "CREATE TABLE rule ();", f"DROP TABLE rule;\n{check}")
    await migrate.up(url, source=steps.folder)
    with pytest.raises(WakefulError, match=r"^0004_hold_rules: 3 rules are enabled$") as refused:
        await migrate.down(url, "0003", source=steps.folder)
    assert refused.value.code == "migration_refused"
    assert ask(url, "SELECT to_regclass('rule') IS NULL") == "f"
    assert (await migrate.status(url, source=steps.folder))[-1].state is State.APPLIED


async def test_a_killed_up_leaves_whole_steps(url: str, steps: Steps, held: list[Holder]) -> None:
    """W-237: kill -9 in the middle of a step: `status` names the last whole one, `up` completes."""
    steps.add("0004_wait_long", "CREATE TABLE fig ();\nSELECT pg_advisory_xact_lock(77);")
    held.append(Holder(url, "SELECT pg_advisory_lock(77)"))
    migrator = subprocess.Popen(  # noqa: ASYNC220 - not awaited: it is killed
        [sys.executable, "-c", MIGRATOR, url, str(steps.folder)], cwd=sources.ROOT
    )
    await waits(url, "pg_advisory_xact_lock")
    migrator.kill()
    migrator.wait()
    listed = states(await migrate.status(url, source=steps.folder))
    assert listed[-2:] == [("0003_index_pear", "applied"), ("0004_wait_long", "pending")]
    held[0].release()
    assert await migrate.up(url, source=steps.folder) == ["0004_wait_long"]
    assert ask(url, "SELECT to_regclass('fig') IS NULL") == "f"


async def test_a_broken_concurrent_index_is_built_again(
    url: str, steps: Steps, held: list[Holder]
) -> None:
    """W-237: a concurrent build that dies leaves an invalid index; the next `up` replaces it."""
    await migrate.up(url, "0002", source=steps.folder)
    held.append(Holder(url, "INSERT INTO pear VALUES (2)"))

    async def up_in_vain() -> None:
        with pytest.raises(WakefulError) as failed:
            await migrate.up(url, source=steps.folder)
        assert failed.value.code == "database_unavailable"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(up_in_vain)
        backend = await waits(url, "CREATE INDEX CONCURRENTLY")
        ask(url, f"SELECT pg_terminate_backend({backend})")
    valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'pear_id_idx'::regclass"
    assert ask(url, valid) == "f"
    assert (await migrate.status(url, source=steps.folder))[-1].state is State.PENDING
    held[0].release()
    assert await migrate.up(url, source=steps.folder) == ["0003_index_pear"]
    assert ask(url, valid) == "t"


async def test_two_migrators_do_not_meet(url: str, steps: Steps, held: list[Holder]) -> None:
    """W-237: a second `up` waits for the first, concurrent indexes included, and finds it done."""
    await migrate.up(url, "0002", source=steps.folder)
    held.append(Holder(url, "INSERT INTO pear VALUES (2)"))
    done: list[list[str]] = []

    async def up() -> None:
        done.append(await migrate.up(url, source=steps.folder))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(up)
        await waits(url, "CREATE INDEX CONCURRENTLY")
        nursery.start_soon(up)
        tries = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND query ~ 'pg_try_advisory_lock' AND pid <> pg_backend_pid()"
        )
        with trio.fail_after(30):
            while ask(url, tries) == "0":  # noqa: ASYNC110 - no event of the server's
                await trio.sleep(0.01)  # paced: the server announces no tries
        held[0].release()
    assert sorted(done) == [[], ["0003_index_pear"]]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("4_create_fig.up.sql", "", "is not named"),
        ("0004_create_fig.sql", "", "is not named"),
        ("0004_Create.up.sql", "", "is not named"),
        ("0004_create_fig.up.sql", "SELECT 1", "only its up file"),
        ("0003_create_fig.up.sql", "SELECT 1", "same number"),
        ("0004_i.up.sql", "-- no-transaction\nCREATE INDEX CONCURRENTLY i ON t (id)", "IF .NOT."),
    ],
)
def test_a_bad_file_is_refused(steps: Steps, name: str, text: str, message: str) -> None:
    """W-237: misnamed, lonely, ambiguous and unrepeatable files are refused at once."""
    (steps.folder / name).write_text(text)
    with pytest.raises(WakefulError, match=message) as refused:
        migrate.read_steps(steps.folder)
    assert refused.value.code == "migration_invalid"


def test_other_files_are_left_alone(steps: Steps) -> None:
    """W-237: only SQL files are steps; the dump and everything else beside them is passed over."""
    (steps.folder / "schema.sql").write_text("-- a dump")
    (steps.folder / "__init__.py").write_text("")
    assert [step.name for step in migrate.read_steps(steps.folder)] == [
        "0001_create_apple",
        "0002_create_pear",
        "0003_index_pear",
    ]
