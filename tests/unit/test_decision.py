"""What one dispatch of one rule decides, case by case."""

import json
from datetime import datetime, timedelta
from typing import Any

import attrs
import pytest

from engine.domain.decision import (
    Activity,
    Decision,
    Outcome,
    decide,
    describe_rule,
)
from engine.domain.records import Mode, OwnRun, Rule
from engine.limits import LAST_ERROR_CHARS_MAX
from tests.unit.samples import (
    AGENT,
    CREATOR,
    ISSUE,
    MEMBER,
    NOW,
    REGISTRAR,
    RULE,
    RUN,
    RUNTIME,
    a_claimed_run,
    a_cron,
    a_payload,
    a_receipt,
    a_rule,
    a_run,
    a_snapshot,
    an_alarm,
    an_id,
    an_interval,
    due_at,
    refs,
    stored_run,
)

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
THREAD = an_id(40)


# --- A run is started ----------------------------------------------------------------------------


def test_a_fact_starts_a_run() -> None:
    """W-095: the run has the issue's priority, the thread, the summary, the creator, the rule."""
    rule = a_rule(instruction="é" * 200, parent_comment_id=THREAD, last_error="old")
    receipt = a_receipt()
    decision = decide(a_snapshot(rule, receipts=[receipt]), NOW)
    assert decision.outcome is Outcome.STARTED
    assert decision.consume == refs(receipt)
    assert decision.discard == ()
    run = decision.start
    assert run is not None
    assert (run.agent_id, run.issue_id, run.runtime_id) == (AGENT, ISSUE, RUNTIME)
    assert run.priority == "high"
    assert run.trigger_comment_id == THREAD
    assert run.trigger_summary == "Wakeup: " + "é" * 160
    assert run.originator_user_id == CREATOR
    assert run.delegated_from_task_id == REGISTRAR
    assert f"Wakeup {RULE} fired." in run.handoff_note
    assert decision.refresh is None
    assert decision.last_error is None


def test_the_context_names_the_trigger() -> None:
    """W-096: the context has the rule's id and revision and the evidence, nothing else, in JSON."""
    run = decide(a_snapshot(receipts=[a_receipt()]), NOW).start
    assert run is not None
    context = json.loads(json.dumps(run.context))
    assert set(context) == {"wakeup_id", "wakeup_revision", "wakeup_evidence"}
    assert context["wakeup_id"] == str(RULE)
    assert context["wakeup_revision"] == 3
    assert context["wakeup_evidence"]["facts"] == [
        {"event_type": "comment.created", "payload": a_payload()}
    ]


def test_a_repeating_rule_stays_and_a_one_shot_is_spent() -> None:
    """W-001: firing ends a one-shot without switching it off; a repeating rule goes on."""
    for mode, enabled in [(Mode.CONTINUOUS, True), (Mode.ONCE, False)]:
        decision = decide(a_snapshot(a_rule(mode=mode), receipts=[a_receipt()]), NOW)
        assert decision.outcome is Outcome.STARTED
        assert decision.enabled is enabled
        assert decision.disable is False


def test_exactly_what_was_read_is_consumed() -> None:
    """W-067: the receipts read are consumed, those of another revision discarded."""
    mine = [a_receipt(1), a_receipt(3, "issue.updated")]
    older, newer = a_receipt(2, revision=2), a_receipt(4, revision=4)
    decision = decide(a_snapshot(receipts=[mine[0], older, mine[1], newer]), NOW)
    assert decision.consume == refs(*mine)
    assert decision.discard == refs(older, newer)
    assert decision.start is not None
    assert "key-2" not in decision.start.handoff_note


def test_facts_of_another_revision_start_nothing() -> None:
    """W-067: receipts of another revision are processed without a run."""
    receipt = a_receipt(revision=2)
    decision = decide(a_snapshot(receipts=[receipt]), NOW)
    assert decision.outcome is Outcome.DISCARDED
    assert decision.discard == refs(receipt)
    assert decision.start is None
    assert decision.enabled


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (a_rule(), "waiting_event"),
        (an_interval(NOW + SECOND), "waiting_time"),
        (a_rule(mode=Mode.ONCE, enabled=False, last_task_id=RUN), "consumed"),
        (a_rule(enabled=False), None),
    ],
)
def test_without_inputs_nothing_happens(rule: Rule, reason: str | None) -> None:
    """W-016: a new rule waits from its commit on; a decision without inputs changes nothing."""
    decision = decide(a_snapshot(rule), NOW)
    assert decision == Decision(
        rule_id=RULE,
        revision=3,
        outcome=Outcome.IDLE,
        reason=reason,
        enabled=rule.enabled,
        next_fire_at=rule.next_fire_at,
        last_error=None,
    )


