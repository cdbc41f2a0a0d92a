"""Whom a comment mentions: the text is read here, who that is the database knows.

Two ways of writing count: `@Name`, a single word, and `[@Any Name](mention://agent/<uuid>)`, with
`member` and the id of a user for a person. What stands in code is quoted, not said, so nobody is
mentioned there.
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
    r"\(mention://(agent|member)/([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})\)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(rf"(?<![\w@./-])@(\w[\w.-]{{0,{NAME_CHARS_MAX - 1}}})(?![\w@])")


@attrs.frozen(kw_only=True)
class Mentions:
    """Ids of agents and of people, and names, in the order of the text, each once.

    Names are as written; a name may be an agent's, a person's or that of both.
    """

    agent_ids: tuple[UUID, ...] = ()
    user_ids: tuple[UUID, ...] = ()
    names: tuple[str, ...] = ()


def parse(body: str) -> Mentions:
    """Return the first MENTIONS_MAX ids of each kind, and names, that `body` mentions."""
    said = _INLINE.sub(" ", _FENCED.sub(" ", body))
    agents: dict[UUID, None] = {}
    users: dict[UUID, None] = {}
    for match in _LINK.finditer(said):
        linked = agents if match.group(1).lower() == "agent" else users
        linked[UUID(match.group(2))] = None
    names = dict.fromkeys(
        match.group(1).rstrip(".-") for match in _WORD.finditer(_LINK.sub(" ", said))
    )
    return Mentions(
        agent_ids=tuple(agents)[:MENTIONS_MAX],
        user_ids=tuple(users)[:MENTIONS_MAX],
        names=tuple(names)[:MENTIONS_MAX],
    )
