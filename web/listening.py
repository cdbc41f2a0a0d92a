"""The socket that the server listens on, made here so that a failure to listen is a plain error."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def listening(host: str, port: int, path: Path | None) -> Iterator[socket.socket]:
    """Hold the socket to serve on: at `path` if one is given, else on `host` and `port`.

    It is bound from the start, so that nothing else has been done yet when that fails; closed in
    the end, and its file removed. Raises OSError.
    """
    listener = listen_on_port(host, port) if path is None else listen_on_path(path)
    own = None if path is None else path.stat().st_ino
    with listener:
        try:
            yield listener
        finally:
            if path is not None:
                _remove_own(path, own)


def listen_on_port(host: str, port: int) -> socket.socket:
    """Return a TCP socket bound to a host (a name or an address) and a port, 0 for a free one.

    Raises OSError.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def listen_on_path(path: Path) -> socket.socket:
    """Return a Unix socket bound to `path`, which only this user may connect to.

    A socket that a dead server left there is replaced. Raises OSError, also when somebody listens
    there or when the file is no socket.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead(path)
        listener.bind(str(path))
        path.chmod(0o600)
    except OSError:
        listener.close()
        raise
    return listener


def address(listener: socket.socket) -> str:
    """Return where a socket listens, as clients write it: a URL, or `unix:` and the path."""
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"unix:{name}"
    host, port = name[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _remove_own(path: Path, inode: int | None) -> None:
    """Remove the file of a socket, unless somebody has put another one there."""
    try:
        if path.stat().st_ino == inode:
            path.unlink()
    except FileNotFoundError:
        pass


def _remove_dead(path: Path) -> None:
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
