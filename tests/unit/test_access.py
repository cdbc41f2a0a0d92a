from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

from engine.domain.access import (
    AgentAccess,
    SourceReferences,
    Visibility,
    is_administrator,
    may_invoke,
    may_manage,
    may_read,
    may_see_agent,
    redact,
    references_of,
    visible_agents,
)
from engine.domain.principal import Principal, PrincipalKind, Role
from engine.domain.records import Kind, Mode, Rule

HERE, ELSEWHERE = UUID(int=1), UUID(int=2)
OWNER, ADMIN, M, N, STRANGER = (UUID(int=n) for n in range(10, 15))
RUN, OTHER_RUN = UUID(int=30), UUID(int=31)

SHARED = AgentAccess(
    id=UUID(int=20), workspace_id=HERE, visibility=Visibility.WORKSPACE, owner_id=OWNER
)
PRIVATE = AgentAccess(
    id=UUID(int=21),
    workspace_id=HERE,
    visibility=Visibility.PRIVATE,
    owner_id=OWNER,
    invokers=frozenset({M, STRANGER}),
)


def member(user_id: UUID, role: Role | None, workspace_id: UUID = HERE) -> Principal:
    roles = {} if role is None else {workspace_id: role}
    return Principal(kind=PrincipalKind.MEMBER, user_id=user_id, roles=roles)


def run(
    person: UUID | None, role: Role | None = Role.MEMBER, agent: AgentAccess = SHARED
) -> Principal:
    return Principal(
        kind=PrincipalKind.RUN,
        workspace_id=HERE,
        agent_id=agent.id,
        run_id=RUN,
        originator_user_id=person,
        roles={} if role is None else {HERE: role},
    )


DAEMON = Principal(kind=PrincipalKind.DAEMON, workspace_id=HERE, token_id=UUID(int=40))
PEOPLE = {
    "O": member(OWNER, Role.OWNER),
    "G": member(ADMIN, Role.ADMIN),
    "M": member(M, Role.MEMBER),
    "N": member(N, Role.MEMBER),
    "stranger": member(STRANGER, Role.OWNER, ELSEWHERE),
    "run of M": run(M),
    "run of N": run(N),
    "run of nobody": run(None, None),
    "run of one who left": run(STRANGER, None),
    "daemon": DAEMON,
}


@pytest.mark.parametrize(
    ("who", "reads", "manages", "invokes_shared", "invokes_private", "sees_private"),
    [
        ("O", True, True, True, True, True),
        ("G", True, True, True, False, False),
        ("M", True, True, True, True, True),
        ("N", True, False, True, False, False),
        ("stranger", False, False, False, False, False),
        ("run of M", True, True, True, True, True),
        ("run of N", True, False, True, False, False),
        ("run of nobody", True, False, False, False, False),
        ("run of one who left", True, False, False, False, False),
        ("daemon", False, False, False, False, False),
    ],
)
def test_the_matrix(
    who: str,
    reads: bool,
    manages: bool,
    invokes_shared: bool,
    invokes_private: bool,
    sees_private: bool,
) -> None:
    """W-012, W-191: membership reads, creator or administrator manages, admission invokes."""
    caller = PEOPLE[who]
    assert may_read(caller, HERE) is reads
    assert may_manage(caller, HERE, created_by=M) is manages
    assert may_invoke(caller, SHARED) is invokes_shared
    assert may_invoke(caller, PRIVATE) is invokes_private
    assert may_see_agent(caller, PRIVATE) is sees_private
    assert may_see_agent(caller, SHARED) is reads


def test_administrators() -> None:
    """W-191: owners and admins of this very workspace administrate it."""
    assert is_administrator(PEOPLE["O"], HERE)
    assert is_administrator(PEOPLE["G"], HERE)
    assert not is_administrator(PEOPLE["M"], HERE)
    assert not is_administrator(PEOPLE["stranger"], HERE)
    assert not is_administrator(DAEMON, HERE)


def test_a_creator_who_left_manages_nothing() -> None:
    """W-196: authority is what holds now, not what held when the rule was made."""
    assert not may_manage(member(M, None), HERE, created_by=M)
    assert not may_manage(run(M, None), HERE, created_by=M)


def test_instance_administration_opens_no_workspace() -> None:
    """W-191: every route requires membership of the workspace."""
    caller = Principal(kind=PrincipalKind.MEMBER, user_id=STRANGER, instance_admin=True)
    assert not may_read(caller, HERE)
    assert not may_manage(caller, HERE, created_by=STRANGER)


def test_a_run_sees_its_own_agent() -> None:
    """W-194: a private agent is visible to its own runs, whoever stands behind them."""
    assert may_see_agent(run(None, None, PRIVATE), PRIVATE)
    assert not may_see_agent(run(None, None, SHARED), PRIVATE)


def test_visible_agents() -> None:
    """W-194: the visible set holds what the caller may see, and nothing else."""
    assert visible_agents(PEOPLE["N"], [SHARED, PRIVATE]) == {SHARED.id}
    assert visible_agents(PEOPLE["O"], [SHARED, PRIVATE]) == {SHARED.id, PRIVATE.id}
    assert visible_agents(DAEMON, [SHARED, PRIVATE]) == frozenset()


