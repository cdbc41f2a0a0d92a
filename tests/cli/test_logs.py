"""What the logs of the long-running commands say of an error, and what they do not say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from cli.logs import log_to_stderr
from engine.errors import WakefulError

MARKER = "XYLOPHONE"


@contextmanager
def logging() -> Iterator[structlog.stdlib.BoundLogger]:
    """Give a logger as `wakeful serve` has it; within the test, where `capsys` listens."""
    log_to_stderr()
    try:
        yield structlog.get_logger("test")
    finally:
        structlog.reset_defaults()


def carry_out(instruction: str) -> None:
    """Fail as code does that holds what a user wrote."""
    known: dict[str, str] = {}
    try:
        known[instruction]
    except KeyError as error:
        error.add_note(instruction)
        raise WakefulError("conflict", f"{instruction} is in the way") from error


def test_an_error_is_logged_without_what_users_wrote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Logs hold no prompts or bodies: of an error they say type, code and places only."""
    with pytest.raises(WakefulError) as caught:
        carry_out(MARKER)
    with logging() as log:
        log.error("actor_failed", key="wf-1", exc_info=caught.value)
        try:
            carry_out(MARKER)
        except WakefulError:
            log.exception("spawned_task_failed")
            log.warning("claim.not_delivered", exc_info=True)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert MARKER not in line
        assert "engine.errors.WakefulError conflict" in line
        assert "; builtins.KeyError" in line
        assert f"{__file__}:{carry_out.__code__.co_firstlineno + 7} carry_out" in line


def test_a_group_is_logged_with_all_that_is_in_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of several errors at once each is named, and again none of their texts."""
    errors = ExceptionGroup(MARKER, [ValueError(MARKER), ExceptionGroup("", [OSError(MARKER)])])
    with logging() as log:
        log.error("actor_failed", exc_info=errors)
    line = capsys.readouterr().err
    assert MARKER not in line
    assert line.count("ExceptionGroup") == 2
    assert "builtins.ValueError" in line
    assert "builtins.OSError" in line


def test_a_long_story_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A recursion and a long chain of causes make a line of bounded length, and a circle ends."""

    def fall(deep: int) -> None:
        if not deep:
            raise ValueError
        fall(deep - 1)

    first: BaseException | None = None
    for _ in range(100):
        try:
            fall(100)
        except ValueError as error:
            error.__cause__ = first
            first = error
    circle, back = ValueError(), KeyError()
    circle.__cause__, back.__cause__ = back, circle
    with logging() as log:
        log.error("deep", exc_info=first)
        log.error("round", exc_info=circle)
    deep, round_ = capsys.readouterr().err.splitlines()
    assert len(deep) < 30_000
    assert round_.count("Error") == 2
