"""Who writes to a town until it is gone: members and a daemon by the engine, and others by SQL.

Each of them changes rows in the documented lock order, or in one statement: two who change rows in
opposite orders are their own affair. What they write facts about they take in any order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

import attrs
import trio

from engine.app import Engine
from engine.domain.commands import Command
from engine.domain.commands.conversation import AddIssueReaction, RemoveIssueReaction
from engine.domain.commands.runs import (
    AppendMessages,
    ClaimRuns,
    CompleteRun,
    FailRun,
    Heartbeat,
    RenewLease,
    ReportProgress,
    StartRun,
)
from engine.domain.commands.tracker import CreateComment, UpdateIssue
from engine.domain.commands.wakeups import (
    CreateRule,
    DeleteRule,
    DisableRule,
    EnableRule,
    ListRules,
    ReplaceRule,
    TriggerRule,
)
from engine.domain.views.runs import ClaimedRun
from engine.errors import WakefulError
from engine.storage.sqlstate import ConstraintViolation
from tests.engine.foreign import COMMENT, Psql
from tests.engine.world import DAEMON
from tests.faults.town import STATUS, Town, rule_for

_STATE: Final = re.compile(r"SQLSTATE (\w{5})")
_COMMENTED: Final = (
    "INSERT INTO comment (issue_id, workspace_id, content)"
    " SELECT i.id, i.workspace_id, 'by SQL' FROM issue i WHERE i.id = $1"
)
_MOVED: Final = (
    "UPDATE issue SET status = CASE status WHEN 'todo' THEN 'blocked' ELSE 'todo' END WHERE id = $1"
)
_FINISHED: Final = (
    "UPDATE agent_task_queue SET status = 'completed', completed_at = wakeful_now()"
    " WHERE id = (SELECT q.id FROM agent_task_queue q"
    "              WHERE q.issue_id = $1 AND q.status = 'running' LIMIT 1)"
)
_SAVED: Final = (
    "INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind,"
    "                          mode, event_types, enabled)"
    " SELECT $2, $1, $3, $4, 'by SQL', 'event', 'continuous', '{comment.created}', $5"
    "  WHERE (SELECT count(*) FROM issue_wakeup r WHERE r.issue_id = $1) < 12"
)
_CHANGED: Final = (
    "UPDATE issue_wakeup SET revision = revision + 1,"
    "       event_types = '{comment.created,issue.status_changed}'"
    " WHERE id = (SELECT r.id FROM issue_wakeup r WHERE r.issue_id = $1 AND r.enabled LIMIT 1)"
)
_SWITCHED_OFF: Final = (
    "UPDATE issue_wakeup SET enabled = false, disabled_at = wakeful_now()"
    " WHERE id = (SELECT r.id FROM issue_wakeup r WHERE r.issue_id = $1 AND r.enabled"
    "              ORDER BY r.id DESC LIMIT 1)"
)
_SWITCHED_ON: Final = (
    "UPDATE issue_wakeup SET enabled = true, disabled_at = NULL, revision = revision + 1"
    " WHERE id = (SELECT r.id FROM issue_wakeup r WHERE r.issue_id = $1 AND NOT r.enabled LIMIT 1)"
)

# What a caller of the engine may meet: something that it names is gone, or changed just before.
_BUSY: Final = frozenset({"not_found", "contention"})
_TARGET: Final = _BUSY | {"cannot_invoke_agent", "agent_unavailable", "wakeup_capacity_exceeded"}
_CLAIM: Final = _BUSY | {"stale_claim", "invalid_transition"}
ALLOWED: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "comment": _BUSY,
        "move": _BUSY,
        "react": _BUSY,
        "create": _TARGET,
        "replace": _TARGET,
        "enable": _TARGET | {"stale_revision", "conflict"},
        "trigger": _TARGET | {"wakeup_disabled"},
        "delete rule": _BUSY,
        "claim": _BUSY | {"daemon_mismatch", "not_authenticated"},
        "start": _CLAIM,
        "report": _CLAIM,
        "end": _CLAIM,
        "settle": _BUSY,
        "delete issue": _BUSY,
        "delete workspace": _BUSY - {"not_found"},
        # A writer by SQL: the issue is gone, or a lock that somebody waits for in short turns.
        "SQL": frozenset({"23503", "55P03"}),
    }
)


@attrs.define(kw_only=True)
class Tally:
    """How often each kind of write was done, and with which codes it was refused."""

    done: Counter[str] = attrs.Factory(Counter)
    refused: Counter[tuple[str, str]] = attrs.Factory(Counter)

    @contextmanager
    def counting(self, name: str) -> Iterator[None]:
        """Count one write; anything but a `WakefulError` passes."""
        try:
            yield
        except WakefulError as error:
            self.refused[name, _code(error)] += 1
        else:
            self.done[name] += 1

    def surprises(self) -> dict[tuple[str, str], int]:
        """Return the refusals that nobody may meet."""
        return {
            (name, code): count
            for (name, code), count in self.refused.items()
            if code not in ALLOWED["SQL" if name.startswith("SQL") else name]
        }

    def refusals(self, code: str) -> int:
        """Return how often somebody was refused with this code."""
        return sum(count for (_, each), count in self.refused.items() if each == code)


def _code(error: WakefulError) -> str:
    """Return the code of an error; of what a lock or a constraint has refused the SQLSTATE.

    `contention` is that of a lock that was not available in time; a deadlock is another one.
    """
    if isinstance(error, ConstraintViolation):
        return error.sqlstate
    state = _STATE.search(str(error))
    if state is None or (error.code == "contention" and state[1] == "55P03"):
        return error.code
    return state[1]


@attrs.define(kw_only=True)
class Writer:
    """One of many who write to a town in whatever order."""

    engine: Engine
    psql: Psql
    town: Town
    random: Random
    tally: Tally

    async def write(self) -> None:
        """Write until the town is gone, and once more."""
        makers = (self.by_engine,) * 3 + (self.by_sql,) * 2
        while not self.town.is_gone:
            await self.random.choice(makers)()
        await self.by_engine()
        await self.by_sql()

    @contextmanager
    def at(self, name: str, *issues: UUID) -> Iterator[None]:
        """Write something to these issues, count it, and say when something was written last."""
        places = (*issues, self.town.workspace_id)
        self.town.busy.update(places)
        before = self.tally.done[name]
        try:
            with self.tally.counting(name):
                yield
        finally:
            self.town.busy.subtract(places)
        if self.tally.done[name] > before:
            self.town.written_until = trio.current_time()

    # --- Through the engine -------------------------------------------------------------------

    async def by_engine(self) -> None:
        """Do one thing as a member."""
        issue = self.town.an_issue(self.random)
        steps: tuple[tuple[str, Callable[[UUID], Awaitable[None]]], ...] = (
            ("comment", self._comment),
            ("comment", self._comment),
            ("move", self._move),
            ("react", self._react),
            ("create", self._create),
            ("replace", self._replace),
            ("enable", self._enable),
            ("trigger", self._trigger),
            ("delete rule", self._delete_rule),
        )
        name, step = self.random.choice(steps)
        with self.at(name, issue):
            await step(issue)

    async def _submit(self, command: Command) -> Any:
        return await self.engine.submit(self.town.owner, command)

    async def _comment(self, issue: UUID) -> None:
        body = self.random.choice(("a fact", f"@{self.town.name}2 look"))
        await self._submit(CreateComment(issue_id=issue, body=body))

    async def _move(self, issue: UUID) -> None:
        status = self.random.choice(("todo", "blocked", "in_review"))
        await self._submit(UpdateIssue(issue_id=issue, status=status))

    async def _react(self, issue: UUID) -> None:
        await self._submit(AddIssueReaction(issue_id=issue, emoji="+"))
        await self._submit(RemoveIssueReaction(issue_id=issue, emoji="+"))

    async def _create(self, issue: UUID) -> None:
        draft = rule_for(self.random.choice(self.town.agents), COMMENT)
        await self._submit(CreateRule(issue_id=issue, draft=draft))

    async def _replace(self, issue: UUID) -> None:
        if rule := await self._a_rule(issue):
            draft = rule_for(self.random.choice(self.town.agents), COMMENT, STATUS)
            await self._submit(ReplaceRule(issue_id=issue, rule_id=rule.id, draft=draft))

    async def _enable(self, issue: UUID) -> None:
        if rule := await self._a_rule(issue):
            off = await self._submit(DisableRule(issue_id=issue, rule_id=rule.id))
            command = EnableRule(issue_id=issue, rule_id=rule.id, revision=off.revision)
            await self._submit(command)

    async def _trigger(self, issue: UUID) -> None:
        if rule := await self._a_rule(issue):
            await self._submit(TriggerRule(issue_id=issue, rule_id=rule.id))

    async def _delete_rule(self, issue: UUID) -> None:
        rules = await self.engine.read(self.town.owner, ListRules(issue_id=issue))
        if len(rules) > 2:
            await self._submit(DeleteRule(issue_id=issue, rule_id=rules[-1].id))

    async def _a_rule(self, issue: UUID) -> Any:
        rules = await self.engine.read(self.town.owner, ListRules(issue_id=issue))
        return self.random.choice(rules) if rules else None

    # --- By SQL -------------------------------------------------------------------------------

    async def by_sql(self) -> None:
        """Do one thing, or two in one transaction, as a writer who knows of no engine."""
        issue, other = self.town.an_issue(self.random), self.town.an_issue(self.random)
        town = self.town
        saved = (_SAVED, issue, town.workspace_id, self.random.choice(town.agents),
                 town.owner.user_id)  # fmt: skip
        steps: tuple[tuple[str, tuple[tuple[object, ...], ...]], ...] = (
            ("SQL comment", ((_COMMENTED, issue),)),
            ("SQL move", ((_MOVED, issue),)),
            ("SQL comment and move", ((_COMMENTED, issue), (_MOVED, issue))),
            ("SQL comments", ((_COMMENTED, issue), (_COMMENTED, other))),
            ("SQL finish", ((_FINISHED, issue),)),
            ("SQL save", ((*saved, True),)),
            ("SQL save, off", ((*saved, False),)),
            ("SQL save and comment", ((*saved, True), (_COMMENTED, issue))),
            ("SQL change", ((_CHANGED, issue),)),
            ("SQL off", ((_SWITCHED_OFF, issue),)),
            ("SQL on", ((_SWITCHED_ON, issue),)),
        )
        name, statements = self.random.choice(steps)
        with self.at(name, issue, other):
            await self.psql.together(*statements)


@attrs.define(kw_only=True)
class Crew:
    """The daemon of a town: it claims, starts, reports on and ends whatever comes."""

    engine: Engine
    town: Town
    random: Random
    tally: Tally

    async def work(self) -> None:
        """Work until the town is gone, and report once more on what was under way."""
        town = self.town
        command = ClaimRuns(
            daemon_id=DAEMON, runtime_ids=tuple(town.runtimes), max_tasks=4, wait_seconds=1
        )
        async with trio.open_nursery() as runs:
            while not town.is_gone:
                claimed: tuple[ClaimedRun, ...] = ()
                with self.tally.counting("claim"):
                    await self._submit(
                        Heartbeat(daemon_id=DAEMON, runtime_ids=tuple(town.runtimes))
                    )
                    claimed = await self.engine.claim(town.daemon, command)
                for run in claimed:
                    runs.start_soon(self._execute, run)

    async def _execute(self, run: ClaimedRun) -> None:
        assert run.dispatched_at is not None
        with self.tally.counting("report"):
            await self._submit(RenewLease(run_id=run.id))
        with self.tally.counting("start"):
            await self._submit(StartRun(run_id=run.id, dispatched_at=run.dispatched_at))
        for number in range(self.random.randrange(1, 4)):
            with self.tally.counting("report"):
                await self._submit(ReportProgress(run_id=run.id, summary="half", step=number))
                await self._submit(AppendMessages(run_id=run.id, lines=({"line": number},)))
        ends: tuple[Command, ...] = (
            CompleteRun(run_id=run.id, output="done"),
            FailRun(run_id=run.id, failure_reason="timeout"),
        )
        with self.tally.counting("end"):
            await self._submit(self.random.choice(ends))

    async def _submit(self, command: Command) -> Any:
        return await self.engine.submit(self.town.daemon, command)
