"""`wakeful label`, `project`, `property`, `status`, `squad`: the catalogues of a workspace."""

from __future__ import annotations

import httpx

from tests.cli.conftest import Command
from tests.cli.serving import Site


def header(command: Command, *arguments: str) -> list[str]:
    """Return the words of a table's first line."""
    done = command(*arguments, "--output", "table")
    assert done.code == 0, done.err
    return done.out.splitlines()[0].split()


def test_labels_are_made_listed_and_attached(here: Command) -> None:
    """A label is named in any case or by its id; issues have it, and are found by it."""
    made = here("label", "create", "Urgent", "--color", "#ff0000").json
    assert (made["name"], made["color"]) == ("Urgent", "#ff0000")
    assert made in here("label", "list").json["items"]
    assert header(here, "label", "list") == ["ID", "NAME", "COLOR"]
    issue = here("issue", "create", "Labelled").json["identifier"]
    attached = here("label", "attach", issue, "urgent").json
    assert attached == {"issue": issue, "label_id": made["id"], "attached": True}
    assert [each["id"] for each in here("issue", "show", issue).json["labels"]] == [made["id"]]
    found = here("issue", "list", "--label", "URGENT").json
    assert [each["identifier"] for each in found["items"]] == [issue]
    assert here("label", "detach", issue, made["id"]).json["attached"] is False
    assert here("issue", "show", issue).json["labels"] == []


def test_a_project_has_issues(here: Command, site: Site) -> None:
    """Issues are made in a project, moved into one, listed by it; an archived one is not found."""
    made = here("project", "create", "Ark", "--description", "Two of each.").json
    assert made["description"] == "Two of each."
    assert made in here("project", "list").json["items"]
    assert header(here, "project", "list") == ["ID", "NAME", "ARCHIVED"]
    first = here("issue", "create", "Gather wood", "--project", "ark").json
    second = here("issue", "create", "Gather animals").json
    changed = here("issue", "update", second["id"], "--project", made["id"]).json
    assert first["project_id"] == changed["project_id"] == made["id"]
    assert here("issue", "list", "--project", "Ark").json["total"] == 2
    address = f"{site.url}/api/projects/{made['id']}/archive"
    bearer = {"Authorization": f"Bearer {site.credentials['member_token']}"}
    assert httpx.post(address, headers=bearer, trust_env=False).is_success
    for name in ("Ark", "Raft"):
        done = here("issue", "create", "Nowhere", "--project", name)
        assert (done.code, done.out, done.err) == (1, "", f"there is no project {name!r}\n")


def test_properties_take_values(here: Command) -> None:
    """A value is JSON or else a text, judged by the property's type; it is cleared again."""
    options = ("--option", "low", "--option", "high")
    risk = here("property", "create", "Risk", "--type", "select", *options).json
    depth = here("property", "create", "Depth", "--type", "number").json
    assert risk["config"]["options"] == ["low", "high"]
    assert header(here, "property", "list") == ["ID", "NAME", "TYPE", "ARCHIVED"]
    issue = here("issue", "create", "Deep").json["identifier"]
    assert here("property", "set", issue, "risk", "high").json["value"] == "high"
    assert here("property", "set", issue, depth["id"], "4.5").json["value"] == 4.5
    properties = here("issue", "show", issue).json["properties"]
    assert properties == {risk["id"]: "high", depth["id"]: 4.5}
    done = here("property", "set", issue, "Depth", "deep")
    assert (done.code, done.out) == (1, "")
    assert "(invalid_input)" in done.err
    assert here("property", "clear", issue, "Risk").json["cleared"] is True
    assert here("issue", "show", issue).json["properties"] == {depth["id"]: 4.5}


def test_statuses_are_listed_and_made(here: Command) -> None:
    """The seven built-in statuses are there; an own one has a category and is for issues."""
    built_in = [each["key"] for each in here("status", "list").json["items"] if each["is_system"]]
    assert built_in == [
        "backlog",
        "todo",
        "in_progress",
        "in_review",
        "blocked",
        "done",
        "cancelled",
    ]
    made = here("status", "create", "in_qa", "--category", "in_progress").json
    assert (made["key"], made["name"], made["is_system"]) == ("in_qa", "in_qa", False)
    assert header(here, "status", "list")[:3] == ["KEY", "NAME", "CATEGORY"]
    assert here("issue", "create", "Check", "--status", "in_qa").json["category"] == "in_progress"
    assert here("status", "create", "no_category").code == 1


def test_a_squad_has_a_leader(here: Command, site: Site) -> None:
    """A squad is made of agents by name and people by id; an unknown leader is said."""
    with site.api() as api:
        for name in ("captain", "sailor"):
            api.create_agent(name)
        user_id = api.me()["member"]["user_id"]
    crew = ("--leader", "captain", "--agent", "sailor", "--user", user_id)
    made = here("squad", "create", "Crew", *crew, "--instructions", "Row.").json
    assert made["instructions"] == "Row."
    assert sorted(each["type"] for each in made["members"]) == ["agent", "member"]
    assert made in here("squad", "list").json["items"]
    assert header(here, "squad", "list") == ["ID", "NAME", "LEADER", "MEMBERS", "ARCHIVED"]
    done = here("squad", "create", "Lost", "--leader", "nobody")
    assert (done.code, done.out, done.err) == (1, "", "there is no agent 'nobody'\n")
