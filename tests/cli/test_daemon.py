"""`wakeful daemon` against a real server."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from client import limits
from client.api import Wakeful
from client.connection import Connection, Server
from tests.cli import serving
from tests.cli.serving import Site


def issue_for(site: Site, agent: str, title: str = "Work") -> Any:
    """Make an issue and assign it to an agent, which queues a run."""
    return site.wakeful("issue", "create", title, "--agent", agent).json


def bodies(site: Site, issue: Any) -> list[str]:
    """Return the comments of an issue."""
    return [each["body"] for each in site.wakeful("issue", "show", issue["id"]).json["comments"]]


def test_a_run_is_carried_out_as_the_agent(site: Site) -> None:
    """The command gets prompt, run token, URL and issue; its output becomes the run's output."""
    mind = (
        'cat; wakeful issue show "$WAKEFUL_ISSUE" >/dev/null && echo seen;'
        ' echo "${WAKEFUL_TOKEN%%_*} $WAKEFUL_URL $WAKEFUL_DAEMON_TOKEN"'
    )
    with site.daemon("--agent", "reader", "--exec", mind):
        issue = issue_for(site, "reader")
        run = site.wait_for_run(issue["id"])
    output = run["result"]["output"]
    assert f"Issue: {issue['identifier']} ({issue['id']})" in output
    assert output.endswith(f"seen\nwkr {site.url} \n")
    assert bodies(site, issue) == [output.strip()], "without an own comment the output becomes one"


def test_a_comment_of_the_run_is_the_agents(site: Site) -> None:
    """What the command does with its token is done by the agent, from the run (W-193)."""
    mind = 'echo "I did it." | wakeful issue comment "$WAKEFUL_ISSUE" >/dev/null'
    with site.daemon("--agent", "writer", "--exec", mind):
        issue = issue_for(site, "writer")
        run = site.wait_for_run(issue["id"])
    (comment,) = site.wakeful("issue", "show", issue["id"]).json["comments"]
    assert (comment["author_type"], comment["body"]) == ("agent", "I did it.\n")
    assert comment["source_task_id"] == run["id"]


def test_a_failing_command_fails_the_run(site: Site) -> None:
    """Another exit code than 0 fails the run with the end of standard error."""
    with site.daemon("--agent", "loser", "--exec", "echo half; echo bad luck >&2; exit 7"):
        issue = issue_for(site, "loser")
        run = site.wait_for_run(issue["id"], status="failed")
    assert (run["error"], run["failure_reason"]) == ("bad luck", "agent_error")


def test_once_ends_after_one_run(site: Site) -> None:
    """With --once the daemon ends with 0 after one run, and the next run stays queued."""
    with site.daemon("--agent", "oncer", "--exec", "true", "--once") as daemon:
        first = issue_for(site, "oncer")
        assert daemon.process.wait(serving.SECONDS_MAX) == 0
    assert site.wait_for_run(first["id"])
    second = issue_for(site, "oncer")
    assert site.wait_for_run(second["id"], status="queued")


def test_once_ends_with_1_when_its_run_failed(site: Site) -> None:
    """With --once the daemon's exit code tells how the run ended, and a line names the run."""
    options = ("--agent", "unlucky", "--exec", "exit 3", "--once")
    with site.daemon(*options) as daemon:
        issue = issue_for(site, "unlucky")
        assert daemon.process.wait(serving.SECONDS_MAX) == 1
    run = site.wait_for_run(issue["id"], status="failed")
    assert f"the run failed: `wakeful run show {run['id']}` says why" in daemon.log.read_text()


def test_a_cancel_ends_the_command_and_what_it_started(site: Site) -> None:
    """A run that is cancelled ends its command's whole process group."""
    pids = site.cwd / "pids"
    os.mkfifo(pids)
    with site.daemon("--agent", "sleepy", "--exec", f"sleep 600 & echo $! > {pids}; wait"):
        issue = issue_for(site, "sleepy")
        pid = int(pids.read_text())
        run = site.wait_for_run(issue["id"], status="running")
        assert Path(f"/proc/{pid}").exists()
        assert site.wakeful("run", "cancel", run["id"]).json["status"] == "cancelled"
        serving.wait_until(lambda: not Path(f"/proc/{pid}").exists(), lambda: "it still runs")
        # The daemon goes on: the next run is carried out.
        assert site.wakeful("run", "show", run["id"]).json["status"] == "cancelled"


