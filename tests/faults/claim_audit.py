"""Every move of every run, written down by a trigger of the test's own, and what it tells.

The rows of runs only tell their last claim; the audit tells all of them, in the order in which they
were made, and so whether an agent ever had two runs of one issue at once.
"""

from __future__ import annotations

from typing import Any, Final

from engine.storage.database import Dedicated, Query, with_connection
from tests.faults.accounting import ask

_AUDIT: Final = """
CREATE TABLE claim_audit (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id uuid NOT NULL,
  agent_id uuid NOT NULL,
  issue_id uuid,
  before text NOT NULL,
  after text NOT NULL,
  reason text,
  is_new_claim boolean NOT NULL
);
CREATE FUNCTION claim_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO claim_audit (run_id, agent_id, issue_id, before, after, reason, is_new_claim)
  VALUES (NEW.id, NEW.agent_id, NEW.issue_id, OLD.status, NEW.status, NEW.failure_reason,
          NEW.dispatched_at IS DISTINCT FROM OLD.dispatched_at AND NEW.status = 'dispatched');
  RETURN NULL;
END $$;
CREATE TRIGGER claim_audit AFTER UPDATE ON agent_task_queue FOR EACH ROW
  WHEN (OLD.status <> NEW.status OR OLD.dispatched_at IS DISTINCT FROM NEW.dispatched_at)
  EXECUTE FUNCTION claim_audit();
"""

# Of an agent on an issue, how many runs were claimed and not ended after each move.
_OVERLAPS: Final = Query(
    "claim_audit.overlaps",
    """
    SELECT * FROM (
      SELECT a.seq, a.run_id, a.agent_id, a.issue_id,
             sum((a.after IN ('dispatched', 'waiting_local_directory', 'running'))::int
                 - (a.before IN ('dispatched', 'waiting_local_directory', 'running'))::int)
               OVER (PARTITION BY a.agent_id, a.issue_id ORDER BY a.seq) AS at_once
        FROM claim_audit a) each
     WHERE at_once NOT IN (0, 1)
    """,
)

_LOST: Final = Query(
    "claim_audit.lost",
    """
    SELECT count(*) FILTER (WHERE is_new_claim) AS claims,
           count(*) FILTER (WHERE before = 'dispatched' AND after = 'queued') AS given_back,
           count(*) FILTER (WHERE before = 'dispatched' AND is_new_claim) AS redelivered,
           count(*) FILTER (WHERE after = 'failed' AND reason = 'runtime_recovery') AS recovered,
           count(*) FILTER (WHERE after = 'completed') AS completed,
           count(*) FILTER (WHERE after = 'failed') AS failed
      FROM claim_audit
    """,
)

_STARTED: Final = Query(
    "claim_audit.started",
    "SELECT id::text, status FROM agent_task_queue WHERE started_at IS NOT NULL",
)


async def begin(dsn: str) -> None:
    """Write down every move from now on."""

    async def create(session: Dedicated) -> None:
        await session.script(_AUDIT)

    await with_connection(dsn, create)


async def overlaps(dsn: str) -> list[dict[str, Any]]:
    """Return the moves after which an agent had two runs of one issue at once (W-101)."""
    return await ask(dsn, _OVERLAPS)


async def lost(dsn: str) -> dict[str, int]:
    """Return how many claims were made, and how many of them came to nothing, by what followed."""
    (row,) = await ask(dsn, _LOST)
    return row


async def started(dsn: str) -> dict[str, str]:
    """Return the status of every run that a daemon has ever started."""
    return {row["id"]: row["status"] for row in await ask(dsn, _STARTED)}
