"""`dmctl validation` as a user gives it, with scripted units: what runs, what is refused, and what a restart keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.home import TestHome, home, until

FAILED, BAD_USAGE = 1, 2


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[TestHome]:
    with home(tmp_path / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source("one"))
        running.ok("start-task", running.task("t"))
        yield running


def validator(daemon: TestHome) -> dict[str, Any]:
    found: dict[str, Any] = daemon.ok("validation", "status", "t")["validators"][0]
    return found


def test_a_validator_starts_rests_and_goes_on(daemon: TestHome) -> None:
    assert daemon.said("validation", "status", "t").status == FAILED
    assert daemon.ok("validation", "start", "t", "--mode", "fast", "--start-time", "2026-01-01T00:00:00")["warnings"]
    until(lambda: daemon.subtask()["validation"].get("validatorBinlog"))
    assert (validator(daemon)["stage"], validator(daemon)["mode"]) == ("Running", "fast")
    refused = daemon.said("validation", "start", "t")
    assert (refused.status, "43905" in refused.err) == (FAILED, True), refused.err
    daemon.ok("validation", "stop", "t")
    assert validator(daemon)["stage"] == "Stopped"
    assert "43906" in daemon.said("validation", "stop", "t").err
    assert "43904" in daemon.said("validation", "start", "t", "--mode", "full").err
    daemon.kill()
    daemon.start()
    until(lambda: daemon.stage() == ("Running", "Sync"))
    assert (validator(daemon)["stage"], validator(daemon)["validatorBinlog"]) == ("Stopped", "(stored, 4)")
    daemon.ok("validation", "start", "--all-task")
    until(lambda: validator(daemon)["stage"] == "Running")
    daemon.kill()
    daemon.start()
    until(lambda: validator(daemon)["stage"] == "Running")
    daemon.ok("stop-task", "t")
    holds = daemon.directory / "relay" / "one" / "holds"
    until(lambda: not [*holds.glob("t*")])


def test_errors_and_tables_are_shown_and_changed(daemon: TestHome) -> None:
    assert "43903" in daemon.said("validation", "show-error", "t").err
    daemon.ok("validation", "start", "t")
    (error,) = daemon.ok("validation", "show-error", "t")["error"]
    assert error == {
        "id": "7", "source": "one", "srcTable": "`a`.`t`", "srcData": "[1]", "dstTable": "`b`.`t`", "dstData": "[]",
        "errorType": "Expected rows not exist", "status": "NewErr", "time": "now", "message": "id=1",
        "fix": "REPLACE ..",
    }  # fmt: skip
    assert len(daemon.ok("validation", "show-error", "t", "--error", "all")["error"]) == 3
    stopped = daemon.ok("validation", "status", "t", "--table-stage", "stopped")["tableStatuses"]
    assert [(each["srcTable"], each["message"]) for each in stopped] == [("`a`.`u`", "no primary key")]
    daemon.ok("validation", "stop", "t")
    daemon.ok("validation", "status", "t")
    assert daemon.subtask()["validation"]["newErrors"] == 1
    assert "the validator has found 1 row wrong" in daemon.said("query-status", "t").out
    for words, told in ((("ignore-error", "t", "7"), "ignore 7"), (("clear-error", "t", "--all"), "clear None")):
        daemon.ok("validation", *words)
        assert (daemon.directory / "changed-t").read_text() == told
    assert "43908" in daemon.said("validation", "resolve-error", "t", "404").err
    daemon.ok("validation", "update", "t", "--cutover-binlog-pos", "(b.000001, 4)")
    assert (daemon.directory / "cutover-t").read_text() == "(b.000001, 4) "


@pytest.mark.parametrize(
    "words",
    [
        ("start",), ("start", "t", "--all-task"), ("stop",), ("ignore-error", "t"), ("clear-error", "t", "1", "--all"),
        ("update", "t", "--cutover-binlog-pos", "(b.1, 4)", "--cutover-binlog-gtid", "0-1-1"),
    ],
)  # fmt: skip
def test_what_can_not_be_meant_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    with home(tmp_path / "home") as nobody:
        nobody.directory.mkdir()
        assert nobody.said("validation", *words).status == BAD_USAGE


def test_a_failed_validator_is_shown_and_begins_anew(daemon: TestHome) -> None:
    daemon.script(
        "t/.validator/one", Validator={"error": "validator-fenced", "task": "t", "source": "one", "owner": "b"}
    )
    daemon.ok("validation", "start", "t")
    # One that has not begun yet has a result, too, without errors.
    (error,) = until(lambda: (validator(daemon)["result"] or {}).get("errors"))
    assert error["ErrCode"] == 43900
    assert daemon.stage() == ("Running", "Sync")
    daemon.script("t/.validator/one")
    daemon.ok("validation", "start", "t")
    until(lambda: validator(daemon)["stage"] == "Running" and validator(daemon)["result"] is None)


def test_no_validator_starts_while_tables_join(daemon: TestHome) -> None:
    (daemon.directory / "servers.json").write_text('{"joining": true}')
    refused = daemon.said("validation", "start", "t")
    assert (refused.status, "43910" in refused.err) == (FAILED, True), refused.err
    assert "43903" in daemon.said("validation", "status", "t").err
    (daemon.directory / "servers.json").unlink()
    daemon.ok("validation", "start", "t")
    daemon.ok("validation", "stop", "t")
    (daemon.directory / "servers.json").write_text('{"joining": true}')
    assert "43910" in daemon.said("validation", "start", "--all-task").err
