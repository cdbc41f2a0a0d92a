"""What a server tells of what was written while people, agents and faults work: nothing at all.

Not in its logs or its daemon's, not in its figures, not to whom it refuses something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tests.cli import serving
from tests.cli.serving import Site
from tests.faults.servers import ask

MARKER: Final = "xyzzy7marker"
# Prints the marker, and fails the first time.
COMMAND: Final = (
    f"cat >/dev/null; echo {MARKER}; echo {MARKER} >&2; test -e done || {{ touch done; exit 3; }}"
)
# A rule that cannot be decided: its stored schedule makes no sense.
BROKEN: Final = (
    "UPDATE issue_wakeup SET next_fire_at = wakeful_now(), cron_expression = 'xyzzy7marker'"
    " WHERE kind = 'cron'"
)
CREDENTIAL: Final = re.compile(r"\bwk[a-z]_\w{8}")  # as credentials of all kinds begin
Json = dict[str, Any]


class Person:
    """Somebody who writes the marker wherever there is room for it, and keeps the refusals."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http
        self.refusals: list[str] = []

    def call(self, method: str, path: str, body: object = None, **more: Any) -> Any:
        """Make a request that succeeds."""
        response = self._http.request(method, path, json=body, **more)
        assert response.is_success, (method, path, response.text)
        return response.json() if response.content else None

    def fail(self, method: str, path: str, body: object = None, **more: Any) -> None:
        """Make a request that is refused."""
        response = self._http.request(method, path, json=body, **more)
        assert response.is_client_error, (method, path, response.text)
        self.refusals.append(response.text)

    def text(self, url: str) -> str:
        """Return what anybody reads there."""
        return self._http.get(url).raise_for_status().text


@contextmanager
def person(site: Site) -> Iterator[Person]:
    token = site.credentials["member_token"]
    with httpx.Client(
        base_url=f"{site.url}/api",
        headers={"Authorization": f"Bearer {token}"},
        timeout=20,
        verify=False,
    ) as http:
        yield Person(http)


def write_everywhere(who: Person, agent_id: str) -> tuple[str, str]:
    """Put the marker into every text of the tracker; return an issue, and a rule that will fail."""
    named = {"name": f"{MARKER} name"}
    issue = who.call(
        "POST",
        "/issues",
        {"title": MARKER, "description": MARKER, "metadata": {MARKER: {MARKER: MARKER}}},
    )
    at = f"/issues/{issue['id']}"
    label = who.call("POST", "/labels", named)
    who.call("PUT", f"{at}/labels/{label['id']}")
    prop = who.call("POST", "/properties", {**named, "type": "text"})
    who.call("PUT", f"{at}/properties/{prop['id']}", {"value": MARKER})
    who.call("POST", "/projects", {**named, "description": MARKER})
    who.call("POST", "/statuses", {**named, "key": "odd", "category": "todo"})
    who.call("POST", "/agents", {**named, "instructions": MARKER})
    who.call("POST", "/squads", {**named, "leader_id": agent_id, "instructions": MARKER})
    who.call("PATCH", f"{at}/metadata", {MARKER: [MARKER]})
    rule = {"agent_id": agent_id, "instruction": f"{MARKER} instruction"}
    event = {**rule, "kind": "event", "mode": "continuous", "event_types": ["comment.created"]}
    who.call("POST", f"{at}/wakeups", event)
    cron = {**rule, "kind": "cron", "cron_expression": "0 0 1 1 *"}
    failing = who.call("POST", f"{at}/wakeups", cron)
    key = {"Idempotency-Key": MARKER}
    comment = who.call("POST", f"{at}/comments", {"body": MARKER}, headers=key)
    who.call("POST", f"/comments/{comment['id']}/reactions", {"emoji": "+1"})
    who.call("POST", "/attachments", files={"file": (f"{MARKER}.txt", MARKER.encode())})
    who.call("POST", f"{at}/runs", {"agent_id": agent_id, "note": MARKER})
    return issue["id"], failing["id"]


