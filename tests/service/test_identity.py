from __future__ import annotations

import secrets
from uuid import UUID

import attrs
import pytest
import trio

from engine.actors.executor import Executor as Engine
from engine.domain.commands import Query
from engine.domain.commands.tracker import (
    AddMember,
    Authenticate,
    Bootstrap,
    CreateIssue,
    CreateToken,
    DeleteWorkspace,
    GetIssue,
    ListComments,
    ListIssues,
    ListMembers,
    ListTimeline,
    ListTokens,
    ListWorkspaces,
    Me,
    RemoveMember,
)
from engine.domain.principal import NOBODY, PrincipalKind, Role
from engine.metrics import Metrics
from engine.service.registry import Work, serves
from engine.service.tokens import TokenPrefix, mint, token_hash
from engine.storage.database import Database
from engine.storage.queries import Query as Statement
from tests.service.conftest import Executor, RunOf, Sql, World


async def test_a_member_token_is_its_person_with_all_roles(world: World) -> None:
    """A member token opens every workspace of its person, each with the role of now."""
    assert world.o.kind is PrincipalKind.MEMBER
    assert world.o.roles[world.workspace_id] is Role.OWNER
    assert len(world.o.roles) == 2
    assert world.o.instance_admin
    assert world.m.roles == {world.workspace_id: Role.MEMBER}
    assert not world.m.instance_admin


async def test_a_daemon_token_names_its_workspace_and_daemon(world: World) -> None:
    """A daemon token has one workspace, the daemon that registered with it, and no person."""
    assert world.daemon.kind is PrincipalKind.DAEMON
    assert world.daemon.workspace_id == world.workspace_id
    assert world.daemon.daemon_id == "daemon-1"
    assert world.daemon.person_id is None


async def test_a_run_token_acts_as_its_agent_for_its_originator(
    world: World, run_of: RunOf
) -> None:
    """W-192: a run token names run, agent and workspace, and the person whose authority it has."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    assert run.kind is PrincipalKind.RUN
    assert (run.actor_type, run.actor_id) == ("agent", world.a)
    assert run.run_id is not None
    assert run.person_id == world.m.user_id
    assert run.roles == {world.workspace_id: Role.MEMBER}


async def test_a_run_loses_the_role_of_an_originator_who_left(
    execute: Executor, sql: Sql, world: World, run_of: RunOf
) -> None:
    """W-196: a run whose person is no member any more has no role left, but still its agent."""
    assert world.n.user_id is not None
    await sql("DELETE FROM member WHERE user_id = $1", world.n.user_id)
    run = await run_of(world.a, world.issue, world.n.user_id)
    assert run.roles == {}
    assert (await execute(run, GetIssue(issue_id=world.issue))).title == "I"


@pytest.mark.parametrize("status", ["dispatched", "waiting_local_directory", "running"])
async def test_a_run_token_is_good_while_its_claim_lives(
    world: World, run_of: RunOf, status: str
) -> None:
    """A run token works from the claim until the run ends."""
    assert (await run_of(world.a, world.issue, None, status)).agent_id == world.a


@pytest.mark.parametrize(
    "ending",
    [
        "UPDATE agent_task_queue SET status = 'completed'",
        "UPDATE agent_task_queue SET status = 'queued', dispatched_at = NULL",
        "UPDATE agent_task_queue SET dispatched_at = dispatched_at + interval '1 second'",
        "UPDATE task_token SET expires_at = wakeful_now()",
    ],
    ids=["ended", "handed back", "claimed anew", "expired"],
)
async def test_a_run_token_ends_with_its_claim(
    execute: Executor, sql: Sql, world: World, ending: str
) -> None:
    """W-192: a run token is refused once the run ended, was claimed anew, or 24 hours are over."""
    minted = mint(TokenPrefix.RUN)
    await sql(
        "WITH run AS (INSERT INTO agent_task_queue (agent_id, issue_id, status, dispatched_at)"
        "   VALUES ($1, $2, 'running', wakeful_now()) RETURNING *)"
        " INSERT INTO task_token (token_hash, task_id, agent_id, workspace_id, dispatched_at,"
        "   expires_at)"
        " SELECT $3, id, agent_id, $4, dispatched_at, wakeful_now() + interval '1 day' FROM run",
        world.a,
        world.issue,
        minted.hash,
        world.workspace_id,
    )
    assert (await execute.authenticate(minted.text)).agent_id == world.a
    await sql(ending)
    assert await execute.refused(NOBODY, Authenticate(token_hash=minted.hash)) == (
        "not_authenticated"
    )


async def test_an_unknown_or_expired_token_is_refused(
    execute: Executor, sql: Sql, world: World
) -> None:
    """A token that nobody issued, or whose time is over, is nobody's."""
    unknown = Authenticate(token_hash=token_hash("wkm_" + secrets.token_urlsafe(32)))
    assert await execute.refused(NOBODY, unknown) == "not_authenticated"
    await sql("UPDATE access_token SET expires_at = wakeful_now()")
    known = Authenticate(token_hash=token_hash(world.tokens["m"]))
    assert await execute.refused(NOBODY, known) == "not_authenticated"


