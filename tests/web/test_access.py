"""Who may call what: the whole matrix over a real server, who is believed, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import httpx
import pytest

from tests.engine.foreign import until
from tests.web.access_matrix import CALLERS, MATRIX, PRIVATE, Row
from tests.web.access_page import MARK, PAGE, tables
from tests.web.access_requests import Case, Json
from tests.web.access_stage import DAEMON, OPEN, Stage, staged
from tests.web.access_stage import PRIVATE as PRIVATE_AGENT
from web.api import ROUTES
from web.routing import MEMBERS, Route

SUCCESS: Final = range(200, 300)
RULE: Final = {"kind": "event", "mode": "continuous", "event_types": ["comment.created"]}


@pytest.fixture
async def stage(database_url: str) -> AsyncIterator[Stage]:
    async with staged(database_url) as ready:
        yield ready


# --- The matrix ---------------------------------------------------------------------------------


def test_every_route_has_its_line() -> None:
    """W-191: the matrix names each route of the API once, in order, and somebody may call it."""
    assert list(MATRIX) == [route.name for route in ROUTES]
    assert {*PRIVATE} < {*MATRIX}
    for name, row in (*MATRIX.items(), *PRIVATE.items()):
        assert tuple(row) == CALLERS
        assert any(status in SUCCESS for status in row.values()), name


def test_the_page_shows_the_matrix() -> None:
    """W-191: docs/use/access.md says what the matrix says; `python -m tests.web.access_page`."""
    assert PAGE.read_text().partition(MARK)[2] == tables()


async def forged(stage: Stage) -> dict[str, str]:
    """Return headers that claim to be the creator's agent in its running run."""
    issue = await Case(stage=stage, route=ROUTES[0], caller="creator").thing("issues")
    creator_id = stage.people["creator"].user_id
    run = await stage.run(issue, "running", originator_id=creator_id)
    return {
        "X-Agent-ID": str(run["agent_id"]),
        "X-Task-ID": str(run["id"]),
        "X-Actor-Source": "task_token",
        "X-User-ID": str(creator_id),
    }


async def differences(stage: Stage, matrix: Mapping[str, Row], agent: str) -> list[str]:
    """Return where answers are not as a matrix says; every request carries forged headers.

    A request that shall change something is about things of its own.
    """
    headers = await forged(stage)
    found = []
    for route in ROUTES:
        untouched: Json = {}
        for caller, expected in matrix.get(route.name, {}).items():
            changes = expected in SUCCESS and route.method != "GET"
            things: Json = {} if changes else untouched
            case = Case(stage=stage, route=route, caller=caller, agent=agent, things=things)
            answer = await case.send(headers)
            if answer.status_code != expected:
                found.append(
                    f"{route.name} as {caller}: {answer.status_code}, not {expected}: {answer.text}"
                )
    return found


async def test_every_caller_gets_what_the_matrix_says(stage: Stage) -> None:
    """W-191, W-192, W-193: each route answers each caller with its status, whatever headers say."""
    found = await differences(stage, MATRIX, OPEN)
    assert not found, "\n".join(found)


async def test_a_private_agent_is_woken_by_whom_it_admits(stage: Stage) -> None:
    """W-191, W-022: no role replaces the right to invoke; switching off and deleting need none."""
    found = await differences(stage, PRIVATE, PRIVATE_AGENT)
    assert not found, "\n".join(found)


def names_a_thing(route: Route) -> bool:
    """Tell whether a route of people is about something that its path names."""
    return "{" in route.path and route.kinds >= MEMBERS


async def test_an_id_from_elsewhere_names_nothing(stage: Stage) -> None:
    """W-191: who is in another workspace, and names none, gets 404 for every id of this one."""
    for route in filter(names_a_thing, ROUTES):
        case = Case(stage=stage, route=route, caller="outsider")
        answer = await case.send(is_named=False)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), route.name


# --- Who is believed ----------------------------------------------------------------------------


