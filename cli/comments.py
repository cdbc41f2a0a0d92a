"""`wakeful comment`: what becomes of comments; `wakeful issue comment` makes them."""

from __future__ import annotations

import sys
from typing import TextIO

import click

from cli.connection import Failure, Found, calling, known, server_options
from cli.output import print_json


@click.group()
def comment() -> None:
    """Edit, delete and resolve comments; COMMENT is an id."""


def text_of(body: str | None, body_file: TextIO | None) -> str:
    """Return the text of a comment: the argument, a file, or standard input."""
    if body is not None and body_file is not None:
        raise Failure("give the text either as an argument or as a file")
    return body if body is not None else (body_file or sys.stdin).read()


@comment.command("edit")
@click.argument("comment", metavar="COMMENT")
@click.argument("body", required=False)
@click.option("--body-file", type=click.File(encoding="utf-8"), help="Take the text from a file.")
@server_options
def edit(found: Found, comment: str, body: str | None, body_file: TextIO | None) -> None:
    """Give a comment another text: BODY, or what stands on standard input."""
    text = text_of(body, body_file)
    with calling(found) as api, known("comment"):
        print_json(api.edit_comment(comment, text))


@comment.command("delete")
@click.argument("comment", metavar="COMMENT")
@server_options
def delete(found: Found, comment: str) -> None:
    """Take a comment back for good; its replies stay."""
    with calling(found) as api, known("comment"):
        api.delete_comment(comment)
    print_json({"id": comment, "deleted": True})


@comment.command("resolve")
@click.argument("comment", metavar="COMMENT")
@server_options
def resolve(found: Found, comment: str) -> None:
    """Mark a comment as dealt with."""
    with calling(found) as api, known("comment"):
        print_json(api.resolve_comment(comment))


@comment.command("unresolve")
@click.argument("comment", metavar="COMMENT")
@server_options
def unresolve(found: Found, comment: str) -> None:
    """Take the mark of a resolved comment away."""
    with calling(found) as api, known("comment"):
        print_json(api.unresolve_comment(comment))
