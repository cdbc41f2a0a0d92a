"""What becomes of the lines that a command prints, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from client import limits
from client.errors import ApiError, UnreachableError
from client.transcript import Stream, Transcript

BODY_BYTES_MAX = 1_048_576  # of the server (api.md)


@attrs.define
class Sent:
    """What the server was sent, call by call, and when."""

    batches: list[list[dict[str, Any]]] = attrs.field(factory=list)
    times: list[float] = attrs.field(factory=list)
    failures: list[ApiError] = attrs.field(factory=list)

    async def __call__(self, lines: Sequence[dict[str, Any]]) -> None:
        """Take one call."""
        await trio.lowlevel.checkpoint()
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append([dict(line) for line in lines])
        self.times.append(trio.current_time())

    @property
    def lines(self) -> list[dict[str, Any]]:
        """All lines in their order."""
        return [line for batch in self.batches for line in batch]

    @property
    def texts(self) -> list[str]:
        """The texts of all lines."""
        return [line["text"] for line in self.lines]


@asynccontextmanager
async def sending(transcript: Transcript, sent: Sent) -> AsyncIterator[None]:
    """Send a transcript meanwhile, and to its end afterwards."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transcript.send_all, sent)
        yield
        transcript.close()


async def sent_of(*chunks: bytes) -> Sent:
    """Return what is sent of one stream that printed these chunks and ended."""
    transcript, sent = Transcript(), Sent()
    async with sending(transcript, sent):
        for chunk in chunks:
            transcript.write(Stream.OUTPUT, chunk)
    return sent


