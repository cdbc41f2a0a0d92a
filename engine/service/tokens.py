"""Tokens: made here, shown once, and known afterwards only by their SHA-256.

A lookup by hash compares nothing that an attacker could measure byte by byte. The text of a token
is never logged and never part of an error.
"""

from __future__ import annotations

import hashlib
import secrets
from enum import StrEnum
from typing import Final
from uuid import UUID

import attrs

from engine import limits
from engine.domain import fields
from engine.domain.access import is_administrator
from engine.domain.commands.tracker import CreateToken, ListTokens, RevokeToken
from engine.domain.principal import PrincipalKind
from engine.domain.texts import whole_number
from engine.domain.views import Page
from engine.domain.views.tracker import NewTokenView, TokenView
from engine.errors import not_found
from engine.service import standing
from engine.service.registry import Work, serves
from engine.storage import queries
from engine.storage.database import Session
from engine.storage.paging import fetch_page

_sql: Final = queries.load("tokens")
_RANDOM_BYTES: Final = 32  # 256 bits (api.md, credentials)
_KINDS: Final = (PrincipalKind.MEMBER.value, PrincipalKind.DAEMON.value)


class TokenPrefix(StrEnum):
    """How a token begins: it tells a person the kind, and secret scanners what they found."""

    MEMBER = "wkm_"
    DAEMON = "wkd_"
    RUN = "wkr_"


@attrs.frozen
class Minted:
    """A new token: the text that is shown once, and the hash that is kept."""

    text: str = attrs.field(repr=False)
    hash: bytes


def mint(prefix: TokenPrefix) -> Minted:
    """Return a new random token."""
    text = prefix + secrets.token_urlsafe(_RANDOM_BYTES)
    return Minted(text, token_hash(text))


def token_hash(text: str) -> bytes:
    """Return the SHA-256 of a token as a caller shows it."""
    return hashlib.sha256(text.encode(errors="replace")).digest()


async def insert_member_token(session: Session, user_id: UUID, name: str) -> Minted:
    """Write a member token without end, and return it."""
    minted = mint(TokenPrefix.MEMBER)
    await session.fetchrow(
        _sql.insert, PrincipalKind.MEMBER, name, user_id, None, minted.hash, None
    )
    return minted


async def insert_daemon_token(
    session: Session, user_id: UUID, workspace_id: UUID, name: str
) -> Minted:
    """Write a daemon token of a workspace without end, and return it."""
    minted = mint(TokenPrefix.DAEMON)
    await session.fetchrow(
        _sql.insert, PrincipalKind.DAEMON, name, user_id, workspace_id, minted.hash, None
    )
    return minted


async def revoke_with_membership(session: Session, user_id: UUID, workspace_id: UUID) -> None:
    """End what a person who has just left this workspace may no longer use."""
    await session.execute(_sql.revoke_with_membership, user_id, workspace_id)


@serves(ListTokens)
async def list_tokens(work: Work, query: ListTokens) -> Page[TokenView]:
    """Return the caller's tokens, and the daemon tokens of the workspace that they may end.

    Without a workspace only the caller's own member tokens.
    """
    user_id = standing.require_person(work)
    workspace_id = query.workspace_id
    if workspace_id is not None:
        standing.read_workspace(work, workspace_id)
    rows, total = await fetch_page(
        work.session,
        _sql.list,
        user_id,
        workspace_id,
        workspace_id is not None and is_administrator(work.caller, workspace_id),
        limit=query.limit,
        offset=query.offset,
    )
    items = tuple(
        TokenView(
            id=row["id"],
            name=row["name"],
            kind=row["kind"],
            workspace_id=row["workspace_id"],
            expires_at=row["expires_at"],
            created_at=row["created_at"],
        )
        for row in rows
    )
    return Page(items=items, total=total)


@serves(CreateToken)
async def create_token(work: Work, command: CreateToken) -> NewTokenView:
    """Make a token of the calling person, or a daemon token for the workspace.

    Raises 403 for anybody but a person, 404, and 400 for a field.
    """
    user_id = standing.require_person(work)
    name = fields.line("name", command.name)
    kind = fields.choice("kind", command.kind, _KINDS)
    seconds = command.expires_in_seconds
    if seconds is not None:
        whole_number(
            "expires_in_seconds",
            seconds,
            low=1,
            high=limits.TOKEN_SECONDS_MAX,
            code="invalid_input",
        )
    workspace_id, prefix = None, TokenPrefix.MEMBER
    if kind == PrincipalKind.DAEMON:
        place = await standing.stand_in(work, command.workspace_id)
        workspace_id, prefix = place.workspace_id, TokenPrefix.DAEMON
    minted = mint(prefix)
    row = await work.session.fetchrow(
        _sql.insert, kind, name, user_id, workspace_id, minted.hash, seconds
    )
    assert row is not None, "an insert returns its row"
    return NewTokenView(
        id=row["id"],
        name=name,
        kind=kind,
        workspace_id=workspace_id,
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        token=minted.text,
    )


@serves(RevokeToken)
async def revoke_token(work: Work, command: RevokeToken) -> None:
    """End one of the caller's tokens, or for owners and admins a daemon token of theirs.

    Raises 403 for anybody but a person, 404 for a token that is not theirs to end.
    """
    user_id = standing.require_person(work)
    workspace_id = await work.session.fetchval(_sql.workspace_of, command.token_id)
    administers = False
    if workspace_id is not None:
        administers = (await standing.stand_in(work, workspace_id)).is_administrator
    if not await work.session.execute(
        _sql.revoke, user_id, workspace_id, administers, command.token_id
    ):
        raise not_found("token")
