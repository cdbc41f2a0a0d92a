"""What the actors tell each other: frozen, ids only, never facts or prompts."""

from __future__ import annotations

import attrs

from engine.domain.commands import Command
from engine.domain.principal import Principal


@attrs.frozen
class Look:
    """A hint: this issue may have something to dispatch.

    What comes in large numbers at once, timers and sweeps, lets single facts pass.
    """

    is_bulk: bool = False


@attrs.frozen
class Execute:
    """A change that an issue's actor carries out for a caller."""

    caller: Principal
    command: Command


@attrs.frozen
class Tick:
    """The earliest due time has come, or it may have changed: look at the timers."""


@attrs.frozen
class Sweep:
    """Find what lost hints left behind (W-072)."""


@attrs.frozen
class CarryOut:
    """The time for the next plan has come: do what no other engine does (W-082)."""


@attrs.frozen
class Recover:
    """The time has come at which a run can be recovered (W-105)."""
