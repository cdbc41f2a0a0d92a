"""Requests that must be refused, and requests that may be right: what a fuzzer sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

import attrs

from engine import limits
from engine.domain.principal import PrincipalKind
from tests.fuzz.connection import Header
from tests.fuzz.operations import OPERATIONS, Operation
from tests.fuzz.values import Ids, body, plausible, wrong

_JSON: Final = "application/json"
_BOUNDARY: Final = "xyzzy"
_TEXT_PLACES: Final = frozenset({"emoji"})
_COLLECTIONS: Final[Mapping[str, str]] = {"tasks": "runs"}
_LASTING: Final = 4  # credentials that no request ends: of an owner, a daemon, nobody, a member
_GARBAGE_IDS: Final = ("0", "me", "%20", "%00", "%FF%FE", "..%2F..", "a" * 600, "WF-99999", "%25")
_BAD_BODIES: Final = (
    b"{",
    b"[]",
    b"1",
    b"null",
    b'{"a": NaN}',
    b'{"a": 1, "a": 2}',
    b'{"a": "\xff\xfe"}',
    b"\xef\xbb\xbf{}x",
    b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"a": 1e999}',
)


@attrs.frozen(kw_only=True)
class Credential:
    """A token and what kind of caller it makes; no token makes nobody."""

    kind: PrincipalKind | None
    token: str | None


@attrs.frozen(kw_only=True)
class Request:
    """One request; `statuses` are what may be answered, `field` what a refusal must name."""

    operation: Operation
    method: str
    target: str
    headers: Sequence[Header]
    content: bytes = b""
    statuses: frozenset[int] | None = None
    field: str | None = None
    issue: str | None = None

    def __str__(self) -> str:
        said = f"{self.method} {self.target} {list(self.headers)}"
        return f"{said[:600]} {self.content[:600]!r}"


@attrs.define
class World:
    """Who may call, and what there is, as far as answers have told; grows while it is used."""

    workspace: str
    elsewhere: str
    credentials: list[Credential]
    ids: Ids = attrs.field(factory=Ids)
    issues: dict[str, str] = attrs.field(factory=dict)  # of a rule, by its id

    def caller(self, random: Random, operation: Operation, *, allowed: bool) -> Credential:
        """Return a credential of a kind that the operation takes, or just any.

        Mostly one of the first, which nobody revokes and no run ends.
        """
        known = self.credentials[: _LASTING if random.random() < 0.7 else None]
        choices = [each for each in known if not allowed or each.kind in operation.kinds]
        return random.choice(choices or known)

    def learn(self, request: Request, answer: Any) -> None:
        """Remember what an answer tells: ids, and tokens that make new callers."""
        if not isinstance(answer, dict) or request.method not in {"POST", "PUT"}:
            return
        for collection in ("tasks", "runtimes"):
            for each in answer.get(collection, ()):
                self._learn(_COLLECTIONS.get(collection, collection), each, request)
        self._learn(request.operation.collection, answer, request)

    def _learn(self, collection: str, found: Mapping[str, Any], request: Request) -> None:
        if isinstance(found.get("id"), str):
            self.ids.learn(collection, found["id"])
            if request.issue is not None:
                self.issues[found["id"]] = request.issue
        if isinstance(found.get("user_id"), str):
            self.ids.learn("users", found["user_id"])
        token = found.get("token")
        if isinstance(token, str):
            kind = {"wkm": PrincipalKind.MEMBER, "wkd": PrincipalKind.DAEMON}
            self.credentials.append(
                Credential(kind=kind.get(token[:3], PrincipalKind.RUN), token=token)
            )


def refusable(random: Random, world: World) -> Request:
    """Return a request that is wrong in itself, whoever sends it."""
    operation = random.choice(OPERATIONS)
    ways: list[Callable[[Random, World, Operation], Request | None]] = [_wrong_path]
    if operation.kinds:
        ways += [_wrong_caller]
    if operation.has_body and operation.is_json:
        ways += [_wrong_body, _wrong_field, _wrong_field, _unknown_field, _giant]
    elif not operation.has_body:
        ways += [_unknown_query]
    while (request := random.choice(ways)(random, world, operation)) is None:
        pass
    return request


def acceptable(random: Random, world: World) -> Request:
    """Return a request that could be right, or nearly."""
    operation = random.choice(OPERATIONS)
    caller = world.caller(random, operation, allowed=random.random() < 0.9)
    ids, issue = _ids(random, world, operation)
    sent = {
        name: plausible(random, name, schema, world.ids)
        for name, schema in operation.fields.items()
        if random.random() < (0.95 if name in operation.required else 0.3)
    }
    headers = _headers(random, world, caller)
    if random.random() < 0.1:
        headers.append(("Idempotency-Key", random.choice(["a", "b", "c"])))
    target, content, media_type = operation.at(ids), b"", ""
    if not operation.has_body:
        texts = {name: str(value) for name, value in sent.items()}
        target += f"?{urlencode(texts)}" if texts else ""
    elif "multipart/form-data" in operation.media_types and random.random() < 0.6:
        content, media_type = _multipart(random), f"multipart/form-data; boundary={_BOUNDARY}"
    elif sent or random.random() < 0.5:
        content = json.dumps(sent).encode()
        media_type = _JSON
    if media_type:
        headers.append(("Content-Type", media_type))
    return _request(operation, target, headers, content, issue=issue)


def _wrong_field(random: Random, world: World, operation: Operation) -> Request | None:
    if not operation.fields:
        return None
    name = random.choice(sorted(operation.fields))
    text = wrong(random, operation.fields[name])
    if text is None:
        return None
    fields = {name: text}
    return _refused(random, world, operation, body(fields), {400}, field=name)


def _unknown_field(random: Random, world: World, operation: Operation) -> Request | None:
    if operation.is_open:
        return None
    name = random.choice(["foo", "actor_id", "source_task_id", "__proto__", "", "ä"])
    content = body({name: random.choice(["1", "null", "{}", '"a"'])})
    return _refused(random, world, operation, content, {400}, field=name)


def _wrong_body(random: Random, world: World, operation: Operation) -> Request:
    if random.random() < 0.2:
        kinds = ("text/plain", "application/xml", "application/json; charset=latin-1", "x")
        media_type = random.choice(kinds)
        return _refused(random, world, operation, b"{}", {415}, media_type=media_type)
    return _refused(random, world, operation, random.choice(_BAD_BODIES), {400})


def _giant(random: Random, world: World, operation: Operation) -> Request:
    caller = world.caller(random, operation, allowed=False)
    ids, _ = _ids(random, world, operation)
    headers = [*_headers(random, world, caller), ("Content-Type", _JSON)]
    headers.append(("Content-Length", str(random.choice([limits.BODY_BYTES_MAX + 1, 2**30]))))
    return Request(
        operation=operation,
        method=operation.method,
        target=operation.at(ids),
        headers=headers,
        statuses=frozenset({413}),
    )


def _wrong_caller(random: Random, world: World, operation: Operation) -> Request:
    ids, _ = _ids(random, world, operation)
    others = [
        each
        for each in world.credentials
        if each.kind not in operation.kinds and each.kind is not None
    ]
    if others and random.random() < 0.5:
        headers = _headers(random, world, random.choice(others))
        return _request(operation, operation.at(ids), headers, b"", {401, 403})
    tokens = ("", "wkm_x", "wkm_" + "A" * 43, "wkr_" + "A" * 43, "x" * 5_000)
    schemes = ("Bearer {}", "Basic {}", "bearer  {}", "{}", "Bearer {0}, Bearer {0}")
    value = random.choice(schemes).format(random.choice(tokens))
    headers = [("Authorization", value)] if random.random() < 0.8 else []
    return _request(operation, operation.at(ids), headers, b"", {401})


def _wrong_path(random: Random, world: World, operation: Operation) -> Request | None:
    headers = _headers(random, world, world.caller(random, operation, allowed=True))
    if random.random() < 0.2:
        target = operation.at(_ids(random, world, operation)[0]) + random.choice(
            ["/x/x", "//", "/%2F"]
        )
        return _request(operation, target, headers, b"", set(range(400, 500)))
    names = [name for name, _ in operation.places if name not in _TEXT_PLACES]
    if not names:
        return None
    ids, _ = _ids(random, world, operation)
    ids = {**ids, random.choice(names): random.choice(_GARBAGE_IDS)}
    return _request(operation, operation.at(ids), headers, b"", set(range(400, 500)))


def _unknown_query(random: Random, world: World, operation: Operation) -> Request:
    ids, _ = _ids(random, world, operation)
    headers = _headers(random, world, world.caller(random, operation, allowed=True))
    name = random.choice(["foo", "limit[]", "%00", "ä"])
    target = f"{operation.at(ids)}?{urlencode({name: random.choice(['1', ''])})}"
    return _request(operation, target, headers, b"", {400})


def _refused(
    random: Random,
    world: World,
    operation: Operation,
    content: bytes,
    statuses: set[int],
    *,
    field: str | None = None,
    media_type: str = _JSON,
) -> Request:
    """Return a request of an allowed caller whose body is refused before anything is looked up."""
    ids, _ = _ids(random, world, operation)
    headers = _headers(random, world, world.caller(random, operation, allowed=True))
    headers.append(("Content-Type", media_type))
    return _request(operation, operation.at(ids), headers, content, statuses, field=field)


def _request(
    operation: Operation,
    target: str,
    headers: list[Header],
    content: bytes,
    statuses: set[int] | None = None,
    *,
    field: str | None = None,
    issue: str | None = None,
) -> Request:
    length = [("Content-Length", str(len(content)))] if operation.has_body else []
    return Request(
        operation=operation,
        method=operation.method,
        target=target,
        headers=[*headers, *length],
        content=content,
        statuses=None if statuses is None else frozenset(statuses),
        field=field,
        issue=issue,
    )


def _headers(random: Random, world: World, caller: Credential) -> list[Header]:
    headers: list[Header] = []
    if caller.token is not None:
        headers.append(("Authorization", f"Bearer {caller.token}"))
    if random.random() < 0.9:
        headers.append(("X-Workspace-ID", world.workspace))
    elif random.random() < 0.5:
        headers.append(("X-Workspace-ID", random.choice([world.elsewhere, "nowhere", "%00", " "])))
    if random.random() < 0.05:
        headers += [("X-Agent-ID", world.ids.any_of(random, "agents")), ("X-Task-ID", "1")]
    return headers


def _ids(random: Random, world: World, operation: Operation) -> tuple[dict[str, str], str | None]:
    """Return texts for the ids of an address, of things that belong together where known."""
    ids: dict[str, str] = {}
    for name, collection in operation.places:
        if name in _TEXT_PLACES:
            ids[name] = quote(random.choice(["👍", "+1", "x" * 70, "\x01", "%"]), safe="")
        else:
            known = _COLLECTIONS.get(collection, collection)
            ids[name] = world.ids.any_of(random, known)
    owner = next((world.issues[each] for each in ids.values() if each in world.issues), None)
    if owner is not None and "issue" in ids and random.random() < 0.9:
        ids["issue"] = owner
    return ids, ids.get("issue")


def _multipart(random: Random) -> bytes:
    """Return one part or several, sound or not."""
    names = random.choice(["file", "file", "file", "other", ""])
    filename = random.choice(["a.txt", "../../x", "ä.png", "", 'a"b', "a\x00b"])
    part = (
        f"--{_BOUNDARY}\r\nContent-Disposition: form-data;"
        f' name="{names}"; filename="{filename}"\r\n'
        f"Content-Type: {random.choice(['text/plain', 'text/html', 'x', ''])}\r\n\r\nwords\r\n"
    ).encode()
    end = random.choice([f"--{_BOUNDARY}--\r\n", f"--{_BOUNDARY}--\r\n", "", "--nothing--"])
    return part * random.choice([1, 1, 1, 2, 0]) + end.encode()