def test_an_older_payload_drains() -> None:
    """W-040: a pending receipt with only `event_type` and `task_id` becomes a run."""
    receipt = a_receipt(payload={"event_type": "task.completed", "task_id": str(RUN)})
    decision = decide(a_snapshot(receipts=[receipt]), NOW)
    assert decision.outcome is Outcome.STARTED
    assert decision.activities[0].actor_type == "system"


# --- The timeline --------------------------------------------------------------------------------


def test_a_firing_is_in_the_timeline() -> None:
    """W-234: one entry a new run, with events, the sum of counts and the last person or agent."""
    receipts = [
        a_receipt(1, payload=a_payload(number=1, coalesced_count=3)),
        a_receipt(
            2, "issue.updated", payload=a_payload("issue.updated", 2, actor=("agent", AGENT))
        ),
        a_receipt(3, payload=a_payload(number=3, actor=("system", None))),
    ]
    [entry] = decide(a_snapshot(receipts=receipts), NOW).activities
    assert entry == Activity(
        action="wakeup_triggered",
        actor_type="agent",
        actor_id=AGENT,
        details={
            "wakeup": describe_rule(a_rule()),
            "events": ["comment.created", "issue.updated"],
            "count": 5,
            "actor_type": "agent",
            "actor_id": str(AGENT),
        },
    )
    json.dumps(entry.details)


@pytest.mark.parametrize("actor_id", ["no uuid", 5, None])
def test_an_odd_actor_does_not_stop_a_rule(actor_id: Any) -> None:
    """W-234: an actor id that is none is passed over; an earlier fact's actor counts."""
    receipts = [a_receipt(1), a_receipt(2, payload=a_payload(number=2, actor_id=actor_id))]
    [entry] = decide(a_snapshot(receipts=receipts), NOW).activities
    assert entry.actor_id == MEMBER
    [entry] = decide(a_snapshot(receipts=receipts[1:]), NOW).activities
    assert (entry.actor_type, entry.actor_id) == ("system", None)


@pytest.mark.parametrize(
    ("rule", "entries"),
    [
        (an_alarm(NOW), 1),
        (an_interval(NOW), 0),
        (a_cron(NOW, "* * * * *"), 0),
    ],
)
def test_repeating_timers_show_as_runs_only(rule: Rule, entries: int) -> None:
    """W-234: firings of `every` and `cron` write no entry, those of `at` do."""
    decision = decide(a_snapshot(rule), NOW)
    assert decision.outcome is Outcome.STARTED
    assert len(decision.activities) == entries


def test_the_copy_of_a_rule_is_readable_without_the_rule() -> None:
    """W-233: the copy names trigger and target, fits into JSON and holds no instruction."""
    rule = an_interval(NOW, filter_actor_type="member", filter_actor_id=MEMBER)
    copy = json.loads(json.dumps(describe_rule(rule)))
    assert copy["kind"] == "every"
    assert copy["agent_id"] == str(AGENT)
    assert copy["filter_actor_id"] == str(MEMBER)
    assert datetime.fromisoformat(copy["next_fire_at"]) == NOW
    assert rule.instruction not in json.dumps(copy)
    assert describe_rule(a_rule(source_task_id=None))["source_task_id"] is None


# --- The rule's own run --------------------------------------------------------------------------


def test_a_queued_run_takes_more_facts() -> None:
    """W-099: new facts change only note and evidence of the queued run; no second run, no entry."""
    run = stored_run(decide(a_snapshot(receipts=[a_receipt()]), NOW).start)
    run = attrs.evolve(run, context={**run.context, "wakeup_chain": ["x"]})
    second = a_receipt(2)
    decision = decide(a_snapshot(own_run=run, receipts=[second]), NOW)
    assert decision.outcome is Outcome.ADDED
    assert decision.start is None
    assert decision.consume == refs(second)
    assert decision.activities == ()
    refresh = decision.refresh
    assert refresh is not None
    assert refresh.run_id == RUN
    assert '"coalesced_count":2' in refresh.handoff_note
    changed = {key for key in refresh.context if refresh.context[key] != run.context.get(key)}
    assert changed == {"wakeup_evidence"}


def test_an_edited_text_reaches_the_queued_run() -> None:
    """W-028: adding a fact to a queued run renders the present instruction."""
    run = stored_run(decide(a_snapshot(receipts=[a_receipt()]), NOW).start)
    edited = a_rule(instruction="Look again.")
    refresh = decide(a_snapshot(edited, own_run=run, receipts=[a_receipt(2)]), NOW).refresh
    assert refresh is not None
    assert "Look again." in refresh.handoff_note
    assert a_rule().instruction not in refresh.handoff_note


