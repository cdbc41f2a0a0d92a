"""What each code of `engine.errors.KINDS` means to whoever meets it: why it comes, what to do.

docs/errors.md is written from here (`make errors`); a test keeps both complete and current.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs


@attrs.frozen
class Advice:
    """Why an error comes, and what helps; whole sentences for a person."""

    cause: str
    remedy: str


ADVICE: Final[Mapping[str, Advice]] = MappingProxyType(
    {
        "invalid_input": Advice(
            "A field, a query parameter or the address has a value that it cannot have.",
            "`details.field` names it and `detail` says what is wrong; send another value.",
        ),
        "invalid_json": Advice(
            "The body is no JSON object, is nested deeper than 64, or names a field twice.",
            "Send one JSON object.",
        ),
        "invalid_encoding": Advice(
            "Body or address is not UTF-8, or holds NUL or half a surrogate pair.",
            "Encode the text as UTF-8 and leave NUL out.",
        ),
        "invalid_multipart": Advice(
            "The form of an upload is broken, or has more or other parts than one `file`.",
            "Send multipart/form-data with one part that is called `file`.",
        ),
        "unknown_field": Advice(
            "The route takes no field of this name; nothing is ignored.",
            "Leave the field out. Who acts is told by the token, never by a field.",
        ),
        "missing_field": Advice(
            "A required field is absent, or no workspace is named where there are several.",
            "Send the field in `details.field`; a workspace goes into `X-Workspace-ID`.",
        ),
        "body_too_large": Advice(
            "The body is larger than this route takes.", "Send less; `detail` has the bound."
        ),
        "invalid_schedule": Advice(
            "The time, interval or cron expression cannot be used: in the past, too near, too far,"
            " or without any occurrence.",
            "Try it with the preview of the issue's wakeups, which shows the coming times.",
        ),
        "invalid_filter": Advice(
            "A filter does not fit the events or the kind of the rule, or names nobody.",
            "Compare with `wakeful events`, which says what each event can be filtered by.",
        ),
        "invalid_event_type": Advice(
            "There is no such event, or rules cannot wait for it.",
            "Choose from `wakeful events`.",
        ),
        "invalid_transition": Advice(
            "The run is in a state from which it cannot go where the call wants it.",
            "Read the run. A daemon that reports late gives the run up.",
        ),
        "issue_closed": Advice(
            "The issue is closed, and rules of closed issues never fire.",
            "Reopen the issue first.",
        ),
        "wakeup_disabled": Advice(
            "The wakeup is switched off.", "Enable it first, with a new time if it has fired."
        ),
        "agent_unavailable": Advice(
            "The agent is archived or has no runtime.",
            "Start `wakeful daemon --agent NAME --exec COMMAND`, or unarchive the agent.",
        ),
        "wakeup_capacity_exceeded": Advice(
            "The issue has 32 enabled wakeups already, or the workspace 1,000.",
            "Disable or delete some that are not needed any more.",
        ),
        "upload_capacity_exceeded": Advice(
            "The workspace has 1 GiB of files already that hang on no issue and no comment.",
            "Bind or delete some, or wait: a file that hangs on nothing for a day is deleted.",
        ),
        "not_authenticated": Advice(
            "No token, several, or one that means nothing (any more).",
            "Send one valid token as `Authorization: Bearer`.",
        ),
        "not_allowed": Advice(
            "The caller is known and may not do this.",
            "Ask an owner or admin of the workspace, or an administrator of the instance.",
        ),
        "cannot_invoke_agent": Advice(
            "The agent is private and the person behind the call is not among its invokers, or the"
            " person is to repeat a run of a wakeup that somebody else has left.",
            "Ask the agent's owner to be let in, choose another agent, or leave your own wakeup.",
        ),
        "no_human_principal": Advice(
            "The call comes from a run that no person stands behind, or not any more.",
            "Have a person do it, with a member token.",
        ),
        "daemon_mismatch": Advice(
            "This token did not register this daemon or runtime.",
            "Register the daemon with the token that it calls with.",
        ),
        "not_found": Advice(
            "It is not there, or not for this caller.",
            "Check the id, the workspace and the token; the answer does not tell which it is.",
        ),
        "method_not_allowed": Advice(
            "The address exists and does not take this method.",
            "Use one of the methods in the `Allow` header.",
        ),
        "request_timeout": Advice(
            "The body did not arrive within 30 seconds.", "Send it again, faster."
        ),
        "stale_claim": Advice(
            "The run has been given to another claim since, or has ended.",
            "Stop working on the run; another daemon has it.",
        ),
        "stale_revision": Advice(
            "The wakeup was changed after the caller had read it.",
            "Read it again and decide anew.",
        ),
        "conflict": Advice(
            "What the call wants is taken or in use: a name, a slug, a slot.",
            "`detail` says what is in the way; choose another, or remove that first.",
        ),
        "idempotency_key_reused": Advice(
            "The Idempotency-Key came before, with another request.",
            "Use a new key for each new request, and the old one only to repeat a request.",
        ),
        "wakeup_source_busy": Advice(
            "The run that the rule is to watch was held by somebody else at this moment.",
            "Try again after a moment.",
        ),
        "payload_too_large": Advice(
            "The request announced a body of more than 1 MiB.", "Send less."
        ),
        "unsupported_media_type": Advice(
            "The body is not declared as JSON (nor, for an upload, as a form).",
            "Set `Content-Type: application/json`.",
        ),
        "internal_error": Advice(
            "A defect of the server, or a statement that the database refused.",
            "Report it with the lines of the server's log at that time.",
        ),
        "data_directory_unusable": Advice(
            "The data directory is in use by another server, belongs to somebody else, or holds"
            " a database of another version.",
            "The message says which; see docs/operate/running.md.",
        ),
        "migration_invalid": Advice(
            "The migrations that came with the program are damaged.", "Install it anew."
        ),
        "migration_edited": Advice(
            "A migration that is applied differs from the file of the same number.",
            "Run the version that the database was made with, or a later one, unchanged.",
        ),
        "migration_failed": Advice(
            "A statement of a migration failed; the step was undone.",
            "Read the message and the database's log, remove the cause, start again.",
        ),
        "migration_refused": Advice(
            "A step cannot be applied or undone now, because data would change its meaning.",
            "The message says what has to be gone first.",
        ),
        "schema_behind": Advice(
            "The database lacks steps that this version needs.",
            "Start `wakeful serve` of this version, which applies them.",
        ),
        "contention": Advice(
            "Others held the rows for as long as this call waits.", "Try again after a moment."
        ),
        "budget_exceeded": Advice(
            "A statement took longer than its lane allows.",
            "Try again; if it stays, look for a slow or locked database.",
        ),
        "database_unavailable": Advice(
            "The database cannot be reached, refuses the login, or is starting.",
            "Wait, as `Retry-After` says; an operator looks at the database.",
        ),
        "commit_unknown": Advice(
            "The connection broke during COMMIT: the change may be there or not.",
            "Read before you repeat it, or repeat it with the same Idempotency-Key.",
        ),
        "stopping": Advice(
            "The server is being stopped or replaced.", "Try again; another one takes over."
        ),
        "overloaded": Advice(
            "Too much is waiting already, for the database or for one issue.",
            "Try again later, and more slowly.",
        ),
        "unanswered": Advice(
            "The work goes on, but took longer than the caller was made to wait.",
            "Read after a while; do not repeat it blindly.",
        ),
    },
)
