"""The work ledger: tokens from any thread, messages by two integers, and who hears of quiet."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.work import LedgerSnapshot, Token, WorkKind, WorkLedger

DECLARED = [
    "http",
    "ws_setup",
    "ws",
    "drain_transition",
    "read_auth",
    "scheduler",
    "actor",
    "coordinator_sweep",
    "coordinator_intent",
    "dispatch",
    "startup",
    "backup",
    "worker_call",
    "worker_host_write",
    "usage_capture",
    "cleanup_capture",
    "observation",
    "thread",
    "subprocess",
    "detached",
    "inspection",
]


def test_threads_lose_no_count() -> None:
    """S-066: 8 threads x 10,000 begin/finish with duplicates leave active 0, generation 160,000."""
    ledger = WorkLedger()
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for _ in range(10_000):
            token = ledger.begin(WorkKind.THREAD)
            token.finish()
            token.finish()

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work) for _ in range(8)]:
            done.result()
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=160_000)


def test_one_token_finished_by_many_threads_counts_once() -> None:
    """S-066: of finishes racing in several threads only the first counts."""
    ledger = WorkLedger()
    tokens = [ledger.begin(WorkKind.THREAD) for _ in range(1_000)]
    barrier = threading.Barrier(4)

    def finish_all() -> None:
        barrier.wait()
        for token in tokens:
            token.finish()

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(finish_all) for _ in range(4)]:
            done.result()
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=2_000)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("begin"), st.sampled_from(WorkKind)),
            st.tuples(st.just("finish"), st.integers(0, 20)),
            st.tuples(st.just("message"), st.none()),
            st.tuples(st.just("handled"), st.none()),
        )
    )
)
def test_the_counts_are_those_of_the_work(steps: list[tuple[str, object]]) -> None:
    """S-066: active is what began and has not ended, generation counts both, in every order."""
    ledger, tokens = WorkLedger(), list[Token]()
    open_kinds: dict[int, WorkKind] = {}
    messages = generation = 0
    for step, argument in steps:
        match step, argument:
            case "begin", WorkKind() as kind:
                open_kinds[len(tokens)] = kind
                tokens.append(ledger.begin(kind))
                generation += 1
            case "finish", int() as number if number < len(tokens):
                tokens[number].finish()
                generation += open_kinds.pop(number, None) is not None
            case "message", _:
                ledger.mailbox_began()
                messages += 1
                generation += 1
            case "handled", _ if messages:
                ledger.mailbox_finished()
                messages -= 1
                generation += 1
    assert ledger.active == len(open_kinds) + messages
    assert ledger.generation == generation
    counts = {kind: list(open_kinds.values()).count(kind) for kind in WorkKind}
    counts[WorkKind.ACTOR] += messages
    assert ledger.active_by_kind() == counts
    assert [token.kind for token in ledger.open_tokens()] == list(open_kinds.values())


def test_the_kinds_are_the_fixed_list() -> None:
    """S-068: the kinds are exactly the declared ones, since they label metrics."""
    assert [kind.value for kind in WorkKind] == DECLARED


def test_an_undeclared_kind_raises() -> None:
    """S-068: beginning an undeclared kind raises and counts nothing."""
    ledger = WorkLedger()
    with pytest.raises(ValueError, match="gardening"):
        ledger.begin("gardening")  # type: ignore[arg-type]  # the fault
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=0)


def test_a_block_counts_until_it_is_left_by_an_error() -> None:
    """S-058: a token used as a block is active inside it and ends with it, also when it raises."""
    ledger = WorkLedger()

    def fail() -> None:
        with ledger.begin(WorkKind.HTTP, "POST /api/comments") as token:
            assert ledger.open_tokens() == [token]
            assert "POST /api/comments" in repr(token)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert ledger.snapshot() == LedgerSnapshot(active=0, generation=2)


def test_a_short_token_moves_the_generation() -> None:
    """S-074: work that began and ended between two snapshots shows in the generation."""
    ledger = WorkLedger()
    before = ledger.snapshot()
    ledger.begin(WorkKind.HTTP).finish()
    after = ledger.snapshot()
    assert (before.active, after.active) == (0, 0)
    assert before.generation != after.generation


def test_more_ends_than_begins_is_an_invariant_violation() -> None:
    """S-072: mailbox work cannot end more often than it began, which would hide other work."""
    ledger = WorkLedger()
    ledger.mailbox_began()
    with pytest.raises(AssertionError):
        ledger.mailbox_finished(2)


def test_quiet_is_announced_when_the_last_work_ends() -> None:
    """S-077: who waits for quiet hears it from the last work of any sort, and from no other."""
    ledger, heard = WorkLedger(), list[int]()

    def hear() -> None:
        heard.append(threading.get_ident())

    ledger.call_when_idle(hear)
    token = ledger.begin(WorkKind.BACKUP)
    ledger.mailbox_began()
    ledger.mailbox_finished()
    assert heard == []

    def end() -> int:
        token.finish()
        return threading.get_ident()

    with ThreadPoolExecutor(1) as threads:
        ending = threads.submit(end).result()
    assert heard == [ending]
    token.finish()
    assert heard == [ending]
    ledger.mailbox_began()
    ledger.mailbox_finished()
    assert heard == [ending, threading.get_ident()]
    ledger.forget(hear)
    ledger.begin(WorkKind.HTTP).finish()
    assert len(heard) == 2
