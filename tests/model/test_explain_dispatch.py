"""What an explanation says the next dispatch will do is what the next dispatch does.

Short random histories of one rule on a real database: facts, people and daemons come in any order,
and before every dispatch the rule is explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final
from uuid import UUID

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import engine.service.explaining  # noqa: F401 - registers the use case
from engine.domain.commands.wakeups import ExplainRule
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.domain.views.explain import ExplanationView
from engine.service.dispatch import Dispatched, dispatch_alone
from engine.service.registry import Work, service_for
from engine.storage import queries
from engine.storage.database import Database, Lane, Session, open_loop
from engine.storage.queries import Query
from tests.sql.capture_town import AGENT_A, MEMBER_M, MEMBER_N, WORKSPACE, Town

CALLER: Final = Principal(
    kind=PrincipalKind.MEMBER, user_id=UUID(MEMBER_M), roles={UUID(WORKSPACE): Role.MEMBER}
)

KINDS: Final[dict[str, dict[str, Any]]] = {
    "event": {},
    "filtered": {"filter_actor_type": "member", "filter_actor_id": MEMBER_M},
    "once": {"mode": "once"},
    "at": {"kind": "at", "mode": "once", "event_types": []},
    "every": {"kind": "every", "event_types": [], "interval_seconds": 3_600},
    "cron": {"kind": "cron", "event_types": [], "cron_expression": "*/7 * * * *"},
}
TIMERS: Final = ("at", "every", "cron")

_COMMENT: Final = (
    "INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)"
    " VALUES (:issue, :workspace, 'member', {author}, 'x')"
)
_RUN: Final = "UPDATE agent_task_queue SET {values} WHERE wakeup_id = :rule AND status = "
STEPS: Final = {
    "M comments": _COMMENT.format(author=f"'{MEMBER_M}'"),
    "N comments": _COMMENT.format(author=f"'{MEMBER_N}'"),
    "somebody wakes it": (
        "INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type, payload)"
        " SELECT id, revision, gen_random_uuid(), 'wakeup.manual', '{}' FROM issue_wakeup"
        " WHERE id = :rule AND disabled_at IS NULL"
    ),
    "its time comes": (
        "UPDATE issue_wakeup SET next_fire_at = wakeful_now() - interval '1 second'"
        " WHERE id = :rule AND kind <> 'event' AND enabled"
    ),
    "it is edited": (
        "UPDATE issue_wakeup r SET revision = r.revision + 1, enabled = true, disabled_at = NULL,"
        " last_task_id = NULL, last_error = NULL FROM issue i WHERE r.id = :rule"
        " AND i.id = r.issue_id AND NOT status_is_closed(i.workspace_id, i.status)"
    ),
    "it is switched off": (
        "UPDATE issue_wakeup SET enabled = false, disabled_at = coalesce(disabled_at,"
        " wakeful_now()) WHERE id = :rule"
    ),
    "the issue is closed": "UPDATE issue SET status = 'done' WHERE id = :issue",
    "the issue is reopened": "UPDATE issue SET status = 'todo' WHERE id = :issue",
    "M loses the agent": "UPDATE agent SET visibility = 'private' WHERE id = :agent",
    "M gets the agent": "UPDATE agent SET visibility = 'workspace' WHERE id = :agent",
    "the agent is archived": "UPDATE agent SET archived_at = wakeful_now() WHERE id = :agent",
    "the agent is back": "UPDATE agent SET archived_at = NULL WHERE id = :agent",
    "its run is claimed": (
        _RUN.format(values="status = 'dispatched', dispatched_at = wakeful_now()")
        + "'queued' AND NOT EXISTS (SELECT FROM agent_task_queue b WHERE b.issue_id = :issue"
        " AND b.status IN ('dispatched', 'running'))"
    ),
    "its claim is lost": (
        _RUN.format(values="dispatched_at = wakeful_now() - interval '2 minutes'") + "'dispatched'"
    ),
    "its run starts": (
        _RUN.format(values="status = 'running', started_at = wakeful_now()") + "'dispatched'"
    ),
    "its run ends": (
        _RUN.format(values="status = 'completed', completed_at = wakeful_now()") + "'running'"
    ),
}
HISTORIES: Final = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3)


@attrs.frozen(kw_only=True)
class Books:
    """What is stored about the rule: its row, its receipts and runs by id."""

    rule: dict[str, Any]
    receipts: dict[int, dict[str, Any]]
    runs: dict[str, str]

    def free(self) -> set[int]:
        """Return the receipts that wait."""
        return {
            seq
            for seq, each in self.receipts.items()
            if each["processed_at"] is None and each["task_id"] is None
        }


_BOOKS: Final = Query(
    "test.books",
    "SELECT to_jsonb(r) - 'updated_at' AS rule,"
    " (SELECT coalesce(jsonb_object_agg(x.seq, to_jsonb(x)), '{}')"
    "    FROM issue_wakeup_receipt x WHERE x.wakeup_id = r.id) AS receipts,"
    " (SELECT coalesce(jsonb_object_agg(q.id, q.status), '{}')"
    "    FROM agent_task_queue q WHERE q.wakeup_id = r.id) AS runs"
    " FROM issue_wakeup r WHERE r.id = $1",
)


async def read_books(session: Session, rule_id: UUID) -> Books:
    row = await session.fetchrow(_BOOKS, rule_id)
    assert row is not None
    receipts = {int(seq): each for seq, each in row["receipts"].items()}
    return Books(rule=row["rule"], receipts=receipts, runs=row["runs"])


def consumed(before: Books, after: Books) -> list[dict[str, Any]]:
    """Return the receipts that a run got in between."""
    return [
        each
        for seq, each in after.receipts.items()
        if each["task_id"] is not None
        and (seq not in before.receipts or before.receipts[seq]["task_id"] is None)
    ]


def observed(before: Books, after: Books) -> str:
    """Return in one word what a dispatch did, told by the rows alone."""
    if before == after:
        return "held" if after.free() else "idle"
    if consumed(before, after):
        return "started" if after.runs.keys() - before.runs.keys() else "added"
    if after.rule["disabled_at"] is not None:
        return "switched_off"
    is_withdrawn = any(after.runs[run] != status for run, status in before.runs.items())
    if is_withdrawn or "dispatched" in after.runs.values():
        return "held"
    return "discarded" if after.free() < before.free() else "advanced"


async def foretell(database: Database, issue_id: UUID, rule_id: UUID) -> tuple[Any, Books, Books]:
    """Explain the rule, dispatch its issue, and return what was said and what was stored."""
    query = ExplainRule(issue_id=issue_id, rule_id=rule_id)
    said = await database.read(
        Lane.API,
        lambda session: service_for(query).handler(Work(session=session, caller=CALLER), query),
        snapshot=True,
    )
    look = partial(read_books, rule_id=rule_id)
    before = await database.read(Lane.API, look)
    await database.write(
        Lane.DISPATCH,
        partial(dispatch_alone, done=Dispatched(), issue_id=issue_id, barred=[]),
    )
    return said, before, await database.read(Lane.API, look)


def check(said: ExplanationView, before: Books, after: Books) -> None:
    """The outcome is the one foretold; what was pending is what was used, or discarded."""
    assert said.next_dispatch == observed(before, after), (said, before, after)
    taken = consumed(before, after)
    if said.next_dispatch in {"started", "added"}:
        assert sorted(each.event_type for each in said.pending) == sorted(
            each["event_type"] for each in taken
        )
        assert (said.waiting_run is None) == (said.next_dispatch == "started")
        if said.waiting_run is not None:
            assert {each["task_id"] for each in taken} == {str(said.waiting_run.id)}
    else:
        assert taken == []
    if said.next_dispatch == "held":
        assert len(said.pending) == len(after.free())
    if said.next_dispatch == "switched_off":
        assert said.state in {"blocked", "disabled", "ended"}
        assert said.code in {each.code for each in said.problems} | {"disabled"}
    if said.next_dispatch == "idle" and said.state in {"active", "consumed"}:
        assert said.pending == ()


@pytest.fixture
def town(database_url: str) -> Iterator[Town]:
    """A town in a database of its own; agents belong to N, so that M may lose them."""
    found = Town.found(database_url)
    found.ask(f"UPDATE agent SET owner_id = '{MEMBER_N}'")
    with found.session:
        yield found


def place(town: Town, kind: str) -> dict[str, str]:
    """Make an issue with one rule of this kind, everything else as it was at the beginning."""
    town.ask("UPDATE agent SET visibility = 'workspace', archived_at = NULL")
    issue = town.one(
        "INSERT INTO issue (workspace_id, number, title)"
        f" SELECT '{WORKSPACE}', max(number) + 1, 'x' FROM issue RETURNING id"
    )
    fields = {**KINDS[kind]}
    types = fields.pop("event_types", ["comment.created"])
    rule = town.listen(*types, issue_id=issue, **fields)
    if kind in TIMERS:
        town.ask(f"UPDATE issue_wakeup SET next_fire_at = '2099-01-01' WHERE id = '{rule}'")
    return {":issue": issue, ":rule": rule, ":workspace": WORKSPACE, ":agent": AGENT_A}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(kind=st.sampled_from(sorted(KINDS)), history=st.lists(HISTORIES, min_size=1, max_size=5))
def test_what_is_foretold_happens(town: Town, kind: str, history: list[list[str]]) -> None:
    """W-213, W-216: after any history the next dispatch does what the explanation says it will."""
    names = place(town, kind)

    def play(steps: list[str]) -> None:
        for step in steps:
            statement = STEPS[step]
            for name, value in names.items():
                statement = statement.replace(name, f"'{value}'")
            town.ask(statement)

    async def live() -> None:
        gateway = queries.load("gateway")
        async with (
            open_loop(),
            Database.open(town.url, begin=gateway.begin, flush=gateway.flush) as database,
        ):
            for steps in history:
                play(steps)
                check(*await foretell(database, UUID(names[":issue"]), UUID(names[":rule"])))

    trio.run(live)
