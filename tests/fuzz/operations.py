"""What the API offers, read from its own description: what a fuzzer may send where."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs

from engine.domain.principal import PrincipalKind
from web import openapi
from web.api import ROUTES
from web.schemas.inputs import Nothing

DOCUMENT: Final[dict[str, Any]] = json.loads(json.dumps(openapi.document(ROUTES, "0")))
_JSON: Final = "application/json"
_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")


@attrs.frozen(kw_only=True)
class Operation:
    """One method of one address. `fields` are those of its body or of its query, by name.

    `is_open` says that other fields are right, too; `media_types` are what its body may be.
    """

    name: str
    method: str
    path: str
    kinds: frozenset[PrincipalKind]
    fields: Mapping[str, Mapping[str, Any]]
    required: frozenset[str]
    is_open: bool
    media_types: frozenset[str]

    @property
    def has_body(self) -> bool:
        """Whether the fields are those of a body."""
        return self.method != "GET"

    @property
    def is_json(self) -> bool:
        """Whether a JSON body, or none, is what it takes."""
        return not self.media_types or _JSON in self.media_types

    @property
    def collection(self) -> str:
        """The last fixed part of the address: `comments`, `agents`."""
        return [part for part in self.path.split("/") if part and "{" not in part][-1]

    @property
    def places(self) -> tuple[tuple[str, str], ...]:
        """What stands for ids in the address: each with the collection before it."""
        parts = self.path.split("/")
        return tuple(
            (part.strip("{}"), parts[number - 1])
            for number, part in enumerate(parts)
            if part.startswith("{")
        )

    def at(self, ids: Mapping[str, str]) -> str:
        """Return the address with these texts for its ids."""
        return openapi.PREFIX + re.sub(r"\{(\w+)\}", lambda match: ids[match[1]], self.path)


def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, with a reference followed."""
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the JSON types that a schema admits; all of them where it says nothing."""
    schema = resolve(schema)
    if "anyOf" in schema:
        return frozenset().union(*(types(each) for each in schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return frozenset({"string"})
    found = schema.get("type", _TYPES)
    return frozenset({found} if isinstance(found, str) else found)


def _operations() -> tuple[Operation, ...]:
    found = []
    for route in ROUTES:
        described = DOCUMENT["paths"][f"{openapi.PREFIX}{route.path}"][route.method.lower()]
        answers = described["responses"].values()
        if any("text/event-stream" in answer.get("content", {}) for answer in answers):
            continue
        content = described.get("requestBody", {}).get("content", {})
        model: Mapping[str, Any] = {}
        if route.takes is not Nothing:
            model = DOCUMENT["components"]["schemas"].get(route.takes.__name__, {})
        found.append(
            Operation(
                name=route.name,
                method=route.method,
                path=route.path,
                kinds=route.kinds,
                fields=model.get("properties", {}),
                required=frozenset(model.get("required", ())),
                is_open=model.get("additionalProperties") is not False and bool(model),
                media_types=frozenset(content),
            )
        )
    return tuple(found)


OPERATIONS: Final = _operations()
