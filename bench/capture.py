"""What capture costs the writers of comments, as ratios to the same inserts without our triggers.

Foreign keys stay on either way. Each pgbench client comments on issues of its own, 1,000 in all, so
that no two clients meet. Rounds without and with triggers follow each other in pairs, the order of
a pair changes, and the figure is the median of the pairs' ratios, because on a shared machine a
pair sees the same weather. Before each round the comments are emptied, what was touched is vacuumed
and a checkpoint is made, so that neither bloat nor full-page writes decide.

Columns: issues without any rule, issues with one rule each (facts merge into the receipt that is
free already), and the dearest case of all, in which each comment opens a receipt: with an engine's
settings, which ask for no NOTIFY, and as a foreign writer, whose commits NOTIFY puts in a line.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from bench.report import MS, Figure, Row, percentile
from bench.world import HINTED, NOTIFYING, Cluster, Sizes

DATABASE: Final = "capture"
CROWDED: Final = "crowded"
CLIENTS: Final = (1, 16)
ROUNDS: Final = 5  # of each column; the figure is their median
THREADS: Final = 2
ISSUES: Final = 1_000  # a workspace, and in each column except for the openings
PLAIN, RULED, OPENING = 0, 1_000, 2_000  # how many issues come before those of a column
OPENINGS: Final = 20_000  # issues that take one comment a round
OPENING_ROUNDS: Final = 3  # nothing is asked of them
OPENINGS_BY_ONE: Final = 4_000  # of them, by a single client, who is slower
CROWDED_RULES: Final = 32  # W-052
CROWDED_INSERTS: Final = 1_000  # W-052

_INSERT: Final = """
\\set workspace 1 + (:number - 1) / 1000
INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
VALUES (bench_id('8000', :number), bench_id('8001', :workspace), 'member',
        bench_id('8002', :workspace),
        'The second half is missing. Is it on its way, or shall I look for it myself?');
"""
# Any of the client's own issues, of which it has :own, after the :after-th issue of all.
_ANY: Final = "\\set number :after + :client_id * :own + random(1, :own)" + _INSERT
# The next of them, each once.
_NEXT: Final = "\\set turn :turn + 1\n\\set number :after + :client_id * :own + :turn" + _INSERT

_PREPARE: Final = """
ALTER TABLE comment :switch TRIGGER USER;
TRUNCATE comment, comment_reaction, attachment, attachment_content;
VACUUM ANALYZE comment, issue, issue_wakeup, issue_wakeup_receipt, capture_buffer;
CHECKPOINT;
"""
_FORGET: Final = "TRUNCATE issue_wakeup_receipt"
_OPEN: Final = """
INSERT INTO comment (issue_id, workspace_id, author_type, author_id, content)
SELECT i.id, i.workspace_id, i.creator_type, i.creator_id, 'What about the second half?'
  FROM issue i WHERE i.workspace_id = bench_id('8001', :workspace)
