from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from engine.domain.commands.conversation import ListInbox, ReadInboxItem, UpdateComment
from engine.domain.commands.tracker import (
    CreateIssue,
    ListMembers,
    RemoveMember,
    UpdateIssue,
)
from engine.domain.principal import Principal
from engine.domain.views.conversation import InboxItemView
from tests.service.conftest import Executor, RunOf, Sql, World
from tests.service.test_comments import say


async def inbox(
    execute: Executor, world: World, caller: Principal, *, unread: bool = False
) -> list[InboxItemView]:
    """Return a person's items in the world's workspace, newest first."""
    query = ListInbox(workspace_id=world.workspace_id, unread=unread)
    page = await execute(caller, query)
    assert page.total == len(page.items)
    return list(page.items)


async def types(execute: Executor, world: World, caller: Principal) -> list[str]:
    return [each.type for each in await inbox(execute, world, caller)]


# --- What makes an item -------------------------------------------------------------------------


async def test_a_mention_tells_the_person(execute: Executor, world: World) -> None:
    """Whom a comment mentions, by name or link, gets an item with ids and title, without text."""
    comment = await say(execute, world.g, world.issue, "secret @n!")
    link = f"[@Somebody](mention://member/{world.n.user_id})"
    second = await say(execute, world.g, world.other_issue, link)
    newer, item = await inbox(execute, world, world.n)
    assert (item.type, item.severity, item.title) == ("mentioned", "attention", "I")
    assert (item.recipient_id, item.issue_id) == (world.n.user_id, world.issue)
    assert (item.actor_type, item.actor_id) == ("member", world.g.user_id)
    assert item.details == {"comment_id": str(comment.id)}
    assert (item.body, item.read_at) == ("", None)
    assert (newer.type, newer.details) == ("mentioned", {"comment_id": str(second.id)})
    assert "secret" not in str(item)


async def test_an_assignment_tells_the_person(execute: Executor, world: World) -> None:
    """Who gets an issue, new or not, has an item; who takes it, and who loses it, has none."""
    made = await execute(
        world.m,
        CreateIssue(
            workspace_id=world.workspace_id,
            title="Build",
            assignee_type="member",
            assignee_id=world.n.user_id,
        ),
    )
    (item,) = await inbox(execute, world, world.n)
    assert (item.type, item.severity) == ("issue_assigned", "action_required")
    assert (item.issue_id, item.title, item.details) == (made.id, "Build", {})
    for caller, user_id in ((world.g, world.g.user_id), (world.g, world.o.user_id)):
        change = UpdateIssue(issue_id=made.id, assignee_type="member", assignee_id=user_id)
        await execute(caller, change)
        await execute(caller, change)
    assert await types(execute, world, world.o) == ["issue_assigned"]
    assert await types(execute, world, world.g) == []
    change = UpdateIssue(issue_id=made.id, assignee_type="agent", assignee_id=world.a)
    await execute(world.m, change)
    assert len(await inbox(execute, world, world.n)) == 1


async def test_a_reply_tells_whom_it_answers(execute: Executor, world: World) -> None:
    """Who wrote the comment that is answered has an item of their own sort; others have not."""
    question = await say(execute, world.n, world.issue, "why?")
    answer = await say(execute, world.g, world.issue, "because", question.id)
    (item,) = await inbox(execute, world, world.n)
    assert (item.type, item.severity) == ("comment_reply", "attention")
    assert item.details == {"comment_id": str(answer.id)}
    await say(execute, world.n, world.issue, "I see", answer.id)
    assert await types(execute, world, world.g) == ["comment_reply"]
    assert await types(execute, world, world.o) == []


async def test_a_comment_tells_whose_issue_it_is(
    execute: Executor, world: World, run_of: RunOf
) -> None:
    """Its maker and its assignee are told of each comment; the words of one's agent are others'."""
    change = UpdateIssue(issue_id=world.issue, assignee_type="member", assignee_id=world.n.user_id)
    await execute(world.n, change)
    run = await run_of(world.a, world.issue, world.m.user_id)
    await say(execute, run, world.issue, "done")
    for person in (world.m, world.n):
        (item,) = await inbox(execute, world, person)
        assert (item.type, item.severity) == ("new_comment", "info")
        assert (item.actor_type, item.actor_id) == ("agent", world.a)


