"""A small town in plain SQL for the tests of capture: no engine runs, everybody is a direct writer.

Issue I with what the tests add to it, issue K beside it; people M and N, agents A and B, a runtime.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Self
from uuid import UUID

import attrs

from tests.sql.psql_session import PsqlSession

WORKSPACE: Final = "00000000-0000-7000-8000-000000000001"
MEMBER_M: Final = "00000000-0000-7000-8000-000000000011"
MEMBER_N: Final = "00000000-0000-7000-8000-000000000012"
RUNTIME: Final = "00000000-0000-7000-8000-000000000020"
AGENT_A: Final = "00000000-0000-7000-8000-000000000021"
AGENT_B: Final = "00000000-0000-7000-8000-000000000022"
ISSUE_I: Final = "00000000-0000-7000-8000-000000000031"
ISSUE_K: Final = "00000000-0000-7000-8000-000000000032"

_FOUNDING: Final = f"""
INSERT INTO workspace (id, name, slug, issue_prefix) VALUES ('{WORKSPACE}', 'Town', 'town', 'T');
INSERT INTO app_user (id, email, name) VALUES
  ('{MEMBER_M}', 'm@example.com', 'M'), ('{MEMBER_N}', 'n@example.com', 'N');
INSERT INTO member (workspace_id, user_id, role) VALUES
  ('{WORKSPACE}', '{MEMBER_M}', 'member'), ('{WORKSPACE}', '{MEMBER_N}', 'member');
INSERT INTO agent_runtime (id, workspace_id, daemon_id, name, provider)
  VALUES ('{RUNTIME}', '{WORKSPACE}', 'd', 'r', 'test');
INSERT INTO agent (id, workspace_id, name, owner_id, runtime_id) VALUES
  ('{AGENT_A}', '{WORKSPACE}', 'A', '{MEMBER_M}', '{RUNTIME}'),
  ('{AGENT_B}', '{WORKSPACE}', 'B', '{MEMBER_M}', '{RUNTIME}');
INSERT INTO issue (id, workspace_id, number, title) VALUES
  ('{ISSUE_I}', '{WORKSPACE}', 1, 'I'), ('{ISSUE_K}', '{WORKSPACE}', 2, 'K');
"""


def literal(value: object) -> str:
    """Return a value as SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case dict():
            return literal(json.dumps(value))
        case [*members]:
            return "ARRAY[" + ", ".join(literal(member) for member in members) + "]::text[]"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def insert(table: str, values: dict[str, object]) -> str:
    """Return the INSERT of one row, which returns its id."""
    columns, literals = ", ".join(values), ", ".join(literal(value) for value in values.values())
    return f"INSERT INTO {table} ({columns}) VALUES ({literals}) RETURNING id"


def commenting(issue_id: str = ISSUE_I, **values: object) -> str:
    """Return the INSERT of a comment, by the system unless said otherwise."""
    columns = {"issue_id": issue_id, "workspace_id": WORKSPACE, "content": "secret words"}
    return insert("comment", {**columns, **values})


def queueing(issue_id: str | None = ISSUE_I, **values: object) -> str:
    """Return the INSERT of a run of A, queued unless said otherwise."""
    return insert(
        "agent_task_queue",
        {"issue_id": issue_id, "agent_id": AGENT_A, "runtime_id": RUNTIME, **values},
    )


def listening(event_types: Sequence[str], issue_id: str = ISSUE_I, **values: object) -> str:
    """Return the INSERT of a continuous rule on an issue that wakes A."""
    columns = {
        "workspace_id": WORKSPACE,
        "issue_id": issue_id,
        "agent_id": AGENT_A,
        "created_by": MEMBER_M,
        "instruction": "Look.",
        "kind": "event",
        "mode": "continuous",
        "event_types": list(event_types),
    }
    return insert("issue_wakeup", {**columns, **values})


@attrs.frozen(kw_only=True)
class Stored:
    """One receipt, as its row says."""

    seq: int
    id: UUID
    revision: int
    event_key: str
    event_type: str
    coalesce_key: str | None
    payload: dict[str, Any]
    created_at: str

    @property
    def count(self) -> int:
        """For how many facts it stands."""
        count = self.payload["coalesced_count"]
        assert isinstance(count, int)
        return count


@attrs.frozen
class Town:
    """The town with a session in it; everything through it commits at once."""

    url: str
    session: PsqlSession

    @classmethod
    def found(cls, url: str) -> Self:
        """Build the town in an empty, migrated database."""
        session = PsqlSession(url)
        session.ask(_FOUNDING)
        return cls(url, session)

    def ask(self, sql: str) -> list[str]:
        """Run statements and return the lines printed."""
        return self.session.ask(sql)

    def one(self, sql: str) -> str:
        """Run statements that print one line and return it."""
        (line,) = self.ask(sql)
        return line

    def comment(self, issue_id: str = ISSUE_I, **values: object) -> str:
        """Write a comment and return its id."""
        return self.one(commenting(issue_id, **values))

    def run(self, issue_id: str | None = ISSUE_I, **values: object) -> str:
        """Queue a run and return its id."""
        return self.one(queueing(issue_id, **values))

    def listen(self, *event_types: str, issue_id: str = ISSUE_I, **values: object) -> str:
        """Add a rule for these types and return its id."""
        return self.one(listening(event_types, issue_id, **values))

    def move(self, run_id: str, status: str) -> None:
        """Bring a run into a status."""
        self.ask(f"UPDATE agent_task_queue SET status = '{status}' WHERE id = '{run_id}'")

    def acting(self, actor_type: str, actor_id: str, run_id: str | None, sql: str) -> None:
        """Run statements in one transaction under an identity, as an engine does."""
        begin = f"SELECT wakeful_begin('{actor_type}', '{actor_id}', {literal(run_id)})"
        self.ask(f"BEGIN; {begin} \\g /dev/null\n{sql}; COMMIT")

    def receipts(self, rule_id: str, event_type: str | None = None) -> list[Stored]:
        """Return the receipts of a rule, of one type or of all, oldest first."""
        lines = self.ask(
            "SELECT to_jsonb(x) - '{wakeup_id,task_id,processed_at}'::text[]"
            f" FROM issue_wakeup_receipt x WHERE wakeup_id = '{rule_id}' ORDER BY seq"
        )
        found = [Stored(**json.loads(line)) for line in lines]
        return [each for each in found if event_type in (None, each.event_type)]

    def receipt(self, rule_id: str, event_type: str | None = None) -> Stored:
        """Return the only receipt of a rule and type."""
        (receipt,) = self.receipts(rule_id, event_type)
        return receipt

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        return int(self.one(f"SELECT count(*) FROM {table}"))