def be_refused(who: Person, issue_id: str, rule_id: str) -> None:
    """Put the marker where it does not belong, or where something else stands."""
    at = f"/issues/{issue_id}"
    for body in (
        {"body": MARKER, MARKER: MARKER},
        {"body": [MARKER]},
        {"body": f"{MARKER}\x00"},
        {"body": MARKER * 30_000},
    ):
        who.fail("POST", f"{at}/comments", body)
    stranger = {"Authorization": f"Bearer {MARKER}"}
    who.fail("POST", f"{at}/comments", {"body": MARKER}, headers=stranger)
    who.fail("POST", f"{at}/wakeups", {"kind": MARKER, "instruction": MARKER})
    who.fail("POST", "/attachments", files={"file": (f"{MARKER}/", b"x")})
    who.fail("GET", f"/{MARKER}", headers={"X-Workspace-ID": MARKER})
    who.fail("GET", f"/issues/{MARKER}?search={MARKER}")
    key = {"Idempotency-Key": MARKER}
    who.fail("POST", f"{at}/comments", {"body": f"{MARKER} again"}, headers=key)
    edit = {"instruction": f"{MARKER} new", "expected_instruction": f"{MARKER} old", "revision": 1}
    who.fail("PATCH", f"{at}/wakeups/{rule_id}/instruction", edit)
    who.fail("POST", f"{at}/wakeups/{rule_id}/checkin", {"note": MARKER})
    who.fail("PATCH", f"{at}/metadata", {MARKER: MARKER * 9_000})
    who.fail("PATCH", at, {"status": MARKER, "title": MARKER, "description": MARKER})
    rule = {"kind": "cron", "instruction": MARKER, "cron_expression": MARKER}
    for change in ({}, {"cron_expression": "0 0 1 1 *", "timezone": MARKER}, {"mode": MARKER}):
        who.fail("POST", f"{at}/wakeups", {**rule, **change})
        who.fail("POST", f"{at}/wakeups/preview", {**rule, **change})


def test_nothing_that_was_written_is_told_elsewhere(place: Path) -> None:
    """W-257, W-259: no log line, figure or refusal repeats a text, and no log a credential."""
    with serving.site(place, "--metrics-port", "0") as site, person(site) as who:
        with site.daemon("--agent", "Worker", "--exec", COMMAND) as daemon:
            (agent,) = who.call("GET", "/agents")["items"]
            issue_id, failing = write_everywhere(who, agent["id"])
            be_refused(who, issue_id, failing)
            # Whoever sends a field that there is none of is told its name, and nothing else.
            unknown, *refusals = who.refusals
            assert (unknown.count(MARKER), len(refusals)) == (3, 19)
            ask(place / "data/run", BROKEN, "wakeful")
            ask(place / "data/run", "SELECT pg_notify('wakeful_timers', '')", "wakeful")
            site.server.wait_for_log("event=dispatch.rule_failed")
            site.wait_for_run(issue_id, number=1, status="failed")
            site.wait_for_run(issue_id, number=2)
        assert daemon.stop() == 0
        served = re.search(r"event=metrics_served url=(\S+)", site.server.log.read_text())
        assert served is not None
        told = [who.text(served[1]), who.text(f"{site.url}/api/ready"), *refusals]
        lines = [*site.server.log.read_text().splitlines(), *daemon.log.read_text().splitlines()]
        (failed, *_) = [line for line in lines if "event=dispatch.rule_failed" in line]
        assert f" issue_id={issue_id} " in failed
        assert f" rule_id={failing}" in failed
    assert "wakeful_" in told[0]
    assert [text for text in (*lines, *told) if MARKER in text] == []
    assert [text for text in (*lines, *told) if CREDENTIAL.search(text)] == []
    tokens = (site.credentials["member_token"], site.credentials["daemon_token"])
    assert [line for line in lines if any(token in line for token in tokens)] == []
    assert all(line.startswith("at=") for line in site.server.log.read_text().splitlines())
