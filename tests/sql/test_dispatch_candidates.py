"""What a dispatch looks for: it costs what its own issues have, however much waits elsewhere."""

from __future__ import annotations

import pytest

from tests.sql.capture_town import AGENT_A, ISSUE_I, MEMBER_M, WORKSPACE, Town

# 500 further issues with one rule each, on which a fact waits.
CROWD = f"""
WITH issues AS (
  INSERT INTO issue (workspace_id, number, title)
  SELECT '{WORKSPACE}', 100 + n, 'crowd' FROM generate_series(1, 500) n RETURNING id
), rules AS (
  INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind, mode,
                            event_types)
  SELECT '{WORKSPACE}', id, '{AGENT_A}', '{MEMBER_M}', 'Look.', 'event', 'continuous',
         '{{comment.created}}'
    FROM issues RETURNING id
)
INSERT INTO issue_wakeup_receipt (wakeup_id, revision, event_key, event_type, coalesce_key, payload)
SELECT id, 1, 'k', 'comment.created', 'comment.created', '{{}}' FROM rules;
"""
LOOK = f"SELECT cardinality(dispatch_candidates(ARRAY['{ISSUE_I}']::uuid[], '{{}}', 33))"
FETCHED = (
    "SELECT coalesce(sum(idx_tup_fetch + seq_tup_read), 0) FROM pg_stat_xact_user_tables"
    " WHERE relname = 'issue_wakeup_receipt'"
)


@pytest.mark.parametrize("plans", ["auto", "force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("statistics", ["", "ANALYZE"], ids=["no statistics", "analyzed"])
def test_a_dispatch_reads_its_own_inputs_alone(town: Town, plans: str, statistics: str) -> None:
    """W-079: of 501 waiting facts a dispatch of one issue reads the one that is its own."""
    town.ask(f"SET plan_cache_mode = {plans}")
    rule = town.listen("comment.created")
    assert town.one(LOOK) == "0"
    town.comment()
    assert len(town.receipts(rule)) == 1
    town.ask(CROWD)
    if statistics:
        town.ask(statistics)
    for _ in range(8):  # a plan is chosen for good after some calls
        before, looked, after = town.ask(f"BEGIN; {FETCHED}; {LOOK}; {FETCHED}; COMMIT")
        assert (looked, int(after) - int(before)) == ("1", 1)
