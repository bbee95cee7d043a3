"""What a hook is given, what its end says, and that it ends with its daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.tools.cutover.hook import call


def program(directory: Path, text: str) -> str:
    made = directory / "hook"
    made.write_text(f"#!/bin/sh\n{text}\n")
    made.chmod(0o700)
    return str(made)


@pytest.mark.parametrize(("status", "done"), [(0, True), (3, False)])
def test_its_exit_status_says_whether_it_is_done_or_left_to_dm(status: int, done: bool, tmp_path: Path) -> None:
    hook = program(tmp_path, f'echo "$1 $DM_TASK" > {tmp_path}/said; exit {status}')
    assert call(hook, "switch", {"DM_TASK": "shop"}) is done
    assert (tmp_path / "said").read_text() == "switch shop\n"


def test_it_gets_nothing_of_the_daemon_but_what_is_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DM_SOURCE_PASSWORD", "canary")
    hook = program(tmp_path, f"env > {tmp_path}/said")
    assert call(hook, "switch", {"DM_TASK": "shop"})
    assert "canary" not in (tmp_path / "said").read_text()


@pytest.mark.parametrize(("text", "how"), [
    ("echo no proxy >&2; exit 7", "it ended with 7, and said: no proxy"),
    ("kill -9 $$", "it ended with -9"),
    ("sleep 60 & wait", "it did not end within 0.2 s"),
])  # fmt: skip
def test_a_failure_is_told_with_what_it_said(text: str, how: str, tmp_path: Path) -> None:
    hook = program(tmp_path, text)
    with pytest.raises(DMError) as failed:
        call(hook, "switch", {}, 0.2 if "sleep" in text else 60.0)
    assert failed.value.message == f"the hook {hook} failed at `switch`: {how}"


def test_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DMError, match="No such file"):
        call(str(tmp_path / "nowhere"), "switch", {})


@pytest.mark.parametrize("victim", ["daemon", "the process between"])
def test_it_dies_with_its_daemon_and_so_does_what_it_has_started(victim: str, tmp_path: Path) -> None:
    """Else the hook of a daemon that was killed moves applications after the next daemon has called it."""
    hook = program(tmp_path, f"sleep 60 & echo $PPID $$ $! > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/said; wait")
    code = f"from dm.tools.cutover.hook import call; call({hook!r}, 'switch', {{}})"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as daemon:
        until = time.monotonic() + 60
        while not (tmp_path / "said").exists() and time.monotonic() < until:
            time.sleep(0.01)
        between, shell, child = map(int, (tmp_path / "said").read_text().split())
        try:
            if victim == "daemon":
                daemon.kill()
                gone = [between, shell, child]
            else:
                os.kill(between, signal.SIGKILL)
                gone = [shell]
            while any(map(alive, gone)):
                assert time.monotonic() < until, gone
                time.sleep(0.01)
        finally:
            daemon.kill()
            if alive(child):
                os.kill(child, signal.SIGKILL)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
