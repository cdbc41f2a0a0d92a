"""Whom a comment mentions: the text is read here, who that is the database knows.

Two ways of writing count: `@Name`, a single word, and `[@Any Name](mention://agent/<uuid>)`. What
stands in code is quoted, not said, so nobody is mentioned there.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

import attrs

from engine.limits import MENTIONS_MAX, NAME_CHARS_MAX

# Each pattern is linear in the text: what may repeat cannot contain what opens it.
_FENCED: Final = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.DOTALL | re.MULTILINE)
_INLINE: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(
    rf"\[@[^\[\]\n]{{1,{NAME_CHARS_MAX}}}\]"
    r"\(mention://agent/([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(rf"(?<![\w@./-])@(\w[\w.-]{{0,{NAME_CHARS_MAX - 1}}})(?![\w@])")


@attrs.frozen(kw_only=True)
class Mentions:
    """Ids and names of agents in the order of the text, each once; names are as written."""

    agent_ids: tuple[UUID, ...] = ()
    names: tuple[str, ...] = ()


def parse(body: str) -> Mentions:
    """Return the first MENTIONS_MAX ids and the first MENTIONS_MAX names that `body` mentions."""
    said = _INLINE.sub(" ", _FENCED.sub(" ", body))
    ids = dict.fromkeys(UUID(match.group(1)) for match in _LINK.finditer(said))
    names = dict.fromkeys(
        match.group(1).rstrip(".-") for match in _WORD.finditer(_LINK.sub(" ", said))
    )
    return Mentions(
        agent_ids=tuple(ids)[:MENTIONS_MAX],
        names=tuple(names)[:MENTIONS_MAX],
    )