def test_a_one_shot_that_adds_is_spent() -> None:
    """W-099: a one-shot whose facts go into a waiting run has fired."""
    decision = decide(
        a_snapshot(a_rule(mode=Mode.ONCE), own_run=a_run(), receipts=[a_receipt()]), NOW
    )
    assert decision.outcome is Outcome.ADDED
    assert decision.enabled is False


def test_a_claimed_run_holds_the_inputs() -> None:
    """W-100: a claimed prompt is immutable: later facts stay free."""
    decision = decide(a_snapshot(own_run=a_claimed_run(), receipts=[a_receipt()]), NOW)
    assert decision.outcome is Outcome.HELD
    assert decision.reason == "own_run_claimed"
    assert (decision.consume, decision.discard) == ((), ())
    assert decision.start is None
    assert decision.refresh is None
    assert decision.last_error is None


@pytest.mark.parametrize(
    ("seconds", "lease", "waits"),
    [
        (89.999, None, False),
        (90, None, True),
        (90, NOW, True),
        (90, NOW + SECOND, False),
        (3_600, NOW - HOUR, True),
    ],
)
def test_a_silent_claim_waits_for_recovery(
    seconds: float, lease: datetime | None, waits: bool
) -> None:
    """W-100: after 90 s without start and live lease `last_error` names the wait for recovery."""
    rule = a_rule(last_error="before")
    run = a_claimed_run(seconds, lease)
    decision = decide(a_snapshot(rule, own_run=run, receipts=[a_receipt()]), NOW)
    assert decision.outcome is Outcome.HELD
    assert decision.reason == ("claim_recovery_wait" if waits else "own_run_claimed")
    assert decision.last_error is not None
    assert ("recovery" in decision.last_error) is waits


def test_timers_go_on_while_the_run_is_claimed() -> None:
    """W-118: during a claim the timer advances and the newest due fact waits as a free receipt."""
    older = a_receipt(1, "time.due")
    stale = a_receipt(2, "time.due", revision=2)
    manual = a_receipt(3, "wakeup.manual")
    rule = an_interval(NOW - 5 * MINUTE)
    decision = decide(
        a_snapshot(rule, own_run=a_claimed_run(), receipts=[older, stale, manual]), NOW
    )
    assert decision.outcome is Outcome.HELD
    assert due_at(decision) == NOW
    assert decision.due_consumed is False
    assert decision.next_fire_at == NOW + MINUTE
    assert decision.consume == ()
    assert decision.discard == refs(stale, older)


def test_an_alarm_during_a_claim_is_spent_and_its_fact_waits() -> None:
    """W-114: an `at` rule that comes due while its run is claimed fires after it."""
    decision = decide(a_snapshot(an_alarm(NOW), own_run=a_claimed_run()), NOW)
    assert decision.outcome is Outcome.HELD
    assert decision.enabled is False
    assert decision.due is not None
    rule = an_alarm(NOW, enabled=False)
    waiting = a_receipt(
        1, "time.due", event_key=decision.due.event_key, payload=decision.due.payload
    )
    later = decide(a_snapshot(rule, receipts=[waiting]), NOW + HOUR)
    assert later.outcome is Outcome.STARTED
    assert later.consume == refs(waiting)


@pytest.mark.parametrize("context", [{"wakeup_id": str(RULE), "wakeup_revision": 2}, {}])
def test_an_outdated_run_takes_no_facts(context: dict[str, Any]) -> None:
    """W-021: facts added to a queued run of an older revision would be lost at the claim gate."""
    decision = decide(a_snapshot(own_run=a_run(context=context), receipts=[a_receipt()]), NOW)
    assert decision.outcome is Outcome.HELD
    assert decision.consume == ()
    assert decision.refresh is None
    assert decision.start is None
    assert decision.cancel_unstarted is not None
    assert decision.disable is False
    assert decision.enabled


# --- Scope and authority -------------------------------------------------------------------------


def test_a_rule_goes_with_its_issue() -> None:
    """W-080: if the issue is gone the rule is deleted, whatever else holds."""
    rule = a_rule(disabled_at=NOW)
    decision = decide(a_snapshot(rule, issue_exists=False, receipts=[a_receipt()]), NOW)
    assert decision.outcome is Outcome.DELETED
    assert decision.delete_rule
    assert decision.start is None
    assert not decide(a_snapshot(), NOW).delete_rule


REFUSALS = [
    ({"issue_closed": True}, "issue_closed", "closed"),
    ({"may_invoke": False}, "permission_lost", "no longer invoke"),
    ({"agent_archived": True}, "agent_unavailable", "archived"),
    ({"runtime_id": None}, "agent_unavailable", "no runtime"),
]