async def test_only_hashes_are_stored(sql: Sql, world: World) -> None:
    """The database holds the SHA-256 of tokens and nothing that opens a door."""
    rows = await sql("SELECT t::text AS text, octet_length(token_hash) AS size FROM access_token t")
    assert {row["size"] for row in rows} == {32}
    for token in (*world.tokens.values(), world.daemon_token):
        assert not any(token in row["text"] for row in rows)


async def test_tokens_tell_their_kind_and_carry_256_bits() -> None:
    """A token begins with its kind and has 256 random bits; two are never the same."""
    minted = [mint(prefix) for prefix in TokenPrefix]
    assert [each.text[:4] for each in minted] == ["wkm_", "wkd_", "wkr_"]
    assert all(len(each.text) == 4 + 43 for each in minted)
    assert len({each.hash for each in (*minted, mint(TokenPrefix.RUN))}) == 4
    assert minted[0].text not in repr(minted[0])


async def test_me_tells_a_person_their_workspaces(execute: Executor, world: World) -> None:
    """A person learns who they are, and the role that each workspace gives them."""
    me = await execute(world.o, Me())
    assert me.kind is PrincipalKind.MEMBER
    assert me.member.email == "owner@localhost"
    assert [(each.slug, each.role) for each in me.workspaces] == [
        ("elsewhere", Role.OWNER),
        ("main", Role.OWNER),
    ]
    assert me.instance_admin
    assert me.agent is None
    assert me.run is None


