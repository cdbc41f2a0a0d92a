"""A sound request for every route, on things of its own.

What one caller removes, the next one still finds. Things are made as the creator makes them,
through the engine; those that only owners make, by one; runs that a daemon has claimed, by SQL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import UUID

import attrs
import httpx

from engine.domain.commands import catalogue, conversation, runs, tracker
from engine.domain.commands.wakeups import CreateRule
from engine.domain.rules import RuleDraft
from tests.web.access_stage import DAEMON, NAMED, OPEN, PRIVATE, Stage
from web.routing import Route

Json = dict[str, Any]

_EMOJI: Final = "%F0%9F%91%80"
_UNSTARTED: Final = frozenset({"start_runs", "prepare_lease", "start_run", "wait_local_directory"})
_SCHEDULE: Final[Mapping[str, Any]] = {
    "kind": "every",
    "interval_seconds": 31_536_000,
    "instruction": "Look.",
}


@attrs.define(kw_only=True)
class Case:
    """One request of one caller on one route.

    `agent` names the agent whom rules and runs of the case are about. `things` are what was made
    for it, by the part of the path that they follow; cases that change nothing may share them.
    """

    stage: Stage
    route: Route
    caller: str
    agent: str = OPEN
    number: int = 0
    things: dict[str, Any] = attrs.field(factory=dict)

    async def send(
        self, headers: Mapping[str, str] | None = None, *, is_named: bool = True
    ) -> httpx.Response:
        """Make the things and the request; the workspace is named unless told otherwise."""
        self.number = self.stage.number()
        path = await self._path()
        body = BODIES[self.route.name](self) if self.route.name in BODIES else None
        async with self._client() as client:
            request = client.build_request(self.route.method, path, json=body, headers=headers)
            if not is_named:
                del request.headers[NAMED]
            return await client.send(request)

    @property
    def name(self) -> str:
        """A name that nothing else bears."""
        return f"thing{self.number}"

    @property
    def agent_id(self) -> str:
        """The agent whom the case is about."""
        return str(self.stage.agents[self.agent])

    async def make(self, command: Any, who: str = "creator") -> Any:
        """Have somebody make something in the workspace."""
        command = attrs.evolve(command, workspace_id=self.stage.workspace_id)
        return await self.stage.engine.submit(self.stage.people[who], command)

    async def thing(self, kind: str) -> Any:
        """Return the id of the thing of a kind, which is made when it is first asked for."""
        if kind not in self.things:
            self.things[kind] = await MAKERS[kind](self)
        return self.things[kind]

    async def _path(self) -> str:
        parts = self.route.path.split("/")
        for place, part in enumerate(parts):
            if part == "{emoji}":
                parts[place] = _EMOJI
            elif part.startswith("{"):
                parts[place] = str(await self.thing(parts_of(self.route)[place - 1]))
        if self.route.name in PREPARED:
            await PREPARED[self.route.name](self)
        return "/".join(parts)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        if self.caller not in {"run", "orphan"}:
            yield self.stage.clients[self.caller]
            return
        person = self.stage.people["creator"].user_id
        is_check = self.route.name == "check_in_to_wakeup"
        token = await self.stage.run_token(
            await self.thing("issues"),
            person if self.caller == "run" else None,
            await self.thing("wakeups") if is_check else None,
        )
        async with self.stage.client(token) as client:
            yield client
        await self.stage.end_runs()  # an agent never executes two runs of an issue (G-05)


def parts_of(route: Route) -> list[str]:
    """Return the parts of a route's address."""
    return route.path.split("/")


# --- Things, by the part of the path that they follow -------------------------------------------


async def _issue(case: Case) -> UUID:
    made: UUID = (await case.make(tracker.CreateIssue(title="Build an ark"))).id
    return made


async def _comment(case: Case) -> UUID:
    issue_id = await case.thing("issues")
    made: UUID = (await case.make(tracker.CreateComment(issue_id=issue_id, body="It rains."))).id
    return made


