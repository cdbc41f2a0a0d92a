"""Ordinary runs come into the queue here: assignments, mentions, replies and requests by hand.

A request never gets lost and never fails because another run is pending (W-081, W-098): it joins
the queued run of its scope, or waits as a deferred one behind a run that is already claimed. Runs
of wakeups have scopes of their own, so neither kind meets the other here (W-112).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain.records import RunStatus
from engine.errors import agent_unavailable, not_found
from engine.service.registry import Work
from engine.storage.runs import sql


class RunReason(StrEnum):
    """Why an ordinary run is asked for; kept as `context.reason`."""

    ASSIGNMENT = "assignment"
    MENTION = "mention"
    REPLY = "reply"
    BY_HAND = "by_hand"


_SUMMARIES: Final = {
    RunReason.ASSIGNMENT: "The issue was assigned",
    RunReason.MENTION: "Mentioned in a comment",
    RunReason.REPLY: "Answered in a thread",
    RunReason.BY_HAND: "Started by hand",
}


@attrs.frozen(kw_only=True)
class OrdinaryRun:
    """A request for a run; whether the caller may invoke the agent is checked before.

    `trigger_comment_id` is the comment that asks; its thread is the run's scope. The run carries
    the authority of `originator_user_id` (W-192). `delegated_from_task_id` is the asking run.
    `squad_id` is the squad that the agent is called to lead. With a `fire_at` in the future the
    run is deferred until then.
    """

    agent_id: UUID
    issue_id: UUID
    reason: RunReason = attrs.field(converter=RunReason)
    trigger_comment_id: UUID | None = None
    note: str = ""
    originator_user_id: UUID | None = None
    originator_source: str = "direct_human"
    delegated_from_task_id: UUID | None = None
    squad_id: UUID | None = None
    fire_at: datetime | None = None


@attrs.frozen(kw_only=True)
class QueuedRun:
    """The run that carries a request; `created` is false where it joined a run that was there."""

    id: UUID
    created: bool
    status: RunStatus
    runtime_id: UUID


async def enqueue_run(work: Work, draft: OrdinaryRun) -> QueuedRun:
    """Make the run of `draft`, or merge note and comment into the pending one of its scope.

    Locks issue and agent (KEY SHARE), then a pending run in the way. Raises `not_found` when issue
    and agent are not there in one workspace, and `agent_unavailable` for an archived agent and one
    without a runtime; both before anything is written, so that a caller may go on.
    """
    session = work.session
    owners = await session.fetchrow(sql.owners, draft.issue_id, draft.agent_id)
    if owners is None:
        raise not_found("Agent")
    if owners["archived"] or owners["runtime_id"] is None:
        raise agent_unavailable()
    scope = (
        draft.issue_id,
        draft.agent_id,
        owners["runtime_id"],
        draft.trigger_comment_id,
        draft.note,
        owners["priority"],
        draft.fire_at,
        limits.NOTE_BYTES_MAX,
        limits.COALESCED_COMMENTS_MAX,
    )
    origin = (
        draft.reason,
        _summary(draft),
        draft.originator_user_id,
        draft.originator_source,
        draft.delegated_from_task_id,
    )
    context = _context(draft)
    row = (
        await session.fetchrow(sql.merge_held, *scope, context)
        or await session.fetchrow(sql.enqueue, *scope, *origin, False, context)
        # A claimed run holds the slot and is locked now: whoever waited for it is done.
        or await session.fetchrow(sql.merge_held, *scope, context)
        or await session.fetchrow(sql.enqueue, *scope, *origin, True, context)
    )
    assert row is not None, "a deferred run has nothing in its way"
    # A deferred run tells waiting claims, too: they have to look again at its time.
    work.queued(row["runtime_id"])
    if row["status"] == RunStatus.DEFERRED:
        work.put_off(draft.fire_at)
    return QueuedRun(
        id=row["id"],
        created=row["created"],
        status=RunStatus(row["status"]),
        runtime_id=row["runtime_id"],
    )


def _context(draft: OrdinaryRun) -> dict[str, object]:
    """Return what the context of a run says beside its reason: whose leader it is."""
    if draft.squad_id is None:
        return {}
    return {"squad_id": str(draft.squad_id), "is_leader_task": True}


def _summary(draft: OrdinaryRun) -> str:
    note = " ".join(draft.note.split())
    text = _SUMMARIES[draft.reason]
    return f"{text}: {note[: limits.SUMMARY_CHARS_MAX]}" if note else text
