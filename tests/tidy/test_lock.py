"""The lock files hold exactly what pyproject.toml asks for, by hash and without an address."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy import sources
from tests.tidy.sources import Finding, Source

EVERYTHING: Final = "requirements.txt"
RUNTIME: Final = "requirements-runtime.txt"
PIN: Final = re.compile(
    r"^([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE
)


def pins(source: Source) -> dict[str, str]:
    """Return the pinned version of every locked package that has a hash."""
    return {canonicalize_name(match[1]): match[2] for match in PIN.finditer(source.text)}


def loose_lines(source: Source) -> Iterator[Finding]:
    """Find lines that are neither a hashed pin nor a comment: options, addresses, bare names."""
    rest = PIN.sub(lambda match: "\n" * match[0].count("\n"), source.text)
    for number, line in enumerate(rest.splitlines(), start=1):
        if "://" in line or (line.strip() and not line.lstrip().startswith("#")):
            rule, remedy = f"{line.strip()!r} is no hashed pin", "run `make lock`"
            yield Finding(source.path, number, rule, remedy)


def unsatisfied(wanted: list[str], pinned: dict[str, str]) -> list[str]:
    """Return the requirements that the pins do not satisfy."""

    def is_satisfied(requirement: Requirement) -> bool:
        version = pinned.get(canonicalize_name(requirement.name))
        return version is not None and requirement.specifier.contains(version)

    return [text for text in wanted if not is_satisfied(Requirement(text))]


@pytest.mark.parametrize("path", [EVERYTHING, RUNTIME])
def test_a_lock_file_is_hashes_only(path: str) -> None:
    """Every line of a lock file is a pin with hashes or a comment; no option, no address."""
    found = list(loose_lines(sources.read(path)))
    sources.expect_none(found)


def test_the_lock_file_satisfies_the_project() -> None:
    """Every range of pyproject.toml, the build backend's too, holds the locked version."""
    project = tomllib.loads(sources.read("pyproject.toml").text)
    wanted = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(each for extra in project["project"]["optional-dependencies"].values() for each in extra),
    ]
    assert unsatisfied(wanted, pins(sources.read(EVERYTHING))) == []


def test_the_runtime_is_locked_alone_and_alike() -> None:
    """What an installed wheel needs is a part of the whole lock, with nothing for developers."""
    project = tomllib.loads(sources.read("pyproject.toml").text)["project"]
    runtime = sources.read(RUNTIME)
    assert unsatisfied(project["dependencies"], pins(runtime)) == []
    whole = {match[0] for match in PIN.finditer(sources.read(EVERYTHING).text)}
    assert {match[0] for match in PIN.finditer(runtime.text)} < whole
    assert unsatisfied(["pytest", "ruff", "pip-tools"], pins(runtime)) == [
        "pytest",
        "ruff",
        "pip-tools",
    ]


def test_what_does_not_belong_into_the_lock_file_is_found() -> None:
    """A bare pin, an option and an address are found; a range that no pin satisfies is named."""
    digest = "0" * 64
    text = (
        f"trio==0.35.0 \\\n    --hash=sha256:{digest}\n    # via wakeful\n"
        "--find-links wheels\nattrs==26.1.0\nx @ https://example.test/x.whl\n"
    )
    source = Source("requirements.txt", text)
    assert sources.lines(loose_lines, text) == [4, 5, 6]
    assert pins(source) == {"trio": "0.35.0"}
    assert unsatisfied(["trio==0.35.*", "Trio>=1", "attrs"], pins(source)) == ["Trio>=1", "attrs"]