async def test_me_tells_a_run_and_a_daemon_what_they_are(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """A run learns its agent and issue, a daemon its workspace; neither is a member."""
    run = await run_of(world.a, world.issue, world.m.user_id)
    me = await execute(run, Me())
    assert (me.kind, me.member, me.agent.name) == (PrincipalKind.RUN, None, "A")
    assert (me.run.id, me.run.issue_id, me.run.status) == (run.run_id, world.issue, "running")
    assert [each.role for each in me.workspaces] == [Role.MEMBER]
    me = await execute(world.daemon, Me())
    assert (me.kind, me.member, me.run) == (PrincipalKind.DAEMON, None, None)
    assert [(each.slug, each.role) for each in me.workspaces] == [("main", None)]


async def test_a_daemon_may_do_nothing_in_the_tracker(execute: Executor, world: World) -> None:
    """A daemon token opens the daemon's routes only: 403 for everything else, its own data too."""
    workspace = world.workspace_id
    for command in (
        ListWorkspaces(),
        ListMembers(workspace_id=workspace),
        ListTokens(workspace_id=workspace),
        ListIssues(workspace_id=workspace),
        GetIssue(issue_id=world.issue),
        ListComments(issue_id=world.issue),
        ListTimeline(issue_id=world.issue),
        CreateIssue(workspace_id=workspace, title="No"),
        CreateToken(workspace_id=workspace, name="No", kind="daemon"),
    ):
        assert await execute.refused(world.daemon, command) == "not_allowed", command


async def test_a_run_does_not_administrate(execute: Executor, world: World, run_of: RunOf) -> None:
    """An agent works for its person, and gets none of the person's keys."""
    run = await run_of(world.a, world.issue, world.o.user_id)
    workspace = world.workspace_id
    for command in (
        AddMember(workspace_id=workspace, email="x@example.com", name="X", role="member"),
        CreateToken(name="X", kind="member"),
        ListTokens(workspace_id=workspace),
        DeleteWorkspace(workspace_id=workspace),
    ):
        assert await execute.refused(run, command) == "not_allowed", command


async def test_a_role_is_read_again_in_the_transaction(
    execute: Executor, sql: Sql, world: World
) -> None:
    """W-196: what the principal brings along does not count for a change; the row of now does."""
    promoted = attrs.evolve(world.m, roles={world.workspace_id: Role.OWNER})
    command = AddMember(
        workspace_id=world.workspace_id, email="x@example.com", name="X", role="member"
    )
    assert await execute.refused(promoted, command) == "not_allowed"
    await sql("DELETE FROM member WHERE user_id = $1", world.m.user_id)
    late = CreateIssue(workspace_id=world.workspace_id, title="Late")
    assert await execute.refused(world.m, late) == "not_found"


async def test_a_workspace_that_is_not_named_is_the_only_one(
    execute: Executor, world: World
) -> None:
    """The workspace can be left out where the credential belongs to exactly one."""
    assert (await execute(world.m, ListIssues())).total == 2
    assert await execute.refused(world.o, ListIssues()) == "missing_field"
    assert await execute.refused(world.s, ListIssues(workspace_id=world.workspace_id)) == (
        "not_found"
    )


async def test_the_first_start_happens_once(execute: Executor, sql: Sql, world: World) -> None:
    """The first start makes workspace, owner and tokens; later starts change nothing."""
    assert await execute(NOBODY, Bootstrap()) is None
    rows = await sql("SELECT slug, issue_prefix FROM workspace WHERE slug = 'main'")
    assert [(row["slug"], row["issue_prefix"]) for row in rows] == [("main", "WF")]
    tokens = await execute(world.o, ListTokens(workspace_id=world.workspace_id))
    assert {token.kind for token in tokens.items} == {"member", "daemon"}


async def test_engines_that_start_together_make_one_workspace(execute: Executor, sql: Sql) -> None:
    """Of first starts at the same time one makes the workspace, the others find it."""
    answers = []

    async def start() -> None:
        answers.append(await Executor(execute.database)(NOBODY, Bootstrap()))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(start)
    assert [answer is None for answer in answers].count(False) == 1
    assert len(await sql("SELECT FROM workspace")) == 1


async def test_a_person_who_left_is_nobody(execute: Executor, world: World) -> None:
    """W-191: removing a member ends their token with the last workspace that it opened."""
    members = await execute(world.o, ListMembers(workspace_id=world.workspace_id))
    member_id: UUID = next(each.id for each in members.items if each.user_id == world.n.user_id)
    await execute(world.g, RemoveMember(workspace_id=world.workspace_id, member_id=member_id))
    token = Authenticate(token_hash=token_hash(world.tokens["n"]))
    assert await execute.refused(NOBODY, token) == "not_authenticated"


async def test_a_token_costs_one_statement(database: Database, sql: Sql, world: World) -> None:
    """Who calls is asked with every request: one statement, and no transaction around it.

    A lane's session shows its last statement; of a question with more than one it is ROLLBACK.
    """
    executor = Engine(database, lambda _opened, _work: None, Metrics())
    last = "SELECT query FROM pg_stat_activity WHERE application_name LIKE '%api%' AND query <> ''"

    async def seen() -> str:
        rows = await sql(last)
        return " ".join(row["query"] for row in rows)

    await executor.read(NOBODY, Authenticate(token_hash=token_hash(world.tokens["m"])))
    assert "ROLLBACK" not in await seen()
    assert "token_hash" in await seen()
    await executor.read(world.m, GetIssue(issue_id=world.issue))
    assert "ROLLBACK" in await seen()


async def test_a_single_question_asks_once(database: Database) -> None:
    """A use case that says it is a single statement, and is not, is a defect that shows at once."""

    class Twice(Query):
        """Not what it says."""

    @serves(Twice, is_single=True)
    async def twice(work: Work, _: Twice) -> None:
        for _n in range(2):
            await work.session.fetchval(Statement("test.one", "SELECT 1"))

    with pytest.raises(AssertionError):
        await Engine(database, lambda _opened, _work: None, Metrics()).read(NOBODY, Twice())
