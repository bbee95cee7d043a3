"""The verbs in the order in which a person gives them, and what each one shows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.cli.newcomer import Newcomer
from tests.live.hold.secret_watch import processes_of
from tests.testbed.daemon import Daemon
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live


@pytest.fixture
def newcomer(park: ServerPark, tmp_path: Path) -> Iterator[Newcomer]:
    one = Newcomer(park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target"), tmp_path)
    with one.daemon:
        yield one
        one.close()


def test_from_the_source_to_the_last_stop(newcomer: Newcomer) -> None:
    must = newcomer.daemon.must
    newcomer.upstream.execute(f"CREATE VIEW {newcomer.schema}.seen AS SELECT id FROM {newcomer.schema}.orders")
    source = newcomer.file("source.yaml", newcomer.source_text("here", newcomer.good_source_user()))
    task = newcomer.file("task.yaml", newcomer.task_text("orders", "here", newcomer.good_target_user()))

    assert "here" in must("operate-source", "create", source).out
    checked = must("check-task", task)
    assert f"1 view: {newcomer.schema}.seen" in " ".join(checked.out.split()), "long lines are folded"
    assert "no tasks" in must("query-status").out, "a check starts nothing"

    assert "dmctl query-status orders" in must("start-task", task).out
    _await_follows(newcomer)
    _write(newcomer, 10)
    _await_row(newcomer, 10)
    listed = must("query-status", "--output", "json").json()["tasks"]
    assert listed == [{"taskName": "orders", "taskStatus": "Running", "sources": ["here"]}]

    assert must("pause-task", "orders", "--output", "json").json()["sources"][0]["stage"] == "Paused"
    _write(newcomer, 11)
    assert "paused by the user" in must("query-status", "orders").out
    must("resume-task", "orders")
    _await_row(newcomer, 11)

    assert must("stop-task", task, "--output", "json").json()["sources"][0]["stage"] == "Stopped"
    _write(newcomer, 12)
    assert "no tasks" in must("query-status").out
    must("start-task", task)
    _await_row(newcomer, 12)  # from where it had been, not from now

    must("stop-task", "orders")
    _write(newcomer, 13)
    must("start-task", task, "--remove-meta")
    _await_follows(newcomer)
    _write(newcomer, 14)
    _await_row(newcomer, 14)
    assert not _has(newcomer, 13), "its progress was to be forgotten: it begins at the end of the binlog"

    must("stop-task", "orders")
    must("operate-source", "stop", "here")
    assert "no sources" in must("operate-source", "show").out


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look at the environment of a process with passwords")
def test_the_private_daemon_keeps_no_password_of_the_shell(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, {"DM_SOURCE_PASSWORD": "canary-33e8", "TZ": "Asia/Tokyo"})
    try:
        assert "starting a private one" in daemon.must("query-status").err
        for _, environment in processes_of(daemon.home).values():  # the daemon, and what hosts are forked from
            assert b"canary-33e8" not in environment
            assert b"TZ=Asia/Tokyo\0" in environment
    finally:
        daemon.must("shutdown")


def _write(newcomer: Newcomer, row: int) -> None:
    newcomer.upstream.execute(f"INSERT INTO {newcomer.schema}.orders VALUES ({row}, 'by hand')")


def _await_follows(newcomer: Newcomer) -> None:
    newcomer.daemon.wait("orders", lambda status: status["here"].get("sync", {}).get("synced") is True, "follows")


def _await_row(newcomer: Newcomer, row: int) -> None:
    newcomer.daemon.wait("orders", lambda _: _has(newcomer, row), f"row {row}")


def _has(newcomer: Newcomer, row: int) -> bool:
    return bool(newcomer.target.query(f"SELECT 1 FROM {newcomer.schema}.orders WHERE id = %s", [row]))