async def test_headers_name_no_actor(stage: Stage) -> None:
    """W-193: with a member's token comment, fact and rule are the member's, headers or not."""
    headers = await forged(stage)
    issue_id = await Case(stage=stage, route=ROUTES[0], caller="member").thing("issues")
    body = {**RULE, "agent_id": str(stage.agents[OPEN]), "instruction": "Look."}
    member, user_id = stage.clients["member"], stage.people["member"].user_id
    rule = await asked(member, "POST", f"/issues/{issue_id}/wakeups", body, headers=headers)
    said = {"body": "It rains."}
    comment = await asked(member, "POST", f"/issues/{issue_id}/comments", said, headers=headers)
    assert (comment["author_type"], comment["author_id"]) == ("member", str(user_id))
    assert comment["source_task_id"] is None
    assert not rule["created_by_agent"]
    (row,) = await stage.sql(
        "SELECT r.payload, w.created_by, w.source_task_id FROM issue_wakeup_receipt r"
        " JOIN issue_wakeup w ON w.id = r.wakeup_id WHERE w.issue_id = $1",
        issue_id,
    )
    assert (row["created_by"], row["source_task_id"]) == (user_id, None)
    assert row["payload"]["actor_type"] == "member"
    assert row["payload"]["actor_id"] == str(user_id)
    assert row["payload"].get("source_task_id") is None


async def test_bodies_name_no_actor(stage: Stage) -> None:
    """W-193: a body that says who acts is 400 unknown_field, and nothing is stored."""
    issue_id = await Case(stage=stage, route=ROUTES[0], caller="member").thing("issues")
    rule = {**RULE, "agent_id": str(stage.agents[OPEN]), "instruction": "Look."}
    for path, sound in (("wakeups", rule), ("comments", {"body": "It rains."})):
        for field in ("created_by", "source_task_id", "actor_type", "actor_id", "author_id"):
            sent = {**sound, field: str(stage.people["creator"].user_id)}
            answer = await stage.clients["member"].post(f"/issues/{issue_id}/{path}", json=sent)
            assert (answer.status_code, answer.json()["code"]) == (400, "unknown_field")
            assert answer.json()["details"] == {"field": field}
    assert await stage.sql("SELECT FROM issue_wakeup UNION ALL SELECT FROM comment") == []


# --- For how long -------------------------------------------------------------------------------