"""


@attrs.frozen(kw_only=True)
class _Column:
    """One way to insert comments."""

    is_captured: bool
    script: str
    after: int
    options: tuple[str, ...]
    session: str = HINTED
    opens: bool = False


@attrs.frozen
class _Load:
    """How many clients insert, and for how long where a round has no fixed number."""

    clients: int
    seconds: int
    openings: int

    def merging(self, after: int, *, is_captured: bool) -> _Column:
        """Return a column in which clients comment on any of their own issues, over and over."""
        return _Column(
            is_captured=is_captured,
            script=_ANY,
            after=after,
            options=(*self._own(ISSUES // self.clients), "-T", str(self.seconds)),
        )

    def opening(self, session: str = HINTED, *, is_captured: bool) -> _Column:
        """Return a column in which each issue is commented on once."""
        own = self.openings // self.clients
        return _Column(
            is_captured=is_captured,
            script=_NEXT,
            after=OPENING,
            options=(*self._own(own), "-D", "turn=0", "-t", str(own)),
            session=session,
            opens=True,
        )

    def _own(self, issues: int) -> tuple[str, ...]:
        threads = min(self.clients, THREADS)
        return ("-c", str(self.clients), "-j", str(threads), "-D", f"own={issues}")


def measure(cluster: Cluster, *, quick: bool) -> list[Row]:
    """Return the rows of both numbers of clients, and the row of a crowded issue."""
    workspaces = (OPENING + OPENINGS) // ISSUES
    sizes = Sizes(
        workspaces=workspaces, issues=ISSUES, first_rule=RULED + 1, last_rule=workspaces * ISSUES
    )
    cluster.create_world(DATABASE, sizes)
    rounds = 1 if quick else ROUNDS
    rows = []
    for clients in CLIENTS:
        openings = OPENINGS_BY_ONE if clients == 1 else OPENINGS
        load = _Load(clients, seconds=1 if quick else 2, openings=openings // (10 if quick else 1))
        rows += _rows(cluster, load, rounds)
    cluster.drop(DATABASE)
    return [*rows, _crowded_row(cluster, rounds)]


def _rows(cluster: Cluster, load: _Load, rounds: int) -> list[Row]:
    """Return the rows of one number of clients."""
    cluster.psql(DATABASE, _OPEN, workspace=RULED // ISSUES + 1)
    rows = []
    for what, after, at_least in (("no rule", PLAIN, 0.85), ("one rule each", RULED, 0.6)):
        columns = [load.merging(after, is_captured=on) for on in (False, True)]
        without, captured = _rates(cluster, columns, rounds)
        rows.append(_row(f"capture, {what}", load, without, captured, at_least))
    columns = [
        load.opening(is_captured=False),
        load.opening(is_captured=True),
        load.opening(NOTIFYING, is_captured=True),
    ]
    without, hinted, notifying = _rates(cluster, columns, min(rounds, OPENING_ROUNDS))
    return [
        *rows,
        _row("capture, each comment opens a receipt", load, without, hinted),
        _row("the same with NOTIFY", load, without, notifying),
    ]


def _rates(cluster: Cluster, columns: Sequence[_Column], rounds: int) -> list[list[float]]:
    """Return the inserts per second of each column in each round; the order turns."""
    rates: list[list[float]] = [[] for _ in columns]
    for turn in range(rounds):
        for place in range(len(columns)):
            index = (turn + place) % len(columns)
            rates[index].append(_rate(cluster, columns[index]))
    return rates


def prepare(cluster: Cluster, database: str, *, is_captured: bool) -> None:
    """Empty the comments, clean up, and switch capture of comments on or off."""
    cluster.psql(database, _PREPARE, switch="ENABLE" if is_captured else "DISABLE")


def random_comment() -> str:
    """Return the pgbench script of a client that comments on any of its `own` issues.

    They come after the issue of the number `after` and after those of the clients before it.
    """
    return _ANY


def _rate(cluster: Cluster, column: _Column) -> float:
    if column.opens:
        cluster.psql(DATABASE, _FORGET)
    prepare(cluster, DATABASE, is_captured=column.is_captured)
    options = ("-D", f"after={column.after}", *column.options)
    rate = cluster.pgbench(DATABASE, column.script, *options, session=column.session)
    cluster.psql(DATABASE, "ALTER TABLE comment ENABLE TRIGGER USER")
    return rate


def _row(
    what: str,
    load: _Load,
    without: Sequence[float],
    captured: Sequence[float],
    at_least: float | None = None,
) -> Row:
    ratios = [on / off for on, off in zip(captured, without, strict=True)]
    return Row(
        what=f"{what}, {load.clients} client{'s' * (load.clients > 1)}",
        figures=(
            Figure(name="ratio", value=statistics.median(ratios), at_least=at_least),
            Figure(name="min", value=min(ratios)),
            Figure(name="max", value=max(ratios)),
            Figure(name="captured", value=statistics.median(captured), unit="/s"),
            Figure(name="without", value=statistics.median(without), unit="/s"),
        ),
    )


# --- A crowded issue ----------------------------------------------------------------------------


def _crowded_row(cluster: Cluster, rounds: int) -> Row:
    """Return the row of W-052: the first issue has 32 rules, the second one none."""
    cluster.create_world(CROWDED, Sizes(issues=2, last_rule=1, rules_each=CROWDED_RULES))
    crowded, plain = [], []
    for _ in range(rounds):
        plain.append(_p99(cluster, after=1))
        crowded.append(_p99(cluster, after=0))
    added = [on - off for on, off in zip(crowded, plain, strict=True)]
    cluster.drop(CROWDED)
    return Row(
        what=f"capture adds to p99, {CROWDED_RULES} rules on the issue",
        figures=(
            Figure(name="", value=statistics.median(added) * MS, unit=" ms", at_most=5),
            Figure(name="p99 with", value=statistics.median(crowded) * MS, unit=" ms"),
            Figure(name="without", value=statistics.median(plain) * MS, unit=" ms"),
        ),
        proves=("W-052",),
    )


def _p99(cluster: Cluster, *, after: int) -> float:
    """Return the 99th percentile of inserts on the issue after the `after`-th, in seconds."""
    prepare(cluster, CROWDED, is_captured=True)
    with tempfile.TemporaryDirectory() as folder:
        options = ("-D", f"after={after}", "-D", "own=1", "-t", str(CROWDED_INSERTS))
        log = ("-l", f"--log-prefix={folder}/log")
        cluster.pgbench(CROWDED, _ANY, *options, *log)
        (file,) = Path(folder).iterdir()
        lines = file.read_text(encoding="ascii").splitlines()
    assert len(lines) == CROWDED_INSERTS
    return percentile([int(line.split()[2]) for line in lines], 99) / 1e6
