"""Verbs for relays as a user gives them: right, and wrong; and who holds relay files when."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dm.sourcelog.relaylog.hold import Hold, Need, needs
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.verbs.sources import ShowSources
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.relay_files import add_files, binlog, names
from tests.unit.worker.home import Dmctl, TestHome, home, until

OK, FAILED, BAD_USAGE = 0, 1, 2


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("relays") / "home") as running:
        running.start()
        yield running


@dataclass
class Source:
    """A source of the test's own at a daemon that all tests here share, with a task `t` followed by its name."""

    home: TestHome
    name: str

    @property
    def directory(self) -> Path:
        return self.home.directory / "relay" / self.name

    @property
    def task(self) -> str:
        return f"t-{self.name}"

    def stored(self) -> Path:
        """Its relay directory, with the files 1 to 5."""
        add_files(RelayDirectory(self.directory), SERVER, range(1, 6))
        return self.directory

    def relay(self) -> Any:
        sources = self.home.ask(ShowSources())["sources"]
        return next(source["relayStatus"] for source in sources if source["source"] == self.name)

    def held(self) -> list[str]:
        return [need.task for need in needs(self.directory)]

    def ok(self, *words: str) -> Any:
        return self.home.ok(*words)

    def dmctl(self, *words: str) -> Dmctl:
        return self.home.said(*words)

    def start_task(self, *words: str, mode: str = "incremental") -> Any:
        return self.ok("start-task", self.home.task(self.task, mode, (self.name,)), *words)


@pytest.fixture
def one(daemon: TestHome, request: pytest.FixtureRequest) -> Source:
    name = f"s{zlib.crc32(request.node.name.encode())}"
    daemon.ok("operate-source", "create", daemon.source(name))
    return Source(daemon, name)


def test_purge_relay_without_a_running_relay(one: Source) -> None:
    refused = one.dmctl("purge-relay", "-s", one.name, "--filename", binlog(3))
    assert refused.status == FAILED
    assert f"Error 30038: source {one.name} has no relay files" in refused.err

    root = one.stored()
    for name, status, said in (
        (binlog(6), FAILED, f"has no file {binlog(6)} in {SERVER}.000001: it has {binlog(1)} to {binlog(5)}"),
        ("../../registry.sqlite", BAD_USAGE, "'../../registry.sqlite' is not the name of a binlog file"),
        (f"{SERVER}.000001/{binlog(3)}", BAD_USAGE, "without its directory"),
    ):
        refused = one.dmctl("purge-relay", "-s", one.name, "--filename", name)
        assert (refused.status, refused.out) == (status, "")
        assert said in refused.err
    refused = one.dmctl("purge-relay", "-s", one.name, "--filename", binlog(3), "--sub-dir", "..")
    assert (refused.status, "has no sub-directory ..: it has" in refused.err) == (FAILED, True)
    assert len(names(root)) == 5

    done = one.dmctl("purge-relay", "-s", one.name, "-f", binlog(3), "--sub-dir", f"{SERVER}.000001")
    assert done.status == OK, done.err
    assert done.out.splitlines()[:2] == [f"{SERVER}.000001/{binlog(number)}" for number in (1, 2)]
    assert f"{one.name}: 2 files removed" in done.out
    assert len(names(root)) == 3


def test_purge_relay_names_one_source_and_a_file(one: Source) -> None:
    for words in (
        ["-f", "a.000001"],
        ["-s", one.name],
        ["-s", one.name, "-s", "two", "-f", "a.000001"],
        [one.name, "a.000001"],
    ):
        done = one.dmctl("purge-relay", *words)
        assert (done.status, done.out, "Error" in done.err) == (BAD_USAGE, "", True)


def test_a_source_that_is_not_there(one: Source) -> None:
    for words in (["purge-relay", "-s", "nine", "-f", binlog(1)], ["start-relay", "-s", one.name, "-s", "nine"]):
        refused = one.dmctl(*words)
        assert (refused.status, "there is no source nine" in refused.err) == (FAILED, True)
    assert one.relay() is None, "one of two sources is unknown: nothing is done"


