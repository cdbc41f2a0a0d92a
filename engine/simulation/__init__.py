"""Worlds in virtual time on the real engine and a real database (W-260; docs/use/simulation.md).

A `World` has people, agents and daemons that follow a script, and a clock that passes only when it
is told. Everything else is the product: the same engine, the same SQL, the same PostgreSQL.
"""

from __future__ import annotations

from engine.simulation.daemons import Agent, Daemon, RunAtWork, Work
from engine.simulation.people import Person
from engine.simulation.world import Firing, World

__all__ = ["Agent", "Daemon", "Firing", "Person", "RunAtWork", "Work", "World"]
