"""The description of the API: complete, sound, and true of what the routes answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from html.parser import HTMLParser
from typing import Any, Final
from uuid import UUID

import httpx
import pytest

from engine.domain.explain import Code
from engine.domain.views.explain import ExplanationView
from engine.errors import KINDS
from tests.web.conftest import Server
from tests.web.sample import Sample
from tests.web.samples import SAMPLES
from tests.web.stand_in import sample
from tests.web.test_routes import send
from web import openapi, wire
from web.api import ROUTES
from web.routing import Route

DOCUMENT: dict[str, Any] = json.loads(json.dumps(openapi.document(ROUTES, "1.2.3")))


def references(value: object) -> Iterator[str]:
    """Yield every reference in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def resolve(reference: str) -> Any:
    """Return what a reference points to."""
    found: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return found


_KINDS: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def misfits(value: Any, schema: Mapping[str, Any], where: str = "") -> Iterator[str]:
    """Yield where a value is not as its schema says; knows the part of JSON Schema in use."""
    if "$ref" in schema:
        yield from misfits(value, resolve(schema["$ref"]), where)
    elif "anyOf" in schema:
        if all(list(misfits(value, each, where)) for each in schema["anyOf"]):
            yield f"{where}: {value!r} fits nothing"
    elif (kind := schema.get("type")) is not None:
        if not isinstance(value, _KINDS[kind]):
            yield f"{where}: {value!r} is no {kind}"
        elif kind == "string":
            yield from misfits_of_text(value, schema, where)
        elif kind == "array":
            for number, each in enumerate(value):
                yield from misfits(each, schema["items"], f"{where}[{number}]")
        elif kind == "object" and "properties" in schema:
            yield from misfits_of_object(value, schema, where)


def misfits_of_text(value: str, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    """Yield where a text is not in its enum or format."""
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not in the enum"
    if schema.get("format") == "uuid":
        UUID(value)
    if schema.get("format") == "date-time" and datetime.fromisoformat(value).tzinfo is None:
        yield f"{where}: {value!r} has no offset"


def misfits_of_object(
    value: Mapping[str, Any], schema: Mapping[str, Any], where: str
) -> Iterator[str]:
    """Yield what an object lacks, has without description, or has differently."""
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}.{name} is missing"
    for name, inner in value.items():
        if name not in schema["properties"]:
            yield f"{where}.{name} is undescribed"
        else:
            yield from misfits(inner, schema["properties"][name], f"{where}.{name}")


def operation(each: Sample) -> dict[str, Any]:
    """Return the operation that describes a sample."""
    path = f"/api{each.path.partition('?')[0]}"
    (found,) = [
        operations[each.method.lower()]
        for address, operations in DOCUMENT["paths"].items()
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", address), path)
        and each.method.lower() in operations
        and (address == path or "{" in address)
        and not (address != path and path in DOCUMENT["paths"])
    ]
    return found  # type: ignore[no-any-return] # parsed JSON


def test_the_document_is_complete_and_whole() -> None:
    """Every route stands in it once with a summary, and every reference leads somewhere."""
    assert DOCUMENT["openapi"] == "3.1.0"
    assert DOCUMENT["info"]["version"] == "1.2.3"
    described = [
        (method.upper(), path)
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    ]
    assert sorted(described) == sorted((route.method, f"/api{route.path}") for route in ROUTES)
    operations = [each for every in DOCUMENT["paths"].values() for each in every.values()]
    names = [each["operationId"] for each in operations]
    assert len(set(names)) == len(names)
    assert all(each["summary"].endswith(".") for each in operations)
    assert all("default" in each["responses"] for each in operations)
    for reference in references(DOCUMENT):
        assert resolve(reference), reference


def test_path_parameters_are_declared() -> None:
    """Each name in braces is a required parameter of its operations, and there is no other."""
    for path, operations in DOCUMENT["paths"].items():
        for each in operations.values():
            declared = {
                parameter["name"]
                for parameter in each["parameters"]
                if parameter["in"] == "path" and parameter["required"]
            }
            assert declared == set(re.findall(r"\{(\w+)\}", path))


def test_the_error_is_described_with_every_code() -> None:
    """The problem schema lists every code that the table of errors has."""
    schema = DOCUMENT["components"]["schemas"]["Problem"]
    assert schema["properties"]["code"]["enum"] == sorted(KINDS)


