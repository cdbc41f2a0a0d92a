"""Why a rule could not go on: told in the list, and gone when it goes on (W-253)."""

from __future__ import annotations

from engine import limits
from engine.app import Engine
from engine.domain.commands.tracker import ArchiveAgent, UnarchiveAgent
from engine.domain.commands.wakeups import EnableRule, ListRules
from tests.engine.foreign import Psql
from tests.engine.world import World, register


async def test_the_reason_is_in_the_list_until_it_is_repaired(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-253: an archived target is told when a fact comes; repaired and enabled it is null."""
    rule = await register(engine, world)
    await engine.submit(world.o, ArchiveAgent(agent_id=world.a))
    await psql.comment(world.issue)
    text = await psql.failed(rule.id)
    (listed,) = await engine.read(world.m, ListRules(issue_id=world.issue))
    assert listed.last_error == text
    assert 0 < len(text) <= limits.LAST_ERROR_CHARS_MAX
    assert await psql.runs(rule.id) == []
    await engine.submit(world.o, UnarchiveAgent(agent_id=world.a))
    enable = EnableRule(issue_id=world.issue, rule_id=rule.id, revision=listed.revision)
    await engine.submit(world.m, enable)
    (listed,) = await engine.read(world.m, ListRules(issue_id=world.issue))
    assert listed.last_error is None
    await psql.comment(world.issue)
    await psql.run(rule.id)
    (listed,) = await engine.read(world.m, ListRules(issue_id=world.issue))
    assert listed.last_error is None