@pytest.mark.parametrize(("changes", "reason", "words"), REFUSALS)
def test_a_rule_without_right_is_switched_off(
    changes: dict[str, Any], reason: str, words: str
) -> None:
    """W-080: closed issue, lost right, agent gone: rule off, receipts discarded, runs cancelled."""
    receipts = [a_receipt(1), a_receipt(2, revision=2)]
    rule = an_interval(NOW - HOUR, last_error="before")
    decision = decide(a_snapshot(rule, receipts=receipts, own_run=a_run(), **changes), NOW)
    assert decision.outcome is Outcome.SWITCHED_OFF
    assert decision.reason == reason
    assert decision.enabled is False
    assert decision.disable is True
    assert decision.discard == refs(*receipts)
    assert decision.consume == ()
    assert decision.start is None
    assert decision.due is None
    assert decision.next_fire_at == rule.next_fire_at
    for text in (decision.last_error, decision.cancel_unstarted):
        assert text is not None
        assert words in text
        assert len(text) <= LAST_ERROR_CHARS_MAX


@pytest.mark.parametrize(
    ("last_error", "shown"), [(None, "The wakeup is switched off."), ("It broke.", "It broke.")]
)
def test_a_rule_that_is_off_discards(last_error: str | None, shown: str) -> None:
    """W-080: a disabled rule discards what still arrives and keeps the text that says why."""
    rule = a_rule(enabled=False, disabled_at=NOW, last_error=last_error)
    decision = decide(a_snapshot(rule, receipts=[a_receipt()]), NOW)
    assert decision.outcome is Outcome.SWITCHED_OFF
    assert decision.reason == "disabled"
    assert decision.discard == refs(a_receipt())
    assert decision.last_error == shown


@pytest.mark.parametrize("run", [None, a_claimed_run()])
def test_a_resting_rule_is_left_alone(run: OwnRun | None) -> None:
    """W-220: a spent one-shot stays spent, not turned off, when its creator loses the right."""
    rule = a_rule(mode=Mode.ONCE, enabled=False, last_task_id=RUN)
    decision = decide(a_snapshot(rule, may_invoke=False, own_run=run), NOW)
    assert decision.outcome is Outcome.IDLE
    assert decision.reason == "permission_lost"
    assert decision.disable is False
    assert decision.cancel_unstarted is None


# --- One-shots -----------------------------------------------------------------------------------


def test_a_consumed_one_shot_discards() -> None:
    """W-080: facts that come after a one-shot has fired are processed without a run."""
    rule = a_rule(mode=Mode.ONCE, enabled=False, last_task_id=RUN)
    receipts = [a_receipt(1), a_receipt(2, "task.completed")]
    decision = decide(a_snapshot(rule, receipts=receipts, own_run=a_run()), NOW)
    assert decision.outcome is Outcome.DISCARDED
    assert decision.reason == "consumed"
    assert decision.discard == refs(*receipts)


def test_a_consumed_one_shot_is_woken_by_hand() -> None:
    """W-031: a wake-up by hand starts a run of a consumed one-shot; facts beside it do not."""
    rule = a_rule(mode=Mode.ONCE, enabled=False, last_task_id=RUN)
    fact, manual = a_receipt(1), a_receipt(2, "wakeup.manual")
    decision = decide(a_snapshot(rule, receipts=[fact, manual]), NOW)
    assert decision.outcome is Outcome.STARTED
    assert decision.consume == refs(manual)
    assert decision.discard == refs(fact)
    assert decision.enabled is False


def test_a_wake_up_by_hand_of_another_revision_does_not_count() -> None:
    """W-067: a wake-up by hand from before a save is discarded."""
    rule = a_rule(mode=Mode.ONCE, enabled=False, last_task_id=RUN)
    decision = decide(a_snapshot(rule, receipts=[a_receipt(1, "wakeup.manual", revision=2)]), NOW)
    assert decision.outcome is Outcome.DISCARDED


def test_a_wake_up_by_hand_is_a_firing() -> None:
    """W-030: waking by hand starts a run whose fact is `wakeup.manual` with the member as actor."""
    payload = a_payload("wakeup.manual", requested_at=NOW.isoformat())
    decision = decide(a_snapshot(receipts=[a_receipt(1, "wakeup.manual", payload=payload)]), NOW)
    assert decision.start is not None
    assert "wakeup.manual {" in decision.start.handoff_note
    assert decision.activities[0].actor_id == MEMBER


def test_a_spent_timer_rests() -> None:
    """W-114: an `at` rule that has fired is put to rest instead of coming due for ever."""
    rule = an_alarm(NOW - HOUR, last_task_id=RUN)
    decision = decide(a_snapshot(rule), NOW)
    assert decision.outcome is Outcome.ADVANCED
    assert decision.reason == "consumed"
    assert decision.enabled is False
    assert decision.next_fire_at == rule.next_fire_at
    assert decision.due is None
