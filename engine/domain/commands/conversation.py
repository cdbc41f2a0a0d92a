"""What callers may ask about what is said on issues: comments, reactions, files, the inbox.

A comment is made and listed by `CreateComment` and `ListComments` of the tracker. Field names are
the wire's (api.md, The tracker).
"""

from __future__ import annotations

from uuid import UUID

import attrs

from engine import limits
from engine.domain.commands import Command, IssueCommand, Query

# --- Comments -----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class GetComment(Query):
    """One comment that was not deleted."""

    comment_id: UUID


@attrs.frozen(kw_only=True)
class UpdateComment(Command):
    """Say it differently; agents and people that the new text is the first to mention are told."""

    comment_id: UUID
    body: str


@attrs.frozen(kw_only=True)
class DeleteComment(Command):
    """Take a comment back: its text goes for good, its place in the thread stays."""

    comment_id: UUID


@attrs.frozen(kw_only=True)
class ResolveComment(Command):
    """Mark a comment as dealt with."""

    comment_id: UUID


@attrs.frozen(kw_only=True)
class UnresolveComment(Command):
    """Take the mark away again."""

    comment_id: UUID


# --- Reactions ----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListIssueReactions(Query):
    """The reactions to an issue and to its comments, oldest first."""

    issue_id: UUID
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class ListCommentReactions(Query):
    """The reactions to one comment, oldest first."""

    comment_id: UUID
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class AddIssueReaction(IssueCommand):
    """React to an issue; one who has reacted with this emoji already has done so."""

    emoji: str


@attrs.frozen(kw_only=True)
class RemoveIssueReaction(IssueCommand):
    """Take one's own reaction to an issue back, if there is one."""

    emoji: str


@attrs.frozen(kw_only=True)
class AddCommentReaction(Command):
    """React to a comment; one who has reacted with this emoji already has done so."""

    comment_id: UUID
    emoji: str


@attrs.frozen(kw_only=True)
class RemoveCommentReaction(Command):
    """Take one's own reaction to a comment back, if there is one."""

    comment_id: UUID
    emoji: str


# --- Attachments --------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListAttachments(Query):
    """The files of an issue and of its comments, oldest first."""

    issue_id: UUID
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class GetAttachment(Query):
    """What is known of one file."""

    attachment_id: UUID


@attrs.frozen(kw_only=True)
class ReadAttachment(Query):
    """What a file holds."""

    attachment_id: UUID


@attrs.frozen(kw_only=True)
class CreateAttachment(Command):
    """A file that hangs on nothing yet: its `content`, or the `url` where it lies."""

    filename: str
    url: str | None = None
    content: bytes | None = attrs.field(default=None, repr=False)
    content_type: str | None = None


@attrs.frozen(kw_only=True)
class BindAttachment(Command):
    """Hang a file on an issue or on a comment, or with neither take it off."""

    attachment_id: UUID
    issue_id: UUID | None = None
    comment_id: UUID | None = None


@attrs.frozen(kw_only=True)
class DeleteAttachment(Command):
    """Remove a file with its content."""

    attachment_id: UUID


# --- Inbox --------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ListInbox(Query):
    """What asks for the caller's attention in a workspace, newest first."""

    unread: bool = False
    limit: int = limits.PAGE_DEFAULT
    offset: int = 0


@attrs.frozen(kw_only=True)
class ReadInboxItem(Command):
    """Mark an item as read."""

    item_id: UUID