async def test_lines_are_numbered_and_tell_their_stream(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Each line has a number from 1, its stream and its text; the streams are not mixed up."""
    transcript, sent = Transcript(), Sent()
    async with sending(transcript, sent):
        transcript.write(Stream.OUTPUT, b"one\ntw")
        transcript.write(Stream.ERRORS, b"oops\r\n")
        transcript.write(Stream.OUTPUT, b"o\n\nrest")
    assert [(each["number"], each["stream"], each["text"]) for each in sent.lines] == [
        (1, "stdout", "one"),
        (2, "stderr", "oops"),
        (3, "stdout", "two"),
        (4, "stdout", ""),
        (5, "stdout", "rest"),
    ]


async def test_any_bytes_become_storable_text(autojump_clock: trio.testing.MockClock) -> None:
    """NUL is left out, bad bytes are replaced, and a character that comes in halves is whole."""
    sent = await sent_of(b"a\0b\xff", "ä".encode()[:1], "ä".encode()[1:] + b"\n")
    assert sent.texts == ["ab\N{REPLACEMENT CHARACTER}ä"]


@given(st.lists(st.binary(max_size=40)))
def test_nothing_is_lost_or_turned_around(chunks: list[bytes]) -> None:
    """However a stream is cut into pieces, its lines come whole and in order."""
    text = b"".join(chunks).decode(errors="replace").replace("\0", "")
    *lines, rest = text.split("\n")
    expected = [line.removesuffix("\r") for line in lines] + ([rest] if rest else [])
    sent = trio.run(sent_of, *chunks, clock=trio.testing.MockClock(autojump_threshold=0))
    assert sent.texts == expected


async def test_a_long_line_comes_in_parts(autojump_clock: trio.testing.MockClock) -> None:
    """A line that is too long is sent in parts, all but the first marked, also over two reads."""
    long = "x" * (2 * limits.LINE_CHARS_MAX) + "end"
    sent = await sent_of(long[:1_000].encode(), long[1_000:].encode() + b"\nnext\n")
    assert "".join(sent.texts[:3]) == long
    marks = [each.get("continued", False) for each in sent.lines]
    assert marks == [False, True, True, False]


async def test_lines_go_out_within_a_second_in_one_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What is printed within a second goes out together, and one call a second is the most."""
    transcript, sent = Transcript(), Sent()
    async with sending(transcript, sent):
        for number in range(30):
            transcript.write(Stream.OUTPUT, f"{number}\n".encode())
            await trio.sleep(0.1)  # paced: virtual time
    assert sent.texts == [str(number) for number in range(30)]
    assert 3 <= len(sent.batches) <= 4
    assert sent.times[0] <= limits.MESSAGE_SECONDS + 0.1


async def test_a_flood_is_bounded_and_its_gap_is_told(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A command that prints without pause is never waited for; the oldest lines give way."""
    transcript, sent = Transcript(), Sent()
    flood = 50
    async with sending(transcript, sent):
        for second in range(flood):
            began = trio.current_time()
            transcript.write(Stream.OUTPUT, f"{second}\n".encode() * 50_000)
            assert trio.current_time() == began
            await trio.sleep(1)  # paced: virtual time
    assert max(map(len, sent.batches)) <= limits.MESSAGE_LINES_MAX
    assert len(sent.lines) <= limits.TRANSCRIPT_LINES_MAX + limits.BACKLOG_LINES_MAX + 1
    during = [at for at in sent.times if at < flood]
    assert len(during) <= flood / limits.MESSAGE_SECONDS
    told = sum(each.get("left_out", 1) for each in sent.lines)
    assert told == flood * 50_000, "each line is sent or counted"
    assert sent.texts[-1] == str(flood - 1), "the last lines are there"


async def test_a_transcript_has_an_end(autojump_clock: trio.testing.MockClock) -> None:
    """After as many lines as a transcript may have only the last ones follow, at the end."""
    transcript, sent = Transcript(), Sent()
    async with sending(transcript, sent):
        for _ in range(2 * limits.TRANSCRIPT_LINES_MAX // limits.MESSAGE_LINES_MAX):
            transcript.write(Stream.OUTPUT, b"x\n" * limits.MESSAGE_LINES_MAX)
            await trio.sleep(limits.MESSAGE_SECONDS)  # paced: virtual time
        assert len(sent.lines) == limits.TRANSCRIPT_LINES_MAX
        transcript.write(Stream.OUTPUT, b"the end\n")
    assert sent.texts[-1] == "the end"
    assert len(sent.lines) == limits.TRANSCRIPT_LINES_MAX + limits.BACKLOG_LINES_MAX + 1


async def test_one_call_fits_the_servers_bound(autojump_clock: trio.testing.MockClock) -> None:
    """The largest call is smaller than a body may be, whatever the characters are."""
    line = b"\x01" * limits.LINE_CHARS_MAX + b"\n"
    sent = await sent_of(line * limits.MESSAGE_LINES_MAX)
    body = httpx.Request("POST", "http://x", json={"lines": sent.batches[0]}).content
    assert BODY_BYTES_MAX / 2 < len(body) < BODY_BYTES_MAX


async def test_lines_wait_for_an_absent_server(autojump_clock: trio.testing.MockClock) -> None:
    """While the server is away lines wait, in their order."""
    transcript, sent = Transcript(), Sent(failures=[UnreachableError("away")] * 5)
    async with sending(transcript, sent):
        transcript.write(Stream.OUTPUT, b"one\n")
        await trio.sleep(2)  # paced: virtual time
        transcript.write(Stream.OUTPUT, b"two\n")
    assert not sent.failures, "the fault did not happen"
    assert [(each["number"], each["text"]) for each in sent.lines] == [(1, "one"), (2, "two")]


async def test_a_refused_transcript_ends(autojump_clock: trio.testing.MockClock) -> None:
    """When the server refuses lines of a run, no more are sent and nothing else happens."""
    refusal = ApiError("not_found", "no such run", status=404)
    transcript, sent = Transcript(), Sent(failures=[refusal])
    async with sending(transcript, sent):
        transcript.write(Stream.OUTPUT, b"one\n")
        await trio.sleep(5)  # paced: virtual time
        transcript.write(Stream.OUTPUT, b"two\n")
    assert sent.batches == []


async def test_a_closed_transcript_takes_no_more(autojump_clock: trio.testing.MockClock) -> None:
    """What comes after the end is dropped, and ending twice changes nothing."""
    transcript, sent = Transcript(), Sent()
    async with sending(transcript, sent):
        transcript.say("one")
        transcript.close()
        transcript.say("two")
    assert sent.texts == ["one"]