def test_sigterm_ends_it_and_a_new_one_takes_over(site: Site) -> None:
    """W-110: SIGTERM ends daemon and command after the grace; the run is to be tried again."""
    pids = site.cwd / "pids-of-stopped"
    os.mkfifo(pids)
    mind = f"echo $$ > {pids}; exec sleep 600"
    with site.daemon("--agent", "phoenix", "--exec", mind, "--grace", "0.2") as first:
        issue = issue_for(site, "phoenix")
        pid = int(pids.read_text())
        site.wait_for_run(issue["id"], status="running")
        assert first.stop() == 0
    assert not Path(f"/proc/{pid}").exists()
    lost = site.wait_for_run(issue["id"], status="failed")
    assert lost["failure_reason"] == "runtime_recovery"
    assert (
        site.wait_for_run(issue["id"], number=2, status="queued")["retry_of_task_id"] == lost["id"]
    )
    with site.daemon("--agent", "phoenix", "--exec", "echo again"):
        assert site.wait_for_run(issue["id"], number=2)["result"] == {"output": "again\n"}


def test_work_that_ends_in_the_grace_is_reported(site: Site) -> None:
    """A daemon that got SIGTERM claims nothing more, and lets its command come to an end."""
    go = site.cwd / "go-in-grace"
    os.mkfifo(go)
    mind = f"read word < {go}; echo $word"
    with site.daemon("--agent", "patient", "--exec", mind) as daemon:
        first = issue_for(site, "patient")
        site.wait_for_run(first["id"], status="running")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.wait_for_log("1 runs go on")
        second = issue_for(site, "patient")
        go.write_text("done\n")
        assert daemon.process.wait(serving.SECONDS_MAX) == 0
    assert site.wait_for_run(first["id"])["result"] == {"output": "done\n"}
    assert site.wait_for_run(second["id"], status="queued")


def test_a_second_signal_ends_everything_at_once(site: Site) -> None:
    """W-110: a second SIGTERM kills what ignores the first; registering anew gives it a retry."""
    pids = site.cwd / "pids-of-abandoned"
    os.mkfifo(pids)
    mind = f"trap '' TERM; echo $$ > {pids}; sleep 600; sleep 600"
    with site.daemon("--agent", "stubborn", "--exec", mind) as first:
        issue = issue_for(site, "stubborn")
        pid = int(pids.read_text())
        site.wait_for_run(issue["id"], status="running")
        first.process.send_signal(signal.SIGTERM)
        first.wait_for_log("a second signal")
        began = time.monotonic()
        assert first.stop() == 1
        assert time.monotonic() - began < limits.STOP_SECONDS_MAX
        assert "1 runs are left to the next start" in first.log.read_text()
    assert not Path(f"/proc/{pid}").exists()
    assert site.wait_for_run(issue["id"], status="running")
    with site.daemon("--agent", "stubborn", "--exec", "echo again"):
        assert site.wait_for_run(issue["id"], number=2)["result"] == {"output": "again\n"}


def test_one_daemon_serves_several_agents(site: Site) -> None:
    """With --agent repeated, one daemon carries out the runs of each as that agent."""
    with site.daemon("--agent", "left", "--agent", "right", "--exec", 'echo "$WAKEFUL_AGENT"'):
        issues = {name: issue_for(site, name) for name in ("left", "right")}
        for name, issue in issues.items():
            assert site.wait_for_run(issue["id"])["result"] == {"output": f"{name}\n"}


def test_a_runtime_serves_whoever_is_bound_to_it(site: Site) -> None:
    """With --runtime a daemon token is enough, and agents come and go by their runtime."""
    env = {
        "WAKEFUL_URL": site.url,
        "WAKEFUL_DAEMON_TOKEN": site.credentials["daemon_token"],
        "WAKEFUL_TOKEN": "wkm_not_needed",
    }
    with serving.folder() as cwd, site.api() as api:
        log = cwd / "daemon.log"
        options = ("daemon", "--runtime", "pool", "--exec", "echo here")
        with serving.running(*options, cwd=cwd, log=log, env=env) as daemon:
            daemon.wait_for_log("/pool serves the agents of")
            runtime = re.search(r"\(([0-9a-f-]{36})\)", log.read_text())
            assert runtime is not None
            api.update_agent(api.create_agent("swimmer")["id"], runtime_id=runtime[1])
            issue = issue_for(site, "swimmer")
            assert site.wait_for_run(issue["id"])["result"] == {"output": "here\n"}


