"""Net effects on disk are those that were written, by bucket and in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.json_tree import Integer, TypedJson
from dm.mysql.binlog.table_map import OptionalMetadata, TableMap
from dm.mysql.binlog.value import ABSENT, UNREAD
from dm.tools.replay.reduction import Net, SpilledTable, SpillWriter, spilled

TABLE, OTHER = TableName("s", "t"), TableName("s", "u")
MAP = TableMap("s", "t", (), (), OptionalMetadata(), "mysql", b"content")


def test_sections_come_back_in_the_order_of_their_rounds(tmp_path: Path) -> None:
    document = TypedJson("[18446744073709551615]", [Integer(18446744073709551615, True)])
    one = Net(1, True, (1, UNREAD, ABSENT), b"raw", None, None)
    two = Net((2, b"k"), False, (2, b"k", document), None, (2, b"k", document), None)
    three = Net(1, False, (1, None, 2.5), None, (1, None, 2.5), None)
    writer = SpillWriter(tmp_path / "d" / "piece")
    writer.round({(0, False): [SpilledTable(TABLE, MAP, [one])], (3, True): [SpilledTable(OTHER, MAP, [two])]})
    writer.round({(0, False): [SpilledTable(TABLE, MAP, [three])]})
    assert [*spilled_names(tmp_path)] != ["piece"]
    writer.finish()
    writer.close()
    assert [*spilled_names(tmp_path)] == ["piece"]
    found = [*spilled(tmp_path / "d" / "piece", (0, False))]
    assert [(part.source, [*part.nets]) for part in found] == [(TABLE, [one]), (TABLE, [three])]
    image = found[0].nets[0].before
    assert image is not None
    assert image[1] is UNREAD
    assert found[0].table_map.content == b"content"
    (other,) = spilled(tmp_path / "d" / "piece", (3, True))
    value = other.nets[0].after
    assert value is not None
    assert isinstance(value[2], TypedJson)
    assert value[2] == document
    assert value[2].tree == document.tree
    assert [*spilled(tmp_path / "d" / "piece", (3, False))] == []


def spilled_names(directory: Path) -> list[str]:
    return [path.name for path in (directory / "d").iterdir()]


def test_a_file_that_is_gone_or_torn_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "torn").write_bytes(b"x" * 40)
    for name in ("torn", "gone"):
        with pytest.raises(DMError) as raised:
            [*spilled(tmp_path / name, (0, True))]
        assert raised.value.name == "replay-file-lost"
    writer = SpillWriter(tmp_path / "begun")
    writer.close()
    assert not (tmp_path / "begun").exists()


def test_two_executors_with_the_same_number_of_a_process_write_files_of_their_own(tmp_path: Path) -> None:
    first, second = SpillWriter(tmp_path / "piece"), SpillWriter(tmp_path / "piece")
    first.round({(0, False): [SpilledTable(TABLE, MAP, [Net(1, False, (1,), None, (1,), None)])]})
    second.close()
    first.finish()
    first.close()
    assert len([*spilled(tmp_path / "piece", (0, False))]) == 1


def test_a_finished_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "piece"
    there: list[tuple[bool, int]] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: there.append((path.exists(), os.fstat(descriptor).st_size)))
    writer = SpillWriter(path)
    writer.round({(0, False): [SpilledTable(TABLE, MAP, [Net(1, False, (1,), None, (1,), None)])]})
    writer.finish()
    (file, directory) = there
    assert file == (False, path.stat().st_size)
    assert directory[0]
