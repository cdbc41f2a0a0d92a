"""A thousand timers of one instant, and the facts that come while they fire.

1,000 `at` rules on 1,000 issues have the same planned instant, a few seconds ahead, and were
written by psql while the engine sleeps. From that instant on a foreign writer comments on issues of
its own every 30 ms. All times are those of the database's clock: when a row was made, not when
somebody saw it. Each round has a database of its own; figures are medians of the rounds, and the
earliest run of all.
"""

from __future__ import annotations

import json
import statistics
from functools import partial
from typing import Any, Final

import trio

from bench.report import MS, Figure, Row
from bench.world import Cluster, Sizes
from engine.actors.postoffice import until_idle
from engine.app import Engine

DATABASE: Final = "timers"
ROUNDS: Final = 5
FACTS: Final = 10
FACT_SECONDS: Final = 0.03  # between two facts: the last ones come when the timers are through
AHEAD_SECONDS: Final = 3
SECONDS_MAX: Final = 60

# The issues from 1 on are those of the facts, the others have a timer each.
_TIMERS: Final = """
INSERT INTO issue_wakeup (
  workspace_id, issue_id, agent_id, created_by, instruction, kind, mode, next_fire_at)
SELECT i.workspace_id, i.id, bench_id('8005', 1), bench_id('8002', 1), 'Look again.', 'at', 'once',
       due.at
  FROM (SELECT date_trunc('second', wakeful_now()) + make_interval(secs => :ahead) AS at) due,
       generate_series(1, :timers) n JOIN issue i ON i.id = bench_id('8000', :facts + n);
SELECT DISTINCT next_fire_at FROM issue_wakeup WHERE kind = 'at'
"""
_FACTS: Final = """
DO $$
DECLARE
  due timestamptz := (SELECT min(next_fire_at) FROM issue_wakeup WHERE kind = 'at');
BEGIN
  FOR n IN 1 .. {facts} LOOP
    PERFORM pg_sleep(extract(epoch FROM
      due + make_interval(secs => {seconds} * (n - 1)) - clock_timestamp()));
    INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
    SELECT i.id, i.workspace_id, i.creator_type, i.creator_id, 'What about the second half?'
      FROM issue i WHERE i.id = bench_id('8000', n);
    COMMIT;
  END LOOP;
END $$
"""
_LATE: Final = """
SELECT jsonb_build_object(
  'timers', count(*) FILTER (WHERE r.kind = 'at'),
  'facts', count(*) FILTER (WHERE r.kind = 'event'),
  'first', extract(epoch FROM min(q.created_at - r.next_fire_at)),
  'last', extract(epoch FROM max(q.created_at - r.next_fire_at)),
  'fact', extract(epoch FROM max(q.created_at - c.created_at)))
  FROM agent_task_queue q
  JOIN issue_wakeup r ON r.id = q.wakeup_id
  LEFT JOIN comment c ON c.issue_id = q.issue_id
"""


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the row of the timers and of the facts of their moment."""
    timers, rounds = (100, 1) if quick else (1_000, ROUNDS)
    found = [_round(cluster, timers) for _ in range(rounds)]
    last, fact = (statistics.median(each[name] for each in found) for name in ("last", "fact"))
    return [
        Row(
            what=f"{timers:,} timers of one instant",
            figures=(
                Figure(name="last run", value=last * MS, unit=" ms", at_most=300),
                Figure(
                    name="first",
                    value=min(each["first"] for each in found) * MS,
                    unit=" ms",
                    at_least=0,
                ),
                Figure(name="a fact meanwhile", value=fact * MS, unit=" ms", at_most=100),
            ),
            proves=("W-119",),
            remark=f"{rounds} rounds, each with {FACTS} facts; the slowest: "
            f"{max(each['last'] for each in found) * MS:.0f} ms",
        )
    ]


def _round(cluster: Cluster, timers: int) -> dict[str, Any]:
    sizes = Sizes(issues=FACTS + timers, last_rule=FACTS)
    cluster.create_world(DATABASE, sizes)
    try:
        trio.run(_fire, cluster, timers)
        found: dict[str, Any] = json.loads(cluster.psql(DATABASE, _LATE))
    finally:
        cluster.drop(DATABASE)
    assert (found["timers"], found["facts"]) == (timers, FACTS), found
    return found


async def _fire(cluster: Cluster, timers: int) -> None:
    """Run an engine over the instant, and return when every run is queued."""
    async with Engine.open(cluster.settings(DATABASE)) as engine:
        values = {"ahead": AHEAD_SECONDS, "timers": timers, "facts": FACTS}
        await trio.to_thread.run_sync(partial(cluster.psql, DATABASE, _TIMERS, **values))
        script = _FACTS.format(facts=FACTS, seconds=FACT_SECONDS)
        await trio.to_thread.run_sync(cluster.psql, DATABASE, script)
        with trio.fail_after(SECONDS_MAX):
            while engine.dispatcher.statistics.started < timers + FACTS:  # noqa: ASYNC110 - a counter
                await trio.sleep(0.05)  # paced: a counter signals nothing
            await until_idle(engine.ledger)
