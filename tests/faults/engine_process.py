"""A process that owns an embedded server, for tests to kill.

`engine_process.py DIRECTORY [UID GID]` becomes UID first, if given. It prints `ready PID SOCKETS`
when the server runs; a line on standard input ends it in order, and `stopped` follows.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from engine.storage.postgres import Postgres


def main(directory: str, *account: str) -> None:
    """Start, report, wait for a line, stop."""
    if account:
        uid, gid = map(int, account)
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    postgres = Postgres(Path(directory))
    postgres.start()
    sys.stdout.write(f"ready {postgres.pid} {postgres._sockets}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    postgres.stop()
    sys.stdout.write("stopped\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
