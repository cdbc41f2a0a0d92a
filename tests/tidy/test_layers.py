"""The layers of the architecture: every import contract can fail, and the domain is pure."""

from __future__ import annotations

import ast
import configparser
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.tidy import sources
from tests.tidy.sources import Finding

# A smallest tree with every module that a contract names and every import that one excuses.
ALLOWED: Final = {
    "engine.simulation": "import engine.app",
    "engine.app": "import engine.actors.runtime",
    "engine.actors.runtime": "import engine.sleep, pykka",
    "engine.sleep": "import engine.service",
    "engine.service": "import engine.storage.database",
    "engine.storage.database": "import asyncpg, trio_asyncio, engine.domain.events",
    "engine.domain.events": "",
    "engine.domain.schedule": "import croniter",
    "engine.work": "",
    "engine.advice": "",
    "engine.clock": "",
    "engine.errors": "",
    "engine.limits": "",
    "engine.metrics": "import prometheus_client",
    "engine.settings": "import pydantic",
    "web.app": "import hypercorn, quart, quart_trio, engine.app",
    "web.listening": "",
    "web.schemas": "import pydantic",
    "client.http": "import httpx",
    "cli.events": "import engine.domain.events",
    "cli.serve": "import engine.app, web.app, web.listening",
    "cli.rules": "import client.http",
}

# Contract, importer, imported: one forbidden import for each thing that a contract forbids.
FORBIDDEN: Final = [
    ("top", "engine.app", "web.app"),
    ("top", "cli.rules", "web.app"),
    ("top", "web.app", "cli.rules"),
    ("engine", "engine.app", "engine.simulation"),
    ("engine", "engine.actors.runtime", "engine.app"),
    ("engine", "engine.sleep", "engine.actors.runtime"),
    ("engine", "engine.service", "engine.sleep"),
    ("engine", "engine.storage.database", "engine.service"),
    ("engine", "engine.domain.events", "engine.storage.database"),
    ("engine", "engine.work", "engine.domain.events"),
    ("engine", "engine.limits", "engine.errors"),
    ("inside", "cli.serve", "engine.simulation"),
    ("inside", "web.app", "engine.actors.runtime"),
    ("inside", "web.app", "engine.clock"),
    ("inside", "web.app", "engine.service"),
    ("inside", "web.app", "engine.storage.database"),
    ("inside", "cli.serve", "engine.clock"),
    ("facade", "cli.rules", "engine.app"),
    ("facade", "cli.rules", "engine.settings"),
    ("events", "cli.rules", "engine.domain.events"),
    ("events", "cli.events", "engine.domain.schedule"),
    ("serve", "cli.rules", "web.app"),
    ("client", "client.http", "engine.errors"),
    ("client", "client.http", "web.app"),
    ("client", "client.http", "cli.rules"),
    ("sdk", "web.app", "client.http"),
    ("pure", "engine.domain.events", "time"),
    ("pure", "engine.domain.events", "trio"),
    ("asyncpg", "engine.service", "asyncpg"),
    ("asyncpg", "engine.actors.runtime", "trio_asyncio"),
    ("pykka", "engine.app", "pykka"),
    ("croniter", "engine.service", "croniter"),
    ("quart", "cli.serve", "quart"),
    ("quart", "engine.app", "quart_trio"),
    ("quart", "cli.serve", "hypercorn"),
    ("prometheus", "engine.app", "prometheus_client"),
    ("prometheus", "web.app", "prometheus_client"),
    ("pydantic", "web.app", "pydantic"),
    ("pydantic", "engine.domain.events", "pydantic"),
]


def contracts() -> dict[str, str]:
    """Return the id and the name of every contract in `.importlinter`."""
    config = configparser.ConfigParser()
    config.read(sources.ROOT / ".importlinter")
    prefix = "importlinter:contract:"
    return {
        section.removeprefix(prefix): config[section]["name"]
        for section in config.sections()
        if section.startswith(prefix)
    }


def grow(root: Path, modules: dict[str, str]) -> None:
    """Write the packages and modules into `root`, beside the project's own contracts."""
    shutil.copy(sources.ROOT / ".importlinter", root)
    parents = {module.rpartition(".")[0] for module in modules}
    for module, text in modules.items():
        path = root.joinpath(*module.split("."))
        path.parent.mkdir(parents=True, exist_ok=True)
        is_package = any(other.startswith(f"{module}.") for other in modules)
        if is_package:
            path.mkdir(exist_ok=True)
        target = path / "__init__.py" if is_package else path.with_suffix(".py")
        target.write_text(f"{text}\n")
    for parent in parents:
        package = root
        for part in parent.split("."):
            package /= part
            (package / "__init__.py").touch()


def lint(root: Path, contract: str | None = None) -> tuple[int, str]:
    """Run import-linter on the packages in `root`; return its exit code and what it printed."""
    chosen = [] if contract is None else ["--contract", contract]
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", *chosen]
    run = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def test_the_contracts_allow_what_the_architecture_allows(tmp_path: Path) -> None:
    """A tree that imports downwards, and each library where it belongs, keeps every contract."""
    grow(tmp_path, ALLOWED)
    code, output = lint(tmp_path)
    assert code == 0, output
    assert f"Contracts: {len(contracts())} kept, 0 broken." in output


def test_every_contract_has_a_forbidden_import_to_prove_it() -> None:
    """No contract stands in `.importlinter` without a proof that it can fail."""
    assert {contract for contract, _, _ in FORBIDDEN} == set(contracts())


@pytest.mark.parametrize("contract", contracts())
def test_a_forbidden_import_breaks_its_contract(contract: str, tmp_path: Path) -> None:
    """Each contract names each of the imports that it exists to forbid."""
    forbidden = [(importer, imported) for name, importer, imported in FORBIDDEN if name == contract]
    modules = dict(ALLOWED)
    for importer, imported in forbidden:
        modules[importer] += f"\nimport {imported}"
    grow(tmp_path, modules)
    code, output = lint(tmp_path, contract)
    assert code == 1, output
    for importer, imported in forbidden:
        assert f"{importer} -> {imported}" in output, output


def test_a_new_module_of_the_engine_needs_a_layer(tmp_path: Path) -> None:
    """A module that no layer names breaks the contract of the engine's layers."""
    grow(tmp_path, {**ALLOWED, "engine.annex": ""})
    code, output = lint(tmp_path, "engine")
    assert code == 1
    assert "engine.annex" in output


def awaits(source: sources.Source) -> list[Finding]:
    """Find what makes a module of the domain more than a function of its arguments."""
    waiting = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    return [
        Finding(source.path, node.lineno, "the domain awaits", "do it in service or actors")
        for node in ast.walk(source.tree)
        if isinstance(node, waiting)
    ]


def test_the_domain_awaits_nothing() -> None:
    """engine.domain decides and does nothing else: no async function stands in it."""
    sample = "async def decide() -> None:\n    await database()\n"
    assert [finding.line for finding in awaits(sources.Source("x.py", sample))] == [1, 2]
    found = sources.findings(awaits, sources.python(under=["engine/domain"]))
    sources.expect_none(found)
