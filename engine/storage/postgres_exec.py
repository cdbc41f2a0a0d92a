"""Turn this process into a PostgreSQL program: drop privileges, follow the parent into death, exec.

Run by path, with an isolated interpreter (`python -I -S postgres_exec.py PARENT UID GID DIRECTORY
PROGRAM ARGUMENT...`), as a child of the supervisor. It stands between fork and exec instead of a
`preexec_fn`, which is unsafe in a process with threads. It imports nothing of the engine, because
the unprivileged user may be unable to read the engine's files.

The order matters: change directory while it is still allowed; change user before asking for the
death signal, since a change of user clears it (prctl(2)); look at the parent after asking, since
it may have died before.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1
ORPHANED: Final = 98  # exit status: the parent was gone before PostgreSQL began
NOT_STARTED: Final = 97  # exit status: some call failed; the reason is on stderr


def main(arguments: list[str]) -> None:
    """Exec PROGRAM as UID and GID in DIRECTORY; return only by exit.

    The program gets SIGQUIT when the thread that started this process ends: an immediate
    shutdown, which unlike SIGINT never hangs in a server that is re-initialising.
    """
    parent, uid, gid, directory, *command = arguments
    os.chdir(directory)
    if os.geteuid() != int(uid):
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    os.umask(0o077)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):
        sys.exit(ORPHANED)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the interpreter ignores it, and exec keeps that
    os.execv(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        print(f"postgres_exec: {error}", file=sys.stderr)  # noqa: T201 - stderr is the server log
        sys.exit(NOT_STARTED)
