"""Where a rule or its issue changes beside what its inputs lead to."""

from __future__ import annotations

from typing import Any, Final

import attrs

from engine.domain.commands.conversation import DeleteComment, UpdateComment
from engine.domain.commands.tracker import CreateComment, DeleteIssue, UpdateIssue
from engine.domain.commands.wakeups import DeleteRule, EditInstruction, ReplaceRule
from engine.domain.rules import RuleDraft
from engine.domain.views.runs import ClaimAttempt
from engine.storage.database import Query, Session
from engine.storage.units import Dedicated
from tests.engine.world import World
from tests.isolation.conftest import Exploring
from tests.isolation.parts import (
    A_CLOSING,
    A_COMMENT,
    claim,
    dispatch,
    use_case,
    writer,
)
from tests.isolation.places import (
    COMMENT,
    Place,
    a_place,
    dispatch_rest,
    rule_at,
    runs_at,
    say,
    told,
    with_rule,
)
from tests.isolation.specification import SAMPLE_MAX, Ends, Part, Specification

CLAIMING: Final = ("claims.lock_agents", "claims.hold", "claims.hand_out")
TAKING_BACK: Final = ("wakeups.lock_rule", "wakeups.lock_unstarted", "wakeups.lock_issue")
COMMENTS: Final = Query("changes.comments", "SELECT count(*) FROM comment WHERE issue_id = $1")


async def one_fact(session: Session, world: World) -> Place:
    """A rule with a fact that waits."""
    place = await with_rule(session, await a_place(session, world))
    await say(session, place)
    return place


async def a_queued_run(session: Session, world: World) -> Place:
    """A rule whose fact has become a queued run."""
    place = await one_fact(session, world)
    assert isinstance(session, Dedicated)
    await dispatch_rest(session, place)
    (run,) = await runs_at(session, place)
    return attrs.evolve(place, run=run["id"])


def comment(**changes: Any) -> Part:
    """M comments through the engine."""
    return use_case(
        "comment",
        lambda place: CreateComment(issue_id=place.issue, body="words"),
        stops=("issues.hold", "comments.insert"),
        **changes,
    )


def replace() -> Part:
    """M saves the rule anew."""

    def make(place: Place) -> ReplaceRule:
        draft = RuleDraft(
            agent_id=place.agent,
            instruction="look again",
            kind="event",
            mode="continuous",
            event_types=(COMMENT,),
        )
        return ReplaceRule(issue_id=place.issue, rule_id=place.rule, draft=draft)

    stops = (*TAKING_BACK, "wakeups.lock_listening", "wakeups.replace")
    return use_case("replace", make, stops=stops)


def close() -> Part:
    """M closes the issue."""
    return use_case(
        "close",
        lambda place: UpdateIssue(issue_id=place.issue, status="done"),
        stops=("issues.lock", "issues.update"),
    )


async def test_replacing_a_rule_whose_run_is_claimed(explored: Exploring) -> None:
    """W-021, W-106: a run is claimed before its rule is replaced, or cancelled: never both."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        attempt = ends["claim"].result
        assert isinstance(attempt, ClaimAttempt)
        (run,) = await runs_at(session, place)
        assert run["status"] == ("dispatched" if attempt.runs else "cancelled")
        return str(run["status"])

    found = await explored(
        Specification(
            parts=(replace(), claim(stops=CLAIMING)),
            prepare=a_queued_run,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() == {"dispatched", "cancelled"}
    assert found.waits.keys() == {("replace", "claim")}


async def test_replacing_a_rule_while_it_is_dispatched(explored: Exploring) -> None:
    """W-021, W-067: a fact of the old rule is in a cancelled run or discarded, never told."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        assert [each["is_over"] for each in await told(session, place.rule)] == [True]
        await dispatch_rest(session, place)
        runs = await runs_at(session, place)
        assert [run["status"] for run in runs] in ([], ["cancelled"])
        return f"{len(runs)} run"

    found = await explored(
        Specification(
            parts=(replace(), dispatch()), prepare=one_fact, judge=judge, orders_max=SAMPLE_MAX
        )
    )
    assert found.outcomes.keys() == {"0 run", "1 run"}
    assert found.waits.keys() == {("replace", "dispatch"), ("dispatch", "replace")}


