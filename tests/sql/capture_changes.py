"""One change by a direct writer for each of the 25 events, in a furnished town.

Every text, name, value and address in it has the word "secret", which no fact may repeat.
"""

from __future__ import annotations

import json
from typing import Any, Final

import attrs

from engine.domain.events import EVENTS
from tests.sql.capture_town import (
    AGENT_A,
    AGENT_B,
    ISSUE_I,
    ISSUE_K,
    MEMBER_M,
    MEMBER_N,
    RUNTIME,
    WORKSPACE,
    Town,
    listening,
    literal,
)

ROOT: Final = "00000000-0000-7000-8000-000000000101"
REPLY: Final = "00000000-0000-7000-8000-000000000102"
RESOLVED: Final = "00000000-0000-7000-8000-000000000103"
NEW_COMMENT: Final = "00000000-0000-7000-8000-000000000104"
RUN: Final = "00000000-0000-7000-8000-000000000201"
NEW_RUN: Final = "00000000-0000-7000-8000-000000000202"
SOURCE_RUN: Final = "00000000-0000-7000-8000-000000000203"
PROJECT: Final = "00000000-0000-7000-8000-000000000301"
LABEL: Final = "00000000-0000-7000-8000-000000000401"
OTHER_LABEL: Final = "00000000-0000-7000-8000-000000000402"
ON_ISSUE: Final = "00000000-0000-7000-8000-000000000501"
ON_COMMENT: Final = "00000000-0000-7000-8000-000000000502"
NEW_REACTION: Final = "00000000-0000-7000-8000-000000000503"
FILE_OF_ISSUE: Final = "00000000-0000-7000-8000-000000000601"
FILE_OF_COMMENT: Final = "00000000-0000-7000-8000-000000000602"
LOOSE_FILE: Final = "00000000-0000-7000-8000-000000000603"
LISTENER: Final = "00000000-0000-7000-8000-000000000701"

_FILE: Final = (
    "INSERT INTO attachment"
    " (id, issue_id, comment_id, workspace_id, uploader_type, uploader_id, filename, url)"
)
_BY_N: Final = f"'{WORKSPACE}', 'member', '{MEMBER_N}'"
FURNITURE: Final = f"""
UPDATE issue SET description = 'secret', metadata = '{{"plan": "secret", "size": 1}}',
       properties = '{{"area": "secret"}}' WHERE id = '{ISSUE_I}';
INSERT INTO comment (id, issue_id, workspace_id, author_type, author_id, content, parent_id,
                     resolved_at) VALUES
  ('{ROOT}', '{ISSUE_I}', '{WORKSPACE}', 'agent', '{AGENT_B}', 'secret', NULL, NULL),
  ('{REPLY}', '{ISSUE_I}', '{WORKSPACE}', 'agent', '{AGENT_B}', 'secret', '{ROOT}', NULL),
  ('{RESOLVED}', '{ISSUE_I}', '{WORKSPACE}', 'agent', '{AGENT_B}', 'secret', NULL, now());
INSERT INTO agent_task_queue (id, issue_id, agent_id, runtime_id, status) VALUES
  ('{RUN}', '{ISSUE_I}', '{AGENT_A}', '{RUNTIME}', 'queued'),
  ('{SOURCE_RUN}', '{ISSUE_K}', '{AGENT_A}', '{RUNTIME}', 'running');
INSERT INTO project (id, workspace_id, name) VALUES ('{PROJECT}', '{WORKSPACE}', 'secret');
INSERT INTO issue_label (id, workspace_id, name) VALUES
  ('{LABEL}', '{WORKSPACE}', 'secret'), ('{OTHER_LABEL}', '{WORKSPACE}', 'secret too');
INSERT INTO issue_to_label (issue_id, label_id) VALUES ('{ISSUE_I}', '{LABEL}');
INSERT INTO issue_reaction (id, issue_id, workspace_id, actor_type, actor_id, emoji)
  VALUES ('{ON_ISSUE}', '{ISSUE_I}', {_BY_N}, '+1');
INSERT INTO comment_reaction (id, comment_id, workspace_id, actor_type, actor_id, emoji)
  VALUES ('{ON_COMMENT}', '{ROOT}', {_BY_N}, '+1');
{_FILE} VALUES
  ('{FILE_OF_ISSUE}', '{ISSUE_I}', NULL, {_BY_N}, 'secret.txt', 'https://example.com/secret'),
  ('{FILE_OF_COMMENT}', NULL, '{ROOT}', {_BY_N}, 'secret.txt', 'https://example.com/secret'),
  ('{LOOSE_FILE}', NULL, NULL, {_BY_N}, 'secret.txt', 'https://example.com/secret');
{listening(list(EVENTS), id=LISTENER)} \\g /dev/null
"""


