"""Client and servers have a processor each while that is measured, and share them again afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.measure import apart

THREADS = "import sys, threading; threading.Thread(target=sys.stdin.read).start(); print(flush=True); sys.stdin.read()"
TOLD = "import os; print(sorted(os.sched_getaffinity(0)))"


def processors(pid: int) -> list[set[int]]:
    return [os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{pid}/task")]


def test_a_processor_each() -> None:
    every = os.sched_getaffinity(0)
    if len(every) == 1:
        with pytest.raises(RuntimeError, match="the only processor"), apart():
            pass
        return
    with subprocess.Popen([sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout
        server.stdout.readline()
        with apart(server.pid):
            assert processors(server.pid) == 2 * [{max(every)}]
            told = subprocess.run([sys.executable, "-c", TOLD], capture_output=True, text=True, check=True).stdout
            assert told.strip() == str(sorted(every - {max(every)}))
        assert processors(server.pid) == 2 * [every]
        server.communicate(b"")
    assert os.sched_getaffinity(0) == every
