"""`wakeful issue wakeup events`: the catalogue, which needs no server (W-205)."""

from __future__ import annotations

import click

from cli.output import print_json
from engine.domain.events import catalogue


@click.command()
def events() -> None:
    """Print what a wakeup can wait for: events, filters, modes, conditions."""
    print_json(catalogue())
