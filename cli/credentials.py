"""Writes `DATA_DIR/credentials.json`: how everybody on this machine finds the server (api.md).

The file holds `url`, `workspace`, `member_token` and `daemon_token`; only its owner may read it.
The tokens exist nowhere else, so it is kept over restarts and only its `url` follows the server.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cli.connection import CREDENTIALS


def write_credentials(data_dir: Path, fields: dict[str, str]) -> None:
    """Write the file whole or not at all. Raises OSError."""
    text = json.dumps(fields, indent=2) + "\n"
    write_whole(data_dir / CREDENTIALS, text, mode=0o600)


def update_url(data_dir: Path, url: str) -> bool:
    """Write the server's address into the file; False where there is none that can be used."""
    path = data_dir / CREDENTIALS
    try:
        fields: Any = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    if not isinstance(fields, dict):
        return False
    if fields.get("url") != url:
        write_credentials(data_dir, fields | {"url": url})
    return True


def write_whole(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Replace a file so that no reader ever sees a part of it. Raises OSError."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open already
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
