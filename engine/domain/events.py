"""The 25 events that a rule may wait for (W-036), defined here and nowhere else (W-037).

The API, the CLI, the pages and the SQL functions take their sets from here; a test compares.
An event is a fact about one issue, captured by database triggers in the transaction of its source
change. Payloads hold ids, states and names of fields; never bodies, values or file names.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, assert_never

import attrs

from engine import limits
from engine.domain.records import Kind, Mode
from engine.errors import WakefulError, invalid


class Family(StrEnum):
    """What an event is about; it is the part of its name before the dot."""

    TASK = "task"
    ISSUE = "issue"
    COMMENT = "comment"
    REACTION = "reaction"
    ATTACHMENT = "attachment"

    @property
    def filters(self) -> tuple[str, ...]:
        """The filter fields that the family admits (W-054, W-055).

        `filter_agent_id` is admitted everywhere: on changes it is shorthand for the actor (W-057).
        """
        match self:
            case Family.TASK:
                return ("filter_agent_id", "filter_task_id")
            case Family.ISSUE | Family.COMMENT | Family.REACTION | Family.ATTACHMENT:
                return ("filter_actor_type", "filter_actor_id", "filter_agent_id")
            case _ as never:
                assert_never(never)


@attrs.frozen
class EventType:
    """One subscribable event: its name, its own payload fields, and its words.

    `words` completes a subject: who acts for a change, whose run it is for a run event.
    """

    name: str
    payload: tuple[str, ...]
    words: str

    @property
    def family(self) -> Family:
        """The family that the name begins with."""
        return Family(self.name.partition(".")[0])


_RUN: Final = (
    "task_id",
    "agent_id",
    "status",
    "previous_status",
    "retry_of_task_id",
    "rerun_of_task_id",
)
_COMMENT: Final = ("comment_id", "parent_comment_id", "thread_id", "author_type", "author_id")
_REACTION: Final = (
    "reaction_id",
    "target_type",
    "target_id",
    "emoji",
    "reaction_actor_type",
    "reaction_actor_id",
)
_ATTACHMENT: Final = ("attachment_id", "target_type", "target_id")
_KEYS: Final = ("changed_fields",)

EVENTS: Final[Mapping[str, EventType]] = MappingProxyType(
    {
        event.name: event
        for event in (
            EventType("task.queued", _RUN, "is queued"),
            EventType("task.dispatched", _RUN, "is taken by a daemon"),
            EventType("task.started", _RUN, "starts"),
            EventType("task.deferred", _RUN, "is put off"),
            EventType("task.waiting_local_directory", _RUN, "waits for a local directory"),
            EventType("task.completed", _RUN, "succeeds"),
            EventType("task.failed", _RUN, "fails"),
            EventType("task.cancelled", _RUN, "is cancelled"),
            EventType("issue.updated", _KEYS, "changes the issue"),
            EventType(
                "issue.status_changed",
                ("previous_status", "status", "previous_category", "category"),
                "changes the status",
            ),
            EventType(
                "issue.assignee_changed",
                (
                    "previous_assignee_type",
                    "previous_assignee_id",
                    "assignee_type",
                    "assignee_id",
                ),
                "changes the assignee",
            ),
            EventType(
                "issue.parent_changed",
                ("previous_parent_issue_id", "parent_issue_id"),
                "moves the issue to another parent",
            ),
            EventType(
                "issue.project_changed",
                ("previous_project_id", "project_id"),
                "moves the issue to another project",
            ),
            EventType("issue.labels_changed", ("label_id", "action"), "changes the labels"),
            EventType("issue.properties_changed", _KEYS, "changes the properties"),
            EventType("issue.metadata_changed", _KEYS, "changes the metadata"),
            EventType("comment.created", _COMMENT, "comments"),
            EventType("comment.updated", _COMMENT, "edits a comment"),
            EventType("comment.deleted", _COMMENT, "deletes a comment"),
            EventType("comment.resolved", _COMMENT, "resolves a comment"),
            EventType("comment.unresolved", _COMMENT, "reopens a comment"),
            EventType("reaction.added", _REACTION, "reacts"),
            EventType("reaction.removed", _REACTION, "takes a reaction back"),
            EventType("attachment.attached", _ATTACHMENT, "attaches a file"),
            EventType("attachment.detached", _ATTACHMENT, "removes a file"),
        )
    }
)
assert len(EVENTS) == limits.EVENT_TYPES_MAX

# W-040: what every payload holds, whatever its type.
COMMON_PAYLOAD: Final = (
    "event_id",
    "event_type",
    "version",
    "occurred_at",
    "workspace_id",
    "issue_id",
    "actor_type",
    "actor_id",
    "source_task_id",
    "agent_id",
    "coalesced_count",
    "first_occurred_at",
)

# W-004: names that the platform knows and no rule can wait for.
PLATFORM_ONLY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "issue.created": "A rule lives on an issue that exists already, so it could never fire.",
        "issue.deleted": "A rule goes away with its issue, so nothing would be left to wake.",
    }
)


def parse_event_types(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names once each, in the order of their first mention (W-004).

    Raises `invalid_event_type` for the field `event_types` if there is none, one is unknown or
    belongs to the platform.
    """
    if not names:
        raise _refusal("an event rule names at least one event type")
    for name in names:
        if name in PLATFORM_ONLY:
            raise _refusal(f"{name} cannot be waited for. {PLATFORM_ONLY[name]}")
        if name not in EVENTS:
            # The caller's own input; its representation keeps the message on one line.
            named = repr(name[: limits.NAMED_EVENT_CHARS_MAX])
            raise _refusal(f"{named} is not in the catalogue of event types")
    return tuple(dict.fromkeys(names))


