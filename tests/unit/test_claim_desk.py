"""The claim desk and the book of signs of life, in virtual time and without a database."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import limits
from engine.actors.claims import ClaimDesk, Heartbeats
from engine.domain.commands.runs import Heartbeat
from engine.domain.principal import Principal, PrincipalKind
from engine.domain.views.runs import ClaimAttempt, ClaimedRun
from engine.errors import WakefulError

R1, R2 = UUID(int=1), UUID(int=2)
NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING = ClaimAttempt(runs=(), now=NOW)


@attrs.define
class Queue:
    """Runs that can be claimed, by runtime; an attempt takes one of them, as a transaction does."""

    ready: dict[UUID, int] = attrs.field(factory=dict)
    looks: int = 0
    fails: int = 0

    async def attempt(self, runtime_ids: Iterable[UUID]) -> ClaimAttempt:
        """Take one run of these runtimes, with a pause before and after the look."""
        await trio.lowlevel.checkpoint()
        self.looks += 1
        if self.fails:
            self.fails -= 1
            raise WakefulError("database_unavailable", "gone")
        found = next((each for each in runtime_ids if self.ready.get(each)), None)
        if found is not None:
            self.ready[found] -= 1
        with trio.CancelScope(shield=True):  # a transaction ends once it has begun
            await trio.lowlevel.checkpoint()
        if found is None:
            return NOTHING
        return ClaimAttempt(runs=(cast("ClaimedRun", SimpleNamespace(of=found)),), now=NOW)


@attrs.define
class Counter:
    """Claims at a desk: what they got, and at which time."""

    desk: ClaimDesk = attrs.field(factory=ClaimDesk)
    queue: Queue = attrs.field(factory=Queue)
    got: list[tuple[float, int]] = attrs.field(factory=list)

    async def claim(self, *runtime_ids: UUID, seconds: float = 30) -> None:
        """Stand at the desk until there is an answer, and note it."""
        runs = await self.desk.claim(
            lambda: self.queue.attempt(runtime_ids), runtime_ids, wait_seconds=seconds
        )
        self.got.append((trio.current_time(), len(runs)))

    def put(self, runtime_id: UUID, count: int = 1) -> None:
        """Commit runs, then hint at them."""
        self.queue.ready[runtime_id] = self.queue.ready.get(runtime_id, 0) + count
        self.desk.wake([runtime_id])


async def test_a_claim_waits_its_time_for_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """W-103: with nothing to do a claim answers an empty list after its wait, and looked once."""
    counter = Counter()
    await counter.claim(R1)
    assert counter.got == [(30.0, 0)]
    assert counter.queue.looks == 1
    assert counter.desk.waiting == 0


async def test_work_that_is_there_is_answered_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-103: a claim that finds work, or has no time to wait, answers without waiting."""
    counter = Counter()
    counter.put(R1)
    await counter.claim(R1)
    await counter.claim(R1, seconds=0)
    assert counter.got == [(0.0, 1), (0.0, 0)]


async def test_a_final_attempt_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    """W-102: an answer that time cannot change is given at once."""

    async def attempt() -> ClaimAttempt:
        await trio.lowlevel.checkpoint()
        return attrs.evolve(NOTHING, is_final=True)

    assert await ClaimDesk().claim(attempt, [R1], 30) == ()
    assert trio.current_time() == 0


async def test_a_wake_is_answered_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """W-103: a waiting claim answers as soon as work for one of its runtimes appears."""
    counter = Counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counter.claim, R2, R1)
        await trio.sleep(7)  # paced: virtual time
        counter.put(UUID(int=3))
        counter.put(R1)
    assert counter.got == [(7.0, 1)]


async def test_one_run_wakes_one_of_many(autojump_clock: trio.testing.MockClock) -> None:
    """W-103: with 200 claims waiting for a runtime a run costs two looks, not 200."""
    counter = Counter()
    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(counter.claim, R1)
        await trio.testing.wait_all_tasks_blocked()
        assert (counter.desk.waiting, counter.queue.looks) == (200, 200)
        counter.put(R1)
        await trio.testing.wait_all_tasks_blocked()
        assert (counter.desk.waiting, counter.queue.looks) == (199, 202)
        nursery.cancel_scope.cancel()
    assert counter.got == [(0.0, 1)]
    assert counter.desk.waiting == 0


