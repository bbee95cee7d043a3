"""Killed at the very end: the work is done, the word about it is not. And a dump where no Java is installed."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import load_plan
from dm.progress.load_parts import take_slot
from dm.progress.tables import SubtaskKey
from dm.spark.java import find_java_home
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import dump_unit, endpoint

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(900)]  # two JVMs start

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT)",
    "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3)",
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO keyless VALUES (7), (7), (NULL)",
)


@pytest.mark.parametrize(("unit", "point"), [("Dump", "dumper.finished"), ("Load", "loader.finished")])
def test_a_unit_killed_when_it_is_done_does_nothing_twice(
    unit: str, point: str, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, rows=1)
    if unit == "Load":
        load.dump()
    process = load.start(unit, f"{point}=kill", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)


def test_where_no_java_is_installed_the_one_of_a_wheel_runs_the_dump(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *TABLES)
    tools = tmp_path / "tools"  # all there are but java
    tools.mkdir()
    for directory in filter(Path.is_dir, map(Path, os.environ["PATH"].split(os.pathsep))):
        for tool in directory.iterdir():
            if not tool.name.startswith("java") and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert find_java_home(tmp_path) == tmp_path / "java-home", "a shim was written"
    process = load.start("Dump", "", tmp_path / "log")
    assert process.wait() == 0
    plan = load_plan(load.storage)
    assert plan is not None
    assert plan.finished


@pytest.mark.parametrize("dump_files", ["all", "none"])
def test_a_pause_while_an_earlier_runs_session_is_ended_is_no_error(
    dump_files: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, dump_files=dump_files)
    subtask, stopped = load.subtask(), threading.Event()
    load.dump()
    stopped.set()
    with TargetConnection(endpoint(mariadb)) as writer:
        take_slot(writer, SubtaskKey(load.meta_schema, subtask.task, load.source_id))
        if dump_files == "all":
            load.load(stopped)
        else:
            dump_unit(subtask, load.storage, load.spark).run(stopped)
    load.load()
    assert load.report().identical
