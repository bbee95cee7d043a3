"""The worker daemon that a unit host forks before the JVM starts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dm.spark.daemon_ahead import DaemonAhead, hand_over
from dm.spark.worker_daemon import begun, preloading
from tests.testbed.sync import wait_until

pytestmark = pytest.mark.spark

_FORKED = """
import json, os, pathlib, signal, sys
from dm.spark.daemon_ahead import DaemonAhead
from dm.spark.worker_daemon import COMMAND, preloading
ahead = DaemonAhead.forked(COMMAND, lambda _: None)  # while there is one thread
from dm.spark.session import SparkProvider
"""

_SESSIONS = """
conf = preloading(["dm.dumper.chunk_group"])
provider = SparkProvider("local[2]", conf, scratch=pathlib.Path(sys.argv[1])).fork_workers_from(ahead)
def mother(_):
    return os.getppid(), os.environ["PYTHONHASHSEED"], "dm.dumper.chunk_group" in sys.modules
def workers():
    return provider.context().parallelize([1, 2], 2).map(mother).collect()
found = [workers()]
os.kill(provider.jvm_pid, signal.SIGKILL)
os.waitpid(ahead.pid, 0)  # its standard input has ended
provider._jvm.wait()
found.append(workers())
os.kill(found[1][0][0], signal.SIGKILL)
found.append(workers())
provider.close()
print(json.dumps([ahead.pid, found]))
"""

_UNTOLD = """
print(ahead.pid, flush=True)
{}
os.waitpid(ahead.pid, 0)
"""


def _run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", _FORKED + program, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]


def test_sessions_have_workers_with_and_without_it(tmp_path: Path) -> None:
    """The first session's are forked from it; the second one, and a second daemon, do without."""
    pid, found = json.loads(_run(_SESSIONS, str(tmp_path)))
    ahead, after, again = ({mother for mother, _, _ in workers} for workers in found)
    assert ahead == {pid}
    assert len(after) == len(again) == 1
    assert after != again
    assert pid not in after | again
    assert all(seed == "0" and there for workers in found for _, seed, there in workers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("end", ["ahead.close()", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_where_no_session_takes_it(end: str) -> None:
    command = [sys.executable, "-c", _FORKED + _UNTOLD.format(end)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    assert done.returncode == (0 if "close" in end else -9)
    wait_until(lambda: not Path(f"/proc/{int(done.stdout)}/stat").exists(), "its end")


def test_one_that_could_not_import_takes_nothing_over(tmp_path: Path) -> None:
    program = "print(ahead.prepare(['dm.no_such_module'], pathlib.Path(sys.argv[1])))\nos.waitpid(ahead.pid, 0)"
    command = [sys.executable, "-c", _FORKED + program, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(tmp_path / "workers")
    assert "dm.no_such_module" in done.stderr
    assert not hand_over(str(tmp_path / "workers"))


def test_a_daemon_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    """A person's `spark.python.daemon.module` is not ours to replace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as orders:
        ahead = DaemonAhead(os.getpid(), orders)
        assert begun({**preloading([]), "spark.python.daemon.module": "pyspark.daemon"}, ahead, tmp_path) == {}


def test_a_path_that_no_socket_may_have_is_done_without(tmp_path: Path) -> None:
    long = tmp_path / ("d" * 100)
    long.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as orders:
        assert begun(preloading([]), DaemonAhead(os.getpid(), orders), long) == {}