def test_what_a_command_prints_is_seen_while_it_runs(site: Site) -> None:
    """Each line of a running command becomes a line of the run's transcript, with its stream."""
    go = site.cwd / "go-on-talking"
    os.mkfifo(go)
    mind = f"echo thinking; echo hm >&2; read word < {go}; echo $word"
    with site.daemon("--agent", "talker", "--exec", mind), site.api() as api:
        issue = issue_for(site, "talker")
        run = site.wait_for_run(issue["id"], status="running")

        def lines() -> set[tuple[str, str]]:
            items = api.run_messages(run["id"])["items"]
            return {(each["line"]["stream"], each["line"]["text"]) for each in items}

        serving.wait_until(lambda: len(lines()) == 2, lines)
        assert lines() == {("stdout", "thinking"), ("stderr", "hm")}
        go.write_text("done\n")
        site.wait_for_run(issue["id"])
        assert ("stdout", "done") in lines(), "the transcript is whole when the run has ended"


def test_a_chatty_command_is_not_held_up(site: Site) -> None:
    """A command that prints thirty megabytes ends, and its transcript stays bounded."""
    mind = "yes | head -c 30000000; echo the end"
    with site.daemon("--agent", "chatty", "--exec", mind), site.api() as api:
        issue = issue_for(site, "chatty")
        run = site.wait_for_run(issue["id"])
        messages = api.run_messages(run["id"])
        newest = api.run_messages(run["id"], offset=messages["total"] - 1)["items"][0]
    assert 1 < messages["total"] <= limits.TRANSCRIPT_LINES_MAX + limits.BACKLOG_LINES_MAX + 1
    assert newest["line"]["text"] == "the end"


def test_a_killed_daemons_run_is_retried(site: Site) -> None:
    """W-110: what a daemon that was killed left behind is failed and retried by the next one."""
    pids = site.cwd / "pids-of-killed"
    os.mkfifo(pids)
    with site.daemon("--agent", "victim", "--exec", f"echo $$ > {pids}; exec sleep 600") as first:
        issue = issue_for(site, "victim")
        orphan = int(pids.read_text())
        site.wait_for_run(issue["id"], status="running")
        assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    os.kill(orphan, signal.SIGKILL)
    with site.daemon("--agent", "victim", "--exec", "echo again"):
        assert site.wait_for_run(issue["id"], number=2)["result"] == {"output": "again\n"}


def test_it_survives_a_restart_of_the_server(place: Path) -> None:
    """A daemon goes on over a restart: the command that runs, its report, and later runs."""
    go = place / "go"
    os.mkfifo(go)
    mind = f"read word < {go}; echo $word"
    with serving.site(place) as first:
        port = first.url.rpartition(":")[2]
        log = place / "daemon.log"
        options = ("--agent", "steady", "--exec", mind)
        with serving.running("daemon", *options, cwd=place, log=log) as daemon:
            daemon.wait_for_log(" serves ")
            one = issue_for(first, "steady")
            first.wait_for_run(one["id"], status="running")
            assert first.server.stop() == 0
            go.write_text("before\n")
            daemon.wait_for_log("event=server_away")
            with serving.site(place, "--port", port) as second:
                assert second.wait_for_run(one["id"])["result"] == {"output": "before\n"}
                two = issue_for(second, "steady")
                go.write_text("after\n")
                assert second.wait_for_run(two["id"])["result"] == {"output": "after\n"}
            assert daemon.stop() == 0


def test_several_runs_at_a_time_when_asked(site: Site) -> None:
    """With --max-concurrent 2 the runs of two issues meet; without it they would wait for ever."""
    meeting = site.cwd / "meeting"
    os.mkfifo(meeting)
    # A pipe opens when both ends are there: each of the two commands needs the other.
    mind = f"case $(cat) in *Reader*) cat {meeting} ;; *) echo met > {meeting} ;; esac"
    with site.daemon("--agent", "twin", "--exec", mind, "--max-concurrent", "2"):
        with site.api() as api:
            twin = api.find_agent("twin")
            assert twin is not None
            issues = [api.create_issue("Meet")["id"] for _ in range(2)]
            for issue, note in zip(issues, ("Reader", "Writer"), strict=True):
                api.start_run(issue, twin["id"], note=note)
        for issue in issues:
            assert site.wait_for_run(issue)


