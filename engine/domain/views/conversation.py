"""What is answered about what is said on issues; field names are the wire's (api.md)."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import attrs

from engine.domain.records import Json


@attrs.frozen(kw_only=True)
class CommentView:
    """A comment; `thread_id` is the comment that opened its thread.

    A deleted comment keeps its place in lists, with an empty `body` and `deleted_at`.
    """

    id: UUID
    issue_id: UUID
    parent_id: UUID | None
    thread_id: UUID
    author_type: str
    author_id: UUID | None
    body: str
    resolved_at: datetime | None
    resolved_by_type: str | None
    resolved_by_id: UUID | None
    source_task_id: UUID | None
    deleted_at: datetime | None
    created_at: datetime
    updated_at: datetime


@attrs.frozen(kw_only=True)
class ReactionView:
    """One emoji of one actor; `target_type` is issue or comment, `target_id` the id of that."""

    id: UUID
    target_type: str
    target_id: UUID
    emoji: str
    actor_type: str
    actor_id: UUID
    created_at: datetime


@attrs.frozen(kw_only=True)
class AddedReactionView(ReactionView):
    """A reaction asked for; `created` is false where it stood already."""

    created: bool


@attrs.frozen(kw_only=True)
class AttachmentView:
    """A file: `url` is null for one whose content is kept here; bound to at most one thing."""

    id: UUID
    filename: str
    url: str | None
    content_type: str
    size_bytes: int
    issue_id: UUID | None
    comment_id: UUID | None
    uploader_type: str
    uploader_id: UUID
    created_at: datetime


@attrs.frozen(kw_only=True)
class FileContent:
    """What a file holds, and under which name it was uploaded."""

    filename: str = attrs.field(repr=False)
    content: bytes = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class InboxItemView:
    """What asks for a person's attention.

    `type` is mentioned, comment_reply, new_comment or issue_assigned; `title` the issue's title at
    that time; `details` ids, such as `comment_id`. No item holds what a comment says.
    """

    id: UUID
    workspace_id: UUID
    recipient_id: UUID
    type: str
    severity: str
    issue_id: UUID | None
    title: str
    body: str
    actor_type: str
    actor_id: UUID | None
    details: Json
    read_at: datetime | None
    created_at: datetime