def test_purge_relay_is_the_running_relay_s_work(one: Source) -> None:
    root = one.stored()
    one.ok("start-relay", "-s", one.name)
    until(lambda: one.relay()["relayBinlog"])
    answer = one.ok("purge-relay", "-s", one.name, "-f", binlog(3))["sources"][0]
    assert answer["removedFiles"] == [f"purge {binlog(3)} "]
    assert len(names(root)) == 5, "the daemon itself removed nothing"
    refused = one.dmctl("purge-relay", "-s", one.name, "-f", "refused.000001")
    assert (refused.status, "Error 30941: the relay of source one has no file refused" in refused.err) == (FAILED, True)
    assert "workaround: name one of these files" in refused.err
    broken = one.dmctl("purge-relay", "-s", one.name, "-f", "broken.000001")
    assert (broken.status, "RuntimeError: a defect" in broken.err) == (FAILED, True)
    one.ok("pause-relay", "-s", one.name)
    until(lambda: one.relay()["stage"] == "Paused")
    one.ok("purge-relay", "-s", one.name, "-f", binlog(3))
    assert len(names(root)) == 3
    one.ok("start-relay", "-s", one.name)
    until(lambda: one.relay()["stage"] == "Running")
    one.ok("stop-relay", "-s", one.name)


def test_stop_relay_stops_one_that_its_file_wants_and_is_remembered(one: Source) -> None:
    wanted = one.home.source(one.name, enable_relay=True)
    one.ok("operate-source", "update", wanted)
    until(lambda: one.relay()["stage"] == "Running")
    one.ok("stop-relay", "-s", one.name)
    until(lambda: one.relay() is None)
    one.ok("operate-source", "update", wanted)
    assert one.relay() is None, "the file says what it said before: what a person has done since goes on"
    one.home.kill()
    one.home.start()
    assert one.relay() is None
    one.ok("start-relay", "-s", one.name)
    until(lambda: one.relay()["stage"] == "Running")
    one.ok("stop-relay", "-s", one.name)
    until(lambda: one.relay() is None)


def test_a_source_that_is_forgotten_takes_its_relay_along(one: Source) -> None:
    root = one.stored()
    one.ok("start-relay", "-s", one.name)
    kept = one.dmctl("operate-source", "stop", one.name, "--keep-relay")
    assert f"source {one.name} is forgotten; its relay stays in {root}: 5 files" in kept.out
    assert len(names(root)) == 5
    one.ok("operate-source", "create", one.home.source(one.name))
    one.start_task()
    assert one.dmctl("operate-source", "stop", one.name).status == FAILED, "a task uses it"
    assert len(names(root)) == 5
    one.ok("stop-task", one.task)
    one.ok("start-relay", "-s", one.name)
    until(lambda: one.relay()["relayBinlog"])
    removed = one.dmctl("operate-source", "stop", f"{one.name}.yaml")
    assert f"source {one.name} is forgotten; its relay is removed: 5 files" in removed.out
    assert f"in {root} stays what no relay has made: trace" in removed.out, "which the test's relay writes there"
    one.ok("operate-source", "create", one.home.source(one.name))
    assert "removed" not in one.dmctl("operate-source", "stop", one.name).out, "there was nothing"


def test_a_file_that_comes_to_want_a_relay_gets_one_that_was_stopped(one: Source) -> None:
    one.ok("start-relay", "-s", one.name)
    one.ok("stop-relay", "-s", one.name)
    until(lambda: one.relay() is None)
    one.ok("operate-source", "update", one.home.source(one.name, enable_relay=True))
    until(lambda: one.relay()["stage"] == "Running")
    one.ok("stop-relay", "-s", one.name)


def test_a_load_runs_a_relay_that_was_stopped_for_as_long_as_its_task_is_there(one: Source) -> None:
    one.ok("operate-source", "update", one.home.source(one.name, enable_relay=True))
    one.ok("stop-relay", "-s", one.name)
    one.start_task(mode="all")
    until(lambda: one.home.stage(one.task) == ("Running", "Sync"))
    assert one.relay()["stage"] == "Running"
    one.ok("stop-task", one.task)
    until(lambda: one.relay() is None)


def test_pause_and_resume_of_a_relay_that_is_not_there(one: Source) -> None:
    for verb in ("pause-relay", "resume-relay"):
        refused = one.dmctl(verb, "-s", one.name)
        assert (refused.status, "its stage is Stopped" in refused.err) == (FAILED, True)