async def test_closing_an_issue_that_is_dispatched(explored: Exploring) -> None:
    """G-09: an issue that closes beside a dispatch is at rest, whichever was first."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        return await at_rest(session, place)

    found = await explored(
        Specification(parts=(close(), dispatch()), prepare=one_fact, judge=judge)
    )
    assert found.is_complete
    assert found.outcomes.keys() == {"0 run", "1 run"}
    assert found.waits.keys() == {("close", "dispatch"), ("dispatch", "close")}


async def test_a_writer_that_closes_an_issue_with_comments_and_dispatches(
    explored: Exploring,
) -> None:
    """G-09: the same holds for a direct writer that closes, beside one that comments."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        return await at_rest(session, place)

    found = await explored(
        Specification(
            parts=(
                writer("close", A_COMMENT, A_CLOSING),
                writer("psql", A_COMMENT),
                dispatch(),
            ),
            prepare=one_fact,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() == {"0 run", "1 run"}
    assert {("close", "dispatch"), ("dispatch", "close")} <= {*found.waits}


async def at_rest(session: Dedicated, place: Place) -> str:
    """A closed issue has no enabled rule, no input that waits and no run that could start."""
    rule = await rule_at(session, place)
    assert rule is not None
    assert (rule["enabled"], rule["disabled_at"] is None) == (False, False)
    assert all(each["is_over"] for each in await told(session, place.rule))
    runs = await runs_at(session, place)
    assert [run["status"] for run in runs] in ([], ["cancelled"])
    return f"{len(runs)} run"


async def test_deleting_a_rule_beside_facts_and_dispatches(explored: Exploring) -> None:
    """W-032, G-02: a deleted rule leaves no receipt and no unstarted run behind."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        assert await rule_at(session, place) is None
        assert await told(session, place.rule) == []
        runs = await runs_at(session, place)
        assert [run["status"] for run in runs] in ([], ["cancelled"])
        return f"{len(runs)} run"

    delete = use_case(
        "delete",
        lambda place: DeleteRule(issue_id=place.issue, rule_id=place.rule),
        stops=(*TAKING_BACK, "wakeups.delete"),
    )
    found = await explored(
        Specification(
            parts=(delete, writer("psql", A_COMMENT), dispatch()),
            prepare=one_fact,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() == {"0 run", "1 run"}
    assert {("delete", "dispatch"), ("dispatch", "delete"), ("psql", "delete")} <= {*found.waits}


async def test_deleting_an_issue_beside_facts(explored: Exploring) -> None:
    """W-189, G-02: a comment goes with its issue or is refused: no orphan, no receipt is left."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        assert await rule_at(session, place) is None
        assert await told(session, place.rule) == []
        assert await session.fetchval(COMMENTS, place.issue) == 0
        assert [run["status"] for run in await runs_at(session, place)] == ["cancelled"]
        return f"comment {ends['comment'].code}, psql {ends['psql'].code}"

    delete = use_case(
        "delete",
        lambda place: DeleteIssue(issue_id=place.issue),
        stops=("issues.lock_for_delete", "issues.delete_comments", "closing.lock_inputs"),
    )
    found = await explored(
        Specification(
            parts=(delete, comment(may=("not_found",)), writer("psql", A_COMMENT, may=("23503",))),
            prepare=a_queued_run,
            judge=judge,
            orders_max=SAMPLE_MAX,
        )
    )
    assert found.outcomes.keys() >= {
        "comment done, psql done",
        "comment not_found, psql done",
        "comment not_found, psql 23503",
    }
    assert {("delete", "comment"), ("comment", "delete"), ("delete", "psql")} <= {*found.waits}


async def test_editing_an_instruction_beside_a_dispatch(explored: Exploring) -> None:
    """W-028: a run has the text as it stood at its dispatch, and the rule has the new one."""

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        rule = await rule_at(session, place)
        (run,) = await runs_at(session, place)
        assert rule is not None
        assert (rule["instruction"], rule["revision"]) == ("look twice", 1)
        text = "new" if "look twice" in run["handoff_note"] else "old"
        await say(session, place)
        await dispatch_rest(session, place)
        (run,) = await runs_at(session, place)
        assert "look twice" in run["handoff_note"]
        return text

    edit = use_case(
        "edit",
        lambda place: EditInstruction(
            issue_id=place.issue,
            rule_id=place.rule,
            instruction="look twice",
            expected_instruction="look",
            revision=1,
        ),
        stops=("wakeups.hold_owners", "wakeups.lock_rule", "wakeups.lock_issue"),
    )
    found = await explored(
        Specification(
            parts=(edit, dispatch()), prepare=one_fact, judge=judge, orders_max=SAMPLE_MAX
        )
    )
    assert found.outcomes.keys() == {"old", "new"}
    assert found.waits.keys() == {("edit", "dispatch"), ("dispatch", "edit")}


async def test_deleting_a_comment_twice_beside_an_edit(explored: Exploring) -> None:
    """W-046: a tombstone is told of once, and nothing that happens to it later."""

    async def a_comment(session: Session, world: World) -> Place:
        place = await a_place(session, world)
        place = attrs.evolve(place, comment=await say(session, place))
        return await with_rule(session, place, event_types=["comment.deleted", "comment.updated"])

    async def judge(session: Dedicated, place: Place, ends: Ends) -> str:
        found = {each["event_type"]: each["count"] for each in await told(session, place.rule)}
        edits = 1 if ends["edit"].is_done else 0
        assert found == {"comment.deleted": 1, **({"comment.updated": 1} if edits else {})}
        return f"edit {ends['edit'].code}, delete {ends['delete'].code}"

    stops = ("comments.lock",)
    parts = (
        use_case("delete", lambda place: DeleteComment(comment_id=place.comment), stops=stops),
        use_case(
            "edit",
            lambda place: UpdateComment(comment_id=place.comment, body="other words"),
            stops=(*stops, "comments.set_content"),
            may=("not_found",),
        ),
        writer(
            "psql",
            "UPDATE comment SET deleted_at = wakeful_now(), content = ''"
            " WHERE id = '{comment}' AND deleted_at IS NULL",
        ),
    )
    found = await explored(
        Specification(parts=parts, prepare=a_comment, judge=judge, orders_max=SAMPLE_MAX)
    )
    assert found.outcomes.keys() == {"edit done, delete done", "edit not_found, delete done"}
    assert {("delete", "edit"), ("edit", "delete"), ("psql", "delete"), ("delete", "psql")} <= {
        *found.waits
    }
