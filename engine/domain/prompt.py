"""The prompt that a daemon hands to an agent: why it runs, its note, and the commands it needs.

A prompt names things by id and quotes nobody: of other people's text it holds only the note that
it was given (W-091).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import attrs

MARKER: Final = "[WAKEUP]"
JOINED_MARKER: Final = "[WAKEUP — joined this run]"

_SYSTEM_NOTICE: Final = (
    "This wakeup belongs to the platform, which looks after it: do not change it, "
    "and do not switch it off."
)
_BRIEF: Final = (
    "End your work with a comment that says what came of it. There is one exemption: a scheduled "
    "check that has nothing to report may check in instead (wakeful issue wakeup checkin)."
)


@attrs.frozen(kw_only=True)
class PromptFacts:
    """What the prompt of one run is made of.

    `wakeup_id` names the rule of a wakeup run. `trigger_comment_id` is the delivery thread of a
    wakeup run, else the comment that asked for the run, and `thread_id` its root comment.
    `is_by_hand` tells a run that a person queued from an assignment. `note` is the handoff note,
    `joined` the notes of other wakeups whose inputs this run carries, too. `system_rule` names the
    platform's own rule behind a wakeup run (W-092).
    """

    issue_id: UUID
    issue_identifier: str
    wakeup_id: UUID | None = None
    trigger_comment_id: UUID | None = None
    thread_id: UUID | None = None
    is_by_hand: bool = False
    note: str = ""
    joined: str = ""
    system_rule: str | None = None


def render_prompt(facts: PromptFacts) -> str:
    """Return the whole prompt: blocks parted by an empty line, in the order of W-091.

    A wakeup run gets the wakeup prompt even when it has a delivery thread. Joined notes come last,
    in every sort of prompt (W-093).
    """
    blocks = [
        _introduction(facts),
        f"Issue: {facts.issue_identifier} ({facts.issue_id})",
        *_occasion(facts),
        f"Read the issue and its comments before you act:\n  wakeful issue show {facts.issue_id}",
    ]
    if facts.wakeup_id is not None:
        blocks += [_care(facts), _BRIEF]
    blocks.append(_reply(facts))
    if facts.joined:
        blocks.append(f"{JOINED_MARKER}\n{facts.joined}")
    return "\n\n".join(blocks) + "\n"


def joined_notes(context: Mapping[str, Any]) -> str:
    """Return the notes of the wakeups that joined a run, parted by an empty line (W-161)."""
    joined = context.get("wakeup_joined")
    entries = joined if isinstance(joined, list) else []
    notes = [each.get("note") for each in entries if isinstance(each, Mapping)]
    return "\n\n".join(note for note in notes if isinstance(note, str) and note)


def _care(facts: PromptFacts) -> str:
    """Return what the agent may do with the rule behind its run (W-091, W-092)."""
    if facts.system_rule is not None:
        return _SYSTEM_NOTICE
    return (
        "Look at this wakeup, and switch it off when it has served its purpose:\n"
        f"  wakeful issue wakeup get {facts.issue_id} {facts.wakeup_id}\n"
        f"  wakeful issue wakeup disable {facts.issue_id} {facts.wakeup_id}"
    )


def _introduction(facts: PromptFacts) -> str:
    if facts.wakeup_id is not None:
        cause = "A wakeup that was left on this issue has fired, and you are run once more."
    elif facts.trigger_comment_id is not None:
        cause = "A comment asks for you."
    elif facts.is_by_hand:
        cause = "Somebody started this run by hand."
    else:
        cause = "This issue was assigned to you."
    return f"You are an agent working on one issue. {cause}"


def _occasion(facts: PromptFacts) -> list[str]:
    """Return what the run is about beyond the issue: the note, or the comment by its id."""
    if facts.wakeup_id is not None:
        return [f"{MARKER}\n{facts.note}"]
    blocks = []
    if facts.trigger_comment_id is not None:
        thread = facts.thread_id or facts.trigger_comment_id
        blocks.append(f"Comment: {facts.trigger_comment_id}, in the thread of {thread}")
    if facts.note:
        blocks.append(f"Note:\n{facts.note}")
    return blocks


def _reply(facts: PromptFacts) -> str:
    """Return the whole command that answers, in the thread if there is one (W-019).

    Its text is an argument: standard input, its other source, is the prompt for some agents.
    """
    heading, parent = "Report on the issue:", ""
    if facts.trigger_comment_id is not None:
        heading, parent = "Reply in the thread:", f" --parent {facts.trigger_comment_id}"
    return (
        f"{heading}\n"
        f'  wakeful issue comment {facts.issue_id}{parent} "What you have to say."\n'
        "For a longer text put --body-file FILE in the place of the last argument."
    )