@pytest.mark.parametrize("each", SAMPLES, ids=str)
async def test_answers_are_as_described(each: Sample, server: Server) -> None:
    """The answer of every route has exactly the described fields, of the described types."""
    response = await send(server, each)
    described = operation(each)["responses"]
    assert str(response.status_code) in described
    content = described[str(response.status_code)].get("content")
    if content is None:
        assert response.content == b""
        return
    if each.is_file:
        assert list(content) == [response.headers["content-type"]]
        return
    schema = content["application/json"]["schema"]
    assert list(misfits(response.json(), schema)) == []


@pytest.mark.parametrize("each", [each for each in SAMPLES if each.full], ids=str)
def test_sound_bodies_are_as_described(each: Sample) -> None:
    """A request that the route takes is one that the description allows."""
    schema = operation(each)["requestBody"]["content"]["application/json"]["schema"]
    assert list(misfits(json.loads(json.dumps(dict(each.full))), schema)) == []
    assert resolve(schema["$ref"])["additionalProperties"] is False


def test_a_rule_is_described_with_what_it_needs() -> None:
    """W-001, W-005: the body of a rule lists what is required, its closed sets and its bounds."""
    schema = DOCUMENT["components"]["schemas"]["RuleConfiguration"]
    fields = schema["properties"]
    assert schema["required"] == ["instruction", "kind"]
    assert fields["kind"]["enum"] == ["event", "at", "every", "cron"]
    assert fields["mode"]["anyOf"][0]["enum"] == ["once", "continuous"]
    assert "comment.created" in fields["event_types"]["anyOf"][0]["items"]["enum"]
    after, interval = (fields[name]["anyOf"][0] for name in ("after_seconds", "interval_seconds"))
    assert (after["minimum"], after["maximum"]) == (1, 31_536_000)
    assert (interval["minimum"], interval["maximum"]) == (60, 31_536_000)
    assert operation_of("create_wakeup")["requestBody"]["required"] is True


def test_an_explanation_has_codes_of_a_closed_list() -> None:
    """W-255: an explanation with an invented code is not as described; that of the enum is."""
    found = json.loads(wire.dumps(sample(ExplanationView)))
    schema = DOCUMENT["components"]["schemas"]["ExplanationView"]
    assert schema["properties"]["code"]["enum"] == list(Code)
    assert list(misfits(found, schema)) == []
    assert list(misfits({**found, "code": "invented"}, schema)) != []
    problem = {**found["problems"][0], "code": "invented"}
    assert list(misfits({**found, "problems": [problem]}, schema)) != []


def test_a_query_beside_a_body_is_described() -> None:
    """W-034: what a preview takes in its query is a parameter, under its name on the wire."""
    parameters = operation_of("preview_wakeup")["parameters"]
    asked = {each["name"]: each["required"] for each in parameters if each["in"] == "query"}
    assert asked == {"from": False, "wakeup_id": False}


def operation_of(name: str) -> dict[str, Any]:
    """Return the operation with this id."""
    (found,) = (
        each
        for operations in DOCUMENT["paths"].values()
        for each in operations.values()
        if each["operationId"] == name
    )
    return found  # type: ignore[no-any-return] # parsed JSON


@pytest.mark.parametrize("route", [each for each in ROUTES if each.method == "PATCH"])
def test_a_change_is_described_without_defaults(route: Route) -> None:
    """What a PATCH does not send keeps its value, so no field of it has a default."""
    schema = DOCUMENT["components"]["schemas"][route.takes.__name__]
    assert not any("default" in field for field in schema.get("properties", {}).values())


async def test_problems_are_as_described(client: httpx.AsyncClient) -> None:
    """An error answer fits the problem schema."""
    response = await client.post("/issues", json={"title": 1})
    assert list(misfits(response.json(), {"$ref": "#/components/schemas/Problem"})) == []


class Page(HTMLParser):
    """Collects what a page refers to and what can be referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take one tag."""
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src"}:
                self.links.append(value or "")


async def test_the_page_shows_everything_by_itself(server: Server) -> None:
    """The page renders every operation, schema and code, without a script or a foreign address."""
    async with server.client(token=None) as client:
        response = await client.get("/docs")
        document = (await client.get("/openapi.json")).json()
    assert response.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["content-security-policy"]
    page = Page()
    page.feed(response.text)
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert len(set(page.ids)) == len(page.ids)
    for link in page.links:
        assert link.startswith(("#", "/api/")), link
        assert not link.startswith("#") or link[1:] in page.ids, link
    assert {route.name for route in ROUTES} <= set(page.ids)
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= set(page.ids)
    assert {f"code-{code}" for code in KINDS} <= set(page.ids)
    assert document["paths"] == DOCUMENT["paths"]