async def test_a_wake_is_passed_on_while_there_is_work(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-103: one wake for several runs reaches as many claims, one after the other."""
    counter = Counter()
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(counter.claim, R1)
        await trio.testing.wait_all_tasks_blocked()
        counter.put(R1, 3)
    assert sorted(counter.got) == [(0.0, 1)] * 3 + [(30.0, 0)] * 2


async def test_no_wake_is_lost_between_look_and_wait(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-103: a wake that comes while the claim looks in vain makes it look again."""
    counter = Counter()

    async def attempt() -> ClaimAttempt:
        found = await counter.queue.attempt([R1])
        if counter.queue.looks == 1:
            counter.put(R1)  # committed after this look's snapshot
        return found

    runs = await counter.desk.claim(attempt, [R1], 30)
    assert (len(runs), counter.queue.looks, trio.current_time()) == (1, 2, 0.0)


async def test_a_wake_during_the_looks_of_all_reaches_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-103: runs committed while every claim of the runtime looks in vain reach them all."""
    counter = Counter()
    arrived = trio.Event()
    first = True

    async def attempt() -> ClaimAttempt:
        nonlocal first
        found = await counter.queue.attempt([R1])
        if counter.queue.looks == 2 and first:
            first = False
            counter.put(R1, 2)
            arrived.set()
        await arrived.wait()
        return found

    async def claim() -> None:
        counter.got.append((trio.current_time(), len(await counter.desk.claim(attempt, [R1], 30))))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(claim)
        nursery.start_soon(claim)
    assert counter.got == [(0.0, 1)] * 2
    assert trio.current_time() == 0


async def test_a_wake_that_found_nothing_is_not_passed_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-103: a claim that looked in vain after its wake leaves without waking the others."""
    counter = Counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counter.claim, R1)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as second:
            second.start_soon(counter.claim, R1)
            await trio.testing.wait_all_tasks_blocked()
            counter.desk.wake([R1])
            await trio.testing.wait_all_tasks_blocked()
            assert counter.queue.looks == 3
    assert counter.got == [(30.0, 0)] * 2
    assert counter.queue.looks == 3


async def test_a_woken_claim_that_is_cancelled_passes_the_wake_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-103: a client that leaves with a wake in hand does not take it along."""
    counter = Counter()
    scope = trio.CancelScope()

    async def leave() -> None:
        with scope:
            await counter.claim(R1, R2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(counter.claim, R1)
        await trio.testing.wait_all_tasks_blocked()
        counter.put(R1)
        scope.cancel()
    assert scope.cancelled_caught
    assert counter.got == [(0.0, 1)]


async def test_a_woken_claim_that_fails_passes_the_wake_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-103: an attempt that ends in an error hands its wake to the next claim."""
    counter = Counter()

    async def fail() -> None:
        with pytest.raises(WakefulError):
            await counter.claim(R1)
        counter.got.append((trio.current_time(), -1))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(counter.claim, R1)
        await trio.testing.wait_all_tasks_blocked()
        counter.queue.fails = 1
        counter.put(R1)
    assert counter.got == [(0.0, -1), (0.0, 1)]


async def test_a_claim_looks_again_at_a_known_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-105: a wait ends at the instant that the queue named, by the database's own clock."""
    counter = Counter()

    async def attempt() -> ClaimAttempt:
        found = await counter.queue.attempt([R1])
        if trio.current_time() < 12:
            return attrs.evolve(found, next_look_at=NOW + timedelta(seconds=12))
        return found

    async def appear() -> None:
        await trio.sleep(11)  # paced: virtual time
        counter.queue.ready[R1] = 1  # without a hint, as time brings it

    async with trio.open_nursery() as nursery:
        nursery.start_soon(appear)
        runs = await counter.desk.claim(attempt, [R1], 30)
    assert (len(runs), counter.queue.looks, trio.current_time()) == (1, 2, 12.0)


async def test_looking_again_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    """A queue that always asks to look again is looked at with pauses, not in a loop."""
    counter = Counter()

    async def attempt() -> ClaimAttempt:
        return attrs.evolve(await counter.queue.attempt([R1]), next_look_at=NOW)

    assert await counter.desk.claim(attempt, [R1], 1) == ()
    rounds = 1 / limits.CLAIM_PAUSE_SECONDS_MIN + 1
    assert counter.queue.looks <= (rounds + 1) * (limits.CLAIM_ROUNDS_MAX + 1)


async def test_contention_is_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    """W-071: an attempt that met contention is repeated a few times before the daemon hears it."""
    looks = 0

    async def attempt() -> ClaimAttempt:
        nonlocal looks
        await trio.lowlevel.checkpoint()
        looks += 1
        raise WakefulError("contention", "held")

    with pytest.raises(WakefulError) as caught:
        await ClaimDesk().claim(attempt, [R1], 30)
    assert caught.value.code == "contention"
    assert looks == limits.CLAIM_ROUNDS_MAX + 1


