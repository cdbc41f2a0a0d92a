from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pytest

from engine import limits
from engine.domain.commands.conversation import (
    BindAttachment,
    CreateAttachment,
    DeleteAttachment,
    DeleteComment,
    GetAttachment,
    ListAttachments,
    ReadAttachment,
)
from engine.domain.commands.tracker import CreateIssue, ListTimeline
from engine.domain.principal import Principal
from engine.domain.views.conversation import AttachmentView
from engine.storage import queries
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.test_comments import say
from tests.service.test_inventory_plans import nodes

upload = partial(CreateAttachment, filename="plan.txt", content=b"\x00plan", content_type="a/b")


async def uploaded(execute: Executor, caller: Principal, **fields: Any) -> AttachmentView:
    view = await execute(caller, upload(**fields))
    assert isinstance(view, AttachmentView)
    return view


async def test_a_file_is_kept_as_it_is(execute: Executor, world: World, run_of: RunOf) -> None:
    """An upload has its uploader, size and bytes, and hangs on nothing; an empty file is one."""
    file = await uploaded(execute, world.m)
    assert (file.filename, file.content_type, file.size_bytes) == ("plan.txt", "a/b", 5)
    assert (file.url, file.issue_id, file.comment_id) == (None, None, None)
    assert (file.uploader_type, file.uploader_id) == ("member", world.m.user_id)
    assert await execute(world.m, GetAttachment(attachment_id=file.id)) == file
    held = await execute(world.m, ReadAttachment(attachment_id=file.id))
    assert (held.filename, held.content) == ("plan.txt", b"\x00plan")
    run = await run_of(world.a, world.issue, world.m.user_id)
    empty = await uploaded(execute, run, content=b"")
    assert (empty.size_bytes, empty.uploader_type, empty.uploader_id) == (0, "agent", world.a)
    assert (await execute(run, ReadAttachment(attachment_id=empty.id))).content == b""


async def test_a_link_has_an_address_and_no_content(execute: Executor, world: World) -> None:
    """A file that lies elsewhere keeps its address; there is nothing to download here."""
    command = CreateAttachment(filename="plan.pdf", url="https://example.com/plan.pdf")
    link = await execute(world.m, command)
    assert (link.url, link.size_bytes) == ("https://example.com/plan.pdf", 0)
    assert await execute.refused(world.m, ReadAttachment(attachment_id=link.id)) == "not_found"


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"filename": "a/b"}, "filename", "invalid_input"),
        ({"filename": "x" * 256}, "filename", "invalid_input"),
        ({"content": None}, "url", "missing_field"),
        ({"url": "https://example.com/a"}, "url", "missing_field"),
        ({"url": "javascript:alert(1)", "content": None}, "url", "invalid_input"),
    ],
)
async def test_a_bad_file_is_refused(
    execute: Executor, sql: Sql, world: World, fields: dict[str, Any], field: str, code: str
) -> None:
    """A file has a sound name, and either content or an http address; else 400, nothing stored."""
    assert await execute.refused(world.m, upload(**fields), field=field) == code
    assert await sql("SELECT FROM attachment") == []


