"""The prompt of each sort of run."""

import shlex

import pytest

from engine.domain.prompt import JOINED_MARKER, MARKER, PromptFacts, joined_notes, render_prompt
from tests.unit.samples import ISSUE, RULE, an_id

COMMENT, ROOT = an_id(50), an_id(51)
NOTE = "Wakeup fired.\n\nInstruction:\n  Look at \\ {braces} and %s.\n\ncomment.created {}"


def facts(**changes: object) -> PromptFacts:
    return PromptFacts(**{"issue_id": ISSUE, "issue_identifier": "WF-12", **changes})  # type: ignore[arg-type] # the changes are the fields


@pytest.mark.parametrize("thread", [None, COMMENT])
def test_the_wakeup_prompt_is_in_order(thread: object) -> None:
    """W-091: introduction, issue, marker, note verbatim, commands, reply, with a thread or not."""
    prompt = render_prompt(facts(wakeup_id=RULE, note=NOTE, trigger_comment_id=thread))
    marks = [
        "You are an agent",
        f"Issue: WF-12 ({ISSUE})",
        f"\n{MARKER}\n{NOTE}\n",
        f"wakeful issue show {ISSUE}",
        f"wakeful issue wakeup get {ISSUE} {RULE}",
        f"wakeful issue wakeup disable {ISSUE} {RULE}",
        f"wakeful issue comment {ISSUE}",
    ]
    places = [prompt.index(mark) for mark in marks]
    assert places == sorted(places)
    assert prompt.splitlines().count(MARKER) == 1
    assert (f"--parent {COMMENT}" in prompt) == (thread is not None)


def test_a_comment_is_named_not_quoted() -> None:
    """W-091: the prompt of a comment names the comment and its thread and answers there."""
    prompt = render_prompt(facts(trigger_comment_id=COMMENT, thread_id=ROOT))
    assert f"Comment: {COMMENT}, in the thread of {ROOT}" in prompt
    assert f"wakeful issue comment {ISSUE} --parent {COMMENT} " in prompt
    assert MARKER not in prompt
    assert "wakeup" not in prompt


def test_a_comment_without_parent_is_its_own_thread() -> None:
    """W-045: a comment that answers nothing is the root of its thread."""
    prompt = render_prompt(facts(trigger_comment_id=COMMENT))
    assert f"Comment: {COMMENT}, in the thread of {COMMENT}" in prompt


def test_an_assignment_says_so() -> None:
    """W-091: the prompt of an assignment has no marker, no note and no thread."""
    prompt = render_prompt(facts())
    assert "assigned to you" in prompt
    assert "Note:" not in prompt
    assert "--parent" not in prompt


@pytest.mark.parametrize("thread", [None, COMMENT])
def test_the_reply_command_is_whole(thread: object) -> None:
    """W-091: the last command holds its text: standard input is the prompt, and no text is left."""
    command = render_prompt(facts(trigger_comment_id=thread)).splitlines()[-2]
    words = ["wakeful", "issue", "comment", str(ISSUE)]
    parent = [] if thread is None else ["--parent", str(thread)]
    assert shlex.split(command)[:-1] == [*words, *parent]
    assert shlex.split(command)[-1]
    last = render_prompt(facts()).splitlines()[-1]
    assert "--body-file FILE" in last


def test_a_run_by_hand_carries_its_note() -> None:
    """W-091: the prompt of a run that somebody queued has that person's note verbatim."""
    prompt = render_prompt(facts(is_by_hand=True, note="Please retry."))
    assert "by hand" in prompt
    assert "\nNote:\nPlease retry.\n" in prompt


def test_the_platforms_wakeup_is_not_the_agents() -> None:
    """W-092: the run of a system rule is told to leave the rule alone, instead of its commands."""
    prompt = render_prompt(facts(wakeup_id=RULE, note=NOTE, system_rule="child_done"))
    assert "belongs to the platform" in prompt
    assert "wakeup disable" not in prompt
    assert "wakeup get" not in prompt
    assert "checkin" in prompt


def test_the_brief_names_the_one_exemption() -> None:
    """W-092: a wakeup run is told to end with a comment; a scheduled check may check in."""
    prompt = render_prompt(facts(wakeup_id=RULE, note=NOTE))
    brief = next(block for block in prompt.split("\n\n") if "exemption" in block)
    assert "comment" in brief
    assert "wakeful issue wakeup checkin" in brief
    assert prompt.index(NOTE) < prompt.index(brief) < prompt.index("issue comment")


@pytest.mark.parametrize(
    "sort", [{"wakeup_id": RULE, "note": NOTE}, {"trigger_comment_id": COMMENT}, {}]
)
def test_joined_notes_end_every_prompt(sort: dict[str, object]) -> None:
    """W-093: the notes of joined wakeups come last, under a heading of their own."""
    plain = render_prompt(facts(**sort))
    assert JOINED_MARKER not in plain
    context = {"wakeup_joined": [{"note": "one"}, {"note": "two"}, {"note": ""}, "odd"]}
    joined = render_prompt(facts(**sort, joined=joined_notes(context)))
    assert joined == f"{plain}\n{JOINED_MARKER}\none\n\ntwo\n"


@pytest.mark.parametrize("context", [{}, {"wakeup_joined": None}, {"wakeup_joined": "x"}])
def test_nothing_joined_is_no_text(context: dict[str, object]) -> None:
    """W-093: a context without joined wakeups adds nothing to a prompt."""
    assert joined_notes(context) == ""