def test_identity_of_each_kind() -> None:
    """W-049, W-192: who is responsible, and what changes are attributed to."""
    caller = PEOPLE["M"]
    assert (caller.person_id, caller.actor_type, caller.actor_id) == (M, "member", M)
    caller = PEOPLE["run of M"]
    assert (caller.person_id, caller.actor_type, caller.actor_id) == (M, "agent", SHARED.id)
    assert PEOPLE["run of nobody"].person_id is None
    assert (DAEMON.person_id, DAEMON.actor_type, DAEMON.actor_id) == (None, "system", None)


def test_workspaces_of_each_kind() -> None:
    """W-192: a member opens all memberships, a run or daemon its one workspace."""
    assert PEOPLE["stranger"].workspace_ids == {ELSEWHERE}
    assert PEOPLE["run of nobody"].workspace_ids == {HERE}
    assert DAEMON.workspace_ids == {HERE}


def test_roles_cannot_be_changed_behind_a_principal() -> None:
    """W-196: a principal keeps a copy of the roles that were read for it."""
    roles = {HERE: Role.MEMBER}
    caller = Principal(kind=PrincipalKind.MEMBER, user_id=M, roles=roles)
    roles[HERE] = Role.OWNER
    assert not is_administrator(caller, HERE)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": PrincipalKind.MEMBER},
        {"kind": PrincipalKind.MEMBER, "user_id": M, "workspace_id": HERE},
        {"kind": PrincipalKind.MEMBER, "user_id": M, "run_id": RUN},
        {"kind": PrincipalKind.MEMBER, "user_id": M, "agent_id": SHARED.id},
        {"kind": PrincipalKind.MEMBER, "user_id": M, "originator_user_id": M},
        {"kind": PrincipalKind.DAEMON},
        {"kind": PrincipalKind.DAEMON, "workspace_id": HERE, "user_id": M},
        {"kind": PrincipalKind.DAEMON, "workspace_id": HERE, "instance_admin": True},
        {"kind": PrincipalKind.RUN, "workspace_id": HERE, "agent_id": SHARED.id},
        {"kind": PrincipalKind.RUN, "workspace_id": HERE, "run_id": RUN},
    ],
)
def test_mixed_identities_cannot_be_made(fields: dict[str, Any]) -> None:
    """W-193: no principal is a person and a run at once, or either without its ids."""
    with pytest.raises(AssertionError):
        Principal(**fields)


REFERENCES = SourceReferences(
    filter_agent_id=PRIVATE.id,
    filter_agent_name="P",
    filter_task_id=OTHER_RUN,
    filter_task_agent_id=PRIVATE.id,
    filter_actor_type="agent",
    filter_actor_id=PRIVATE.id,
    filter_actor_name="P",
    source_task_id=RUN,
    source_agent_id=PRIVATE.id,
    source_agent_name="P",
)


def test_references_of_hidden_agents_are_nulled() -> None:
    """W-194: ids and names of an agent that the caller may not see are gone; its kind stays."""
    hidden = redact(REFERENCES, frozenset({SHARED.id}))
    assert hidden == SourceReferences(filter_actor_type="agent")


def test_references_of_visible_agents_stay() -> None:
    """W-194: whoever may see the agent sees the references."""
    assert redact(REFERENCES, frozenset({PRIVATE.id})) == REFERENCES


def test_members_are_never_redacted() -> None:
    """W-194: only agent-type actors are hidden; a filtered member stays."""
    references = SourceReferences(
        filter_actor_type="member", filter_actor_id=M, filter_actor_name="Mia"
    )
    assert redact(references, frozenset()) == references
    assert redact(SourceReferences(), frozenset()) == SourceReferences()


def test_runs_of_unknown_agents_are_hidden() -> None:
    """W-194: a run whose agent was not read does not slip through."""
    references = SourceReferences(filter_task_id=OTHER_RUN, source_task_id=RUN)
    assert redact(references, frozenset({SHARED.id})) == SourceReferences()


def test_references_of_a_rule() -> None:
    """W-194: the references of a stored rule are collected with what was read beside it."""
    rule = Rule(
        id=UUID(int=50),
        workspace_id=HERE,
        issue_id=UUID(int=51),
        agent_id=SHARED.id,
        created_by=M,
        source_task_id=RUN,
        parent_comment_id=None,
        instruction="look",
        kind=Kind.EVENT,
        mode=Mode.ONCE,
        event_types=("task.completed",),
        filter_agent_id=PRIVATE.id,
        filter_task_id=OTHER_RUN,
        filter_actor_type="agent",
        filter_actor_id=PRIVATE.id,
        interval_seconds=None,
        cron_expression=None,
        timezone="UTC",
        next_fire_at=None,
        enabled=True,
        disabled_at=None,
        revision=1,
        last_task_id=None,
        last_error=None,
        created_at=attrs.NOTHING,  # type: ignore[arg-type] # never looked at here
        updated_at=attrs.NOTHING,  # type: ignore[arg-type] # never looked at here
    )
    collected = references_of(
        rule,
        filter_agent_name="P",
        filter_task_agent_id=PRIVATE.id,
        filter_actor_name="P",
        source_agent_id=PRIVATE.id,
        source_agent_name="P",
    )
    assert collected == REFERENCES
