"""The model of rules: leaving, replacing, enabling, editing, disabling, deleting, waking."""

from __future__ import annotations

from datetime import datetime, timedelta

import attrs

from tests.model.wakeup_ground import Ground
from tests.model.wakeup_records import (
    CRON_STEP,
    MANUAL,
    UNFINISHED,
    UNSTARTED,
    Caller,
    Draft,
    Rule,
    cron_before,
)


@attrs.define
class Rules(Ground):
    """What people and agents do to the rules of the issue."""

    def create(self, caller: Caller, number: int, draft: Draft) -> set[int]:
        """W-015 to W-018: it watches from now on."""
        assert caller.person is not None
        if refusals := self._may_save(caller, draft):
            return refusals
        self.numbered += 1
        self.rules[number] = Rule(
            draft=draft,
            creator=caller.person,
            source_run=caller.run,
            due=self._first_due(draft),
        )
        self._snapshot(self.rules[number])
        return set()

    def replace(self, caller: Caller, number: int, draft: Draft) -> set[int]:
        """W-020 to W-022: everything anew, by whoever saves it now."""
        assert caller.person is not None
        rule = self.rules[number]
        if refusals := self._may_manage(caller, rule, invokes=False) | self._may_save(
            caller, draft
        ):
            return refusals
        rule.creator, rule.source_run, rule.draft = caller.person, caller.run, draft
        rule.is_spent = False
        self._restart(number, self._first_due(draft))
        self._snapshot(rule)
        return set()

    def _first_due(self, draft: Draft) -> datetime | None:
        if draft.kind == "event":
            return None
        if draft.kind == "cron":
            return cron_before(self.now) + CRON_STEP
        return self.now + timedelta(seconds=draft.after)

    def _snapshot(self, rule: Rule) -> None:
        """W-017: a watched run that has ended already is one receipt."""
        if rule.draft.filter_run is not None:
            kind = self._of_run(rule.draft.filter_run).type
            is_over = self.runs[rule.draft.filter_run].status not in UNFINISHED
            if is_over and kind in rule.draft.types:
                rule.free[kind] += 1

    def _restart(self, number: int, due: datetime | None) -> None:
        """A new revision that is on: old inputs and unstarted runs go (W-021, W-026)."""
        rule = self.rules[number]
        rule.revision += 1
        rule.enabled, rule.off, rule.has_error, rule.due = True, False, False, due
        rule.discard()
        self.tell(*self._cancel(lambda run: run.rule == number, *UNSTARTED))

    def enable(
        self, caller: Caller, number: int, revision: int, *, rearm: bool, at: int | None
    ) -> set[int]:
        """W-023 to W-026: the stored configuration once more, saved by whoever enables it.

        W-023 does not say whose it then is. As it is authorised like a save it is the caller's, as
        W-022 says of one: in nobody's name an agent runs who did not ask for it, and who may not
        invoke it any more is no hindrance for an admin who may.
        """
        assert caller.person is not None
        rule = self.rules[number]
        draft = rule.draft
        refusals = self._may_manage(caller, rule)
        if revision != rule.revision:
            refusals |= {409}
        if rule.enabled:
            refusals |= {409} if rearm or at is not None else set()
            refusals |= {400} if at is not None and draft.kind != "at" else set()
            return refusals  # it changes nothing, so it asks for no agent that can run
        refusals |= self._may_save(caller, draft)
        is_unfinished = any(r.rule == number and r.status in UNFINISHED for r in self.runs)
        has_passed = draft.kind == "at" and (rule.is_spent or self._is_past(rule))
        if (
            (draft.mode == "once" and rule.is_spent and not rearm)
            or (at is not None and draft.kind != "at")
            or (has_passed and at is None)
        ):
            refusals |= {400}
        if rearm and draft.mode == "once" and is_unfinished:
            refusals |= {409}
        if refusals:
            return refusals
        due = self._first_due(draft) if draft.kind in ("every", "cron") else rule.due
        if at is not None:
            due = self.now + timedelta(seconds=at)
        rule.is_spent = rule.is_spent and draft.mode != "once"
        rule.creator, rule.source_run = caller.person, caller.run  # as by a save
        self._restart(number, due)
        self._snapshot(rule)
        return set()

    def _is_past(self, rule: Rule) -> bool:
        return rule.due is not None and rule.due <= self.now

    def edit(
        self, caller: Caller, number: int, expected: int, revision: int, text: int
    ) -> set[int]:
        """W-028, W-029: nothing but the text, of a rule that may rest for whatever reason."""
        rule = self.rules[number]
        refusals = self._may_manage(caller, rule)
        if expected != rule.text or revision != rule.revision:
            refusals |= {409}
        if not refusals:
            rule.text = text
        return refusals

    def disable(self, caller: Caller, number: int) -> set[int]:
        """W-027: off, inputs discarded, unstarted runs cancelled; again it changes nothing."""
        rule = self.rules[number]
        if refusals := self._may_manage(caller, rule, invokes=False):
            return refusals
        if not rule.off:
            self._switch_off(number)
        return set()

    def _switch_off(self, number: int) -> None:
        rule = self.rules[number]
        rule.enabled, rule.off = False, True
        rule.discard()
        self.tell(*self._cancel(lambda run: run.rule == number, *UNSTARTED))

    def delete(self, caller: Caller, number: int) -> set[int]:
        """W-032: the row and its inputs go, unstarted runs are cancelled."""
        if refusals := self._may_manage(caller, self.rules[number], invokes=False):
            return refusals
        del self.rules[number]
        self.tell(*self._cancel(lambda run: run.rule == number, *UNSTARTED))
        return set()

    def trigger(self, caller: Caller, number: int) -> set[int]:
        """W-030, W-031: one input by hand, also of a consumed one-shot.

        Success promises a run, which an archived agent cannot have: 400, as W-012 says of a target.
        """
        rule = self.rules[number]
        refusals = self._may_manage(caller, rule)
        if self.is_closed or rule.off or self.agents[rule.draft.agent].is_archived:
            refusals |= {400}
        if not refusals:
            rule.free[MANUAL] += 1
        return refusals
