"""What `--help` says, of every command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import pytest

from cli.main import root

REQUIREMENT: Final = re.compile(r"\b[WS]-\d{3}\b")


def commands(group: click.Group, context: click.Context, path: str) -> Iterator[tuple[str, str]]:
    """Yield every command with the text of its help."""
    yield path, group.get_help(context)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from commands(command, inner, f"{path} {name}")
        else:
            yield f"{path} {name}", command.get_help(inner)


MANUAL: Final = Path(__file__).parents[2] / "docs/use/cli.md"
HELP: Final = dict(commands(root, click.Context(root, info_name="wakeful"), "wakeful"))


@pytest.mark.parametrize("path", HELP)
def test_help_speaks_to_users(path: str) -> None:
    """No help names a requirement, which means something to those who write Wakeful only."""
    assert HELP[path].startswith(f"Usage: {path} ")
    assert not REQUIREMENT.findall(HELP[path])


def test_every_command_has_been_looked_at() -> None:
    """Groups within groups are among them."""
    assert {"wakeful serve", "wakeful run list", "wakeful issue wakeup create"} <= {*HELP}


def test_every_command_is_in_the_manual() -> None:
    """docs/use/cli.md has each command, in full or after another one of its group."""
    spans = re.findall(r"`([^`\n]+)`", MANUAL.read_text())
    for path in HELP:
        group, _, name = path.rpartition(" ")
        in_full = any(f"{span} ".startswith(f"{path} ") for span in spans)
        beside = any(span.startswith(group) for span in spans)
        beside = beside and any(f"{span} ".startswith(f"{name} ") for span in spans)
        assert in_full or beside, path
