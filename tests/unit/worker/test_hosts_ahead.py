"""The daemon's main thread starts what hosts are forked from: the loop's thread does not wait for imports."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from dm.task import host_process
from dm.task.host_forks import HostForks
from dm.task.host_process import HOST_COMMAND
from dm.worker import daemon
from dm.worker.daemon import DaemonParts, Ports, serve
from dm.worker.home import Home
from dm.worker.loop import Loop
from dm.worker.registry import Registry


@pytest.mark.parametrize("sources", [["one"], []], ids=["with a source", "without"])
@pytest.mark.parametrize("command", [HOST_COMMAND, ("another",)], ids=["hosts", "others"])
def test_the_server_of_hosts_begins_before_the_loop_and_has_its_imports_before_a_task_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[str], command: tuple[str, ...]
) -> None:
    done: list[str] = []

    class Forks(HostForks):
        def start(self) -> None:
            assert threading.current_thread() is threading.main_thread()
            done.append("start")

        def wait_for_imports(self) -> None:
            assert threading.current_thread() is threading.main_thread()
            done.append("imports")

    begin = Loop.start

    def begin_loop(loop: Loop, tick: Callable[[], bool]) -> None:
        done.append("loop")
        begin(loop, tick)

    class Begun:
        cut_overs = None

        def __init__(self, *_: object) -> None:
            pass

        def take_up(self) -> None:
            done.append("tasks")

        def end(self) -> None:
            pass

    monkeypatch.setattr(host_process, "_FORKS", Forks())
    monkeypatch.setattr(daemon, "Operations", Begun)
    monkeypatch.setattr(daemon, "Metrics", lambda *_: None)
    monkeypatch.setattr(daemon, "_listening", lambda *_: nullcontext())
    monkeypatch.setattr(Registry, "sources", lambda _: dict.fromkeys(sources))
    monkeypatch.setattr(Loop, "start", begin_loop)
    stop = threading.Event()
    stop.set()
    parts = DaemonParts(cast(Any, None), cast(Any, None), host_command=command)
    serve(Home(tmp_path / "home"), parts, Ports(), stop)
    expected = ["start", "loop", "imports", "tasks"] if command == HOST_COMMAND else ["loop", "tasks"]
    assert done == [each for each in expected if each != "imports" or sources]
