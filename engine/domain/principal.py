"""Who calls: the identity that authentication derives from a credential, and from nothing else.

Headers and body fields never change it (W-193). The person behind a call is `person_id`; who a
change is attributed to is `actor_type`, `actor_id` and `run_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

import attrs


class Role(StrEnum):
    """What a member is in a workspace."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


class PrincipalKind(StrEnum):
    """Which credential was shown: a person's, a daemon's, or that of a claimed run."""

    MEMBER = "member"
    DAEMON = "daemon"
    RUN = "run"


def _frozen_roles(roles: Mapping[UUID, Role]) -> Mapping[UUID, Role]:
    return MappingProxyType(dict(roles))


@attrs.frozen(kw_only=True)
class Principal:
    """An authenticated caller.

    `roles` are those of the person behind the call, per workspace: all memberships of a member;
    of a run only the originator's role in the run's workspace, and none once that person has left
    it. `workspace_id` is the one workspace of a daemon or run; `daemon_id` is None until a
    daemon has registered. `token_id` is the access token's, None for sign-ins by cookie and runs.
    """

    kind: PrincipalKind
    user_id: UUID | None = None
    workspace_id: UUID | None = None
    roles: Mapping[UUID, Role] = attrs.field(factory=dict, converter=_frozen_roles)
    instance_admin: bool = False
    agent_id: UUID | None = None
    run_id: UUID | None = None
    originator_user_id: UUID | None = None
    token_id: UUID | None = None
    daemon_id: str | None = None

    def __attrs_post_init__(self) -> None:
        is_member = self.kind is PrincipalKind.MEMBER
        is_run = self.kind is PrincipalKind.RUN
        assert is_member == (self.user_id is not None), "only a member is a user by itself"
        assert is_member == (self.workspace_id is None), "a daemon or run has one workspace"
        assert is_run == (self.run_id is not None), "only a run acts from a run"
        assert is_run == (self.agent_id is not None), "only a run acts as an agent"
        assert is_run or self.originator_user_id is None, "only a run has an originator"
        assert is_member or not self.instance_admin, "only people administrate the instance"

    @property
    def workspace_ids(self) -> frozenset[UUID]:
        """The workspaces that the credential opens."""
        if self.workspace_id is not None:
            return frozenset({self.workspace_id})
        return frozenset(self.roles)

    @property
    def person_id(self) -> UUID | None:
        """The human principal: the member, or who stands behind the run (W-192); else None."""
        return self.user_id or self.originator_user_id

    @property
    def actor_type(self) -> str:
        """What a change of this caller is attributed to (W-049): member, agent or system."""
        match self.kind:
            case PrincipalKind.MEMBER:
                return "member"
            case PrincipalKind.RUN:
                return "agent"
            case _:
                return "system"

    @property
    def actor_id(self) -> UUID | None:
        """The id that goes with `actor_type`: the user's, the agent's, or none."""
        return self.user_id or self.agent_id


NOBODY: Final = Principal(kind=PrincipalKind.DAEMON, workspace_id=UUID(int=0))
"""Who calls before any caller is known, to authenticate and at the first start; opens nothing."""
