"""The gate of a claim at work: refusals are told, errors keep the run."""

from __future__ import annotations

from uuid import UUID

import pytest

from engine.domain.commands.runs import ClaimOne
from engine.domain.prompt import PromptFacts
from engine.domain.views.runs import ClaimedRun
from engine.errors import KINDS
from tests.service.runs_seed import Floor, floor, refused

__all__ = ["floor"]

REVOKE = "UPDATE agent SET visibility = 'private' WHERE name = 'A'"


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ("UPDATE issue_wakeup SET disabled_at = wakeful_now()", "disabled"),
        ("UPDATE issue_wakeup SET revision = 2", "revision_changed"),
        (
            "UPDATE issue_wakeup SET created_by = (SELECT id FROM app_user WHERE name = 'N')",
            "creator_changed",
        ),
        (REVOKE, "permission_lost"),
    ],
)
async def test_a_refusal_is_told(floor: Floor, change: str, check: str) -> None:
    """W-236, W-108: the timeline names the refused run and the check that failed."""
    fired = await floor.fire(await floor.wakeup())
    await floor.sql(change)
    assert await floor.claim() == ()
    (entry,) = await floor.sql(
        "SELECT action, actor_type, details FROM activity_log WHERE details ? 'task_id'"
    )
    assert (entry["action"], entry["actor_type"]) == ("claim_refused", "system")
    assert entry["details"] == {
        "task_id": str(fired),
        "failure_reason": "invalid_task_identity",
        "check": check,
    }


async def test_a_right_lost_while_the_runtime_was_away(floor: Floor) -> None:
    """W-108: a run that waited two days for its runtime is checked when that comes back."""
    fired = await floor.fire(await floor.wakeup())
    await floor.pass_seconds(172_800)
    await floor.sql(REVOKE)
    assert await floor.claim() == ()
    assert await floor.status(fired) == "queued", "its runtime is away"
    await floor.beat()
    assert await floor.claim() == ()
    assert await floor.status(fired) == "failed"


async def test_a_refused_redelivery_ends_its_claim(floor: Floor) -> None:
    """W-108: a lost claim whose rule was switched off meanwhile fails, and its credential ends."""
    fired = await floor.fire(await floor.wakeup())
    await floor.claim_one()
    await floor.sql("UPDATE issue_wakeup SET disabled_at = wakeful_now()")
    await floor.pass_seconds(91)
    assert await floor.claim() == ()
    assert await floor.status(fired) == "failed"
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ("SELECT", "dispatched"),
        ("UPDATE issue_wakeup SET created_by = gen_random_uuid()", "dispatched"),
        ("UPDATE issue_wakeup SET enabled = false", "failed"),
        ("UPDATE issue_wakeup SET disabled_at = wakeful_now()", "failed"),
        ("UPDATE issue_wakeup SET revision = 2", "failed"),
        ("UPDATE issue_wakeup SET issue_id = (SELECT id FROM issue WHERE title = 'K')", "failed"),
    ],
)
async def test_the_gate_of_a_system_rule(floor: Floor, change: str, status: str) -> None:
    """W-107: the run of a system rule needs the rule on, of its revision and issue; no creator."""
    rule = await floor.wakeup(enabled=True)
    fired = await floor.fire(rule, wakeup_system="child_done")
    await floor.sql(change)
    runs = await floor.claim()
    assert await floor.status(fired) == status
    assert [run.wakeup_system_rule for run in runs] == ["child_done"] * (status == "dispatched")
    assert all("belongs to the platform" in run.prompt for run in runs), "W-092"


async def test_an_error_in_the_gate_keeps_the_run(floor: Floor) -> None:
    """W-107: when the database fails inside the gate the claim fails, and the run does not."""
    fired = await floor.fire(await floor.wakeup())
    (was,) = await floor.sql(
        "SELECT pg_get_functiondef('may_invoke(uuid, agent)'::regprocedure) AS text"
    )
    await floor.sql(
        "CREATE OR REPLACE FUNCTION may_invoke(person uuid, agent agent) RETURNS boolean"
        " LANGUAGE plpgsql STABLE AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$"
    )
    code = await refused(floor, floor.world.daemon, floor.claiming())
    assert KINDS[code].status == 500
    assert await floor.status(fired) == "queued"
    await floor.sql(was["text"])
    assert (await floor.claim_one()).id == fired


async def test_a_redelivery_that_cannot_be_made_goes_back(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-104: a lost claim whose response cannot be made is queued again, its claim fields empty."""
    fired = await floor.fire(await floor.wakeup())
    await floor.claim_one()
    await floor.pass_seconds(91)
    await floor.beat()
    asked: list[PromptFacts] = []

    def fail(facts: PromptFacts) -> str:
        asked.append(facts)
        raise ValueError("no prompt")

    with monkeypatch.context() as patched:
        patched.setattr("engine.service.claims.render_prompt", fail)
        assert await floor.claim() == ()
    assert len(asked) == 1
    (row,) = await floor.sql("SELECT id, status, dispatched_at, attempt FROM agent_task_queue")
    assert tuple(row.values()) == (fired, "queued", None, 1)
    assert not await floor.sql("SELECT FROM task_token UNION ALL SELECT FROM run_lease")
    assert (await floor.claim_one()).id == fired


async def test_the_claim_of_one_runtime(floor: Floor) -> None:
    """W-102, W-108: the older form hands out one run, and null for none or a refused one."""

    async def claim_one(runtime_id: UUID) -> ClaimedRun | None:
        found = await floor.report(ClaimOne(runtime_id=runtime_id))
        assert found is None or isinstance(found, ClaimedRun)
        return found

    runtime = floor.world.runtime_id
    assert await claim_one(runtime) is None
    assert await claim_one(floor.world.issue) is None
    fired = await floor.fire(await floor.wakeup())
    await floor.sql("UPDATE issue_wakeup SET disabled_at = wakeful_now()")
    assert await claim_one(runtime) is None
    assert await floor.status(fired) == "failed"
    other = await floor.enqueue()
    run = await claim_one(runtime)
    assert run is not None
    assert run.id == other.id
    people = ClaimOne(runtime_id=runtime)
    assert await refused(floor, floor.world.m, people) == "not_allowed"


async def test_joined_notes_come_with_the_run(floor: Floor) -> None:
    """W-096, W-093: notes that joined a run are in its claim and end its prompt."""
    notes = [{"wakeup_id": "x", "note": "one"}, {"wakeup_id": "y", "note": "two"}]
    await floor.fire(await floor.wakeup(), wakeup_joined=notes)
    run = await floor.claim_one()
    assert run.wakeup_joined == "one\n\ntwo"
    assert run.prompt.endswith("one\n\ntwo\n")
