"""Inputs of wakeup rules (api.md, Wakeups; W-001 to W-011)."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, WithJsonSchema

from engine import limits
from engine.domain.events import EVENTS
from engine.domain.filters import FilterActor
from engine.domain.records import Kind, Mode
from engine.domain.rules import RuleDraft
from web.schemas.inputs import Id, Input, Instant, Revision, Texts, Whole, unsent

# The domain decides what a rule may say, because its codes do (`invalid_schedule` and others); here
# its bounds are only described.
_REQUIRED: Final = ("instruction", "kind")


def _described(**schema: Any) -> WithJsonSchema:
    """Describe a field by the domain's bounds; null counts as not sent."""
    return WithJsonSchema({"anyOf": [schema, {"type": "null"}]})


_INSTRUCTION: Final = WithJsonSchema(
    {
        "type": "string",
        "minLength": 1,
        "description": f"At most {limits.INSTRUCTION_BYTES_MAX} bytes, surrounding blanks aside.",
    }
)
_KIND: Final = WithJsonSchema({"type": "string", "enum": [*Kind]})
_MODE: Final = _described(type="string", enum=[*Mode])
_EVENT_TYPES: Final = _described(
    type="array",
    items={"type": "string", "enum": [*EVENTS]},
)
_ACTOR_TYPE: Final = _described(type="string", enum=[*FilterActor])
_AFTER: Final = _described(
    type="integer", minimum=limits.AFTER_SECONDS_MIN, maximum=limits.SCHEDULE_SECONDS_MAX
)
_INTERVAL: Final = _described(
    type="integer", minimum=limits.INTERVAL_SECONDS_MIN, maximum=limits.SCHEDULE_SECONDS_MAX
)
_CRON: Final = _described(type="string", maxLength=limits.CRON_EXPRESSION_CHARS_MAX)
_NOTE: Final = WithJsonSchema(
    {"type": "string", "minLength": 1, "maxLength": limits.CHECK_IN_CHARS_MAX}
)
_TIMEZONE: Final = _described(type="string", description="A name of the IANA database, else UTC.")


class RuleConfiguration(Input):
    """A complete configuration of a rule; a field that is null counts as not sent."""

    model_config = ConfigDict(json_schema_extra={"required": [*_REQUIRED]})

    agent_id: Id | None = None
    instruction: Annotated[str | None, _INSTRUCTION] = unsent()
    kind: Annotated[str | None, _KIND] = unsent()
    mode: Annotated[str | None, _MODE] = None
    event_types: Annotated[Texts | None, _EVENT_TYPES] = None
    filter_agent_id: Id | None = None
    filter_actor_type: Annotated[str | None, _ACTOR_TYPE] = None
    filter_actor_id: Id | None = None
    filter_task_id: Id | None = None
    parent_comment_id: Id | None = None
    after_seconds: Annotated[Whole | None, _AFTER] = None
    at: Instant | None = None
    interval_seconds: Annotated[Whole | None, _INTERVAL] = None
    cron_expression: Annotated[str | None, _CRON] = None
    timezone: Annotated[str | None, _TIMEZONE] = None

    def draft(self) -> RuleDraft:
        """Return the configuration as the domain reads it."""
        return RuleDraft(**{**self.sent(), "event_types": self.event_types or ()})


class Previewing(Input):
    """Where the times of a preview begin, and which rule is judged as edited."""

    start: Annotated[Instant | None, Field(alias="from")] = None
    wakeup_id: Id | None = None


class EditingInstruction(Input):
    """A new text for a rule, and what its editor has read."""

    instruction: Annotated[str, _INSTRUCTION]
    expected_instruction: str
    revision: Revision


class CheckingIn(Input):
    """What a scheduled check has to say instead of a comment."""

    note: Annotated[str, _NOTE]


class Enabling(Input):
    """Switch a rule on at the revision that the caller saw."""

    revision: Revision
    rearm: bool = False
    at: Instant | None = None
