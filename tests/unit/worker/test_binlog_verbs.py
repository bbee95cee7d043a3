"""`dmctl binlog` and `dmctl binlog-schema` as a user gives them: right, and wrong."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.home import Dmctl, TestHome, home, until

FAILED, BAD_USAGE = 1, 2


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("binlog") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"))
        yield running


@dataclass
class Task:
    """A task of the test's own."""

    home: TestHome
    name: str

    def start(self, mode: str = "incremental") -> None:
        self.home.tried("start-task", self.home.task(self.name, mode))

    def binlog(self, verb: str, *words: str) -> Dmctl:
        return self.home.said("binlog", verb, self.name, *words)

    def schema(self, verb: str, *words: str) -> Dmctl:
        return self.home.said("binlog-schema", verb, self.name, "shop", "orders", *words)

    def pause(self) -> None:
        until(lambda: self.home.stage(self.name)[0] == "Running")
        self.home.ok("pause-task", self.name)

    def operated(self) -> Any:
        return json.loads((self.home.directory / f"operated-{self.name}").read_text())


@pytest.fixture
def task(daemon: TestHome, request: pytest.FixtureRequest) -> Iterator[Task]:
    one = Task(daemon, f"t{zlib.crc32(request.node.name.encode())}")
    yield one
    daemon.said("stop-task", one.name)


PLACE = {"server_uuid": "u", "file": "b.000001", "offset": 77, "statement": True}


@pytest.mark.parametrize("verb", ["skip", "revert"])
def test_a_task_that_rests_on_an_error_goes_on_at_once(task: Task, verb: str) -> None:
    task.home.script(task.name, Sync={"error": "ddl-failed", "statement": "ALTER", "place": PLACE})
    task.start()
    until(lambda: task.home.stage(task.name)[0] == "Paused")
    task.home.script(task.name, Sync="run")
    assert task.binlog(verb).status == 0
    until(lambda: task.home.stage(task.name)[0] == "Running")
    assert task.operated()["failing"] == "b.000001:77"


def test_a_task_that_was_just_resumed_comes_to_its_failing_event_again(task: Task) -> None:
    failing = {"error": "ddl-failed", "statement": "ALTER", "place": PLACE}
    task.home.script(task.name, Sync=failing)
    task.start()
    until(lambda: task.home.stage(task.name)[0] == "Paused")
    task.home.script(task.name, Sync={**failing, "when": "asked"})
    task.home.ok("resume-task", task.name)
    skipped = task.binlog("skip")
    assert (skipped.status, skipped.err) == (0, "")
    assert task.operated()["failing"] == "b.000001:77"


def test_a_task_that_has_passed_its_failing_event_is_asked_itself(task: Task) -> None:
    task.home.script(task.name, Sync={"error": "ddl-failed", "statement": "ALTER", "place": PLACE})
    task.start()
    until(lambda: task.home.stage(task.name)[0] == "Paused")
    task.home.script(task.name, Sync="run")
    task.home.ok("resume-task", task.name)
    for _ in range(2):
        assert task.binlog("skip").status == 0
    asked = json.loads((task.home.directory / "work" / task.name / "asked").read_text())
    assert (asked["verb"], asked["binlog_pos"]) == ("skip", "")
    assert not (task.home.directory / f"operated-{task.name}").exists()


def test_a_list_resumes_nothing(task: Task) -> None:
    task.home.script(task.name, Sync={"error": "ddl-failed", "statement": "ALTER", "place": PLACE})
    task.start()
    until(lambda: task.home.stage(task.name)[0] == "Paused")
    assert task.binlog("list").status == 0
    assert len(task.home.trace(task.name)) == 1


def test_a_running_task_is_asked_itself(task: Task) -> None:
    task.start()
    until(lambda: task.home.trace(task.name))
    assert task.binlog("inject", "-b", "b.000001:99", "ALTER TABLE a.t ADD c INT").status == 0
    asked = json.loads((task.home.directory / "work" / task.name / "asked").read_text())
    assert (asked["verb"], asked["binlog_pos"]) == ("inject", "b.000001:99")
    assert not (task.home.directory / f"operated-{task.name}").exists()


def test_a_user_s_pause_stays(task: Task) -> None:
    task.start()
    task.pause()
    done = task.binlog("skip", "-b", "b.000001:154", "--output", "json")
    assert done.status == 0, done.err
    assert done.json["sources"] == [{"result": True, "msg": "", "source": "one", "stage": "Paused"}]
    assert task.operated()["verb"] == "skip"
    assert task.operated()["binlog_pos"] == "b.000001:154"


def test_statements_arrive_as_they_were_given(task: Task) -> None:
    task.start()
    task.pause()
    assert task.binlog("replace", "ALTER TABLE a.t ADD c INT", "DROP TABLE a.u").status == 0
    assert task.operated()["statements"] == ["ALTER TABLE a.t ADD c INT", "DROP TABLE a.u"]


def test_list_speaks_dms_form_and_ours(task: Task) -> None:
    task.start()
    task.pause()
    source = task.binlog("list", "--output", "json").json["sources"][0]
    assert json.loads(source["msg"]) == [
        {"op": 2, "task": "t", "binlogPos": "(b.000001, 4)", "sqls": ["ALTER TABLE a.t ADD c INT"]}
    ]
    assert source["operators"][0]["op"] == "replace"
    assert "b.000001:4" in task.binlog("list").out


def test_refusals_have_dms_code(task: Task) -> None:
    task.home.script(task.name, Dump="run")
    task.start("full")
    until(lambda: task.home.stage(task.name)[1] == "Dump")
    refused = task.binlog("skip")
    assert (refused.status, "Error 40056" in refused.err) == (FAILED, True)
    assert "Error 40056" in task.schema("list").err


def test_structures_are_changed_only_while_the_task_is_paused(task: Task) -> None:
    task.start()
    until(lambda: task.home.stage(task.name) == ("Running", "Sync"))
    refused = task.schema("list")
    assert (refused.status, "Error 40051" in refused.err) == (FAILED, True)
    task.pause()
    shown = task.schema("list")
    assert shown.status == 0, shown.err
    assert "CREATE TABLE `shop`.`orders`" in shown.out
    assert task.schema("update", "--from-source").status == 0
    assert (task.home.directory / f"structure-{task.name}").read_text() == "update source"
    Path(task.home.directory / "orders.sql").write_text("CREATE TABLE orders (id INT)")
    updated = task.schema("update", "orders.sql", "--output", "json")
    assert "CREATE TABLE orders (id INT)" in updated.json["sources"][0]["msg"]
    assert task.schema("delete").status == 0


@pytest.mark.parametrize(
    "words", [(), ("orders.sql", "--from-source"), ("--from-source", "--from-target"), ("--from-source", "--no-flush")]
)
def test_usage(task: Task, words: tuple[str, ...]) -> None:
    assert task.schema("update", *words).status == BAD_USAGE


def test_a_task_that_another_daemon_runs_is_not_started(daemon: TestHome, task: Task) -> None:
    (daemon.directory / "servers.json").write_text('{"runs_elsewhere": true}')
    refused = daemon.said("start-task", daemon.task(task.name))
    (daemon.directory / "servers.json").unlink()
    assert (refused.status, "Error 40915" in refused.err) == (FAILED, True)
    task.start()


def test_unknown_tasks_and_sources(daemon: TestHome, task: Task) -> None:
    assert "Error 46018" in daemon.said("binlog", "skip", "nobody").err
    task.start()
    assert "Error 46017" in task.binlog("skip", "-s", "two").err
