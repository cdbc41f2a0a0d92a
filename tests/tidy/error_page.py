"""Writes docs/errors.md from the table of errors, as `make errors`."""

from __future__ import annotations

from typing import Final

from engine.advice import ADVICE
from engine.errors import KINDS
from tests.tidy.sources import ROOT

PAGE: Final = "docs/errors.md"
_HEAD: Final = """\
# Errors

Written by `make errors` from `engine/errors.py` and `engine/advice.py`; do not edit it.

Every error of the API is `application/problem+json` with a `code` that stays the same for ever, the
`status` below and a `detail` for a person; a bad field is named by `details.field`. The command
line says the same in one line and ends with 1. Where a retry is marked, the same call may succeed a
moment later; such a 503 has `Retry-After`.

| code | status | retry | why it comes | what to do |
|---|---|---|---|---|
"""


def page() -> str:
    """Return the text of the page: by status, then by name."""
    codes = sorted(KINDS, key=lambda code: (KINDS[code].status, code))
    return _HEAD + "".join(
        f"| `{code}` | {KINDS[code].status} | {'yes' if KINDS[code].retryable else '-'}"
        f" | {ADVICE[code].cause} | {ADVICE[code].remedy} |\n"
        for code in codes
    )


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(), encoding="utf-8")
