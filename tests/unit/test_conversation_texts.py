from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.domain.attachments import UNKNOWN_TYPE, filename, media_type, url
from engine.domain.reactions import emoji
from engine.errors import WakefulError


@pytest.mark.parametrize(
    "text",
    [
        "\U0001f44d",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\u2764\ufe0f",
        "\U0001f1e9\U0001f1ea",
        "+1",
        ":tada:",
        "?",
        "%",
        "#",
        "x" * 64,
        "\U0001f44d" * 16,
    ],
)
def test_an_emoji_is_what_one_types(text: str) -> None:
    """Signs, sequences that joiners hold together, and short codes are emojis, kept as they are."""
    assert emoji("emoji", text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", " x", "x\u3000", "x" * 65, "\U0001f44d" * 17),
        *("\x7f", "a\tb", "\x85", "\u2028", "\x00", "\ud800"),
        *("a/b", "/", ".", ".."),
    ],
)
def test_what_is_no_emoji_is_refused(text: str) -> None:
    """Empty, too long, blank at an end, with controls, or no single part of an address: 400."""
    with pytest.raises(WakefulError) as caught:
        emoji("emoji", text)
    assert (caught.value.code, caught.value.details) == ("invalid_input", {"field": "emoji"})


@pytest.mark.parametrize("text", ["plan.pdf", "  a b.txt ", "Übersicht (1).pdf", ".profile", "…"])
def test_a_file_has_a_plain_name(text: str) -> None:
    """A name is one line without a path, and loses the blanks around it."""
    assert filename("filename", text) == text.strip()


@pytest.mark.parametrize(
    "text",
    ["", " ", "a/b", "..\\a", ".", "..", "/etc/passwd", "a\nb", "a\x7fb", "a\x00", "x" * 256],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    """Paths, controls, nothing at all and more than 255 characters are 400 with the field."""
    with pytest.raises(WakefulError) as caught:
        filename("filename", text)
    assert (caught.value.code, caught.value.details) == ("invalid_input", {"field": "filename"})


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/plan.pdf",
        "HTTP://EXAMPLE.COM",
        "http://[::1]:8765/a?b=c#d",
        "https://müller.example/ä%20b",
    ],
)
def test_an_address_is_one_of_the_web(text: str) -> None:
    """Addresses with http or https and a host are taken as they are."""
    assert url("url", text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "//example.com/a",
        "ftp://example.com/a",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,x",
        "https:///path",
        "https://",
        "https://example.com:port/",
        "https://example.com:99999/",
        "https://[::1/",
        "https://example.com/a b",
        " https://example.com",
        "https://example.com/\x00",
        "https://example.com/" + "a" * 2_000,
    ],
)
def test_what_is_no_address_of_the_web_is_refused(text: str) -> None:
    """Other schemes, no host, blanks, controls and endless addresses are 400 with the field."""
    with pytest.raises(WakefulError) as caught:
        url("url", text)
    assert (caught.value.code, caught.value.details) == ("invalid_input", {"field": "url"})


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("text/plain", "text/plain"),
        (" Text/HTML; charset=utf-8", "text/html"),
        ("image/svg+xml", "image/svg+xml"),
        (None, UNKNOWN_TYPE),
        ("", UNKNOWN_TYPE),
        ("text", UNKNOWN_TYPE),
        ("text/plain\r\nX: y", UNKNOWN_TYPE),
        ("a/" + "b" * 128, UNKNOWN_TYPE),
    ],
)
def test_a_media_type_is_well_formed_or_unknown(text: str | None, kept: str) -> None:
    """What an upload calls itself is kept in lower case without parameters, if it is a type."""
    assert media_type(text) == kept


@given(st.text())
def test_no_text_crashes_a_check(text: str) -> None:
    """Any text is taken, or refused with a 400."""
    refusals = []
    for check in (emoji, filename, url):
        try:
            check("field", text)
        except WakefulError as error:
            refusals.append(error.kind.status)
    assert set(refusals) <= {400}
    assert "/" in media_type(text)
