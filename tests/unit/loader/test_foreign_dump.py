"""What is wrong with a strange directory is said by name, and costs no more than it takes to see it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dm.dumpfiles.storage import LocalStorage
from dm.errors import DMError
from dm.loader import foreign_dump
from dm.loader.foreign_dump import point_of, read_foreign_dump
from dm.mysql.sql.context import SourceContext

CONTEXT = SourceContext("mysql", 90700, "")
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def metadata(position: str = "99", gtids: str = "") -> str:
    status = f"SHOW MASTER STATUS:\n\tLog: binlog.000001\n\tPos: {position}\n\tGTID:{gtids}\n\n"
    return f"Started dump at: x\n{status}Finished dump at: x\n"


def write_dump(directory: Path) -> None:
    (directory / "s-schema-create.sql").write_text("CREATE DATABASE `s` DEFAULT CHARACTER SET utf8mb4;\n")
    (directory / "s.t-schema.sql").write_text("CREATE TABLE `t` (a INT);\n")
    (directory / "s.t.sql").write_text("INSERT INTO `t` VALUES (1);\n")
    (directory / "metadata").write_text(metadata())


def read(directory: Path) -> foreign_dump.ForeignDump:
    return read_foreign_dump(LocalStorage(directory), "task", "source", CONTEXT, lambda _: True)


def test_a_dump_as_tools_write_it_is_read(tmp_path: Path) -> None:
    write_dump(tmp_path)
    found = read(tmp_path)
    assert [table.name.table for table in found.plan.tables] == ["t"]
    assert list(found.files.values()) == [("s.t.sql",)]


@pytest.mark.parametrize(
    "text",
    [
        metadata("9" * 5000), metadata("²"), metadata("-1"), metadata("4 5"), metadata("0x10"),
        metadata(gtids=f"{UUID}:1-{'9' * 5000}"), metadata(gtids="all of them"), metadata(gtids=f"{UUID}:5-²"),
    ],
)  # fmt: skip
def test_a_place_that_is_none_is_an_error_and_not_the_beginning(text: str, tmp_path: Path) -> None:
    write_dump(tmp_path)
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(DMError) as caught:
        read(tmp_path)
    assert caught.value.name == "dump-not-understood"
    assert "its file `metadata` has the" in caught.value.message
    assert len(caught.value.message) < 500


def test_a_place_without_gtids_has_an_empty_set() -> None:
    assert str(point_of(metadata()).gtid_set) == ""


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    os.truncate(path, 1 << 40)


@pytest.mark.parametrize("change", [a_pipe, endless, sparse])
@pytest.mark.parametrize("name", ["metadata", "s-schema-create.sql", "s.t-schema.sql"])
def test_what_has_no_end_is_named_and_not_read_to_its_end(
    change: Callable[[Path], None], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_dump, "_LARGEST_METADATA", 1 << 20)
    write_dump(tmp_path)
    change(tmp_path / name)
    with pytest.raises(DMError, match=name):
        read(tmp_path)


def test_of_many_statements_two_are_read(tmp_path: Path) -> None:
    write_dump(tmp_path)
    (tmp_path / "s.t-schema.sql").write_text("CREATE TABLE `t` (a INT);\n" * 3)
    with pytest.raises(DMError, match="more than one statement"):
        read(tmp_path)