def test_a_task_holds_relay_files_from_its_start_to_its_stop(one: Source) -> None:
    root = one.stored()
    one.start_task()
    one.ok("start-task", one.home.task("full", "full", (one.name,)))
    assert one.held() == [one.task], "a task that reads no binlog needs no file"
    one.ok("stop-task", "full")
    said = one.dmctl("purge-relay", "-s", one.name, "-f", binlog(5)).out
    assert said.splitlines() == [
        f"{one.name}: 0 files removed, 0.0 MB",
        f"{one.name}: the others stay: task {one.task}, which has no checkpoint yet, needs every file",
    ]
    one.ok("pause-task", one.task)
    assert one.held() == [one.task]
    one.ok("operate-source", "update", one.home.source(one.name, relay_dir="elsewhere"))
    assert [need.task for need in needs(one.home.directory / "elsewhere" / one.name)] == [one.task]
    one.ok("operate-source", "update", one.home.source(one.name))
    one.ok("stop-task", one.task)
    assert one.held() == []
    one.ok("purge-relay", "-s", one.name, "-f", binlog(5))
    assert len(names(root)) == 1


def test_a_load_that_has_not_begun_has_no_place_in_what_the_relay_has(one: Source) -> None:
    one.stored()
    one.home.script(one.task, Dump="run")
    one.start_task(mode="all")
    assert needs(one.directory) == [Need(one.task, begins=True)]
    one.ok("stop-task", one.task)
    one.home.file("servers.json", '{"planned": true}')
    one.start_task(mode="all")
    one.home.file("servers.json", "{}")
    assert needs(one.directory) == [Need(one.task)], "its dump may go on from a place in it"
    one.ok("stop-task", one.task)
    one.start_task()
    assert needs(one.directory) == [Need(one.task)], "`meta` may name a place in it"
    one.ok("stop-task", one.task)


def test_a_start_that_fails_leaves_no_hold(one: Source) -> None:
    one.home.file("servers.json", '{"too_late": true}')
    file = one.home.task(one.task, sources=(one.name,))
    refused = one.dmctl("start-task", file, "--start-time", "2099-01-01 00:00:00")
    one.home.file("servers.json", "{}")
    assert refused.status == BAD_USAGE
    assert "Error 20057: the binlog of source one has nothing as late as 2099-01-01 00:00:00" in refused.err
    assert one.held() == []
    assert one.dmctl("query-status", one.task).status == FAILED


def test_a_daemon_that_was_killed_finds_the_holds_of_its_tasks_and_no_others(one: Source) -> None:
    one.start_task()
    one.ok("pause-task", one.task)
    one.home.kill()
    Hold(one.directory, "gone").create()
    Hold(one.directory, one.task).remove()
    one.home.start()
    assert one.held() == [one.task]


def test_a_start_time_is_said_and_makes_the_checkpoint(one: Source) -> None:
    answer = one.start_task("--start-time", "2026-11-21T10:00:00")
    assert answer["startPositions"] == {one.name: "(mysql-bin.000003, 154)"}
    begun = f"{one.task}/{one.name} (mysql-bin.000003, 154)\n"
    assert (one.home.directory / "begun").read_text() == begun
    one.ok("stop-task", one.task)
    again = ["--start-time", "2026-11-21 10:00:00+02:00", "--remove-meta"]
    said = one.dmctl("start-task", f"{one.task}.yaml", *again)
    assert (said.status, f"source {one.name} begins at (mysql-bin.000003, 154)" in said.err) == (OK, True)
    assert (one.home.directory / "forgotten").read_text() == f"{one.task}/{one.name}\n"
    assert (one.home.directory / "begun").read_text() == 2 * begun


def test_check_task_says_where_a_start_time_lies_and_holds_nothing(one: Source) -> None:
    file = one.home.task(one.task, sources=(one.name,))
    said = one.dmctl("check-task", file, "--start-time", "2026-11-21T10:00:00")
    assert (said.status, f"source {one.name} begins at (mysql-bin.000003, 154)" in said.err) == (OK, True)
    assert one.ok("check-task", file, "--start-time", "2026-11-21T10:00:00")["startPositions"] == {
        one.name: "(mysql-bin.000003, 154)"
    }
    assert one.ok("check-task", file)["startPositions"] == {}
    assert one.held() == []
    done = one.dmctl("check-task", file, "--start-time", "yesterday")
    assert (done.status, "'yesterday' is not a start time" in done.err) == (BAD_USAGE, True)


def test_a_start_time_that_can_not_be(one: Source) -> None:
    done = one.dmctl("start-task", one.home.task(one.task, sources=(one.name,)), "--start-time", "yesterday")
    assert (done.status, "'yesterday' is not a start time" in done.err) == (BAD_USAGE, True)
    file = one.home.task(one.task, "all", (one.name,))
    done = one.dmctl("start-task", file, "--start-time", "2026-11-21 10:00:00", "--remove-meta")
    assert (done.status, "begins with a full load" in done.err) == (BAD_USAGE, True)
    assert one.held() == []
