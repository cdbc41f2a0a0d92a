"""An engine in a process of its own, for tests to kill.

`engine_child.py URL SWEEP_SECONDS [MEMBER WORKSPACE ISSUE...]` prints `ready` when the engine runs.
With a member it comments on one issue after the other, as that member.
"""

from __future__ import annotations

import sys
from functools import partial
from itertools import cycle
from uuid import UUID

import trio

from engine.app import Engine
from engine.domain.commands.tracker import CreateComment
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.settings import Settings


async def main(url: str, sweep_seconds: str, *writer: str) -> None:
    """Run until killed."""
    settings = Settings(database_url=url, sweep_seconds=float(sweep_seconds))
    async with Engine.open(settings) as engine:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        if not writer:
            await trio.sleep_forever()
        user, workspace, *issues = map(UUID, writer)
        member = Principal(kind=PrincipalKind.MEMBER, user_id=user, roles={workspace: Role.MEMBER})
        for issue in cycle(issues):
            await engine.submit(member, CreateComment(issue_id=issue, body="until it ends"))


if __name__ == "__main__":
    trio.run(partial(main, *sys.argv[1:]))
