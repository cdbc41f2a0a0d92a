"""Values for the fields of a request: plausible ones, and ones that cannot be right anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final
from uuid import UUID

import attrs

from engine.domain.events import EVENTS
from tests.fuzz.operations import resolve, types

# What may stand where a value of another type is due, as JSON text.
_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ('"a"', '"1"', '""'),
    "integer": ("1", "-7", "2147483648"),
    "number": ("1.5", "1e300"),
    "boolean": ("true", "false"),
    "null": ("null",),
    "array": ("[]", "[null]", '[["a"]]'),
    "object": ("{}", '{"a": {"b": []}}'),
}
# No text may hold these, wherever it stands.
_UNSTORABLE: Final = (
    '"\\u0000"',
    '"a\\u0000b"',
    '"\\ud800"',
    '["\\udfff\\ud800"]',
    '{"\\u0000": 1}',
)
_TEXTS: Final = (
    "a",
    " ",
    "",
    "\u202eabc",
    "😀" * 30,
    "x" * 300,
    "x" * 20_000,
    "../../etc/passwd",
    "'; DROP TABLE issue; --",
    "<script>alert(1)</script>",
    "{{7*7}}",
    "%s%n%x",
    "\\x00",
    "\r\nSet-Cookie: a=b",
    "ﬁ́",
    "@Builder do it",
    "0",
    "true",
)
_KNOWN: Final[Mapping[str, tuple[Any, ...]]] = {
    "kind": ("event", "at", "every", "cron", "member", "daemon"),
    "mode": ("once", "continuous"),
    "status": ("todo", "done", "in_progress", "running", "completed", "nonsense"),
    "category": ("todo", "done", "closed", "nonsense"),
    "role": ("owner", "admin", "member", "god"),
    "cron_expression": ("* * * * *", "0 9 * * 1-5", "0 0 29 2 *", "0 0 31 2 *", "@hourly", "*"),
    "timezone": ("UTC", "Europe/Berlin", "Mars/Olympus", "+01:00"),
    "at": ("2035-01-01T00:00:00Z", "2001-01-01T00:00:00Z", "now"),
    "email": ("x@example.com", "x", "@", "ä@example.com"),
    "url": ("https://example.com/a", "javascript:alert(1)", "http://[::1", "//x"),
    "emoji": ("👍", "+1", "x" * 65, "\u200d"),
    "event_types": tuple([name] for name in EVENTS),
    "interval_seconds": (60, 59, 31_536_000),
    "after_seconds": (1, 0, 5),
    "wait_seconds": (0,),
    "max_tasks": (0, 1, 100, 101, -1),
    "limit": (1, 100, 101, 0),
    "daemon_id": ("d1", "d2", ""),
    "runtimes": ([{"name": "laptop", "provider": "exec"}], [{"name": ""}], [1]),
    "lines": ([{"text": "hm"}], [{}], [[]]),
    "members": ([{"type": "agent", "id": "x"}], [{}]),
    "body": ("Ahoy", "@Builder please", "x" * 70_000),
    "key": ("review", "Review!", "todo"),
    "settings": ({}, {"a": None}, {"a": {"b": [1, 2, {"c": "d"}]}}),
    "config": ({}, {"options": ["a", "b"]}, {"options": [1]}),
    "type": ("text", "number", "select", "nonsense"),
}
_DEPTH_MAX: Final = 3
# Which ids a field of this name may hold.
_POOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "agent_id": ("agents",),
    "leader_id": ("agents",),
    "runtime_id": ("runtimes",),
    "runtime_ids": ("runtimes",),
    "assignee_id": ("agents", "users", "squads"),
    "parent_id": ("issues", "comments"),
    "issue_id": ("issues",),
    "comment_id": ("comments",),
    "parent_comment_id": ("comments",),
    "project_id": ("projects",),
    "task_id": ("runs",),
    "filter_task_id": ("runs",),
    "filter_agent_id": ("agents",),
    "filter_actor_id": ("agents", "users"),
    "invokers": ("users",),
    "label": ("labels",),
    "project": ("projects",),
}


@attrs.define
class Ids:
    """What exists, by collection, as far as answers have told."""

    known: dict[str, list[str]] = attrs.field(factory=dict)

    def learn(self, collection: str, found: str) -> None:
        """Remember an id."""
        self.known.setdefault(collection, []).append(found)

    def any_of(self, random: Random, *collections: str) -> str:
        """Return a known id of one of these collections, else one of nothing."""
        known = self.known.get(random.choice(collections), ()) if collections else ()
        return random.choice(known) if known else str(UUID(int=random.getrandbits(128)))

    def any(self, random: Random) -> str:
        """Return an id of anything."""
        return self.any_of(random, *self.known)


def wrong(random: Random, schema: Mapping[str, Any]) -> str | None:
    """Return JSON text that is wrong for a field in itself; None where every type is right."""
    allowed = types(schema)
    if "number" in allowed:
        allowed |= {"integer"}
    others = sorted(set(_OF_TYPE) - allowed - {"null"})  # which may mean "not sent"
    choices = [text for other in others for text in _OF_TYPE[other]]
    if "integer" in allowed and "number" not in allowed:
        choices += ["1.5", "60.0", "1e2"]
    if "string" in allowed or not others:
        choices += _UNSTORABLE
    return random.choice(choices) if choices else None


def plausible(random: Random, name: str, schema: Mapping[str, Any], ids: Ids) -> Any:
    """Return a value of the right type, often one that means something."""
    pools = _POOLS.get(name)
    if pools is not None and random.random() < 0.9:
        found = ids.any_of(random, *pools)
        return [found] if "array" in types(schema) else found
    if name in _KNOWN and random.random() < 0.9:
        return random.choice(_KNOWN[name])
    return _of_schema(random, schema, ids, depth=0)


def _of_schema(random: Random, schema: Mapping[str, Any], ids: Ids, *, depth: int) -> Any:
    schema = resolve(schema)
    if "anyOf" in schema:
        return _of_schema(random, random.choice(schema["anyOf"]), ids, depth=depth)
    if "enum" in schema:
        return random.choice([*schema["enum"], "nonsense"])
    low, high = schema.get("minimum", -3), schema.get("maximum", 10)
    makers: dict[str, Callable[[], Any]] = {
        "string": lambda: _text(random, schema, ids),
        "integer": lambda: random.choice([low, high, low - 1, high + 1, 0, 1, 2**31, 2**63]),
        "number": lambda: random.choice([low, high, 0.5, 1e300]),
        "boolean": lambda: random.random() < 0.5,
        "array": lambda: _list(random, schema, ids, depth),
        "object": lambda: _object(random, schema, ids, depth),
        "null": lambda: None,
    }
    return makers[random.choice(sorted(types(schema)))]()


def _list(random: Random, schema: Mapping[str, Any], ids: Ids, depth: int) -> list[Any]:
    count = random.randrange(3) if depth < _DEPTH_MAX else 0
    items = schema.get("items", {})
    return [_of_schema(random, items, ids, depth=depth + 1) for _ in range(count)]


def _object(random: Random, schema: Mapping[str, Any], ids: Ids, depth: int) -> dict[str, Any]:
    if depth >= _DEPTH_MAX:
        return {}
    inner = schema.get("properties") or {random.choice(_TEXTS)[:40]: {} for _ in range(2)}
    return {
        name: _of_schema(random, each, ids, depth=depth + 1)
        for name, each in inner.items()
        if random.random() < 0.8
    }


def _text(random: Random, schema: Mapping[str, Any], ids: Ids) -> str:
    match schema.get("format"):
        case "uuid":
            return ids.any(random)
        case "date-time":
            return random.choice(["2031-05-01T10:00:00Z", "2031-05-01T10:00:00.5+02:00", "x"])
        case "date":
            return random.choice(["2031-05-01", "2031-02-30"])
        case _:
            return random.choice(_TEXTS)


def body(fields: Mapping[str, str]) -> bytes:
    """Return the JSON object with these names and JSON texts."""
    pairs = (f"{json.dumps(name)}: {text}" for name, text in fields.items())
    return ("{" + ", ".join(pairs) + "}").encode(errors="surrogatepass")
