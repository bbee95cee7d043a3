"""`metadata` is read by DM as it reads dumpling's, and has the own points of tables besides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dm.dumper.unit import metadata_text
from dm.dumpfiles.dump_files import DumpedTable, DumpPlan
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.loader.foreign_dump import point_of
from dm.position import Position
from dm.task.payload import dump_directory, dump_storage
from tests.unit.config.texts import SOURCE, TASK, source, task

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(offset: int, transactions: int) -> Position:
    return Position(UUID, "binlog.000007", offset, GtidSet.parse(f"{UUID}:1-{transactions}", "mysql"))


PLAN = DumpPlan(
    "d1", "t", "s", "mysql", 80045, UUID, at(100, 5), at(300, 9), started=0.0,
    tables=(DumpedTable(TableName("a", "plain"), ""), DumpedTable(TableName("a", "own"), "", point=at(200, 7))),
)  # fmt: skip


def test_dms_lines_and_ours() -> None:
    assert metadata_text(PLAN, 60.0) == (
        "Started dump at: 1970-01-01 00:00:00\n"
        f"SHOW MASTER STATUS:\n\tLog: binlog.000007\n\tPos: 100\n\tGTID:{UUID}:1-5\n\n"
        "SHOW MASTER STATUS: /* AFTER CONNECTION POOL ESTABLISHED */\n"
        f"\tLog: binlog.000007\n\tPos: 300\n\tGTID:{UUID}:1-9\n\n"
        f'TABLE "`a`.`own`":\n\tLog: binlog.000007\n\tPos: 200\n\tGTID:{UUID}:1-7\n\n'
        "Finished dump at: 1970-01-01 00:01:00\n"
    )
    assert metadata_text(replace(PLAN, version=90704), 0.0).count("SHOW BINARY LOG STATUS:") == 2


@pytest.mark.parametrize(
    "text",
    [
        metadata_text(PLAN, 0.0),
        "SHOW SLAVE STATUS:\n\tLog: x.1\n\tPos: 3\n\nSHOW MASTER STATUS:\n\tLog: binlog.000007\n\tPos: 100\n"
        f"\tGTID:{UUID}:1,\n{UUID}:2-5\n\nFinished dump at: x\n",
        "# Started dump at: x\n[config]\nquote-character = BACKTICK\n\n[source]\n# Channel_Name = ''\n"
        'File = "binlog.000007"\n'
        f'Position = 100\nExecuted_Gtid_Set = "{UUID}:1-5"\n\n[`a`.`b`]\nrows = 3\n# Finished dump at: x\n',
    ],
    ids=["ours", "mydumper 0.10", "mydumper 0.12"],
)
def test_the_place_of_a_dump(text: str) -> None:
    found = point_of(text)
    assert (found.file, found.offset, str(found.gtid_set)) == ("binlog.000007", 100, f"{UUID}:1-5")


def test_a_dump_of_a_server_without_binlog_has_no_place() -> None:
    assert not point_of("Started dump at: x\nFinished dump at: x\n").file


@pytest.mark.parametrize(
    ("directory", "expected"),
    [("./dumped_data", "/home/work/dumped_data.test"), ("/data/dump/", "/data/dump.test")],
)
def test_the_dump_directory_is_where_dm_has_it(directory: str, expected: str) -> None:
    config = task(f"{TASK}    loader: {{dir: {directory}}}\n").subtask("mysql-01", {"mysql-01": source(SOURCE)})
    work = Path("/home/work") / config.task
    assert dump_directory(config, work) == Path(expected.replace("test", config.task))
    several = config.model_copy(update={"sole_source": False})
    assert dump_directory(several, work) == Path(expected.replace("test", config.task)) / "mysql-01"


@pytest.mark.parametrize("mode", ["load", "load&sync"])
def test_a_task_that_only_loads_takes_its_directory_as_it_stands(mode: str) -> None:
    text = TASK.replace("task-mode: all", f"task-mode: {mode}")
    config = task(f"{text}    loader: {{dir: /data/of-another}}\n").subtask("mysql-01", {"mysql-01": source(SOURCE)})
    assert dump_directory(config, Path("/home/work/shop")) == Path("/data/of-another")


@pytest.mark.parametrize(
    ("mode", "sole", "prefix"),
    [
        ("all", True, "x/shop.mysql-01"),
        ("dump", False, "x/shop.mysql-01"),
        ("load", True, "x"),
        ("load&sync", False, "x/mysql-01"),
    ],
)
def test_in_object_storage_a_source_has_the_part_that_dm_gives_it(mode: str, sole: bool, prefix: str) -> None:
    text = TASK.replace("task-mode: all", f"task-mode: {mode}") + "    loader: {dir: 's3://bucket/x'}\n"
    config = task(text).subtask("mysql-01").model_copy(update={"sole_source": sole})
    storage = dump_storage(config, Path("/home/work/shop"))
    assert (str(storage), str(storage.work)) == (f"s3://bucket/{prefix}", "/home/work/shop/.dump/mysql-01")


def test_a_directory_that_ends_with_the_tasks_name_stays_as_in_dm() -> None:
    config = task(f"{TASK}    loader: {{dir: /data/dump.shop}}\n").subtask("mysql-01")
    assert str(dump_storage(config, Path("/home/work/shop"))) == "/data/dump.shop"


def test_a_directory_of_another_kind_of_store_is_refused() -> None:
    with pytest.raises(DMError):
        task(f"{TASK}    loader: {{dir: 'gcs://bucket/x'}}\n")
