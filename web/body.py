"""Bodies and texts of requests: read within bounds, and refused before any route sees them.

What comes out of `parse` is an ordinary JSON object of Python values which PostgreSQL can store:
UTF-8, no NUL, no lone surrogate, finite numbers, each key once, at most 64 levels deep (api.md,
Conventions; anchors F10 and F11). What comes out of `upload` are the fields of one file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NoReturn
from urllib.parse import parse_qsl

import trio
from quart import Request
from werkzeug.sansio import multipart

from engine import limits
from engine.errors import WakefulError, invalid

_JSON_TYPES: Final = frozenset({"", "application/json", "application/merge-patch+json"})
_CHARSETS: Final = frozenset({"utf-8", "utf8"})
MULTIPART: Final = "multipart/form-data"
FILE: Final = "file"  # the name of the one part that an upload has


async def read(request: Request, bytes_max: int, *, files: bool = False) -> bytes:
    """Return the body of a request once all of it is here.

    Raises `body_too_large` above `bytes_max` without reading on, `request_timeout` when it trickles
    in for too long, `unsupported_media_type` for anything that is not called JSON, nor with `files`
    an upload.
    """
    announced = request.content_length
    if announced is not None and announced > bytes_max:
        raise _too_large(bytes_max)
    parts: list[bytes] = []
    size = 0
    with trio.move_on_after(limits.BODY_SECONDS_MAX) as scope:
        async for part in request.body:
            size += len(part)
            if size > bytes_max:
                raise _too_large(bytes_max)
            parts.append(part)
    if scope.cancelled_caught:
        raise WakefulError("request_timeout", "The body did not arrive in time.")
    if size and not (files and is_upload(request)):
        _check_media_type(request)
    return b"".join(parts)


def is_upload(request: Request) -> bool:
    """Tell whether a body calls itself the form with which browsers and tools upload files."""
    return request.mimetype == MULTIPART


def parse(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; an empty body is an empty object.

    Raises `invalid_encoding` or `invalid_json`, with the field where it is known.
    """
    if not raw.strip():
        return {}
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise WakefulError("invalid_encoding", "The body is not valid UTF-8.") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite
        )
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise WakefulError("invalid_json", "The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise WakefulError("invalid_json", "The body must be a JSON object.")
    _check_depth(value, text)
    _check_texts(value, text)
    return value


def upload(raw: bytes, boundary: str | None) -> dict[str, Any]:
    """Return `filename`, `content_type` (if it has one) and `content` of the one file in a form.

    Raises `invalid_multipart` for what is no such form (RFC 7578), `missing_field` without a file
    or its name, `unknown_field` for a part of another name, `invalid_input` for a second part, and
    `invalid_encoding` for a name that is no text.
    """
    if not boundary or not boundary.isascii():
        raise _unreadable()
    decoder = multipart.MultipartDecoder(boundary.encode())
    try:
        # Headers are taken apart at some cost, so only so much is looked through for them.
        decoder.receive_data(raw[: limits.UPLOAD_HEAD_BYTES_MAX])
        fields = _file(_first_part(decoder))
        decoder.receive_data(raw[limits.UPLOAD_HEAD_BYTES_MAX :])
        decoder.receive_data(None)
        content = _content(decoder)
    except UnicodeDecodeError:
        raise invalid(FILE, "its headers are not valid UTF-8", code="invalid_encoding") from None
    except ValueError:
        raise _unreadable() from None
    return {**fields, "content": content}


def _first_part(decoder: multipart.MultipartDecoder) -> multipart.File | multipart.Field:
    """Return the headers of the first part of a form. Raises 400 when there is none."""
    event = decoder.next_event()
    if isinstance(event, multipart.Preamble):
        event = decoder.next_event()
    if isinstance(event, multipart.File | multipart.Field):
        return event
    if decoder.state is multipart.State.EPILOGUE:
        raise invalid(FILE, "the file is missing", code="missing_field")
    raise _unreadable()


def _file(part: multipart.File | multipart.Field) -> dict[str, Any]:
    """Return what the headers of a part say of its file. Raises 400 unless it is one, and named."""
    if part.name != FILE:
        named = field_name([part.name or ""])
        raise invalid(named, f"{named}: unknown field", code="unknown_field")
    name = part.filename if isinstance(part, multipart.File) else ""
    if not name:
        raise invalid("filename", "the file has no name", code="missing_field")
    _check_text(("filename",), name)
    media_type = part.headers.get("content-type")
    typed = {} if media_type is None else {"content_type": media_type}
    return {"filename": name, **typed}


def _content(decoder: multipart.MultipartDecoder) -> bytes:
    """Return the content of the part that is being read. Raises 400 unless the form ends with it.

    A form that just stops is a ValueError.
    """
    data: list[bytes] = []
    is_open = True
    while is_open:
        event = decoder.next_event()
        assert isinstance(event, multipart.Data), "within a part there is nothing but data"
        data.append(event.data)
        is_open = event.more_data
    if decoder.state is not multipart.State.EPILOGUE:
        raise invalid(FILE, "an upload has one part, the file")
    return b"".join(data)


def _unreadable() -> WakefulError:
    return invalid(FILE, "the form cannot be read", code="invalid_multipart")


def query(raw: bytes) -> dict[str, str]:
    """Return the fields of a query string, each of which may be given once.

    The gate has refused texts that are not UTF-8 (`text_of`).
    """
    if len(raw) > limits.QUERY_BYTES_MAX:
        raise WakefulError("invalid_input", "The query is too long.")
    fields: dict[str, str] = {}
    for name, value in parse_qsl(raw.decode("latin-1"), keep_blank_values=True):
        if name in fields:
            raise invalid(field_name([name]), "the field is given more than once")
        fields[name] = value
    return fields


def field_name(path: Iterable[object]) -> str:
    """Return the dotted name of a place in a body, short enough to be repeated in an error."""
    name = ".".join(map(str, path))[: limits.FIELD_CHARS_MAX]
    return name.encode(errors="replace").decode()


def _check_media_type(request: Request) -> None:
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if request.mimetype not in _JSON_TYPES or charset not in _CHARSETS:
        raise WakefulError("unsupported_media_type", "The body must be application/json in UTF-8.")


def _too_large(bytes_max: int) -> WakefulError:
    return WakefulError("body_too_large", f"The body may have at most {bytes_max} bytes.")


def _too_deep() -> WakefulError:
    return WakefulError(
        "invalid_json", f"The body may be at most {limits.JSON_DEPTH_MAX} levels deep."
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; a key that stands twice would mean different things to different readers."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise invalid(field_name([twice]), "the key stands twice", code="invalid_json")
    return fields


def _no_number(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError("a number beyond what a double can hold")
    return number


def _check_depth(body: dict[str, Any], text: str) -> None:
    """Refuse what is nested too deep, without recursion; few brackets need no look."""
    if text.count("{") + text.count("[") <= limits.JSON_DEPTH_MAX:
        return
    level: list[dict[str, Any] | list[Any]] = [body]
    for _ in range(limits.JSON_DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise _too_deep()


def _check_texts(body: dict[str, Any], text: str) -> None:
    """Refuse NUL and lone surrogates; only an escape can have brought them past the decoder."""
    if "\\u" not in text:
        return
    waiting: list[tuple[tuple[object, ...], object]] = [((), body)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            _check_text(path, value)
        elif isinstance(value, dict):
            waiting.extend(((*path, "(name)"), name) for name in value)
            waiting.extend(((*path, name), inner) for name, inner in value.items())
        elif isinstance(value, list):
            waiting.extend(((*path, place), inner) for place, inner in enumerate(value))


def _check_text(path: tuple[object, ...], text: str) -> None:
    if "\x00" in text:
        raise invalid(field_name(path), "the text holds a NUL character", code="invalid_encoding")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise invalid(
            field_name(path), "the text holds half a surrogate pair", code="invalid_encoding"
        ) from None