async def test_everybody_looks_after_a_loss_of_hints(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """W-073: when hints may have been lost every waiting claim looks again."""
    counter = Counter()
    async with trio.open_nursery() as nursery:
        for runtime_id in (R1, R2):
            nursery.start_soon(counter.claim, runtime_id)
        await trio.testing.wait_all_tasks_blocked()
        counter.queue.ready = {R1: 1, R2: 1}
        counter.desk.wake_all()
    assert counter.got == [(0.0, 1)] * 2


async def test_the_desk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More waiting claims than the bound are refused as overload."""
    monkeypatch.setattr(limits, "WAITING_CLAIMS_MAX", 1)
    counter = Counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(counter.claim, R1)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(WakefulError) as caught:
            await counter.claim(R1)
        assert caught.value.code == "overloaded"
        nursery.cancel_scope.cancel()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.sets(st.sampled_from([R1, R2]), min_size=1)),
        st.tuples(st.just("put"), st.sampled_from([R1, R2])),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("turn"), st.integers(1, 3)),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(steps=STEPS)
def test_no_run_waits_beside_a_waiting_claim(steps: list[tuple[str, Any]]) -> None:
    """W-103: whatever comes, goes and is cancelled when, no run is left beside a claim for it."""

    async def play() -> None:
        counter = Counter()
        waiting: list[tuple[set[UUID], trio.CancelScope]] = []

        async def claim(runtime_ids: set[UUID], scope: trio.CancelScope) -> None:
            with scope:
                await counter.claim(*runtime_ids, seconds=1_000)
            waiting.remove((runtime_ids, scope))

        async with trio.open_nursery() as nursery:
            for step, what in steps:
                if step == "claim":
                    waiting.append((what, trio.CancelScope()))
                    nursery.start_soon(claim, *waiting[-1])
                elif step == "put":
                    counter.put(what)
                elif step == "cancel" and waiting:
                    waiting[what % len(waiting)][1].cancel()
                elif step == "turn":
                    for _ in range(what):
                        await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            for runtime_ids, _ in waiting:
                assert not any(counter.queue.ready.get(each) for each in runtime_ids)
            assert counter.desk.waiting == len(waiting)
            nursery.cancel_scope.cancel()
        assert counter.desk.waiting == 0

    trio.run(play)


# --- Signs of life ------------------------------------------------------------------------------


def _daemon(token: int) -> Principal:
    return Principal(kind=PrincipalKind.DAEMON, workspace_id=UUID(int=9), token_id=UUID(int=token))


def _beat(*runtime_ids: UUID, daemon_id: str = "d") -> Heartbeat:
    return Heartbeat(daemon_id=daemon_id, runtime_ids=runtime_ids)


async def test_signs_of_life_are_written_once_a_minute(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A runtime's sign of life is written at most once a minute, for each token and daemon."""
    book, written = Heartbeats(), list[tuple[float, Heartbeat]]()

    async def write(command: Heartbeat) -> None:
        await trio.lowlevel.checkpoint()
        written.append((trio.current_time(), command))

    for _ in range(10):
        await book.beat(_daemon(1), _beat(R1), write)
        await trio.sleep(15)  # paced: virtual time
    assert [time for time, _ in written] == [0, 60, 120]
    written.clear()
    await book.beat(_daemon(1), _beat(R1, R2), write)
    await book.beat(_daemon(2), _beat(R1), write)
    await book.beat(_daemon(1), _beat(R1, daemon_id="e"), write)
    assert [command for _, command in written] == [
        _beat(R2),
        _beat(R1),
        _beat(R1, daemon_id="e"),
    ]


async def test_a_sign_of_life_that_was_not_written_is_written_next_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A sign of life that could not be stored does not count as written."""
    book, written = Heartbeats(), list[Heartbeat]()

    async def fail(command: Heartbeat) -> None:
        await trio.lowlevel.checkpoint()
        raise WakefulError("database_unavailable", "gone")

    async def write(command: Heartbeat) -> None:
        await trio.lowlevel.checkpoint()
        written.append(command)

    with pytest.raises(WakefulError):
        await book.beat(_daemon(1), _beat(R1), fail)
    await book.beat(_daemon(1), _beat(R1), write)
    await book.beat(_daemon(1), _beat(R1), fail)
    assert written == [_beat(R1)]


async def test_the_book_forgets_what_is_older_than_a_minute(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The book holds the runtimes of the last minute, however many have ever been named."""
    book = Heartbeats()

    async def write(command: Heartbeat) -> None:
        await trio.lowlevel.checkpoint()

    for number in range(300):
        await book.beat(_daemon(1), _beat(UUID(int=number)), write)
        await trio.sleep(1)  # paced: virtual time
    assert len(book._written) <= limits.HEARTBEAT_WRITE_SECONDS + 1
