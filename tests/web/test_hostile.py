"""Hostile values in every field of every route: always a 4xx that names the field, never a 5xx."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx
import pytest

from engine import limits
from tests.web.conftest import Server
from tests.web.sample import Sample
from tests.web.samples import SAMPLES
from tests.web.stand_in import DAEMON, MEMBER, StandInEngine

WRITES: Final = [each for each in SAMPLES if each.method != "GET"]
WITH_FIELDS: Final = [each for each in WRITES if each.full]

# Values that are wrong for a field whose sound value has this JSON type (W-003).
WRONG: Final[Mapping[type, tuple[Any, ...]]] = {
    str: (1, 1.5, True, [], {}, ["a"]),
    int: ("60", 60.5, 60.0, True, [], {}, 2**31, -(2**31) - 1, 10**400),
    bool: (1, 0, "true", [], {}),
    list: ("a", 1, {}, True, [[]], [None], [1.5]),
    dict: ("a", 1, [], True),
}
WRONG_IDS: Final = (
    "",
    "me",
    "0",
    "{00000000-0000-0000-0000-000000000001}",
    "urn:uuid:00000000-0000-0000-0000-000000000001",
    "00000000000000000000000000000001",
    "00000000-0000-0000-0000-00000000000g",
    "00000000-0000-0000-0000-000000000001 ",
    "\uff10\uff1000000-0000-0000-0000-000000000001",
)
WRONG_TIMES: Final = (
    "",
    "now",
    "2030-01-01",
    "2030-01-01T00:00:00",
    "2030-01-01 00:00:00Z",
    "2030-01-01T00:00Z",
    "2030-13-01T00:00:00Z",
    "2030-02-30T00:00:00Z",
    "2030-01-01T24:00:01Z",
    "2030-01-01T00:00:60Z",
    "2030-01-01T00:00:00+25:00",
    "2030-01-01T00:00:00+0100",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "2030-01-01T00:00:00Z[UTC]",
    "1893456000",
)
WRONG_DAYS: Final = ("", "2030", "2030-1-1", "2030-02-30", "2030-01-01T00:00:00Z", "20300101")
# Words of the library behind the schemas: a client speaks JSON, not Python.
FOREIGN: Final = re.compile(r"[Ii]nput|tuple|dict|extra|parse|not allowed")
TEXTS: Final = ('"\\u0000"', '"\\ud800"', '"\\udfff\\ud800"', '"a\\u0000b"')


def is_id(name: str) -> bool:
    """Tell whether a field of a sample holds an id."""
    return name.endswith("_id") and name != "daemon_id"


def wrong_values(name: str, sound: object) -> Iterator[Any]:
    """Yield values that a field must refuse, wherever it stands."""
    yield from WRONG[type(sound)]
    if is_id(name):
        yield from WRONG_IDS
    if name in {"at", "fire_at", "dispatched_at"}:
        yield from WRONG_TIMES
    if name.endswith("_date"):
        yield from WRONG_DAYS
    if name in {"invokers", "runtime_ids"}:
        yield from ([each] for each in (*WRONG_IDS, None, 1))
    if name == "event_types":
        yield from ([1], [None], [[]])
    if name == "lines":
        yield from ([1], ["a"], [None])
    if name == "revision":
        yield from (0, -1, 2**63)


def is_sound(name: str, value: object) -> bool:
    """Tell whether a value of the table happens to be a right one for this field."""
    if name == "value":  # of a property, whose type decides
        return True
    empty_lists = {"invokers", "runtime_ids", "event_types", "runtimes", "lines", "members"}
    if name == "revision" and isinstance(value, int) and not isinstance(value, bool):
        return value == 2**31
    return name in empty_lists and value == []


@pytest.fixture
async def caller(server: Server, request: pytest.FixtureRequest) -> httpx.AsyncClient:
    each: Sample = request.getfixturevalue("each")
    return server.client(DAEMON if each.is_daemon else MEMBER)


async def refused(
    client: httpx.AsyncClient, each: Sample, text: str | bytes, codes: set[str], field: str | None
) -> None:
    """Send a body as it is and expect a 400 with one of the codes, and the field."""
    response = await client.request(
        each.method, each.path, content=text, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 400, (text[:100], response.text)
    problem = response.json()
    assert problem["code"] in codes, text[:100]
    assert problem["error"] == problem["detail"]
    assert not FOREIGN.search(problem["detail"]), problem
    if field is not None:
        assert problem["details"]["field"].split(".")[0] == field, (text[:100], problem)


@pytest.mark.parametrize("each", WITH_FIELDS, ids=str)
async def test_a_value_of_the_wrong_sort_is_refused(
    each: Sample, caller: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """W-003: each field refuses wrong types, numbers, ids, times and dates by its name."""
    async with caller:
        for name, sound in each.full.items():
            for value in wrong_values(name, sound):
                if is_sound(name, value):
                    continue
                body = {**each.full, name: value}
                await refused(caller, each, json.dumps(body), {"invalid_input"}, name)
    assert stand_in.asked == []


@pytest.mark.parametrize("each", [each for each in WRITES if not each.takes_anything], ids=str)
async def test_an_unknown_field_is_refused_by_name(
    each: Sample, caller: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """W-011, W-193: a field that nobody asked for is 400 unknown_field, also one about who acts."""
    async with caller:
        for name in ("foo", "created_by", "source_task_id", "actor_id", "id", "workspace_id", ""):
            for value in (1, None, {"a": 1}):
                body = {**each.full, name: value}
                await refused(caller, each, json.dumps(body), {"unknown_field"}, name)
                await refused(caller, each, json.dumps({name: value}), {"unknown_field"}, name)
        long = "a" * (4_000 if each.path.endswith("checkin") else 20_000)
        if each.full.get("revision") is None:
            await refused(
                caller,
                each,
                json.dumps({long: 1}),
                {"unknown_field"},
                long[: limits.FIELD_CHARS_MAX],
            )
    assert stand_in.asked == []


@pytest.mark.parametrize("each", WITH_FIELDS, ids=str)
async def test_a_missing_field_is_named(
    each: Sample, caller: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """Without a field that the route needs, the answer is 400 missing_field with its name."""
    async with caller:
        for name in each.full:
            stand_in.asked.clear()
            body = {key: value for key, value in each.full.items() if key != name}
            response = await caller.request(each.method, each.path, json=body)
            assert response.status_code in {each.status, 400}
            if response.status_code == 400:
                assert response.json()["code"] == "missing_field"
                assert response.json()["details"] == {"field": name}
                assert stand_in.asked == []


@pytest.mark.parametrize("each", WITH_FIELDS, ids=str)
async def test_a_text_that_cannot_be_stored_is_refused(
    each: Sample, caller: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """NUL and half surrogate pairs are 400 invalid_encoding, in every field, at any depth."""
    async with caller:
        for name in each.full:
            for text in TEXTS:
                for value in (text, f"[{text}]", f'{{"a": {text}}}'):
                    raw = f'{{"{name}": {value}}}'
                    await refused(caller, each, raw, {"invalid_encoding"}, name)
    assert stand_in.asked == []


@pytest.mark.parametrize("each", WRITES, ids=str)
async def test_a_body_that_is_no_text_is_refused(
    each: Sample, caller: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """Not UTF-8, no JSON, no object, 100,000 levels: 400 before the route runs, on every route."""
    size = 100_000
    if "wakeups/" in each.path or each.path.endswith("wakeups"):
        small = {"enable": 400, "checkin": 4_000}  # as deep as the route lets in
        size = small.get(each.path.rpartition("/")[2], 15_000)
    deep = '{"a":' + "[" * size + "]" * size + "}"
    async with caller:
        await refused(caller, each, b'{"a": "\xff\xfe"}', {"invalid_encoding"}, None)
        await refused(caller, each, deep, {"invalid_json"}, None)
        for text in ("{", "[]", "1", '"a"', "null", '{"a": NaN}', '{"a": 1, "a": 1}'):
            await refused(caller, each, text, {"invalid_json"}, None)
    assert stand_in.asked == []


@pytest.mark.parametrize("each", WRITES, ids=str)
async def test_a_giant_is_refused(each: Sample, server: Server, stand_in: StandInEngine) -> None:
    """A body announced as 1 GiB is 413 on every route, before anybody is authenticated."""
    head = f"{each.method} /api{each.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {2**30}\r\n\r\n"
    raw = await server.exchange(head.encode())
    assert raw.startswith(b"HTTP/1.1 413")
    assert b'"code":"payload_too_large"' in raw
    assert stand_in.ledger.generation == 0


@pytest.mark.parametrize("each", SAMPLES, ids=str)
async def test_hostile_paths_are_refused(
    each: Sample, server: Server, stand_in: StandInEngine
) -> None:
    """Whatever stands for an id in a path, the answer is 4xx and nothing is asked of the engine."""
    path = each.path.partition("?")[0]
    parts = path.split("/")
    places = [place for place, part in enumerate(parts) if "-" in part and part[:1] in "0W"]
    async with server.client(DAEMON if each.is_daemon else MEMBER) as client:
        for place in places:
            for text in (
                "0",
                "%20",
                "%F0%9F%98%80",
                "a" * 600,
                "..%2f",
                "'--",
                "%25",
                "WF-99",
                ";",
            ):
                changed = [*parts[:place], text, *parts[place + 1 :]]
                content = json.dumps(dict(each.full)) if each.full else None
                response = await client.request(each.method, "/".join(changed), content=content)
                assert 400 <= response.status_code < 500, (changed, response.text)
                assert response.headers["content-type"] == "application/problem+json"
    assert stand_in.asked == []
