"""`wakeful` itself: finds the command, and turns every failure into one line and exit code 1.

A command's module is loaded when it is named: an agent's `wakeful issue comment` loads no engine.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from cli.connection import location_options
from client.errors import ApiError

_COMMANDS: Final = {
    "serve": "cli.serve:serve",
    "demo": "cli.demo:demo",
    "daemon": "cli.daemon:daemon",
    "issue": "cli.issues:issue",
    "run": "cli.runs:run",
    "comment": "cli.comments:comment",
    "react": "cli.reactions:react",
    "attach": "cli.files:attach",
    "inbox": "cli.inbox:inbox",
    "label": "cli.labels:label",
    "project": "cli.projects:project",
    "property": "cli.properties:property_",
    "status": "cli.statuses:status",
    "squad": "cli.squads:squad",
}


class LazyGroup(click.Group):
    """A group whose commands are loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order in which a newcomer needs them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Load a command, None for an unknown name."""
        address = _COMMANDS.get(cmd_name)
        if address is None:
            return None
        module, _, name = address.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="wakeful", message="%(prog)s %(version)s")
@location_options
def root(**_options: str | None) -> None:
    """Wake AI agents and people on issues.

    `wakeful serve` starts a server, `wakeful demo` shows what it does. All other commands find a
    server by --url, --token and --workspace, by WAKEFUL_URL, WAKEFUL_TOKEN and WAKEFUL_WORKSPACE,
    by ~/.config/wakeful/config.toml, or by the credentials in the data directory.
    """


def main() -> None:
    """Run the command of this process; ends it with 0, or with 1 after a message."""
    try:
        code = root.main(prog_name="wakeful", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 1
    except click.Abort:
        code = 1
    except ApiError as error:
        click.echo(f"{error.message} ({error.code})", err=True)
        code = 1
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
