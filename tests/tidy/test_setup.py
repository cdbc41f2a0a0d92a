"""Setting up names what is missing, and the documents show only commands that exist."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.tidy import sources
from tests.tidy.sources import Finding, Source

TARGET: Final = re.compile(r"^([a-z]+):.*## ", re.MULTILINE)
SHOWN: Final = re.compile(r"(?:^|`)(?:\$ )?make ([a-z]+)\b", re.MULTILINE)

GIT: Final = "exit 0"
LAUNCHER: Final = "echo 'no such version' >&2; exit 127"


def python(version: str, *, has_venv: bool = True) -> str:
    """Return a script that answers the questions of tools/prerequisites like a Python would."""
    major, minor = map(int, version.split("."))
    return f"""case "$2" in
        *print*) echo {version} ;;
        *sys.exit*) exit {int((major, minor) < (3, 11))} ;;
        *ensurepip*) exit {int(not has_venv)} ;;
    esac"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs, all that a machine has; its user is root."""
    write(tmp_path, "id", "echo 0")
    return tmp_path


def write(machine: Path, name: str, script: str) -> None:
    """Give the machine a program."""
    program = machine / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def prerequisites(machine: Path) -> tuple[int, str, str]:
    """Run tools/prerequisites on the machine; return its exit code, output and errors."""
    run = subprocess.run(
        [sources.ROOT / "tools/prerequisites"],
        env={"PATH": str(machine)},
        check=False,
        capture_output=True,
        text=True,
    )
    return run.returncode, run.stdout.strip(), run.stderr


@pytest.mark.parametrize(
    ("programs", "what", "command"),
    [
        ({"python3.11": python("3.11")}, "git", "apt-get install git"),
        ({"git": GIT}, "Python 3.11", "apt-get install python3 python3-venv"),
        (
            {"git": GIT, "python3": python("3.9")},
            "3.9 is too old",
            "apt-get install python3.11 python3.11-venv",
        ),
        (
            {"git": GIT, "python3": python("3.13", has_venv=False)},
            "venv module for 3.13",
            "apt-get install python3.13-venv",
        ),
        (
            {"git": GIT, "python3.11": LAUNCHER},
            "Python 3.11",
            "apt-get install python3 python3-venv",
        ),
    ],
    ids=["no git", "no python", "old python", "no venv", "launcher without its version"],
)
def test_a_missing_prerequisite_is_named_with_its_command(
    machine: Path, programs: dict[str, str], what: str, command: str
) -> None:
    """What is missing is said together with the command that installs it, and setup ends."""
    for name, script in programs.items():
        write(machine, name, script)
    code, output, errors = prerequisites(machine)
    assert (code, output) == (1, "")
    assert what in errors
    assert f": {command}\n" in errors


def test_an_ordinary_user_is_told_to_use_sudo(machine: Path) -> None:
    """The command that installs a prerequisite is the one that this user can run."""
    write(machine, "id", "echo 1000")
    _, _, errors = prerequisites(machine)
    assert "sudo apt-get install git" in errors


def test_the_first_python_that_is_fit_is_taken(machine: Path) -> None:
    """Launchers without their version and Pythons without venv are passed over."""
    write(machine, "git", GIT)
    write(machine, "python3.11", LAUNCHER)
    write(machine, "python3.12", python("3.12", has_venv=False))
    write(machine, "python3", python("3.13"))
    assert prerequisites(machine) == (0, str(machine / "python3"), "")


def test_every_target_is_listed() -> None:
    """`make` alone lists every target that can be asked for, with what it does."""
    makefile = sources.read("Makefile").text
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert TARGET.findall(makefile) == phony[1].split()


def unknown_targets(source: Source) -> Iterator[Finding]:
    """Find `make` commands in a document or script that the Makefile does not have."""
    targets = {*TARGET.findall(sources.read("Makefile").text)}
    for match in SHOWN.finditer(source.text):
        if match[1] not in targets:
            line = source.line_of(match.start(1))
            yield Finding(source.path, line, f"make {match[1]} does not exist", "see `make`")


def test_documents_show_only_targets_that_exist() -> None:
    """Every `make` command that a document shows is a target of the Makefile."""
    assert sources.lines(unknown_targets, "run `make check`\nmake nothing\n") == [2]
    found = sources.findings(unknown_targets, sources.sources(".md"))
    sources.expect_none(found)


def test_ci_checks_and_tests_a_clean_clone() -> None:
    """.ci/run clones, checks, and then runs the test command of the README last."""
    script = sources.read(".ci/run")
    steps = [step for step in ("git clone", "make check", "make test") if step in script.text]
    assert steps == ["git clone", "make check", "make test"]
    assert script.lines[-1].endswith("make test")
    assert "make test" in sources.read("README.md").text
    assert os.access(sources.ROOT / ".ci/run", os.X_OK)
