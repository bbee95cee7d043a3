"""A session that is started before a unit comes for it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.spark.session import HeadStart, SparkProvider
from dm.unit import StopSignal
from tests.testbed.sync import wait_until

pytestmark = pytest.mark.spark

_TAKEN = """
import pathlib, sys, threading
from dm.spark.session import HeadStart
from dm.spark.session import SparkProvider
from dm.spark.worker_daemon import preloading
from dm.unit import StopSignal
conf = preloading(["dm.dumper.chunk_group"])
provider, taken = SparkProvider("local[2]", conf, scratch=pathlib.Path(sys.argv[1])), StopSignal()
unit = HeadStart(provider, taken)
thread = threading.Thread(target=unit.run, args=(StopSignal(),))
thread.start()
context = provider.context()
assert thread.is_alive()
taken.set()
thread.join()
there = lambda _: "dm.dumper.chunk_group" in __import__("sys").modules
assert all(context.parallelize([1, 2], 2).map(there).collect())
provider.close()
print("once" if provider.jvm_pid is None else provider.jvm_pid)
"""


def test_whoever_comes_has_the_session_that_was_started(tmp_path: Path) -> None:
    """In a process of its own, since there is one session in each."""
    command = [sys.executable, "-W", "error", "-c", _TAKEN, str(tmp_path)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert output.splitlines()[-1] == "once"  # a busy machine may have logged that a worker was late


def test_a_start_that_nobody_needs_any_more_is_not_waited_for(tmp_path: Path) -> None:
    provider, stop = SparkProvider("local[1]", scratch=tmp_path / "spark"), StopSignal()
    thread = threading.Thread(target=HeadStart(provider, StopSignal()).run, args=(stop,))
    thread.start()
    wait_until(lambda: provider.jvm_pid is not None, "the JVM")
    pid = provider.jvm_pid
    stop.set()
    thread.join()
    provider.close()
    assert not Path(f"/proc/{pid}/cwd").exists()
    assert list((tmp_path / "spark").iterdir()) == []


def test_what_keeps_it_from_starting_is_said(tmp_path: Path) -> None:
    provider = SparkProvider("local[1]", scratch=tmp_path, java_home=str(tmp_path / "nowhere"))
    with pytest.raises(DMError) as caught:
        HeadStart(provider, StopSignal()).run(StopSignal())
    assert str(tmp_path / "nowhere") in caught.value.message


def test_it_ends_where_nobody_comes(spark: SparkProvider) -> None:
    HeadStart(spark, StopSignal(), unused_seconds=0.0).run(StopSignal())
    assert spark.jvm_pid is not None