@attrs.frozen(kw_only=True)
class Change:
    """What somebody writes, and what the fact of this type says beside the common fields.

    `again` writes what is there then; it must stay silent. `actor` is set where the row says who
    acts, `run` where the fact is about a run.
    """

    event_type: str
    sql: str
    details: dict[str, Any]
    again: str = ""
    actor: tuple[str, str] | None = None
    run: str | None = None


def _moved(status: str, name: str | None = None) -> Change:
    sql = f"UPDATE agent_task_queue SET status = '{status}' WHERE id = '{RUN}'"
    return Change(
        event_type=f"task.{name or status}",
        sql=sql,
        again=sql,
        run=RUN,
        details={
            "task_id": RUN,
            "status": status,
            "previous_status": "queued",
            "retry_of_task_id": None,
            "rerun_of_task_id": None,
        },
    )


def _issue(event_type: str, assignments: str, **details: Any) -> Change:
    sql = f"UPDATE issue SET {assignments} WHERE id = '{ISSUE_I}'"
    return Change(event_type=event_type, sql=sql, again=sql, details=details)


def _comment(event_type: str, assignments: str, comment: str, parent: str | None = None) -> Change:
    sql = f"UPDATE comment SET {assignments} WHERE id = '{comment}'"
    return Change(
        event_type=event_type,
        sql=sql,
        again=sql,
        details={
            "comment_id": comment,
            "parent_comment_id": parent,
            "thread_id": parent or comment,
            "author_type": "agent",
            "author_id": AGENT_B,
        },
    )


def _reaction(event_type: str, sql: str, reaction: str, target: tuple[str, str]) -> Change:
    return Change(
        event_type=event_type,
        sql=sql,
        again=f"{sql} ON CONFLICT DO NOTHING" if event_type == "reaction.added" else sql,
        actor=("member", MEMBER_N) if event_type == "reaction.added" else None,
        details={
            "reaction_id": reaction,
            "target_type": target[0],
            "target_id": target[1],
            "emoji": "tada" if event_type == "reaction.added" else "+1",
            "reaction_actor_type": "member",
            "reaction_actor_id": MEMBER_N,
        },
    )


def _file(event_type: str, sql: str, file: str, target: tuple[str, str]) -> Change:
    details = {"attachment_id": file, "target_type": target[0], "target_id": target[1]}
    return Change(
        event_type=event_type,
        sql=sql,
        again="" if sql.startswith("INSERT") else sql,
        details=details,
    )


_LABELLED: Final = f"INSERT INTO issue_to_label VALUES ('{ISSUE_I}', '{OTHER_LABEL}')"
_UNLABELLED: Final = f"DELETE FROM issue_to_label WHERE label_id = '{LABEL}'"
_NEW: Final = f"VALUES ('{NEW_REACTION}', '{{target}}', {_BY_N}, 'tada')"

