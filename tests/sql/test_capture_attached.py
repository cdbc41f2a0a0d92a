"""Labels, reactions and files come to an issue or leave it."""

from __future__ import annotations

from tests.sql.capture_town import (
    AGENT_A,
    ISSUE_I,
    ISSUE_K,
    MEMBER_M,
    MEMBER_N,
    WORKSPACE,
    Town,
    insert,
)

FILES = ("attachment.attached", "attachment.detached")
REACTIONS = ("reaction.added", "reaction.removed")


def reacting(issue_id: str = ISSUE_I, actor: tuple[str, str] = ("member", MEMBER_M)) -> str:
    """Return the INSERT of a reaction on an issue."""
    return (
        "INSERT INTO issue_reaction (issue_id, workspace_id, actor_type, actor_id, emoji)"
        f" VALUES ('{issue_id}', '{WORKSPACE}', '{actor[0]}', '{actor[1]}', '+1')"
    )


def uploading(**place: object) -> str:
    """Return the INSERT of a file, bound to nothing unless told otherwise."""
    columns: dict[str, object] = {
        "workspace_id": WORKSPACE,
        "uploader_type": "member",
        "uploader_id": MEMBER_N,
        "filename": "f",
    }
    return insert("attachment", {**columns, **place})


def test_a_file_that_moves_leaves_and_arrives(town: Town) -> None:
    """W-048: an upload is silent; binding, moving to a comment and removing are told, each once.

    Saving a file again where it is tells nothing.
    """
    rule = town.listen(*FILES)
    comment = town.comment()
    file = town.one(uploading())
    assert town.receipts(rule) == []
    town.ask(f"UPDATE attachment SET issue_id = '{ISSUE_I}' WHERE id = '{file}'")
    assert town.receipt(rule).event_type == "attachment.attached"
    town.ask(f"UPDATE attachment SET issue_id = '{ISSUE_I}', filename = 'g' WHERE id = '{file}'")
    assert town.receipt(rule).count == 1
    town.ask("UPDATE issue_wakeup_receipt SET processed_at = now()")
    town.ask(f"UPDATE attachment SET issue_id = NULL, comment_id = '{comment}'")
    left, arrived = town.receipts(rule)[1:]
    assert (left.event_type, left.payload["target_type"]) == ("attachment.detached", "issue")
    assert (arrived.event_type, arrived.payload["target_id"]) == ("attachment.attached", comment)
    town.ask(f"DELETE FROM attachment WHERE id = '{file}'")
    assert town.receipts(rule)[1].payload["target_id"] == comment
    assert [each.count for each in town.receipts(rule)] == [1, 2, 1]


def test_a_file_that_changes_the_issue_is_told_on_both(town: Town) -> None:
    """W-048: moved from I to K it leaves the one and arrives at the other."""
    rules = [town.listen(*FILES, issue_id=issue) for issue in (ISSUE_I, ISSUE_K)]
    town.ask(uploading(issue_id=ISSUE_I))
    town.ask("UPDATE issue_wakeup_receipt SET processed_at = now()")
    town.ask(f"UPDATE attachment SET issue_id = '{ISSUE_K}'")
    (_, left), (arrived,) = (town.receipts(rule) for rule in rules)
    assert (left.event_type, left.payload["target_id"]) == ("attachment.detached", ISSUE_I)
    assert (arrived.event_type, arrived.payload["target_id"]) == ("attachment.attached", ISSUE_K)


def test_who_takes_a_reaction_back_is_the_actor(town: Town) -> None:
    """W-047, W-050: who reacts acts, whoever writes it; taking it back is the writer's."""
    rule = town.listen(*REACTIONS)
    run = town.run(ISSUE_K)
    town.acting("agent", AGENT_A, run, reacting())
    town.ask(f"{reacting()} ON CONFLICT DO NOTHING")
    added = town.receipt(rule)
    assert (added.payload["actor_type"], added.payload["actor_id"]) == ("member", MEMBER_M)
    assert (added.payload["agent_id"], added.payload["source_task_id"]) == (None, run)
    town.acting("agent", AGENT_A, run, "DELETE FROM issue_reaction")
    removed = town.receipt(rule, "reaction.removed").payload
    assert (removed["actor_type"], removed["actor_id"]) == ("agent", AGENT_A)
    assert (removed["agent_id"], removed["reaction_actor_id"]) == (AGENT_A, MEMBER_M)
    assert [each.count for each in town.receipts(rule)] == [1, 1]
    town.ask(reacting(actor=("agent", AGENT_A)))
    assert town.receipt(rule, "reaction.added").payload["agent_id"] == AGENT_A


def test_many_at_once_are_counted(town: Town) -> None:
    """W-062, W-043: labels of one statement are one receipt of their issue that counts them."""
    rules = [town.listen("issue.labels_changed", issue_id=issue) for issue in (ISSUE_I, ISSUE_K)]
    town.ask(
        "INSERT INTO issue_label (workspace_id, name)"
        f" SELECT '{WORKSPACE}', n::text FROM generate_series(1, 100) n;"
        "INSERT INTO issue_to_label (issue_id, label_id)"
        " SELECT i.id, l.id FROM issue i, issue_label l"
    )
    assert [town.receipt(rule).count for rule in rules] == [100, 100]
    town.ask(f"DELETE FROM issue_to_label WHERE issue_id = '{ISSUE_K}'")
    assert [town.receipt(rule).count for rule in rules] == [100, 200]
    assert town.receipt(rules[1]).payload["action"] == "removed"
