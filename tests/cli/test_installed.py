"""The built wheel in an empty folder: the command of an installation without a checkout."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cli import serving
from tests.tidy import test_wheel

wheel = test_wheel.wheel
installed = test_wheel.installed


def test_the_installed_wheel_serves_and_plays_the_demo(installed: Path, place: Path) -> None:
    """Installed from the wheel alone, `wakeful serve` and `wakeful demo` do what they do here."""
    env = {"PATH": os.pathsep.join((str(installed), os.defpath))}
    log = place / "serve.log"
    with serving.running("serve", "--port", "0", cwd=place, log=log, env=env) as server:
        assert server.wait_for_line().startswith("ready http://"), log.read_text()
        done = serving.wakeful("demo", cwd=place, env=env)
        assert done.code == 0, done.out + done.err
        assert done.out.splitlines()[-1].startswith("Both wakes happened: ")
        assert server.stop() == 0