async def test_one_comment_is_one_item_for_a_person(execute: Executor, world: World) -> None:
    """With several reasons a person has one item, for the most pressing of them."""
    await execute(
        world.m,
        UpdateIssue(issue_id=world.issue, assignee_type="member", assignee_id=world.m.user_id),
    )
    mine = await say(execute, world.m, world.issue, "mine")
    await say(
        execute,
        world.n,
        world.issue,
        f"@m @M [@me](mention://member/{world.m.user_id})",
        mine.id,
    )
    await say(execute, world.n, world.issue, "no name", mine.id)
    assert await types(execute, world, world.m) == ["comment_reply", "mentioned"]


async def test_nobody_is_told_of_their_own_acts(execute: Executor, world: World) -> None:
    """Commenting on one's own issue, answering and naming oneself make no item."""
    mine = await say(execute, world.m, world.issue, "mine, says @M")
    await say(execute, world.m, world.issue, "more", mine.id)
    assert await inbox(execute, world, world.m) == []


@pytest.mark.parametrize("body", ["`@N`", "N", "n@N.example", "@nobody", "@S"])
async def test_who_is_not_mentioned_is_not_told(
    execute: Executor, sql: Sql, world: World, body: str
) -> None:
    """Quotes, addresses, unknown names, and people who are no members, are no mentions."""
    await say(execute, world.m, world.issue, f"{body} [@x](mention://member/{world.s.user_id})")
    assert await sql("SELECT FROM inbox_item") == []


async def test_an_edit_tells_whom_it_is_the_first_to_mention(
    execute: Executor, world: World
) -> None:
    """A mention that an edit adds is told, one that was there before is not told again."""
    comment = await say(execute, world.m, world.issue, "@N look")
    link = f"[@n](mention://member/{world.n.user_id})"
    body = f"{link} @N look, and @G, says @M"
    await execute(world.m, UpdateComment(comment_id=comment.id, body=body))
    await execute(world.o, UpdateComment(comment_id=comment.id, body=f"{body}."))
    assert await types(execute, world, world.n) == ["mentioned"]
    assert await types(execute, world, world.g) == ["mentioned"]
    assert await types(execute, world, world.m) == []


# --- Reading ------------------------------------------------------------------------------------


async def test_an_item_is_read_once(execute: Executor, world: World) -> None:
    """Reading marks an item with the time; a second time keeps it, and `unread` leaves it out."""
    for number in range(2):
        await say(execute, world.g, world.issue, f"{number}, @N")
    second, first = await inbox(execute, world, world.n)
    read = await execute(world.n, ReadInboxItem(item_id=first.id))
    assert read.read_at is not None
    assert await execute(world.n, ReadInboxItem(item_id=first.id)) == read
    assert await inbox(execute, world, world.n, unread=True) == [second]
    assert await inbox(execute, world, world.n) == [second, read]


async def test_an_item_is_its_recipients(execute: Executor, world: World, run_of: RunOf) -> None:
    """W-191: nobody else sees or reads an item, no admin and no run, not even of its person."""
    await say(execute, world.m, world.issue, "@N")
    (item,) = await inbox(execute, world, world.n)
    assert await inbox(execute, world, world.o) == []
    for caller in (world.o, world.g, world.s):
        assert await execute.refused(caller, ReadInboxItem(item_id=item.id)) == "not_found"
    run = await run_of(world.a, world.issue, world.n.user_id)
    for asked in (ListInbox(), ReadInboxItem(item_id=item.id)):
        assert await execute.refused(run, asked) == "not_allowed"
    assert await execute.refused(world.n, ReadInboxItem(item_id=UUID(int=1))) == "not_found"
    elsewhere = ListInbox(workspace_id=next(iter(world.s.roles)))
    assert await execute.refused(world.n, elsewhere) == "not_found"


async def test_who_has_left_sees_nothing(execute: Executor, sql: Sql, world: World) -> None:
    """W-196: with the membership the items go out of sight, and no new ones are made."""
    await say(execute, world.m, world.issue, "@N")
    (item,) = await inbox(execute, world, world.n)
    members = await execute(world.o, ListMembers(workspace_id=world.workspace_id))
    (member,) = [each for each in members.items if each.user_id == world.n.user_id]
    removal = RemoveMember(workspace_id=world.workspace_id, member_id=member.id)
    await execute(world.o, removal)
    await say(execute, world.m, world.issue, f"[@N](mention://member/{world.n.user_id})")
    # Authenticated before, asking after: what was read with the token is not trusted.
    assert await execute.refused(world.n, ReadInboxItem(item_id=item.id)) == "not_found"
    after = attrs.evolve(world.n, roles={})
    listing = ListInbox(workspace_id=world.workspace_id)
    assert await execute.refused(after, listing) == "not_found"
    assert len(await sql("SELECT FROM inbox_item")) == 1
