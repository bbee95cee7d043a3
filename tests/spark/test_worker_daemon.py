"""The daemon that has the workers' modules before it forks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dm.spark.session import SparkProvider
from dm.spark.worker_daemon import preloading

pytestmark = pytest.mark.spark

_THREADS = """
import importlib, pathlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
for task in pathlib.Path("/proc/self/task").iterdir():
    print(task.name, (task / "comm").read_text(), end="")
"""


def _of_workers() -> tuple[str, ...]:
    from dm.task import factories

    return ("pyspark.worker", *factories._COPYING, *factories._COMPARING)


def test_no_thread_runs_when_workers_are_forked_but_one_that_is_made_for_it() -> None:
    """A lock that another thread holds at a fork is held in the child for ever."""
    command = [sys.executable, "-c", _THREADS, *_of_workers()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        output, _ = process.communicate()
    assert process.returncode == 0
    threads = dict(line.split(" ", 1) for line in output.splitlines())
    assert threads.pop(str(process.pid))
    assert set(threads.values()) <= {"jemalloc_bg_thd"}


def test_a_worker_is_forked_from_a_process_that_has_its_modules(spark: SparkProvider) -> None:
    def mother(_: int) -> bytes:
        return Path(f"/proc/{os.getppid()}/cmdline").read_bytes()

    found = spark.context().parallelize([1], 1).map(mother).collect()
    assert found[0].split(b"\0")[1:3] == [b"-m", preloading([])["spark.python.daemon.module"].encode()]


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dm.spark.worker_daemon", "pyspark.worker"]
    environment = {**os.environ, "DM_WORKER_MODULES": "dm.no_such_module"}
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert done.stdout == ""  # Spark reads a port from there
    assert "dm.no_such_module" in done.stderr
