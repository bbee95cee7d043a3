"""Waking up for changes: told by the kernel, or by looking where the kernel can't tell."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.sourcelog.relaylog import file_reader
from dm.sourcelog.relaylog.file_reader import ChangeWatch


class _NoInotify:
    """The C library of a system that grants no inotify instance."""

    def inotify_init1(self, flags: int) -> int:
        return -1


@pytest.fixture(params=["told", "looking"])
def watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ChangeWatch]:
    if request.param == "looking":
        monkeypatch.setattr(file_reader, "_libc", _NoInotify())
    made = ChangeWatch()
    assert (made._descriptor >= 0) == (request.param == "told")
    path = tmp_path / "sub" / "mysql-bin.000001"
    path.parent.mkdir()
    path.write_bytes(b"start")
    made.watch_file(path)
    made.wait(0)
    yield made
    made.close()


def test_nothing_is_none(watch: ChangeWatch) -> None:
    assert watch.wait(0.05) == "none"


def test_a_write_is_a_change(watch: ChangeWatch, tmp_path: Path) -> None:
    with (tmp_path / "sub" / "mysql-bin.000001").open("ab") as file:
        file.write(b"more")
    assert watch.wait(5) == "changed"
    assert watch.wait(0.05) == "none"


def test_a_cut_is_a_change(watch: ChangeWatch, tmp_path: Path) -> None:
    os.truncate(tmp_path / "sub" / "mysql-bin.000001", 1)
    assert watch.wait(5) == "changed"


def test_a_new_file_time_is_the_writers_heartbeat(watch: ChangeWatch, tmp_path: Path) -> None:
    os.utime(tmp_path / "sub" / "mysql-bin.000001")
    assert watch.wait(5) == "touched"


def test_a_write_after_a_heartbeat_is_a_change(watch: ChangeWatch, tmp_path: Path) -> None:
    path = tmp_path / "sub" / "mysql-bin.000001"
    os.utime(path)
    with path.open("ab") as file:
        file.write(b"more")
    assert watch.wait(5) == "changed"


def test_a_sleeping_reader_is_woken_by_another_thread(watch: ChangeWatch, tmp_path: Path) -> None:
    found: list[str] = []
    sleeper = threading.Thread(target=lambda: found.append(watch.wait(30)))
    sleeper.start()
    with (tmp_path / "sub" / "mysql-bin.000001").open("ab") as file:
        file.write(b"more")
    sleeper.join(10)
    assert found == ["changed"]


def test_new_files_and_directories_are_changes(tmp_path: Path) -> None:
    watch = ChangeWatch()
    sub = tmp_path / "sub"
    sub.mkdir()
    (sub / "mysql-bin.000001").touch()
    watch.watch_file(sub / "mysql-bin.000001")
    (sub / "mysql-bin.000002").touch()
    assert watch.wait(5) == "changed"
    (tmp_path / "other").mkdir()
    assert watch.wait(5) == "changed"
    watch.close()
