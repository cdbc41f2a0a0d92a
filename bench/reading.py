"""What people look at: the wakeups of an issue, why one did not fire, all of a workspace.

`wakeful serve` in a process of its own, asked over HTTP by one member, one question at a time; from
the request to the whole answer, the client's share included. First beside 1,000 enabled rules, 25
on each of 40 issues, each with a fact and its run. Then the inventory alone, of a workspace with a
long history: 1,000 enabled and 19,000 disabled rules on 2,000 issues, and 200,000 finished runs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Final

import httpx
import trio

from bench.children import serving
from bench.report import MS, Figure, Row, percentile
from bench.world import Cluster, Kind, Sizes, bench_id

DATABASE: Final = "reading"
TOKEN: Final = "bench-reader"
ISSUES: Final = 40
RULES_EACH: Final = 25
QUESTIONS: Final = 400  # of each kind
WARM_UP: Final = 10
PAGE: Final = 50
PAGE_MS_MAX: Final = 100
SECONDS_MAX: Final = 60

_READER: Final = """
INSERT INTO access_token (kind, name, user_id, token_hash)
SELECT 'member', 'reader', bench_id('8002', 1), sha256('{token}')
"""
_FACTS: Final = """
INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
SELECT i.id, i.workspace_id, i.creator_type, i.creator_id, 'What about the second half?'
  FROM issue i
"""
_RUNS: Final = "SELECT count(*) FROM agent_task_queue"
# The triggers have nothing to say about a history that is written at once.
_HISTORY: Final = """
ALTER TABLE issue_wakeup DISABLE TRIGGER USER;
ALTER TABLE agent_task_queue DISABLE TRIGGER USER;
INSERT INTO issue_wakeup (workspace_id, issue_id, agent_id, created_by, instruction, kind, mode,
                          event_types, enabled, disabled_at)
SELECT i.workspace_id, i.id, a.id, a.owner_id,
       repeat('Read what was said; answer what is asked, and bring the plan up to date. ', 4),
       'event', 'continuous', '{comment.created}', n <= :enabled,
       CASE WHEN n > :enabled THEN now() END
  FROM generate_series(1, :rules) n
  JOIN issue i ON i.id = bench_id('8000', 1 + n % :issues)
  JOIN agent a ON a.id = bench_id('8005', 1 + n % 20);
INSERT INTO agent_task_queue (agent_id, issue_id, status, created_at, started_at, completed_at,
                              context)
SELECT r.agent_id, r.issue_id, 'completed', now() - n * interval '1 day', now(), now(),
       jsonb_build_object('wakeup_id', r.id)
  FROM issue_wakeup r, generate_series(1, :each) n
 ORDER BY r.id, n;
ALTER TABLE issue_wakeup ENABLE TRIGGER USER;
ALTER TABLE agent_task_queue ENABLE TRIGGER USER;
VACUUM ANALYZE
"""

Questions = Mapping[str, Sequence[str]]


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of lists and explanations, and of the inventory of a long history."""
    questions = 20 if quick else QUESTIONS
    rows = []
    with _world(cluster, Sizes(agents=20, issues=ISSUES, last_rule=ISSUES, rules_each=RULES_EACH)):
        for what, seconds in trio.run(_read_rules, cluster, questions).items():
            rows.append(_row(f"{what}, 1,000 rules", seconds, is_page=what == "inventory page"))
    issues, enabled, rules, each = (200, 100, 2_000, 10) if quick else (2_000, 1_000, 20_000, 10)
    with _world(cluster, Sizes(agents=20, issues=issues, last_rule=0)):
        values = {"issues": issues, "enabled": enabled, "rules": rules, "each": each}
        cluster.psql(DATABASE, _HISTORY, **values)
        found = trio.run(_read_history, cluster, rules, questions)
    every = [second for seconds in found.values() for second in seconds]
    rows.append(
        Row(
            what=f"inventory page of {rules:,} rules and {rules * each:,} runs",
            figures=(
                Figure(
                    name="p95", value=percentile(every, 95) * MS, unit=" ms", at_most=PAGE_MS_MAX
                ),
                *(
                    Figure(name=f"{what} p50", value=percentile(seconds, 50) * MS, unit=" ms")
                    for what, seconds in found.items()
                ),
            ),
            proves=("W-206",),
        )
    )
    return rows


