"""What the fork server begins is a process of its own: arguments, environment, place, files, and its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import IO, Any

import pytest

from dm.accelerator import switch
from tests.testbed.fork_server import ForkedProcess, ForkServer, fork_server
from tests.testbed.sync import wait_until

PROGRAM = "tests.live.testbed.echo_program"


def begin(server: ForkServer, place: Path, *arguments: str, **environment: str) -> tuple[ForkedProcess, IO[str], Any]:
    """A process that has said how it was started, and waits for a line."""
    (commands, to_it), (from_it, answers) = os.pipe(), os.pipe()
    started = server.fork((commands, answers, 2), arguments, {**os.environ, **environment}, place)
    os.close(commands)
    os.close(answers)
    stdin = os.fdopen(to_it, "w")
    stdin.write("a line\n")
    stdin.flush()
    with os.fdopen(from_it) as stdout:
        return ForkedProcess(*started), stdin, json.loads(stdout.readline())


def test_each_has_what_it_was_given(tmp_path: Path) -> None:
    one, other = (begin(fork_server(PROGRAM), tmp_path, status, DM_ECHO=f"e{status}") for status in ("0", "3"))
    for (process, stdin, said), status in ((one, 0), (other, 3)):
        assert said[:3] == [[str(status)], f"e{status}", str(tmp_path)]
        assert said[4] == "a line\n"
        assert said[3] not in (os.getpid(), process.pid)
        assert process.poll() is None
        stdin.close()
        assert process.wait(60) == status


def test_a_killed_one_ends_by_its_signal(tmp_path: Path) -> None:
    process, stdin, _ = begin(fork_server(PROGRAM), tmp_path, "0")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    process.send(signal.SIGTERM)
    assert process.wait(60) == -signal.SIGTERM
    process.kill()  # of one that has ended, nothing
    assert process.poll() == -signal.SIGTERM
    stdin.close()


def test_one_that_nobody_asks_about_ends_alone(tmp_path: Path) -> None:
    server = ForkServer.started(PROGRAM)
    process, stdin, said = begin(server, tmp_path, "0")
    gone = Path(f"/proc/{process.pid}")
    del process
    stdin.close()
    wait_until(lambda: not gone.exists(), "the process is gone")
    other, stdin, again = begin(server, tmp_path, "3")
    assert again[3] == said[3]
    stdin.close()
    assert other.wait(60) == 3
    server.close()


def test_none_outlives_the_test_run(tmp_path: Path) -> None:
    server = ForkServer.started(PROGRAM)
    process, stdin, _ = begin(server, tmp_path, "0")
    server.close()
    assert process.wait(60) == -signal.SIGKILL
    wait_until(lambda: not Path(f"/proc/{process.pid}").exists(), "the process is gone")
    stdin.close()


@pytest.mark.parametrize("setting", ["on", "off"])
def test_who_wants_other_twins_has_them(tmp_path: Path, setting: str) -> None:
    environment = {switch.VARIABLE: setting}
    process, stdin, said = begin(fork_server(PROGRAM, environment=environment), tmp_path, "0", **environment)
    assert said[5].startswith(setting)
    stdin.close()
    assert process.wait(60) == 0
