"""The work ledger: counts every piece of accepted work until it has ended (S-066 to S-072).

In memory, synchronous and below everything, so that whoever accepts work can count it. The sleep
report believes only what is counted here, so counting errs towards "busy": work is counted before
anybody can see it, and ends after its last effect. Work belongs to what is done, not to who waits
for it (S-067): a timeout, a cancelled waiter or a lost client ends no token.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from threading import Lock
from types import TracebackType
from typing import Self

import attrs


class WorkKind(StrEnum):
    """The fixed list of kinds, also the label of metrics (S-068)."""

    HTTP = "http"
    WS_SETUP = "ws_setup"
    WS = "ws"
    DRAIN_TRANSITION = "drain_transition"
    READ_AUTH = "read_auth"
    SCHEDULER = "scheduler"
    ACTOR = "actor"
    COORDINATOR_SWEEP = "coordinator_sweep"
    COORDINATOR_INTENT = "coordinator_intent"
    DISPATCH = "dispatch"
    STARTUP = "startup"
    BACKUP = "backup"
    WORKER_CALL = "worker_call"
    WORKER_HOST_WRITE = "worker_host_write"
    USAGE_CAPTURE = "usage_capture"
    CLEANUP_CAPTURE = "cleanup_capture"
    OBSERVATION = "observation"
    THREAD = "thread"
    SUBPROCESS = "subprocess"
    DETACHED = "detached"
    INSPECTION = "inspection"


@attrs.frozen
class LedgerSnapshot:
    """Both numbers of one moment: a scan compares the ones before and after it (S-074)."""

    active: int
    generation: int


class Token:
    """Proof that one piece of work has not ended; made by `WorkLedger.begin`.

    Leaving its `with` block finishes it; work that outlives the block calls `finish` itself.
    """

    __slots__ = ("_ledger", "kind", "name")

    def __init__(self, ledger: WorkLedger, kind: WorkKind, name: str) -> None:
        self._ledger = ledger
        self.kind = kind
        self.name = name

    def __repr__(self) -> str:
        return f"<Token {self.kind} {self.name!r}>"

    def finish(self) -> None:
        """End the work; from any thread, and only the first call counts (S-066)."""
        self._ledger.finish(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ledger.finish(self)


class WorkLedger:
    """Counts work in progress; `generation` tells that work happened, even if it has ended.

    Tokens may begin and finish in any thread. Messages to actors are counted by two integers of
    their own (S-072), which only the loop's thread writes, so that a message costs no object and
    no lock. The lock guards a few steps on memory; nothing is awaited or called under it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: dict[Token, None] = {}
        self._token_generation = 0
        self._mailbox_began = 0
        self._mailbox_finished = 0
        self._idle_calls: tuple[Callable[[], None], ...] = ()

    # --- Tokens: any thread ---------------------------------------------------------------------

    def begin(self, kind: WorkKind, name: str = "") -> Token:
        """Count one piece of work from now on and return its token.

        Raises:
            ValueError: `kind` is not one of `WorkKind` (S-068).
        """
        token = Token(self, WorkKind(kind), name)
        with self._lock:
            self._open[token] = None
            self._token_generation += 1
        return token

    def finish(self, token: Token) -> None:
        """End the work of `token`, unless it has ended before."""
        with self._lock:
            if token not in self._open:
                return
            del self._open[token]
            self._token_generation += 1
        if self._idle_calls:
            self._call_if_idle()

    def open_by_kind(self) -> Counter[WorkKind]:
        """Return how many pieces of work of each kind have begun and not ended."""
        with self._lock:
            return Counter(token.kind for token in self._open)

    # --- Mailbox work: the loop's thread only ---------------------------------------------------

    def mailbox_began(self) -> None:
        """Count one message; called before the message enters its inbox (S-072)."""
        self._mailbox_began += 1

    def mailbox_finished(self, count: int = 1) -> None:
        """End `count` messages: handled with reply and transaction, or their drop recorded."""
        self._mailbox_finished += count
        assert self._mailbox_finished <= self._mailbox_began
        if self._idle_calls:
            self._call_if_idle()

    # --- Reading --------------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """Pieces of work that have not ended."""
        return self.snapshot().active

    @property
    def generation(self) -> int:
        """Begins and ends so far, of tokens and of messages."""
        return self.snapshot().generation

    def snapshot(self) -> LedgerSnapshot:
        """Return both numbers of this moment; exact in the loop's thread.

        Another thread may see a message that has just ended as still active, never the reverse.
        """
        with self._lock:
            finished, began = self._mailbox_finished, self._mailbox_began
            return LedgerSnapshot(
                active=len(self._open) + began - finished,
                generation=self._token_generation + began + finished,
            )

    def active_by_kind(self) -> dict[WorkKind, int]:
        """Return how much is active of every kind, zeros included."""
        with self._lock:
            counts = Counter(token.kind for token in self._open)
            counts[WorkKind.ACTOR] += self._mailbox_messages()
        return {kind: counts[kind] for kind in WorkKind}

    def open_tokens(self) -> list[Token]:
        """Return the tokens that have not finished, oldest first, for diagnostics."""
        with self._lock:
            return list(self._open)

    def _mailbox_messages(self) -> int:
        finished = self._mailbox_finished  # first: what ends meanwhile counts as active
        return self._mailbox_began - finished

    # --- Waiting --------------------------------------------------------------------------------

    def call_when_idle(self, call: Callable[[], None]) -> None:
        """Have `call` called each time that nothing is active any more, until it is forgotten.

        It is called in the thread that ended the last work, with nothing locked, and must neither
        block nor raise. Whoever registers it looks at `active` afterwards: the last work may have
        ended before.
        """
        with self._lock:
            self._idle_calls = (*self._idle_calls, call)

    def forget(self, call: Callable[[], None]) -> None:
        """Undo `call_when_idle`; a call that is under way in another thread still happens."""
        with self._lock:
            self._idle_calls = tuple(each for each in self._idle_calls if each != call)

    def _call_if_idle(self) -> None:
        with self._lock:
            calls = () if self._open or self._mailbox_messages() else self._idle_calls
        for call in calls:
            call()
