"""Inputs about comments, reactions, files and the inbox (api.md, The tracker)."""

from __future__ import annotations

from web.schemas.inputs import Flag, Id, Input, Paging


class NewComment(Input):
    """A comment to make, as an answer to `parent_id` if that is given."""

    body: str
    parent_id: Id | None = None


class CommentChange(Input):
    """What a comment says from now on."""

    body: str


class NewReaction(Input):
    """An emoji to react with."""

    emoji: str


class NewLink(Input):
    """A file that lies elsewhere, at an http or https address."""

    filename: str
    url: str


class Upload(Input):
    """A file as a form brings it."""

    filename: str
    content: bytes
    content_type: str | None = None


class Binding(Input):
    """What a file hangs on: an issue or a comment, by id; nothing takes it off."""

    issue_id: Id | None = None
    comment_id: Id | None = None


class InboxFilter(Paging):
    """Which items to list: with `unread` only those."""

    unread: Flag = False