async def asked(
    client: httpx.AsyncClient,
    method: str,
    path: str,
    body: object = None,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Make a request and expect a status, by default a success; returns the answer."""
    answer = await client.request(method, path, json=body, headers=headers)
    is_as_expected = (
        answer.status_code in SUCCESS if status is None else answer.status_code == status
    )
    assert is_as_expected, (method, path, answer.status_code, answer.text)
    return answer.json() if answer.content else None


async def admit(stage: Stage, *people: str) -> None:
    """Say, as the owner of the private agent, who else may wake it from now on."""
    invokers = [str(stage.people[name].user_id) for name in people]
    path = f"/agents/{stage.agents[PRIVATE_AGENT]}"
    await asked(stage.clients["creator"], "PATCH", path, {"invokers": invokers})


async def a_rule(stage: Stage, **fields: Any) -> tuple[str, Json]:
    """Have the member, whom the agent admits, leave a rule for the private agent.

    Returns its address and the body that it was made of.
    """
    await admit(stage, "member")
    issue_id = await Case(stage=stage, route=ROUTES[0], caller="member").thing("issues")
    agent_id = str(stage.agents[PRIVATE_AGENT])
    body = {**RULE, "agent_id": agent_id, "instruction": "Look.", **fields}
    rules = f"/issues/{issue_id}/wakeups"
    made = await asked(stage.clients["member"], "POST", rules, body)
    return f"{rules}/{made['id']}", body


async def test_a_right_that_is_taken_away_is_gone_at_the_next_call(stage: Stage) -> None:
    """W-196: without the right to invoke the next save, enabling, waking is 403; off is not."""
    rule, body = await a_rule(stage)
    member = stage.clients["member"]
    await asked(member, "PUT", rule, body)
    await admit(stage)
    await asked(member, "PUT", rule, body, status=403)
    await asked(member, "POST", rule.rpartition("/")[0], body, status=403)
    await asked(member, "POST", f"{rule}/enable", {"revision": 2}, status=403)
    await asked(member, "POST", f"{rule}/trigger", status=403)
    await asked(member, "POST", f"{rule}/disable")
    await admit(stage, "member")
    await asked(member, "POST", f"{rule}/trigger", status=400)
    await asked(member, "PUT", rule, body)


async def test_a_right_is_looked_at_when_the_fact_comes(stage: Stage) -> None:
    """W-196: who lost the right before the fact is not served by it: the rule goes off."""
    rule, _ = await a_rule(stage)
    await admit(stage)
    comments = f"{rule.partition('/wakeups')[0]}/comments"
    await asked(stage.clients["owner"], "POST", comments, {"body": "It rains."})

    async def switched_off() -> Json | None:
        seen: Json = await asked(stage.clients["member"], "GET", rule)
        return None if seen["enabled"] else seen

    assert (await until(switched_off, "the rule goes off"))["last_error"]
    assert await stage.sql("SELECT FROM agent_task_queue") == []


async def test_a_right_is_looked_at_when_the_run_is_claimed(stage: Stage) -> None:
    """W-196: who lost the right while the run was queued has it refused at the claim."""
    rule, _ = await a_rule(stage)
    await asked(stage.clients["member"], "POST", f"{rule}/trigger")

    async def queued() -> Json | None:
        runs: list[Json] = await asked(stage.clients["member"], "GET", f"{rule}/runs")
        return runs[0] if runs else None

    run = await until(queued, "a run is queued")
    await admit(stage)
    claim = {"daemon_id": DAEMON, "runtime_ids": [str(stage.runtime_id)]}
    claimed = await asked(stage.clients["daemon"], "POST", "/daemon/tasks/claim", claim)
    assert claimed == {"tasks": []}
    ended = await asked(stage.clients["member"], "GET", f"/runs/{run['id']}")
    assert (ended["status"], ended["failure_reason"]) == ("failed", "invalid_task_identity")
    assert "may no longer invoke" in ended["error"]


async def test_roles_and_memberships_are_those_of_now(stage: Stage) -> None:
    """W-196: an admin who is one no more is refused at once, and who has left is nobody."""
    admin, label = stage.clients["admin"], {"email": "x@example.com", "name": "X", "role": "member"}
    await asked(admin, "POST", "/members", label)
    user_id = stage.people["admin"].user_id
    await stage.sql("UPDATE member SET role = 'member' WHERE user_id = $1", user_id)
    await asked(admin, "POST", "/members", {**label, "email": "y@example.com"}, status=403)
    members = (await asked(admin, "GET", "/members"))["items"]
    (member_id,) = [each["id"] for each in members if each["user_id"] == str(user_id)]
    await asked(stage.clients["owner"], "DELETE", f"/members/{member_id}")
    await asked(admin, "GET", "/issues", status=401)


async def test_a_run_has_the_rights_that_its_person_has_now(stage: Stage) -> None:
    """W-196, W-192: when the person leaves, the run that goes on saves and wakes nothing more."""
    issue_id = await Case(stage=stage, route=ROUTES[0], caller="run").thing("issues")
    person = stage.people["creator"].user_id
    body = {**RULE, "agent_id": str(stage.agents[OPEN]), "instruction": "Look."}
    async with stage.client(await stage.run_token(issue_id, person)) as run:
        made = await asked(run, "POST", f"/issues/{issue_id}/wakeups", body)
        rule = f"/issues/{issue_id}/wakeups/{made['id']}"
        await stage.sql("DELETE FROM member WHERE user_id = $1", person)
        await asked(run, "GET", rule)
        await asked(run, "POST", f"/issues/{issue_id}/wakeups", body, status=403)
        for action in ("trigger", "disable"):
            await asked(run, "POST", f"{rule}/{action}", status=403)
        await asked(run, "DELETE", rule, status=403)
        await stage.sql("UPDATE agent_task_queue SET status = 'cancelled' WHERE status = 'running'")
        await asked(run, "GET", rule, status=401)
