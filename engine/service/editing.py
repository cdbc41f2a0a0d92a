"""Editing the text of a rule, which is no other rule for it (W-028, W-029)."""

from __future__ import annotations

from engine import limits
from engine.domain.commands.wakeups import EditInstruction
from engine.domain.texts import trimmed_text
from engine.errors import WakefulError
from engine.service.registry import Work, serves
from engine.service.rule_locks import hold_rule
from engine.storage.wakeups import sql


@serves(EditInstruction, lock_timeout_ms=limits.CHANGE_LOCK_MS_MAX)
async def edit_instruction(work: Work, command: EditInstruction) -> None:
    """Put a new text in the place of the one that the caller has read; the next dispatch uses it.

    Schedule, state, creator, revision, receipts and runs stay, also on a closed issue, for a rule
    that is off and for an agent that cannot run. Locks the rule, then the issue. Raises 409
    `stale_revision` if text or revision are others by now; 403 unless the caller may manage the
    rule and invoke its agent.
    """
    text = trimmed_text("instruction", command.instruction, bytes_max=limits.INSTRUCTION_BYTES_MAX)
    held, rule, _ = await hold_rule(work, command.issue_id, command.rule_id)
    await work.session.fetchval(sql.lock_issue, held.issue_id)
    for field, expected, stored in (
        ("revision", command.revision, rule.revision),
        ("expected_instruction", command.expected_instruction, rule.instruction),
    ):
        if expected != stored:
            message = "the wakeup was changed meanwhile"
            raise WakefulError("stale_revision", message, field=field)
    await work.session.execute(sql.edit_instruction, rule.id, text)
