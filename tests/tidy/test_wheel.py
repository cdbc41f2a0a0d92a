"""The built wheel is complete: it works without the checkout that it was built from."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.tidy import sources


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of what a clone holds, so that nothing stale gets into it."""
    copy = tmp_path_factory.mktemp("copy")
    for path in sources.files():
        if path.startswith(tuple(f"{package}/" for package in sources.PRODUCT)):
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(sources.ROOT / path, copy / path)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(sources.ROOT / name, copy)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist"]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel; the dependencies are borrowed from ours.

    A `.pth` file lends our site-packages after its own, without our editable installation.
    """
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    programs = home / "bin"
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python")]
    install = [*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = home.glob("lib/python3.*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return programs


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """Queries, migrations, templates and static files ship; nothing else does."""
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    packages = tuple(f"{package}/" for package in sources.PRODUCT)
    assert shipped == {path for path in sources.files() if path.startswith(packages)}


def test_the_installed_wheel_finds_its_own_files(installed: Path, tmp_path: Path) -> None:
    """In an empty folder the packages, queries and migrations come from the wheel itself."""
    look = (
        "import engine, sys\n"
        "from engine.storage import migrate, queries\n"
        "assert engine.__file__.startswith(sys.prefix), engine.__file__\n"
        "assert migrate.read_steps()\n"
        "assert queries.load('migrations').ledger\n"
    )
    run = subprocess.run(
        [installed / "python", "-c", look],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert (installed / "wakeful").is_file()


def test_the_example_of_a_simulation_runs_from_the_installed_wheel(
    installed: Path, tmp_path: Path
) -> None:
    """W-260: in an empty folder the example of docs/use/simulation.md prints what the page says."""
    page = (sources.ROOT / "docs/use/simulation.md").read_text()
    example, printed = re.findall(r"^```(?:python)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "example.py").write_text(example)
    run = subprocess.run(
        [installed / "python", "example.py"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    said = [line for line in run.stdout.splitlines() if "[info" not in line]
    assert said == printed.splitlines()