def _refusal(message: str) -> WakefulError:
    return invalid("event_types", message, code="invalid_event_type")


# The seven forms of W-129. None can be stored yet: a rule with one is refused as unknown input.
_CONDITIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "type": "issue_field",
        "field": "status",
        "keys": ["value"],
        "holds": "The issue has the status `value`.",
    },
    {
        "type": "issue_field",
        "field": "assignee",
        "keys": ["assignee_type", "assignee_id"],
        "holds": "The issue is assigned to this member, agent or squad.",
    },
    {
        "type": "issue_field",
        "field": "label",
        "keys": ["label_id"],
        "holds": "The label is attached to the issue.",
    },
    {
        "type": "issue_field",
        "field": "property",
        "keys": ["property_id", "value"],
        "holds": "The property has exactly this value.",
    },
    {
        "type": "children_done",
        "keys": ["stage", "state"],
        "holds": "There are sub-issues, and all of them (or of the stages up to `stage`) are closed"
        " or, with `state` in_review, at least in review.",
    },
    {
        "type": "pull_request",
        "keys": ["event"],
        "holds": "A linked pull request has finished checks, is merged or has conflicts: `event` is"
        " checks_finished, merged or conflicts.",
    },
    {
        "type": "other_issue",
        "keys": ["issue_id", "state"],
        "holds": "Another issue of the workspace is in `state`: done, ended, in_review or blocked.",
    },
)


def catalogue() -> dict[str, Any]:
    """Return what `wakeful issue wakeup events` prints and the API answers (W-036, W-205).

    Plain JSON values, made anew at each call. `event_types` are the 25 names; everything that
    this release does not offer yet is listed and marked.
    """
    return {
        "event_types": list(EVENTS),
        "platform_only_event_types": dict(PLATFORM_ONLY),
        "payload": {
            "version": 1,
            "common": list(COMMON_PAYLOAD),
            "by_event_type": {name: list(event.payload) for name, event in EVENTS.items()},
        },
        "scope": {
            "level": "issue",
            "description": "A rule watches the one issue that it is created on, from its"
            " registration onward. Nothing is replayed, and there are no subscriptions to a"
            " workspace, to other issues or to external build events.",
        },
        "filters": {
            "filter_agent_id": {
                "families": [Family.TASK.value],
                "description": "The agent whose run it is. On rules with changes only it is"
                " stored as filter_actor_type agent and filter_actor_id.",
            },
            "filter_task_id": {
                "families": [Family.TASK.value],
                "description": "Exactly this run of the issue; a retry or a rerun is another run.",
            },
            "filter_actor_type": {
                "families": _changes(),
                "values": ["member", "agent"],
                "description": "With filter_actor_id: who made the change. Not with"
                " filter_agent_id or filter_task_id. A change without a known actor never matches.",
            },
            "filter_actor_id": {
                "families": _changes(),
                "description": "The user's id of a member, or the id of an agent.",
            },
        },
        "modes": {
            Kind.EVENT.value: {"allowed": [*Mode], "default": Mode.ONCE.value},
            Kind.AT.value: {"allowed": [Mode.ONCE.value], "default": Mode.ONCE.value},
            Kind.EVERY.value: _only_continuous(),
            Kind.CRON.value: _only_continuous(),
        },
        "conditions": [{**deepcopy(condition), "available": False} for condition in _CONDITIONS],
        "loop_protection": {
            "scope": "rule",
            "description": "A rule ignores facts of the run that registered it and of every run"
            " that it started, retries included. Facts without a source run always pass. Two"
            " rules can still wake each other: avoid continuous rules that answer one another,"
            " and prefer a member filter for waiting on a person.",
        },
    }


def _changes() -> list[str]:
    """Return the families whose events are changes made by somebody."""
    return [family.value for family in Family if family is not Family.TASK]


def _only_continuous() -> dict[str, Any]:
    return {"allowed": [Mode.CONTINUOUS.value], "default": Mode.CONTINUOUS.value}