async def test_an_unbound_file_is_its_uploaders(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """W-191: until it is bound, a file is there for its uploader, owners and admins alone."""
    file = await uploaded(execute, world.m)
    for caller in (world.m, world.g, world.o):
        assert (await execute(caller, GetAttachment(attachment_id=file.id))) == file
    run = await run_of(world.a, world.issue, world.m.user_id)
    for caller in (world.n, world.s, run):
        for asked in (
            GetAttachment(attachment_id=file.id),
            ReadAttachment(attachment_id=file.id),
            BindAttachment(attachment_id=file.id, issue_id=world.issue),
            DeleteAttachment(attachment_id=file.id),
        ):
            assert await execute.refused(caller, asked) == "not_found"


async def test_a_bound_file_is_seen_with_its_issue(execute: Executor, world: World) -> None:
    """A file on an issue or on one of its comments is listed there, for whoever reads the issue."""
    comment = await say(execute, world.n, world.issue, "see the file")
    first, second, other = [await uploaded(execute, world.m) for _ in range(3)]
    bind = partial(BindAttachment, attachment_id=first.id)
    bound = await execute(world.m, bind(comment_id=comment.id))
    assert (bound.issue_id, bound.comment_id) == (None, comment.id)
    await execute(world.m, BindAttachment(attachment_id=second.id, issue_id=world.issue))
    await execute(world.m, BindAttachment(attachment_id=other.id, issue_id=world.other_issue))
    page = await execute(world.n, ListAttachments(issue_id=world.issue))
    assert [each.id for each in page.items] == [first.id, second.id]
    assert page.items[0] == bound
    page = await execute(world.n, ListAttachments(issue_id=world.issue, limit=1, offset=1))
    assert ([each.id for each in page.items], page.total) == ([second.id], 2)
    assert (await execute(world.n, ReadAttachment(attachment_id=first.id))).content == b"\x00plan"
    for asked in (ListAttachments(issue_id=world.issue), GetAttachment(attachment_id=first.id)):
        assert await execute.refused(world.s, asked) == "not_found"


async def test_who_may_move_and_remove_a_file(execute: Executor, world: World) -> None:
    """Its uploader, owners and admins bind and remove a file; who only sees it is refused."""
    file = await uploaded(execute, world.m)
    await execute(world.m, BindAttachment(attachment_id=file.id, issue_id=world.issue))
    for command in (BindAttachment(attachment_id=file.id), DeleteAttachment(attachment_id=file.id)):
        assert await execute.refused(world.n, command) == "not_allowed"
    taken = await execute(world.g, BindAttachment(attachment_id=file.id))
    assert (taken.issue_id, taken.comment_id) == (None, None)
    await execute(world.o, DeleteAttachment(attachment_id=file.id))
    for asked in (GetAttachment(attachment_id=file.id), DeleteAttachment(attachment_id=file.id)):
        assert await execute.refused(world.m, asked) == "not_found"


async def test_a_file_goes_with_its_content(execute: Executor, sql: Sql, world: World) -> None:
    """Nothing is left of a removed file but the entries of the timeline, which name no name."""
    file = await uploaded(execute, world.m)
    await execute(world.m, BindAttachment(attachment_id=file.id, issue_id=world.issue))
    await execute(world.m, DeleteAttachment(attachment_id=file.id))
    assert await sql("SELECT FROM attachment") == await sql("SELECT FROM attachment_content") == []
    page = await execute(world.m, ListTimeline(issue_id=world.issue))
    assert [each.action for each in page.items[:2]] == [
        "attachment_detached",
        "attachment_attached",
    ]
    assert page.items[0].details == {"attachment_id": str(file.id)}


async def test_a_file_moves_from_issue_to_issue(execute: Executor, world: World) -> None:
    """W-048: moving tells both timelines, binding again where it hangs tells none."""
    comment = await say(execute, world.n, world.other_issue, "here")
    file = await uploaded(execute, world.m)
    bind = partial(BindAttachment, attachment_id=file.id)
    await execute(world.m, bind(issue_id=world.issue))
    await execute(world.m, bind(issue_id=world.issue))
    await execute(world.m, bind(comment_id=comment.id))
    await execute(world.m, bind(comment_id=comment.id))
    told = {
        issue_id: [
            (each.action, each.details)
            for each in (await execute(world.m, ListTimeline(issue_id=issue_id))).items
            if each.action.startswith("attachment_")
        ]
        for issue_id in (world.issue, world.other_issue)
    }
    here = {"attachment_id": str(file.id)}
    assert told == {
        world.issue: [("attachment_detached", here), ("attachment_attached", here)],
        world.other_issue: [("attachment_attached", {**here, "comment_id": str(comment.id)})],
    }


async def test_a_file_stays_in_its_workspace(execute: Executor, sql: Sql, world: World) -> None:
    """A target that is not there, is elsewhere or was deleted is 400, and two are 400 as well."""
    theirs = await execute(
        world.s, CreateIssue(workspace_id=next(iter(world.s.roles)), title="Theirs")
    )
    foreign = await say(execute, world.s, theirs.id, "theirs")
    comment = await say(execute, world.m, world.issue, "oops")
    await execute(world.m, DeleteComment(comment_id=comment.id))
    file = await uploaded(execute, world.m)
    bind = partial(BindAttachment, attachment_id=file.id)
    for issue_id in (UUID(int=1), theirs.id, comment.id):
        refusal = await execute.refused(world.m, bind(issue_id=issue_id), field="issue_id")
        assert refusal == "invalid_input"
    for comment_id in (UUID(int=1), foreign.id, comment.id, world.issue):
        refusal = await execute.refused(world.m, bind(comment_id=comment_id), field="comment_id")
        assert refusal == "invalid_input"
    both = bind(issue_id=world.issue, comment_id=comment.id)
    assert await execute.refused(world.m, both, field="comment_id") == "invalid_input"
    assert (
        await sql("SELECT FROM attachment WHERE coalesce(issue_id, comment_id) IS NOT NULL") == []
    )


async def test_a_file_of_a_deleted_comment_is_its_uploaders_again(
    execute: Executor, world: World
) -> None:
    """What hung on a deleted comment is shown to nobody else, and can be hung elsewhere."""
    comment = await say(execute, world.n, world.issue, "see the file")
    file = await uploaded(execute, world.m)
    await execute(world.m, BindAttachment(attachment_id=file.id, comment_id=comment.id))
    await execute(world.n, DeleteComment(comment_id=comment.id))
    assert (await execute(world.n, ListAttachments(issue_id=world.issue))).total == 0
    assert await execute.refused(world.n, GetAttachment(attachment_id=file.id)) == "not_found"
    bound = await execute(world.m, BindAttachment(attachment_id=file.id, issue_id=world.issue))
    assert (await execute(world.n, GetAttachment(attachment_id=file.id))) == bound


async def test_a_daemon_has_no_files(execute: Executor, world: World) -> None:
    """A daemon token opens no file and makes none: 403."""
    file = await uploaded(execute, world.m)
    for asked in (
        upload(),
        GetAttachment(attachment_id=file.id),
        BindAttachment(attachment_id=file.id),
        DeleteAttachment(attachment_id=file.id),
        ListAttachments(issue_id=world.issue),
    ):
        assert await execute.refused(world.daemon, asked) == "not_allowed"


async def test_files_that_hang_on_nothing_have_a_limit(
    execute: Executor, sql: Sql, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace has room for so many bytes of unbound files; bound, deleted and others' are none.

    A small file and a link count as 4 KiB each, so that their number is bounded, too.
    """
    monkeypatch.setattr(limits, "UNBOUND_BYTES_MAX", 5 * limits.UNBOUND_BYTES_MIN)
    large = b"x" * (2 * limits.UNBOUND_BYTES_MIN)
    link = CreateAttachment(filename="plan.pdf", url="https://example.com/plan.pdf")
    first = await uploaded(execute, world.m, content=large)
    await uploaded(execute, world.n, content=large)
    small = await execute(world.m, link)
    full = "upload_capacity_exceeded"
    assert await execute.refused(world.g, upload(content=b""), field="file") == full
    assert await execute.refused(world.m, link, field="url") == full
    assert len(await sql("SELECT FROM attachment")) == 3
    await execute(world.s, upload(content=large))
    await execute(world.m, DeleteAttachment(attachment_id=small.id))
    await uploaded(execute, world.m)
    assert await execute.refused(world.m, upload(), field="file") == full
    await execute(world.m, BindAttachment(attachment_id=first.id, issue_id=world.issue))
    await uploaded(execute, world.m, content=large)
    assert await execute.refused(world.m, upload(), field="file") == full


async def test_the_limit_is_counted_by_index(sql: Sql, world: World) -> None:
    """What hangs on nothing is counted from the index of such files, beside many that are bound."""
    files = (
        "INSERT INTO attachment (workspace_id, issue_id, uploader_type, uploader_id, filename)"
        " SELECT $1, $2, 'member', $3, 'f' FROM generate_series(1, $4)"
    )
    for issue_id, count in ((world.issue, 20_000), (None, 50)):
        await sql(files, world.workspace_id, issue_id, world.m.user_id, count)
    await sql("CHECKPOINT")
    await sql("VACUUM (ANALYZE) attachment")
    for query, arguments, index in (
        ("unbound_bytes", (world.workspace_id, 1), "attachment_unbound_workspace_idx"),
        ("forget_unbound", (86_400, 100), "attachment_unbound_idx"),
    ):
        text = getattr(queries.load("attachments"), query).text
        (row,) = await sql(f"EXPLAIN (FORMAT JSON) {text}", *arguments)
        scans = [
            each for each in nodes(row["QUERY PLAN"][0]["Plan"]) if "Scan" in each["Node Type"]
        ]
        assert index in {each.get("Index Name") for each in scans}, query
        assert "Seq Scan" not in {
            each["Node Type"] for each in scans if each.get("Relation Name") == "attachment"
        }
