"""What is left of something that is gone: rows of any table that name a row which is not there.

The tables are those that the database has, so that a new one cannot be forgotten: every table with
a column that names an issue, a workspace, a rule, a run, an agent or a runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.engine.foreign import Psql

OWNERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "issue_id": "issue",
        "workspace_id": "workspace",
        "wakeup_id": "issue_wakeup",
        "task_id": "agent_task_queue",
        "agent_id": "agent",
        "runtime_id": "agent_runtime",
    }
)
# A run outlives its issue and its rule: it is history, until its workspace goes.
HISTORY: Final = frozenset({"agent_task_queue.issue_id", "agent_task_queue.wakeup_id"})
_COLUMNS: Final = (
    "SELECT t.table_name AS name, c.column_name AS column FROM information_schema.tables t"
    " JOIN information_schema.columns c USING (table_schema, table_name)"
    " WHERE t.table_schema = 'public' AND t.table_type = 'BASE TABLE'"
    "   AND c.column_name = ANY ($1) ORDER BY 1, 2"
)


async def columns(psql: Psql, *, without: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    """Return every table with a column that names an owner, as pairs, apart from these."""
    found = await psql(_COLUMNS, sorted(OWNERS))
    pairs = [(row["name"], row["column"]) for row in found]
    return [pair for pair in pairs if ".".join(pair) not in without]


async def orphans(psql: Psql, pairs: list[tuple[str, str]]) -> dict[str, int]:
    """Return how many rows of each of these columns name something that is not there.

    One statement, so that it is true of one instant, also while others write.
    """
    text = " UNION ALL ".join(
        f"SELECT '{table}.{column}' AS place, count(*) AS rows FROM {table} x"
        f" WHERE x.{column} IS NOT NULL"
        f"   AND NOT EXISTS (SELECT FROM {OWNERS[column]} o WHERE o.id = x.{column})"
        for table, column in pairs
    )
    return {row["place"]: row["rows"] for row in await psql(text) if row["rows"]}
