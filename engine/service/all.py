"""Importing this module registers every use case."""

from engine.service import (
    agents,
    bootstrap,
    claims,
    comments,
    daemons,
    identity,
    issues,
    members,
    registration,
    reports,
    runs,
    switching,
    timeline,
    tokens,
    wakeups,
    workspaces,
)

__all__ = [
    "agents",
    "bootstrap",
    "claims",
    "comments",
    "daemons",
    "identity",
    "issues",
    "members",
    "registration",
    "reports",
    "runs",
    "switching",
    "timeline",
    "tokens",
    "wakeups",
    "workspaces",
]
