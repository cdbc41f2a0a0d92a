"""Which calls the command line makes twice: one, for one reason (W-202)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.cli import serving
from tests.cli.scripted_server import RESET, Answer, refusal, scripted

AGENT = "01890000-0000-7000-8000-000000000001"
BUSY = refusal(409, "wakeup_source_busy")
SAVED = Answer(status=201, body={"id": "rule"})
CREATE = ("create", "WF-1")
UPDATE = ("update", "WF-1", "01890000-0000-7000-8000-000000000002")


async def run(url: str, cwd: Path, *arguments: str) -> tuple[int, str, str]:
    """Run `wakeful issue wakeup` against a server; return code, output and messages."""
    body = ("--agent-id", AGENT, "--instruction", "x", "--event", "task.completed")
    done = await trio.run_process(
        ["wakeful", "issue", "wakeup", *arguments, *body],
        cwd=cwd,
        env=serving.environment(WAKEFUL_URL=url, WAKEFUL_TOKEN="wkm_x"),
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_a_busy_source_is_tried_once_more(tmp_path: Path) -> None:
    """W-202: create repeats the same request 250 ms after `wakeup_source_busy`."""
    async with scripted(BUSY, SAVED) as server:
        code, out, _ = await run(server.url, tmp_path, *CREATE)
    assert (code, "rule" in out) == (0, True)
    first, second = server.asked
    assert 0.25 <= second.at - first.at < 1
    assert (first.method, first.path, first.body) == (second.method, second.path, second.body)


async def test_a_source_that_stays_busy_ends_it(tmp_path: Path) -> None:
    """W-202: create is repeated once and no more."""
    async with scripted(BUSY, BUSY) as server:
        code, out, err = await run(server.url, tmp_path, *CREATE)
    assert (code, out) == (1, "")
    assert "(wakeup_source_busy)" in err
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("arguments", "answer", "code"),
    [
        (CREATE, refusal(409, "conflict"), "conflict"),
        (UPDATE, BUSY, "wakeup_source_busy"),
        (CREATE, RESET, "unreachable"),
        (CREATE, refusal(503, "stopping"), "stopping"),
    ],
)
async def test_nothing_else_is_repeated(
    tmp_path: Path, arguments: tuple[str, ...], answer: Answer | None, code: str
) -> None:
    """W-202: other conflicts, updates and lost answers are not repeated: exit 1, one request."""
    async with scripted(answer) as server:
        exit_code, out, err = await run(server.url, tmp_path, *arguments)
    assert (exit_code, out) == (1, "")
    assert f"({code})" in err
    assert len(server.asked) == 1


async def test_the_body_has_what_was_given(tmp_path: Path) -> None:
    """A configuration always has instruction, timezone and kind, and the rest only where given."""
    async with scripted(SAVED) as server:
        await run(server.url, tmp_path, *CREATE)
    assert server.asked[0].body == {
        "agent_id": AGENT,
        "instruction": "x",
        "event_types": ["task.completed"],
        "kind": "event",
        "timezone": "UTC",
    }
