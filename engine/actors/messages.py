"""What the actors tell each other: frozen, ids only, never facts or prompts."""

from __future__ import annotations

import attrs

from engine.domain.commands import Command
from engine.domain.principal import Principal


@attrs.frozen
class Look:
    """A hint: this issue may have something to dispatch."""


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