async def _attachment(case: Case) -> UUID:
    """A file on an issue, but one that is to be bound hangs on nothing."""
    made: UUID = (
        await case.make(conversation.CreateAttachment(filename="a.txt", content=b"text"))
    ).id
    if case.route.name != "bind_attachment":
        issue_id = await case.thing("issues")
        await case.make(conversation.BindAttachment(attachment_id=made, issue_id=issue_id))
    return made


async def _rule(case: Case) -> UUID:
    draft = RuleDraft(agent_id=UUID(case.agent_id), **_SCHEDULE)
    made: UUID = (await case.make(CreateRule(issue_id=await case.thing("issues"), draft=draft))).id
    return made


async def _queued_run(case: Case) -> UUID:
    issue_id = await case.thing("issues")
    made: UUID = (
        await case.make(runs.CreateRun(issue_id=issue_id, agent_id=UUID(case.agent_id)))
    ).id
    return made


async def _ended_run(case: Case) -> None:
    person = case.stage.people["creator"].user_id
    await case.stage.run(
        await case.thing("issues"), "completed", agent=case.agent, originator_id=person
    )


async def _task(case: Case) -> UUID:
    """A run that the daemon has claimed, and has started unless that is what it is about to do.

    It is not of the agent whose run may call (G-05).
    """
    status = "dispatched" if case.route.name in _UNSTARTED else "running"
    run = await case.stage.run(await case.thing("issues"), status, agent=PRIVATE)
    case.things["claim"] = run["dispatched_at"].isoformat()
    task_id: UUID = run["id"]
    return task_id


async def _started_task(case: Case) -> None:
    """A run for the reports on several runs, which name them in the body."""
    await case.thing("tasks")


async def _workspace(case: Case) -> UUID:
    """The workspace of everybody, or one with the same members that can be removed."""
    stage = case.stage
    if case.route.name != "delete_workspace":
        return stage.workspace_id
    draft = tracker.CreateWorkspace(name=case.name, slug=case.name, issue_prefix="GONE")
    made: UUID = (await stage.engine.submit(stage.people["root"], draft)).id
    await stage.sql(
        "INSERT INTO member (workspace_id, user_id, role)"
        " SELECT $2, user_id, role FROM member WHERE workspace_id = $1 AND user_id <> $3",
        stage.workspace_id,
        made,
        stage.people["root"].user_id,
    )
    return made


async def _member(case: Case) -> UUID:
    person = tracker.AddMember(email=f"{case.name}@example.com", name="New", role="member")
    made: UUID = (await case.make(person, "root")).id
    return made


async def _token(case: Case) -> UUID:
    made: UUID = (await case.make(tracker.CreateToken(name=case.name, kind="member"))).id
    return made


async def _agent(case: Case) -> UUID:
    visibility = "workspace" if case.agent == OPEN else "private"
    made: UUID = (await case.make(tracker.CreateAgent(name=case.name, visibility=visibility))).id
    return made


async def _inbox_item(case: Case) -> UUID:
    return await case.stage.sql.insert(
        "inbox_item",
        {
            "workspace_id": case.stage.workspace_id,
            "recipient_id": case.stage.people["creator"].user_id,
            "type": "mention",
            "title": "Look",
        },
    )


async def _runtime(case: Case) -> UUID:
    return case.stage.runtime_id


def _by_owner(draft: Callable[[Case], Any]) -> Callable[[Case], Awaitable[UUID]]:
    """Return what has an entry of a catalogue made by an owner."""

    async def make(case: Case) -> UUID:
        made: UUID = (await case.make(draft(case), "root")).id
        return made

    return make


