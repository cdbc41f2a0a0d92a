"""The OpenAPI 3.1 description, made of what the routes declare and of nothing else.

Bodies and queries are described by their pydantic models, answers by the annotations of their
attrs views, so that a description cannot say what the code does not do.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from enum import StrEnum
from http import HTTPStatus
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, Union
from uuid import UUID

import attrs

from engine import limits
from engine.domain.attachments import UNKNOWN_TYPE
from engine.errors import KINDS
from web import auth, problems
from web.body import FILE, MULTIPART
from web.routing import TEXTS, Download, Route, Scope
from web.schemas.inputs import Nothing, describe

PREFIX: Final = "/api"
_REFERENCE: Final = "#/components/schemas/{model}"
_JSON: Final = "application/json"

_PLAIN: Final[Mapping[Any, dict[str, Any]]] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    UUID: {"type": "string", "format": "uuid"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
}

_BYTES: Final = {"type": "string", "format": "binary"}
_UPLOAD: Final = {
    "type": "object",
    "required": [FILE],
    "properties": {FILE: _BYTES},
    "additionalProperties": False,
}

_PROBLEM: Final = {
    "type": "object",
    "description": "What went wrong (RFC 9457).",
    "required": ["type", "title", "status", "detail", "code", "error"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "A sentence for a person."},
        "code": {"type": "string", "enum": sorted(KINDS)},
        "error": {"type": "string", "description": "The same as `detail`."},
        "details": {
            "type": "object",
            "properties": {"field": {"type": "string", "description": "The field at fault."}},
        },
    },
}

_WORKSPACE: Final = {
    "name": auth.WORKSPACE_HEADER,
    "in": "header",
    "required": False,
    "description": "The id or slug of the workspace; needed by who is in several.",
    "schema": {"type": "string"},
}


class Views:
    """The JSON schemas of views, collected by name as they are met."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def schema(self, kind: Any) -> dict[str, Any]:
        """Return the schema of an annotation: a reference for a view, else the schema itself.

        Raises:
            TypeError: nothing is known about the annotation.
        """
        if (plain := _PLAIN.get(kind) if isinstance(kind, typing.Hashable) else None) is not None:
            return dict(plain)
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in {Union, UnionType}:
            return {"anyOf": [self.schema(each) for each in arguments]}
        if origin is tuple:
            return {"type": "array", "items": self.schema(arguments[0])}
        if isinstance(origin or kind, type) and issubclass(origin or kind, Mapping):
            return {"type": "object", "additionalProperties": self.schema((*arguments, Any)[1])}
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return {"type": "string", "enum": [str(each) for each in kind]}
        if attrs.has(origin or kind):
            return self._view(origin or kind, arguments)
        raise TypeError(f"an answer holds a {kind}, which no schema describes")

    def _view(self, view: type[Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
        name = "".join([view.__name__, *(argument.__name__ for argument in arguments)])
        if name not in self.schemas:
            self.schemas[name] = {}  # views may hold each other
            variables = dict(zip(getattr(view, "__parameters__", ()), arguments, strict=True))
            hints = typing.get_type_hints(view)
            fields = [field.name for field in attrs.fields(view)]
            self.schemas[name] = {
                "type": "object",
                "description": _paragraph(view.__doc__),
                "required": fields,
                "properties": {
                    field: self.schema(_filled(hints[field], variables)) for field in fields
                },
            }
        return {"$ref": _REFERENCE.format(model=name)}


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """Return the OpenAPI description of the routes."""
    routes = list(routes)
    views = Views()
    paths: dict[str, dict[str, Any]] = {}
    inputs = describe({route.takes: None for route in routes}, _REFERENCE)
    queries = {route.asks: None for route in routes if route.asks is not None}
    inputs |= describe(queries, _REFERENCE)
    for route in routes:
        operations = paths.setdefault(f"{PREFIX}{route.path}", {})
        operations[route.method.lower()] = _operation(route, inputs, views)
    taken = sorted(set(inputs) & set(views.schemas))
    assert not taken, f"a view and an input have the same name: {taken}"
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wakeful",
            "version": version,
            "description": "Wakes AI agents and people on issues. Errors are"
            f" {problems.MEDIA_TYPE}; unknown fields are refused.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": {**inputs, **views.schemas, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Problem": {
                    "description": "The request was refused, or failed.",
                    "content": {
                        problems.MEDIA_TYPE: {
                            "schema": {"$ref": _REFERENCE.format(model="Problem")}
                        }
                    },
                }
            },
        },
    }


def _operation(route: Route, inputs: Mapping[str, Any], views: Views) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": _paragraph(route.summary),
        "description": _description(route),
        "parameters": _parameters(route, inputs),
        "responses": {
            **{str(status.value): _response(route, status, views) for status in route.statuses},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if not route.kinds:
        operation["security"] = []
    if route.has_body and route.takes is not Nothing:
        schema = {"$ref": _REFERENCE.format(model=route.takes.__name__)}
        is_required = bool(inputs[route.takes.__name__].get("required"))
        content: dict[str, Any] = {_JSON: {"schema": schema}}
        if route.uploads is not None:
            content[MULTIPART] = {"schema": _UPLOAD}
        operation["requestBody"] = {"required": is_required, "content": content}
    return operation


def _description(route: Route) -> str:
    lines = []
    _, _, more = route.summary.partition("\n\n")
    if more:
        lines.append(_paragraph(more))
    if route.kinds:
        lines.append(f"Takes a token of a {' or '.join(sorted(route.kinds))}.")
    if route.has_body and route.bytes_max < limits.BODY_BYTES_MAX:
        lines.append(f"The body may have at most {route.bytes_max} bytes.")
    return "\n\n".join(lines)


def _parameters(route: Route, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    parameters = []
    for part in route.path.split("/"):
        if part.startswith("{"):
            name = part.strip("{}")
            schema: dict[str, Any] = {"type": "string", "format": "uuid"}
            if name == "issue":
                schema = {"type": "string", "description": "An id, or an identifier such as WF-12."}
            elif name in TEXTS:
                schema = {"type": "string"}
            parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    query = route.asks if route.has_body else route.takes
    if query is not None:
        model = inputs[query.__name__]
        required = model.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": schema}
            for name, schema in model.get("properties", {}).items()
        ]
    if route.scope is not Scope.INSTANCE:
        parameters.append(_WORKSPACE)
    return parameters


def _response(route: Route, status: HTTPStatus, views: Views) -> dict[str, Any]:
    response: dict[str, Any] = {"description": status.phrase}
    if route.answers is Download:
        response["content"] = {UNKNOWN_TYPE: {"schema": _BYTES}}
    elif route.answers is not None:
        response["content"] = {_JSON: {"schema": views.schema(route.answers)}}
    return response


def _paragraph(text: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join((text or "").split("\n\n")[0].split())


def _filled(kind: Any, variables: Mapping[Any, Any]) -> Any:
    """Return an annotation of a generic view with its type variables filled in."""
    if isinstance(kind, TypeVar):
        return variables[kind]
    if typing.get_origin(kind) is tuple and variables:
        first, *rest = typing.get_args(kind)
        return tuple[(_filled(first, variables), *rest)]  # type: ignore[misc] # built at run time
    return kind
