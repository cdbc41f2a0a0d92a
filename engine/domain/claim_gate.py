"""Whether a run may still be handed out: the last question before a daemon gets it (W-106, W-107).

Pure: the facts were read under the locks of the claim. A run may have waited for days, and what it
rests on may be gone. The names of the checks are those of the timeline (W-236, W-255).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final
from uuid import UUID

import attrs

REFUSED_REASON: Final = "invalid_task_identity"  # W-108


class Refusal(StrEnum):
    """The check that failed."""

    ISSUE_DELETED = "issue_deleted"
    WAKEUP_DELETED = "wakeup_deleted"
    TARGET_CHANGED = "target_changed"  # the rule is for another issue or agent now
    REVISION_CHANGED = "revision_changed"
    DISABLED = "disabled"
    CREATOR_CHANGED = "creator_changed"
    PERMISSION_LOST = "permission_lost"
    AGENT_UNAVAILABLE = "agent_unavailable"


_TEXTS: Final = {
    Refusal.ISSUE_DELETED: "the issue of this run was deleted",
    Refusal.WAKEUP_DELETED: "the wakeup behind this run was deleted",
    Refusal.TARGET_CHANGED: "the wakeup behind this run is for another issue or agent now",
    Refusal.REVISION_CHANGED: "the wakeup behind this run was changed meanwhile",
    Refusal.DISABLED: "the wakeup behind this run is switched off",
    Refusal.CREATOR_CHANGED: "the wakeup behind this run belongs to somebody else now",
    Refusal.PERMISSION_LOST: "the person behind this run may no longer invoke the agent",
    Refusal.AGENT_UNAVAILABLE: "the agent is archived or has no runtime",
}


@attrs.frozen(kw_only=True)
class GateRule:
    """What the gate reads of the rule behind a run, as it is stored now."""

    issue_id: UUID
    agent_id: UUID
    created_by: UUID | None
    revision: int
    is_enabled: bool
    is_off: bool


@attrs.frozen(kw_only=True)
class GateRun:
    """What the gate reads of a run and of what it rests on.

    `rule` is the stored rule of a wakeup run, None when it is gone; `is_system` tells that the
    platform owns it. `may_invoke` is about the run's originator, `has_runtime` about its agent.
    """

    issue_id: UUID | None
    agent_id: UUID
    originator_user_id: UUID | None
    has_issue: bool
    may_invoke: bool
    has_runtime: bool
    is_wakeup: bool
    is_system: bool
    revision: object
    rule: GateRule | None


def refusal(run: GateRun) -> Refusal | None:
    """Return the first check that fails, or None.

    An ordinary run needs its issue and the right of the person behind it (W-196). A wakeup run
    needs its rule besides, as it was when it fired and not switched off; whether a person's rule
    is enabled is not asked, the run of a spent rule starts. No creator stands behind the
    system's rule: that must be on, and its agent able to run.
    """
    return next((check for check, fails in _checks(run) if fails), None)


def _checks(run: GateRun) -> Iterator[tuple[Refusal, bool]]:
    """Yield each check with whether it fails, in the order in which they are asked."""
    rule = run.rule
    yield Refusal.ISSUE_DELETED, not run.has_issue
    if not run.is_wakeup:
        yield Refusal.PERMISSION_LOST, not run.may_invoke
        return
    if rule is None:
        yield Refusal.WAKEUP_DELETED, True
        return
    other_agent = not run.is_system and rule.agent_id != run.agent_id
    yield Refusal.TARGET_CHANGED, rule.issue_id != run.issue_id or other_agent
    yield Refusal.REVISION_CHANGED, rule.revision != run.revision
    yield Refusal.DISABLED, rule.is_off or (run.is_system and not rule.is_enabled)
    if run.is_system:
        yield Refusal.AGENT_UNAVAILABLE, not run.has_runtime
    else:
        yield Refusal.CREATOR_CHANGED, rule.created_by != run.originator_user_id
        yield Refusal.PERMISSION_LOST, not run.may_invoke


def describe(check: Refusal) -> str:
    """Return the sentence for the run's `error`."""
    return _TEXTS[check]
