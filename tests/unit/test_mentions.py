from __future__ import annotations

from time import perf_counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domain.mentions import Mentions, parse
from engine.limits import COMMENT_BYTES_MAX, MENTIONS_MAX

ID = UUID("0198f2f0-1234-7abc-8def-0123456789ab")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("@Bob", ("Bob",)),
        ("hi @Bob, and @eve!", ("Bob", "eve")),
        ("(@Bob) '@eve'", ("Bob", "eve")),
        ("@Bob @bob @Bob", ("Bob", "bob")),
        ("see @code-review.", ("code-review",)),
        ("@v1.2-x... now", ("v1.2-x",)),
        ("@Ärzte\n@日本", ("Ärzte", "日本")),
        ("bob@example.com", ()),
        ("@bob@example.com", ()),
        ("https://example.com/@bob ./@eve", ()),
        ("@ bob @", ()),
        ("@-x @.x", ()),
        ("@" + "x" * 201, ()),
    ],
)
def test_a_name_is_a_word_after_an_at_sign(body: str, names: tuple[str, ...]) -> None:
    """`@Name` mentions where it stands as a word of its own; addresses and paths are none."""
    assert parse(body) == Mentions(names=names)


@pytest.mark.parametrize(
    "body",
    [
        f"[@Big Helper](mention://agent/{ID})",
        f"[@x](mention://agent/{ID})[@y](mention://agent/{ID})",
        f"a[@@Bob's](MENTION://AGENT/{str(ID).upper()})b",
    ],
)
def test_a_link_mentions_by_id(body: str) -> None:
    """`[@Any Name](mention://agent/<uuid>)` mentions that agent once, and nobody by its text."""
    assert parse(body) == Mentions(agent_ids=(ID,))


@pytest.mark.parametrize(
    "body",
    [
        f"[x](mention://agent/{ID})",
        f"[@](mention://agent/{ID})",
        f"[@x](mention://member/{ID})",
        f"[@x y] (mention://agent/{ID})",
        "[@x y](mention://agent/1)",
    ],
)
def test_other_links_mention_no_id(body: str) -> None:
    """What is not exactly such a link is no mention by id."""
    assert parse(body).agent_ids == ()


def test_a_link_mentions_an_agent_or_a_person() -> None:
    """A link says which of the two it means; a person is meant by the id of the user."""
    link = f"[@Bob B.](mention://member/{ID})"
    assert parse(f"{link} {link}") == Mentions(user_ids=(ID,))
    found = parse(f"{link} [@x](Mention://Agent/{UUID(int=1)}) @eve")
    assert found == Mentions(agent_ids=(UUID(int=1),), user_ids=(ID,), names=("eve",))


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("`@Bob` @eve", ("eve",)),
        ("```\n@Bob\n```\n@eve", ("eve",)),
        ("```py\n@Bob\n", ()),
        ("  ```\n@Bob\n  ```", ()),
        ("a ``` b @eve", ("eve",)),
        ("`open @eve", ("eve",)),
        (f"`[@x](mention://agent/{ID})`", ()),
    ],
)
def test_code_is_quoted_not_said(body: str, names: tuple[str, ...]) -> None:
    """Nobody is mentioned in code, inline or fenced; a fence that stays open reaches to the end."""
    assert parse(body) == Mentions(names=names)


def test_a_comment_calls_only_so_many() -> None:
    """W-098: of each way of mentioning the first 32 count."""
    links = " ".join(f"[@x](mention://agent/{UUID(int=n)})" for n in range(40))
    people = links.replace("agent", "member")
    words = " ".join(f"@name{n}" for n in range(40))
    found = parse(f"{links} {people} {words}")
    assert found.agent_ids == found.user_ids == tuple(UUID(int=n) for n in range(MENTIONS_MAX))
    assert found.names == tuple(f"name{n}" for n in range(MENTIONS_MAX))


@pytest.mark.parametrize("part", ["[@", "@a", "`", "```\n", "[@a](", "@" + "a" * 199, "[@a", "@a."])
def test_the_longest_comment_is_read_quickly(part: str) -> None:
    """Reading takes time in proportion to the length: 256 KiB of openings are no trap."""
    body = part * (COMMENT_BYTES_MAX // len(part))
    started = perf_counter()
    parse(body)
    assert perf_counter() - started < 2


@given(st.text(alphabet="@[]()`ab \n.-/:", max_size=60))
def test_names_come_from_the_text(body: str) -> None:
    """Whatever the text, each name stands in it behind an at sign, and is given once."""
    found = parse(body)
    assert len(set(found.names)) == len(found.names)
    for name in found.names:
        assert f"@{name}" in body
