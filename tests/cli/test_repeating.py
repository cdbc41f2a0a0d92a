"""`--idempotency-key`, and the SDK's argument of that name: a call that may be repeated."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from client.api import Json
from client.errors import ApiError
from tests.cli.conftest import Command
from tests.cli.serving import Site

KEY = "--idempotency-key"
RULE = {"kind": "every", "interval_seconds": 3_600, "instruction": "Look."}


def test_a_repeated_command_takes_effect_once(here: Command) -> None:
    """W-033: the same command under one key prints the same and makes one thing; another is 409."""
    first, again = [here("issue", "create", "Once", KEY, "k1") for _ in range(2)]
    assert first.json == again.json
    assert here("issue", "list", "--search", "Once").json["total"] == 1
    other = here("issue", "create", "Once more", KEY, "k1")
    assert (other.code, other.out) == (1, "")
    assert "(idempotency_key_reused)" in other.err
    issue = first.json["identifier"]
    said = [here("issue", "comment", issue, "Hello", KEY, "k1").json["id"] for _ in range(2)]
    assert said[0] == said[1]
    assert here("issue", "show", issue).json["comments_total"] == 1


def test_every_command_that_makes_something_takes_a_key(here: Command, tmp_path: Path) -> None:
    """W-033: catalogue entries and files are made once under a key, too."""
    file = tmp_path / "once.txt"
    file.write_text("once")
    for arguments in (
        ("label", "create", "keyed"),
        ("project", "create", "keyed"),
        ("property", "create", "keyed"),
        ("status", "create", "keyed", "--category", "todo"),
        ("attach", str(file)),
    ):
        first, again = [here(*arguments, KEY, "k2").json["id"] for _ in range(2)]
        assert first == again


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "a\tb", "é"])
def test_a_key_that_is_none_is_refused_before_any_request(command: Command, key: str) -> None:
    """W-033: a key has 1 to 255 printable characters; another one ends with 1, without a server."""
    nowhere = ("--url", "http://127.0.0.1:9", "--token", "wkm_x")
    done = command(*nowhere, "issue", "create", "a", KEY, key)
    assert (done.code, done.out) == (1, "")
    assert "a key has 1 to 255" in done.err


def test_the_calls_of_the_sdk_take_a_key(site: Site) -> None:
    """W-033: whatever the SDK makes, it makes once under a key, rules and their runs included."""
    with site.daemon("--agent", "keyed", "--exec", "true") as daemon:
        assert daemon.stop() == 0
    with site.api() as api:
        issue = api.create_issue("Keyed")["identifier"]
        agent = api.find_agent("keyed")
        assert agent is not None
        agent_id = agent["id"]
        calls: tuple[Callable[[str], Json], ...] = (
            lambda key: api.create_agent("keyed too", idempotency_key=key),
            lambda key: api.add_member("k@example.com", "K", "member", idempotency_key=key),
            lambda key: api.create_issue("Keyed", idempotency_key=key),
            lambda key: api.comment(issue, "Hello", idempotency_key=key),
            lambda key: api.upload("a.txt", b"text", idempotency_key=key),
            lambda key: api.create_token("keyed", "member", idempotency_key=key),
            lambda key: api.create_wakeup(
                issue, {**RULE, "agent_id": agent_id}, idempotency_key=key
            ),
            lambda key: api.start_run(issue, agent_id, idempotency_key=key),
        )
        for call in calls:
            assert call("a")["id"] == call("a")["id"]
        (rule,) = api.wakeups(issue)
        api.trigger_wakeup(issue, rule["id"], idempotency_key="a")
        api.disable_wakeup(issue, rule["id"])
        api.trigger_wakeup(issue, rule["id"], idempotency_key="a")
        with pytest.raises(ApiError):
            api.trigger_wakeup(issue, rule["id"], idempotency_key="b")


@pytest.mark.parametrize(("key", "comments"), [("said", 1), ("said-$WAKEFUL_RUN", 2)])
def test_the_keys_of_an_agent_outlive_its_runs(site: Site, key: str, comments: int) -> None:
    """W-033: a key is its agent's, not its run's: what is tried again in another run stays done."""
    mind = f'wakeful issue comment "$WAKEFUL_ISSUE" Done {KEY} "{key}" >/dev/null'
    name = f"repeater-{comments}"
    with site.daemon("--agent", name, "--exec", mind), site.api() as api:
        issue = api.create_issue("Said")["id"]
        agent = api.find_agent(name)
        assert agent is not None
        for number in (1, 2):
            api.start_run(issue, agent["id"])
            site.wait_for_run(issue, number=number)
        assert api.comments(issue, limit=10)["total"] == comments
