"""The mind of the agent in `wakeful demo`: a small script in place of a model.

It does what any agent can do: it reads its prompt, acts through the command `wakeful` with the
credential of its run, and ends. What it waits for it leaves behind as rules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

# Our own interpreter and package, whatever `wakeful` is on the path of this machine.
WAKEFUL: Final = (sys.executable, "-P", "-m", "cli")


def main() -> None:
    """Act on the prompt on standard input; what is printed becomes the run's output."""
    prompt, issue = sys.stdin.read(), os.environ["WAKEFUL_ISSUE"]
    if "[WAKEUP]" not in prompt:
        begin(issue)
    elif "time.due" in prompt:
        wakeful("issue", "comment", issue, "The five seconds are over, so I am back.")
    else:
        wakeful("issue", "comment", issue, "You commented, so I am back: thank you.")


def begin(issue: str) -> None:
    """Leave two rules behind, one for a reply and one for a time, and end."""
    person = json.loads(wakeful("issue", "show", issue))["creator_id"]
    from_person = ("--filter-actor-type", "member", "--filter-actor-id", person)
    reply = ("--event", "comment.created", *from_person, "--instruction", "Answer the comment.")
    timer = ("--after", "5s", "--instruction", "Say that the time has come.")
    for rule in (reply, timer):
        wakeful("issue", "wakeup", "create", issue, *rule)
    print("I wait for your comment, and come back in five seconds anyway. Until then I am gone.")


def wakeful(*arguments: str) -> str:
    """Run `wakeful` and return what it prints; a failure ends this run as failed."""
    done = subprocess.run(  # noqa: S603 - our own interpreter with arguments of our own
        [*WAKEFUL, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
