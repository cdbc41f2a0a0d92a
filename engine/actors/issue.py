"""One actor for each issue in use: changes on the issue and its dispatch happen one by one.

The truth is in PostgreSQL and its locks stay, because other processes share it; the actor makes
sure that this process never fights itself for them.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from engine import limits
from engine.actors.dispatcher import Dispatcher
from engine.actors.executor import Executor
from engine.actors.messages import Execute, Look
from engine.actors.runtime import TrioActor


class IssueActor(TrioActor):
    """Serialises one issue: `Execute` answers with the view, `Look` dispatches."""

    inbox_max = limits.INBOX_MAX

    def __init__(self, issue_id: UUID, executor: Executor, dispatcher: Dispatcher) -> None:
        super().__init__()
        self._issue_id = issue_id
        self._executor = executor
        self._dispatcher = dispatcher

    async def on_receive(self, message: Any) -> Any:
        """Handle `Execute` and `Look`."""
        match message:
            case Execute(caller, command):
                return await self._executor.submit(caller, command)
            case Look(is_bulk=is_bulk):
                await self._dispatcher.dispatch(self._issue_id, is_bulk=is_bulk)
                return None
            case _:
                raise AssertionError(message)
