"""`wakeful attach`: a file for an issue or a comment."""

from __future__ import annotations

from pathlib import Path

import click

from cli.connection import Failure, Found, calling, server_options
from cli.keys import key_option
from cli.output import print_json
from cli.targets import only_one, target_options
from client import limits
from client.api import Wakeful


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@target_options
@click.option("--name", help="What it is called there.  [default: as here]")
@key_option
@server_options
def attach(
    found: Found,
    *,
    file: Path,
    issue: str | None,
    comment: str | None,
    name: str | None,
    idempotency_key: str | None,
) -> None:
    """Upload FILE and hang it on an issue or a comment.

    With neither it hangs on nothing, and only you, owners and admins see it.
    """
    only_one(issue, comment)
    content = _content(file)
    with calling(found) as api:
        target = _target(api, issue, comment)
        made = api.upload(name or file.name, content, idempotency_key=idempotency_key)
        print_json(api.bind_attachment(made["id"], **target) if target else made)


def _content(file: Path) -> bytes:
    """Return what is in a file. Raises `Failure` for one that cannot be read or is too large."""
    try:
        with file.open("rb") as opened:
            content = opened.read(limits.FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}") from None
    if len(content) > limits.FILE_BYTES_MAX:
        raise Failure(f"{file} has more than {limits.FILE_BYTES_MAX} bytes")
    return content


def _target(api: Wakeful, issue: str | None, comment: str | None) -> dict[str, str]:
    """Return what to hang the file on; an issue that is not there is said before the upload."""
    if issue is not None:
        return {"issue_id": api.issue(issue)["id"]}
    return {} if comment is None else {"comment_id": comment}