def _row(what: str, seconds: Sequence[float], *, is_page: bool) -> Row:
    return Row(
        what=what,
        figures=(
            Figure(name="p50", value=percentile(seconds, 50) * MS, unit=" ms"),
            Figure(
                name="p95",
                value=percentile(seconds, 95) * MS,
                unit=" ms",
                at_most=PAGE_MS_MAX if is_page else None,
            ),
        ),
        proves=("W-206",) if is_page else (),
    )


@contextmanager
def _world(cluster: Cluster, sizes: Sizes) -> Iterator[None]:
    """Have a database with a world and a member's token."""
    cluster.create_world(DATABASE, sizes)
    try:
        cluster.psql(DATABASE, _READER.format(token=TOKEN))
        yield
    finally:
        cluster.drop(DATABASE)


async def _read_rules(cluster: Cluster, questions: int) -> dict[str, list[float]]:
    """Return the seconds of each question about 1,000 rules that each have a run."""
    issues = [f"/api/issues/{bench_id(Kind.ISSUE, n)}/wakeups" for n in range(1, ISSUES + 1)]
    explained = [
        f"{issues[(n - 1) // RULES_EACH]}/{bench_id(Kind.RULE, n)}/explain"
        for n in range(1, ISSUES * RULES_EACH + 1)
    ]

    async def ready() -> None:
        cluster.psql(DATABASE, _FACTS)
        with trio.fail_after(SECONDS_MAX):
            while int(cluster.psql(DATABASE, _RUNS)) < ISSUES * RULES_EACH:  # noqa: ASYNC110 - as paced
                await trio.sleep(0.1)  # paced: psql signals nothing
        cluster.psql(DATABASE, "VACUUM ANALYZE")

    asked = {
        "wakeups of an issue": issues,
        "explain": explained,
        "inventory page": [
            f"/api/issue-wakeups?scope=active&limit={PAGE}&offset={n}" for n in (0, 500)
        ],
    }
    return await _ask(cluster, asked, questions, ready)


async def _read_history(cluster: Cluster, rules: int, questions: int) -> dict[str, list[float]]:
    """Return the seconds of each kind of page beside a long history."""
    page = f"/api/issue-wakeups?limit={PAGE}"
    asked = {
        "active": [f"{page}&scope=active&offset={n}" for n in (0, 50)],
        "all, far behind": [f"{page}&scope=all&offset={rules - 10 * PAGE}"],
        "disabled": [f"{page}&scope=disabled&offset={rules // 2}"],
        "search": [f"{page}&scope=all&search=Issue%201"],
    }

    async def ready() -> None:
        """Nothing has to happen first."""

    return await _ask(cluster, asked, questions, ready)


async def _ask(
    cluster: Cluster, asked: Questions, questions: int, ready: Callable[[], Awaitable[None]]
) -> dict[str, list[float]]:
    """Serve the database, and ask all questions of one kind after the other."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        async with serving(cluster, DATABASE, Path(folder)) as server:
            await ready()
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with httpx.AsyncClient(base_url=server.url, headers=headers) as client:
                for what, paths in asked.items():
                    found[what] = [
                        await _seconds(client, path)
                        for path in islice(cycle(paths), questions + WARM_UP)
                    ][WARM_UP:]
    return found


async def _seconds(client: httpx.AsyncClient, path: str) -> float:
    began = time.perf_counter()
    answer = await client.get(path)
    seconds = time.perf_counter() - began
    assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
    return seconds
