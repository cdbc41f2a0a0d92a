"""No change without its fact, and no fact that fails a change for what somebody typed."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.sql.capture_changes import CHANGES, FURNITURE, LISTENER
from tests.sql.capture_town import ISSUE_I, WORKSPACE, Town, commenting, literal
from tests.sql.psql_session import PsqlSession, psql

JSON_COLUMNS = ("metadata", "properties", "acceptance_criteria", "context_refs")
ODD_VALUES: tuple[str, ...] = (
    "{}",
    "[]",
    "null",
    "true",
    '"text"',
    "1e1000",
    '[{"a": [null]}, "x"]',
    '{"": 1, " ": 2, "\\n": 3, "ключ": 4, "a.b": 5, "$[*]": 6, "%s": 7, "\\"": 8}',
    '{"a": {"b": {"c": [1, 2, {"d": null}]}}, "null": null}',
    json.dumps({"k" * 70_000: 1, "short": 2}),
    json.dumps({f"key {number:05}": number for number in range(20_000)}),
)


def test_without_receipts_there_is_no_change(database_url: str, town: Town) -> None:
    """W-051: when receipts cannot be written, each of the changes fails and leaves no row."""
    town.ask(FURNITURE)
    town.ask("ALTER TABLE issue_wakeup_receipt RENAME TO away")
    comments = town.count("comment")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        psql(database_url, commenting())
    assert "issue_wakeup_receipt" in caught.value.stderr
    assert town.count("comment") == comments
    with PsqlSession(database_url) as writer:
        for change in CHANGES:
            writer.start(change.sql)
            assert writer.finish() == ["ERROR:  42P01"], change
    town.ask("ALTER TABLE away RENAME TO issue_wakeup_receipt")
    assert town.receipts(LISTENER) == []
    assert town.count("comment") == comments


def test_odd_values_fail_nothing(town: Town) -> None:
    """W-051, W-044: JSON of any shape and size goes through, and the fact stays small.

    Names of changed keys that are too long or too many are left out, and marked.
    """
    rule = town.listen("issue.updated", "issue.metadata_changed", "issue.properties_changed")
    for value in ODD_VALUES:
        for column in JSON_COLUMNS:
            town.ask(f"UPDATE issue SET {column} = {literal(value)} WHERE id = '{ISSUE_I}'")
    told = town.receipts(rule)
    assert {each.event_type for each in told} == {
        "issue.updated",
        "issue.metadata_changed",
        "issue.properties_changed",
    }
    assert all(len(json.dumps(each.payload)) < 64 * 1024 for each in told)
    payload = town.receipt(rule, "issue.metadata_changed").payload
    assert payload["changed_fields"] == [f"key {number:05}" for number in range(100)]
    assert payload["changed_fields_more"] is True


def test_changed_keys_are_keys(town: Town) -> None:
    """W-044: added, removed and changed keys are named, sorted; equal ones and numbers are not."""
    cases: tuple[tuple[str, str, list[str]], ...] = (
        ('{"a": 1, "b": 2, "c": 3}', '{"b": 2.0, "c": "3", "d": null}', ["a", "c", "d"]),
        ('{"z": [1, 2], "y": {"x": 1}}', '{"z": [2, 1], "y": {"x": 2}}', ["y", "z"]),
        ("[1]", '{"a": 1}', ["a"]),
        ('{"a": 1}', "null", ["a"]),
        ("[1]", "[2]", []),
    )
    for old, new, keys in cases:
        said = town.one(f"SELECT wakeup_changed_keys({literal(old)}, {literal(new)})")
        assert json.loads(said) == {"changed_fields": keys}, (old, new)
    long, fits = "k" * 201, "k" * 200
    said = town.one(f"SELECT wakeup_changed_keys('{{}}', {literal({long: 1, fits: 2})})")
    assert json.loads(said) == {"changed_fields": [fits], "changed_fields_more": True}


def test_odd_texts_and_threads_fail_nothing(town: Town) -> None:
    """W-051, W-045: a circle of parents, empty and huge texts and emojis of any kind go through."""
    rule = town.listen("comment.created", "comment.updated", "reaction.added")
    first = town.comment(content="")
    second = town.comment(parent_id=first, content="x" * 1_000_000)
    town.ask(f"UPDATE comment SET parent_id = '{second}' WHERE id = '{first}'")
    town.ask(f"UPDATE comment SET content = repeat('ä', 1000000) WHERE id = '{first}'")
    third = town.comment(parent_id=second)
    for number, emoji in enumerate(("", " ", "'", "\\", "\x01", "e" * 2_000)):
        town.ask(
            "INSERT INTO comment_reaction (comment_id, workspace_id, actor_type, actor_id, emoji)"
            f" VALUES ('{third}', '{WORKSPACE}', 'agent',"
            f" '00000000-0000-7000-8000-00000000000{number}', {literal(emoji)})"
        )
    assert town.receipt(rule, "reaction.added").count == 6
    assert town.receipt(rule, "comment.updated").payload["comment_id"] == first
    assert town.receipt(rule, "comment.created").payload["parent_comment_id"] == second
