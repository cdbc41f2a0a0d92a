"""The tour of the README, command by command, against a real server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.cli import serving
from tests.cli.serving import Site

README: Final = Path(__file__).parents[2] / "README.md"
BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DONE: Final = "--- the block is done ---"


def tour() -> list[str]:
    """Return the blocks of commands in the section of the tour."""
    section = re.search(r"^## Tour\n(.*?)^## ", README.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None, "the README has no tour"
    return BLOCK.findall(section[1])


def play(shell: subprocess.Popen[str], block: str) -> str:
    """Run a block in a shell and return what it printed; a command that fails ends the shell."""
    assert shell.stdin is not None
    assert shell.stdout is not None
    shell.stdin.write(f"{block}\necho '{DONE}'\n")
    shell.stdin.flush()
    printed = []
    while (line := shell.stdout.readline()) != f"{DONE}\n":
        assert line, f"a command failed in:\n{block}"
        printed.append(line)
    return "".join(printed)


def test_the_tour_works_as_it_is_printed(place: Path) -> None:
    """Every command of the README's tour succeeds, in order, and shows what the text says."""
    log = place / "tour.log"
    scratch = place / "tmp"
    scratch.mkdir()
    with (
        serving.site(place) as site,
        log.open("w") as errors,
        subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e"],
            cwd=place,
            env=serving.environment(TMPDIR=str(scratch)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as shell,
    ):
        path, agent, assign, comment, look, stop = tour()
        play(shell, path)
        play(shell, agent)
        serving.wait_until(lambda: "serves scribe" in log.read_text(), log.read_text)
        play(shell, assign)
        site.wait_for_run("WF-1")
        assert "continuous" in play(shell, comment)
        site.wait_for_run("WF-1", number=2)
        seen = play(shell, look)
        play(shell, stop)
        assert shell.stdin is not None
        shell.stdin.close()
        assert shell.wait(serving.SECONDS_MAX) == 0, log.read_text()
        _check(site, seen)
    assert {*place.iterdir()} == {place / name for name in ("data", "serve.log", "tmp", "tour.log")}
    assert [*scratch.iterdir()] == []


def _check(site: Site, seen: str) -> None:
    """The runs and the answer have been seen, and the rule still stands."""
    for words in (
        "completed",
        "I wait for comments.",
        "Is anybody there?",
        "scribe (agent)",
        "Here I am again.",
    ):
        assert words in seen
    comments = site.wakeful("issue", "show", "WF-1").json["comments"]
    assert [comment["body"].strip() for comment in comments] == [
        "I wait for comments.",
        "Is anybody there?",
        "Here I am again.",
    ]
    (rule,) = site.wakeful("issue", "wakeup", "list", "WF-1").json
    assert (rule["mode"], rule["enabled"], rule["agent_name"]) == ("continuous", True, "scribe")
