"""Bodies and queries: what is read, and with which code the rest is refused."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import limits
from engine.errors import WakefulError
from tests.web.conftest import Server
from web import body

DEPTH = limits.JSON_DEPTH_MAX


def nested(levels: int) -> bytes:
    """Return an object that is so many levels deep, itself included."""
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


@pytest.mark.parametrize("raw", [b"", b" \n", b"{}"])
def test_an_empty_body_is_an_empty_object(raw: bytes) -> None:
    """What needs no field needs no body."""
    assert body.parse(raw) == {}


def test_a_body_keeps_its_values() -> None:
    """Texts, escapes, whole and broken numbers, true, false and null arrive as they were sent."""
    raw = '{"a": ["\\u00fc\\ud83d\\ude00😀", 1, -2.5, 1e3, true, false, null, {"b": {}}]}'
    assert body.parse(raw.encode()) == {
        "a": ["ü😀😀", 1, -2.5, 1000.0, True, False, None, {"b": {}}]
    }


@pytest.mark.parametrize(
    ("raw", "code", "field"),
    [
        (b"\xff", "invalid_encoding", None),
        (b'{"a": "\xed\xa0\x80"}', "invalid_encoding", None),
        (b'{"a": "\\u0000"}', "invalid_encoding", "a"),
        (b'{"a": ["x", {"b": "\\u0000"}]}', "invalid_encoding", "a.1.b"),
        (b'{"a": "\\ud800"}', "invalid_encoding", "a"),
        (b'{"a": "\\udc00\\ud800"}', "invalid_encoding", "a"),
        (b'{"\\ud800": 1}', "invalid_encoding", "(name)"),
        (b'{"\\ud800": {"b": "\\u0000"}}', "invalid_encoding", "?.b"),
        (b'{"a\\u0000": 1}', "invalid_encoding", "(name)"),
        (b'{"a": "\x00"}', "invalid_json", None),
        (b"\x00", "invalid_json", None),
        (b"\xef\xbb\xbf{}", "invalid_json", None),
        (b"{", "invalid_json", None),
        (b"{} {}", "invalid_json", None),
        (b"{'a': 1}", "invalid_json", None),
        (b"[]", "invalid_json", None),
        (b'"text"', "invalid_json", None),
        (b"null", "invalid_json", None),
        (b'{"a": NaN}', "invalid_json", None),
        (b'{"a": -Infinity}', "invalid_json", None),
        (b'{"a": 1e999}', "invalid_json", None),
        (b'{"a": ' + b"9" * 5000 + b"}", "invalid_json", None),
        (b'{"a": 1, "b": 2, "a": 3}', "invalid_json", "a"),
        (b'{"x": {"b": 1, "b": 2}}', "invalid_json", "b"),
        (nested(DEPTH + 1), "invalid_json", None),
        (b'{"a": ' + b"[" * DEPTH + b"]" * DEPTH + b"}", "invalid_json", None),
        (nested(100_000), "invalid_json", None),
        (b"[" * 1_000_000, "invalid_json", None),
        (b'{"a": ' + b"[" * 900 + b"]" * 900 + b"}", "invalid_json", None),
    ],
)
def test_a_bad_body_is_refused_by_code(raw: bytes, code: str, field: str | None) -> None:
    """Not UTF-8, NUL, half surrogates, no JSON, twice a key, too deep: 400, with the field."""
    with pytest.raises(WakefulError) as caught:
        body.parse(raw)
    assert caught.value.code == code
    assert caught.value.kind.status == 400
    assert caught.value.details.get("field") == field


def test_brackets_in_texts_are_not_depth() -> None:
    """Only nesting counts: many brackets side by side, or inside a text, are sound."""
    assert body.parse(nested(DEPTH))
    assert body.parse(json.dumps({"a": "[{" * 500, "b": [[[]]] * 500}).encode())


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), values))
def test_any_storable_object_is_read_as_it_is(value: dict[str, Any]) -> None:
    """Every JSON object without NUL is read back equal, escaped or not; with NUL it is refused."""
    for raw in (json.dumps(value).encode(), json.dumps(value, ensure_ascii=False).encode()):
        if "\\u0000" in json.dumps(value):
            with pytest.raises(WakefulError):
                body.parse(raw)
        else:
            assert body.parse(raw) == value


@given(st.binary() | st.text(alphabet='{}[]":,\\u0d8e1 ').map(str.encode))
def test_no_bytes_crash_the_reader(raw: bytes) -> None:
    """Any bytes are either an object that UTF-8 can hold, or a 400."""
    refusal = None
    try:
        read = body.parse(raw)
    except WakefulError as error:
        refusal = error
    if refusal is None:
        assert "\x00" not in json.dumps(read, ensure_ascii=False).encode().decode()
    else:
        assert refusal.kind.status == 400
        assert json.dumps(refusal.details).encode()


@pytest.mark.parametrize(
    ("media_type", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("Application/JSON; Charset=UTF-8", 201),
        (None, 201),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/json; charset=latin-1", 415),
        ("multipart/form-data; boundary=x", 415),
    ],
)
async def test_a_body_is_called_json(
    client: httpx.AsyncClient, media_type: str | None, status: int
) -> None:
    """A body is application/json in UTF-8, or says nothing about itself; else 415."""
    headers = {} if media_type is None else {"Content-Type": media_type}
    response = await client.post("/issues", content=b'{"title": "a"}', headers=headers)
    assert response.status_code == status
    if status == 415:
        assert response.json()["code"] == "unsupported_media_type"


async def test_a_body_that_trickles_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client cannot keep the instance awake with half a body: 408 after a while."""
    monkeypatch.setattr(limits, "BODY_SECONDS_MAX", 0.05)
    monkeypatch.setattr(limits, "LINGER_SECONDS_MAX", 0.05)
    raw = await server.exchange(
        b"POST /api/issues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wkm_member\r\n"
        b'Content-Length: 100\r\n\r\n{"title":'
    )
    assert raw.startswith(b"HTTP/1.1 408")
    assert b'"code":"request_timeout"' in raw


async def test_a_body_in_pieces_is_one_body(server: Server) -> None:
    """Chunks may split a body anywhere, also inside a character."""
    text = '{"title": "ü"}'.encode()
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in text)
    raw = await server.exchange(
        b"POST /api/issues HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wkm_member\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\n\r\n"
    )
    assert raw.startswith(b"HTTP/1.1 201")
