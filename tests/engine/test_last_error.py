"""Why a rule could not go on: told in the list, and gone when it goes on (W-253)."""

from __future__ import annotations

from functools import partial

from engine import limits
from engine.app import Engine
from engine.domain.commands.tracker import ArchiveAgent, UnarchiveAgent, UpdateAgent
from engine.domain.commands.wakeups import EnableRule, ListRules
from engine.service.dispatch import record_error
from engine.storage.database import Lane
from tests.engine.foreign import Psql, until
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


async def test_a_target_without_a_runtime_is_told(engine: Engine, psql: Psql, world: World) -> None:
    """W-253: the text names what is missing; a runtime given back and a save leave no text."""
    rule = await register(engine, world)
    await psql("UPDATE agent SET runtime_id = NULL WHERE id = $1", world.a)
    await psql.comment(world.issue)
    assert "no runtime" in await psql.failed(rule.id)
    await engine.submit(world.o, UpdateAgent(agent_id=world.a, runtime_id=world.runtime_id))
    enable = EnableRule(issue_id=world.issue, rule_id=rule.id, revision=rule.revision)
    assert (await engine.submit(world.m, enable)).last_error is None
    await psql.comment(world.issue)
    await psql.run(rule.id)
    assert (await psql.row(rule.id))["last_error"] is None


async def test_a_long_text_is_cut_and_the_next_success_clears_it(
    engine: Engine, psql: Psql, world: World
) -> None:
    """W-253, W-076: `last_error` has 500 characters, not bytes, and goes with the next run."""
    rule = await register(engine, world)
    assert limits.LAST_ERROR_CHARS_MAX == 500
    await psql.database.write(
        Lane.BACKGROUND, partial(record_error, rule_id=rule.id, text="é" * 501)
    )
    (listed,) = await engine.read(world.m, ListRules(issue_id=world.issue))
    assert listed.last_error == "é" * 500
    await psql.comment(world.issue)
    await psql.run(rule.id)

    async def is_cleared() -> bool:
        (listed,) = await engine.read(world.m, ListRules(issue_id=world.issue))
        return listed.last_error is None

    await until(is_cleared, "the success takes the text away")