CHANGES: Final = (
    Change(
        event_type="task.queued",
        sql=f"INSERT INTO agent_task_queue (id, issue_id, agent_id, rerun_of_task_id)"
        f" VALUES ('{NEW_RUN}', '{ISSUE_I}', '{AGENT_B}', '{RUN}')",
        again=f"UPDATE agent_task_queue SET status = 'queued' WHERE id = '{NEW_RUN}'",
        run=NEW_RUN,
        details={
            "task_id": NEW_RUN,
            "status": "queued",
            "previous_status": None,
            "retry_of_task_id": None,
            "rerun_of_task_id": RUN,
        },
    ),
    _moved("dispatched"),
    _moved("running", "started"),
    _moved("deferred"),
    _moved("waiting_local_directory"),
    _moved("completed"),
    _moved("failed"),
    _moved("cancelled"),
    _issue(
        "issue.updated",
        "title = 'secret', priority = 'high'",
        changed_fields=["priority", "title"],
    ),
    _issue(
        "issue.status_changed",
        "status = 'blocked'",
        previous_status="todo",
        status="blocked",
        previous_category="todo",
        category="in_progress",
    ),
    _issue(
        "issue.assignee_changed",
        f"assignee_type = 'agent', assignee_id = '{AGENT_A}'",
        previous_assignee_type=None,
        previous_assignee_id=None,
        assignee_type="agent",
        assignee_id=AGENT_A,
    ),
    _issue(
        "issue.parent_changed",
        f"parent_issue_id = '{ISSUE_K}'",
        previous_parent_issue_id=None,
        parent_issue_id=ISSUE_K,
    ),
    _issue(
        "issue.project_changed",
        f"project_id = '{PROJECT}'",
        previous_project_id=None,
        project_id=PROJECT,
    ),
    _issue(
        "issue.properties_changed",
        """properties = '{"area": "secret", "cost": "secret", "age": 1}'""",
        changed_fields=["age", "cost"],
    ),
    _issue(
        "issue.metadata_changed",
        """metadata = '{"size": "secret"}'""",
        changed_fields=["plan", "size"],
    ),
    Change(
        event_type="issue.labels_changed",
        sql=_LABELLED,
        again=f"{_LABELLED} ON CONFLICT DO NOTHING",
        details={"label_id": OTHER_LABEL, "action": "added"},
    ),
    Change(
        event_type="issue.labels_changed",
        sql=_UNLABELLED,
        again=_UNLABELLED,
        details={"label_id": LABEL, "action": "removed"},
    ),
    Change(
        event_type="comment.created",
        sql="INSERT INTO comment (id, issue_id, workspace_id, author_type, author_id, content,"
        f" parent_id) VALUES ('{NEW_COMMENT}', '{ISSUE_I}', {_BY_N}, 'secret', '{REPLY}')",
        actor=("member", MEMBER_N),
        details={
            "comment_id": NEW_COMMENT,
            "parent_comment_id": REPLY,
            "thread_id": ROOT,
            "author_type": "member",
            "author_id": MEMBER_N,
        },
    ),
    _comment("comment.updated", "content = 'more secret'", REPLY, ROOT),
    _comment("comment.deleted", "deleted_at = now(), content = ''", REPLY, ROOT),
    _comment("comment.resolved", "resolved_at = now()", ROOT),
    _comment("comment.unresolved", "resolved_at = NULL", RESOLVED),
    _reaction(
        "reaction.added",
        "INSERT INTO issue_reaction (id, issue_id, workspace_id, actor_type, actor_id, emoji) "
        + _NEW.format(target=ISSUE_I),
        NEW_REACTION,
        ("issue", ISSUE_I),
    ),
    _reaction(
        "reaction.added",
        "INSERT INTO comment_reaction (id, comment_id, workspace_id, actor_type, actor_id, emoji) "
        + _NEW.format(target=REPLY),
        NEW_REACTION,
        ("comment", REPLY),
    ),
    _reaction(
        "reaction.removed",
        f"DELETE FROM issue_reaction WHERE id = '{ON_ISSUE}'",
        ON_ISSUE,
        ("issue", ISSUE_I),
    ),
    _reaction(
        "reaction.removed",
        f"DELETE FROM comment_reaction WHERE id = '{ON_COMMENT}'",
        ON_COMMENT,
        ("comment", ROOT),
    ),
    _file(
        "attachment.attached",
        f"{_FILE} VALUES ('{NEW_REACTION}', '{ISSUE_I}', NULL, {_BY_N}, 'secret', NULL)",
        NEW_REACTION,
        ("issue", ISSUE_I),
    ),
    _file(
        "attachment.attached",
        f"UPDATE attachment SET comment_id = '{REPLY}' WHERE id = '{LOOSE_FILE}'",
        LOOSE_FILE,
        ("comment", REPLY),
    ),
    _file(
        "attachment.detached",
        f"UPDATE attachment SET issue_id = NULL WHERE id = '{FILE_OF_ISSUE}'",
        FILE_OF_ISSUE,
        ("issue", ISSUE_I),
    ),
    _file(
        "attachment.detached",
        f"DELETE FROM attachment WHERE id = '{FILE_OF_COMMENT}'",
        FILE_OF_COMMENT,
        ("comment", ROOT),
    ),
)


@attrs.frozen(kw_only=True)
class Writer:
    """Who acts: what an engine has authenticated, or nothing for somebody with psql."""

    actor_type: str | None = None
    actor_id: str | None = None
    run_id: str | None = None

    @property
    def begins(self) -> str:
        """The lines that begin a transaction of this writer."""
        if self.actor_type is None:
            return "BEGIN;"
        identity = ", ".join(map(literal, (self.actor_type, self.actor_id, self.run_id)))
        return f"BEGIN; SELECT wakeful_begin({identity}) \\g /dev/null"


PSQL: Final = Writer()
PERSON: Final = Writer(actor_type="member", actor_id=MEMBER_M)
AGENT: Final = Writer(actor_type="agent", actor_id=AGENT_A, run_id=SOURCE_RUN)


def told(town: Town, sql: str, writer: Writer = PSQL) -> list[dict[str, Any]]:
    """Return the payloads that statements lead to, each with its rule; then undo them."""
    lines = town.ask(
        f"{writer.begins}\n{sql}; SELECT wakeful_flush() \\g /dev/null\n"
        "SELECT to_jsonb(x) FROM issue_wakeup_receipt x ORDER BY x.seq; ROLLBACK"
    )
    receipts = [json.loads(line) for line in lines if line.startswith("{")]
    return [{"rule": each["wakeup_id"], **each["payload"]} for each in receipts]
