"""A sound request for every route about comments, reactions, files and the inbox."""

from __future__ import annotations

from typing import Final

from engine.domain.commands import conversation as ask
from engine.domain.commands.tracker import CreateComment, ListComments
from engine.domain.views import Page
from engine.domain.views import conversation as views
from tests.web.sample import IN_PLACE, ON_ISSUE, PAGE, PART, THING, Sample
from tests.web.stand_in import ISSUE

_EMOJI: Final = "\U0001f44d"
_ESCAPED: Final = "%F0%9F%91%8D"
_COMMENT: Final = {**IN_PLACE, "comment_id": THING}
_FILE: Final = {**IN_PLACE, "attachment_id": THING}

COMMENTS: Final = (
    Sample(
        "GET",
        f"/issues/WF-12/comments{PAGE}",
        {},
        ListComments(**ON_ISSUE, **PART),
        Page[views.CommentView],
    ),
    Sample(
        "POST",
        "/issues/WF-12/comments",
        {"body": "Rain.", "parent_id": str(THING)},
        CreateComment(**ON_ISSUE, body="Rain.", parent_id=THING),
        views.CommentView,
        201,
    ),
    Sample("GET", f"/comments/{THING}", {}, ask.GetComment(**_COMMENT), views.CommentView),
    Sample(
        "PATCH",
        f"/comments/{THING}",
        {"body": "Sun."},
        ask.UpdateComment(**_COMMENT, body="Sun."),
        views.CommentView,
    ),
    Sample("DELETE", f"/comments/{THING}", {}, ask.DeleteComment(**_COMMENT), None, 204),
    Sample(
        "POST",
        f"/comments/{THING}/resolve",
        {},
        ask.ResolveComment(**_COMMENT),
        views.CommentView,
    ),
    Sample(
        "POST",
        f"/comments/{THING}/unresolve",
        {},
        ask.UnresolveComment(**_COMMENT),
        views.CommentView,
    ),
)

REACTIONS: Final = (
    Sample(
        "GET",
        f"/issues/WF-12/reactions{PAGE}",
        {},
        ask.ListIssueReactions(**ON_ISSUE, **PART),
        Page[views.ReactionView],
    ),
    Sample(
        "POST",
        "/issues/WF-12/reactions",
        {"emoji": _EMOJI},
        ask.AddIssueReaction(**ON_ISSUE, emoji=_EMOJI),
        views.AddedReactionView,
        201,
    ),
    Sample(
        "DELETE",
        f"/issues/WF-12/reactions/{_ESCAPED}",
        {},
        ask.RemoveIssueReaction(**ON_ISSUE, emoji=_EMOJI),
        None,
        204,
    ),
    Sample(
        "GET",
        f"/comments/{THING}/reactions{PAGE}",
        {},
        ask.ListCommentReactions(**_COMMENT, **PART),
        Page[views.ReactionView],
    ),
    Sample(
        "POST",
        f"/comments/{THING}/reactions",
        {"emoji": _EMOJI},
        ask.AddCommentReaction(**_COMMENT, emoji=_EMOJI),
        views.AddedReactionView,
        201,
    ),
    Sample(
        "DELETE",
        f"/comments/{THING}/reactions/{_ESCAPED}",
        {},
        ask.RemoveCommentReaction(**_COMMENT, emoji=_EMOJI),
        None,
        204,
    ),
)

ATTACHMENTS: Final = (
    Sample(
        "POST",
        "/attachments",
        {"filename": "plan.pdf", "url": "https://example.com/plan.pdf"},
        ask.CreateAttachment(**IN_PLACE, filename="plan.pdf", url="https://example.com/plan.pdf"),
        views.AttachmentView,
        201,
    ),
    Sample(
        "GET",
        f"/issues/WF-12/attachments{PAGE}",
        {},
        ask.ListAttachments(**ON_ISSUE, **PART),
        Page[views.AttachmentView],
    ),
    Sample("GET", f"/attachments/{THING}", {}, ask.GetAttachment(**_FILE), views.AttachmentView),
    Sample(
        "GET",
        f"/attachments/{THING}/content",
        {},
        ask.ReadAttachment(**_FILE),
        views.FileContent,
        is_file=True,
    ),
    Sample(
        "PUT",
        f"/attachments/{THING}/binding",
        {"issue_id": str(ISSUE), "comment_id": str(THING)},
        ask.BindAttachment(**_FILE, issue_id=ISSUE, comment_id=THING),
        views.AttachmentView,
    ),
    Sample("DELETE", f"/attachments/{THING}", {}, ask.DeleteAttachment(**_FILE), None, 204),
)

INBOX: Final = (
    Sample(
        "GET",
        f"/inbox{PAGE}&unread=true",
        {},
        ask.ListInbox(**IN_PLACE, **PART, unread=True),
        Page[views.InboxItemView],
    ),
    Sample(
        "POST",
        f"/inbox/{THING}/read",
        {},
        ask.ReadInboxItem(**IN_PLACE, item_id=THING),
        views.InboxItemView,
    ),
)

CONVERSATION: Final = (*COMMENTS, *REACTIONS, *ATTACHMENTS, *INBOX)