MAKERS: Final[Mapping[str, Callable[[Case], Awaitable[Any]]]] = {
    "agents": _agent,
    "attachments": _attachment,
    "comments": _comment,
    "inbox": _inbox_item,
    "issues": _issue,
    "labels": _by_owner(lambda case: catalogue.CreateLabel(name=case.name)),
    "members": _member,
    "projects": _by_owner(lambda case: catalogue.CreateProject(name=case.name)),
    "properties": _by_owner(lambda case: catalogue.CreateProperty(name=case.name)),
    "runs": _queued_run,
    "runtimes": _runtime,
    "squads": _by_owner(
        lambda case: catalogue.CreateSquad(name=case.name, leader_id=UUID(case.agent_id))
    ),
    "statuses": _by_owner(
        lambda case: catalogue.CreateStatus(key=case.name, name=case.name, category="in_progress")
    ),
    "tasks": _task,
    "tokens": _token,
    "wakeups": _rule,
    "workspaces": _workspace,
}
PREPARED: Final[Mapping[str, Callable[[Case], Awaitable[None]]]] = {
    "complete_runs": _started_task,
    "rerun_issue": _ended_run,
    "start_runs": _started_task,
}


# --- Bodies, by the name of the route; the others need none -------------------------------------


def _fixed(**body: Any) -> Callable[[Case], Json]:
    return lambda _: body


def _named(**more: Any) -> Callable[[Case], Json]:
    return lambda case: {"name": case.name, **more}


def _rule_body(case: Case) -> Json:
    return {"agent_id": case.agent_id, **_SCHEDULE}


def _claim_body(case: Case) -> Json:
    return {"daemon_id": DAEMON, "runtime_ids": [str(case.stage.runtime_id)]}


def _claim(case: Case) -> Json:
    return {"dispatched_at": case.things["claim"]}


def _claims(case: Case) -> Json:
    return {"tasks": [{"id": str(case.things["tasks"]), **_claim(case)}]}


BODIES: Final[Mapping[str, Callable[[Case], Json]]] = {
    "add_comment_reaction": _fixed(emoji="👀"),
    "add_issue_reaction": _fixed(emoji="👀"),
    "add_member": lambda case: {
        "email": f"{case.name}@example.com",
        "name": "New",
        "role": "member",
    },
    "append_messages": _fixed(lines=[{"text": "Hm."}]),
    "bind_attachment": _fixed(),
    "check_in_to_wakeup": _fixed(note="All quiet."),
    "claim_tasks": _claim_body,
    "complete_run": _claim,
    "complete_runs": _claims,
    "create_agent": _named(),
    "create_attachment": _fixed(filename="a.txt", url="https://example.com/a.txt"),
    "create_comment": _fixed(body="It rains."),
    "create_issue": _fixed(title="Build an ark"),
    "create_label": _named(),
    "create_project": _named(),
    "create_property": _named(),
    "create_run": lambda case: {"agent_id": case.agent_id},
    "create_squad": lambda case: {"name": case.name, "leader_id": case.agent_id},
    "create_status": lambda case: {
        "key": case.name,
        "name": case.name,
        "category": "in_progress",
    },
    "create_token": _named(kind="member"),
    "create_wakeup": _rule_body,
    "create_workspace": lambda case: {
        "name": case.name,
        "slug": case.name,
        "issue_prefix": "NEW",
    },
    "edit_wakeup_instruction": _fixed(
        instruction="Look twice.", expected_instruction="Look.", revision=1
    ),
    "enable_wakeup": _fixed(revision=1),
    "fail_run": _claim,
    "heartbeat": _claim_body,
    "patch_metadata": _fixed(depth=1),
    "preview_wakeup": _rule_body,
    "register_daemon": _fixed(daemon_id=DAEMON, runtimes=[{"name": "laptop", "provider": "exec"}]),
    "replace_wakeup": _rule_body,
    "report_progress": _fixed(summary="half"),
    "set_property": _fixed(value="deep"),
    "start_run": _claim,
    "start_runs": _claims,
    "update_agent": _fixed(instructions="Build."),
    "update_comment": _fixed(body="It pours."),
    "update_issue": _fixed(title="Build two"),
    "update_label": _named(),
    "update_project": _named(),
    "update_property": _named(),
    "update_squad": _named(),
    "update_status": _named(),
    "update_workspace": _fixed(name="Main"),
    "wait_local_directory": _fixed(reason="busy"),
}