def test_without_a_daemon_token_one_is_made(site: Site) -> None:
    """A daemon elsewhere needs a member token only; started again it replaces its own token."""
    with site.api() as api:
        token = api.create_token("elsewhere", "member")["token"]
    options = ("--url", site.url, "--token", token, "--agent", "far", "--exec", "echo done")
    with serving.folder() as cwd:
        for number in (1, 2):
            log = cwd / f"{number}.log"
            with serving.running("daemon", *options, "--once", cwd=cwd, log=log) as daemon:
                daemon.wait_for_log(" serves ")
                issue = issue_for(site, "far")
                assert site.wait_for_run(issue["id"])
                assert daemon.process.wait(serving.SECONDS_MAX) == 0
    with site.api() as api:
        made = [each for each in api.tokens() if each["name"].endswith("/far")]
    assert len(made) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--exec", "true"], "--agent"),
        (["--agent", "a", "--exec", "true", "--max-concurrent", "0"], "--max-concurrent"),
        (["--agent", "a"], "--exec"),
        (["--agent", "a", "--exec", "true", "--token", "wkm_wrong"], "(not_authenticated)"),
        (["--agent", "a", "--exec", "true", "--url", "http://127.0.0.1:1"], "(unreachable)"),
    ],
)
def test_what_keeps_it_from_serving_is_said(site: Site, options: list[str], words: str) -> None:
    """A daemon that cannot serve ends with 1 and says why."""
    done = site.wakeful("daemon", *options)
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_token_revoked_meanwhile_ends_it(site: Site) -> None:
    """A daemon whose token is revoked ends with 1 and the server's code."""
    with site.api() as api:
        made = api.create_token("short", "daemon")
        env = {"WAKEFUL_DAEMON_TOKEN": made["token"]}
        log = site.cwd / "revoked.log"
        options = ("--agent", "outcast", "--exec", "true")
        with serving.running("daemon", *options, cwd=site.cwd, log=log, env=env) as daemon:
            daemon.wait_for_log(" serves ")
            api.revoke_token(made["id"])
            issue_for(site, "outcast")  # ends the wait of the claim, if the revocation has not
            assert daemon.process.wait(2 * serving.SECONDS_MAX) == 1
    assert re.search(r"\((not_authenticated|daemon_mismatch)\)\Z", log.read_text().rstrip())


def test_logs_hold_no_prompt_and_no_token(site: Site) -> None:
    """The daemon's log has ids and codes, never prompts, outputs or credentials."""
    with site.daemon("--agent", "quiet", "--exec", 'echo "loud $WAKEFUL_TOKEN"') as daemon:
        issue = issue_for(site, "quiet", "Whispered")
        run = site.wait_for_run(issue["id"])
        daemon.wait_for_log("event=run_ended")
        log = daemon.log.read_text()
    assert f"run={run['id']}" in log
    for secret in ("loud", "Whispered", "wkr_", "wkd_", "wkm_"):
        assert secret not in log


def test_another_machines_daemon_is_not_pushed_aside(site: Site) -> None:
    """An agent whose runtime is online elsewhere is left to it, and that is said."""
    with site.api() as api:
        agent = api.create_agent("taken")
        register_elsewhere(site, api, agent["id"])
    done = site.wakeful("daemon", "--agent", "taken", "--exec", "true")
    assert (done.code, done.out) == (1, "")
    assert "elsewhere/taken, which is online" in done.err


def register_elsewhere(site: Site, api: Wakeful, agent_id: str) -> None:
    """Give an agent the runtime of a daemon on another machine."""
    body = {"daemon_id": "elsewhere", "runtimes": [{"name": "elsewhere/taken", "provider": "x"}]}
    server = Server(url=site.url, token=site.credentials["daemon_token"])
    with Connection(server) as connection:
        registered = connection.call("POST", "/daemon/register", body=body)
    api.update_agent(agent_id, runtime_id=registered["runtimes"][0]["id"])
