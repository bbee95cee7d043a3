"""The look at closed files when a relay starts: sizes and first lines, and a file read only when it has no index."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dm.relay.unit import inspect
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.index import ANY_SIZE, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory
from tests.unit.sourcelog.relaylog.binlog_bytes import rotate, transaction
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, THIRD, head, new_writer, write


@pytest.fixture
def sub(tmp_path: Path) -> SubDirectory:
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), *transaction(1), *transaction(2), rotate(SECOND)])
    write(writer, SECOND, [*head(2), *transaction(3), rotate(THIRD)])
    write(writer, THIRD, [*head(3), *transaction(4)])
    writer.close()
    return writer.sub


def inspected(sub: SubDirectory) -> int:
    return inspect(RelayDirectory(sub.path.parent), threading.Event())


def test_files_that_fit_their_index_are_not_read(sub: SubDirectory) -> None:
    assert inspected(sub) == 0
    assert checked_file.reported(sub) == []


@pytest.mark.parametrize("content", [None, b'{"format": 1, "complete": 300, "created": 1700000000}', b"\xff"])
def test_a_lost_or_older_index_is_made_again(sub: SubDirectory, content: bytes | None) -> None:
    before = read_index(sub.idx(FIRST), ANY_SIZE)
    sub.idx(FIRST).unlink()
    if content is not None:
        sub.idx(FIRST).write_bytes(content)
    assert inspected(sub) == 1
    assert read_index(sub.idx(FIRST), ANY_SIZE) == before
    assert checked_file.reported(sub) == []
    assert inspected(sub) == 0


def test_a_cut_file_is_reported_with_and_without_its_index(sub: SubDirectory) -> None:
    whole = sub.file(FIRST).read_bytes()
    cut = len(whole) - len(rotate(SECOND)) - sum(map(len, transaction(2)))
    sub.file(FIRST).write_bytes(whole[:cut])
    assert inspected(sub) == 0
    assert checked_file.reported(sub) == [checked_file.Damage(FIRST, cut, f"it has {cut} bytes of {len(whole)}")]
    checked_file.mended(sub, FIRST)
    sub.idx(FIRST).unlink()
    assert inspected(sub) == 1
    assert checked_file.reported(sub) == [checked_file.Damage(FIRST, cut, "its end can't be proven")]
    assert not sub.idx(FIRST).exists()


def test_damage_in_a_file_without_index_is_reported(sub: SubDirectory) -> None:
    damaged = bytearray(sub.file(SECOND).read_bytes())
    damaged[-60] ^= 2
    sub.file(SECOND).write_bytes(damaged)
    sub.idx(SECOND).unlink()
    assert inspected(sub) == 1
    [note] = checked_file.reported(sub)
    assert (note.file, note.what) == (SECOND, "its checksum is wrong")


def test_the_newest_file_is_the_pulls_own_matter(sub: SubDirectory) -> None:
    sub.idx(THIRD).unlink()
    assert inspected(sub) == 0
    assert not sub.idx(THIRD).exists()
