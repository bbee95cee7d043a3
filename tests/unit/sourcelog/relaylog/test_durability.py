"""How often each policy forces files to disk, counted; and that nothing is said about data before it is forced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dm.sourcelog.relaylog.index import read_seal
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.writer import Durability, SyncPolicy
from tests.testbed.fake_clock import FakeClock
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER, rotate, transaction
from tests.unit.sourcelog.relaylog.writing import FIRST, SECOND, head, new_writer, write


class Forced:
    """What was forced, in order: "directory", or a file's name with its size and what its index said then."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __call__(self, descriptor: int) -> None:
        self.calls.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")


def pulled(root: Path, policy: SyncPolicy) -> list[str]:
    """Four writes a third of a second apart, a heartbeat, a rotation, one more write, a clean stop."""
    clock, forced = FakeClock(), Forced()
    writer = new_writer(root, clock=clock, durability=Durability(policy, clock, forced))
    end = write(writer, FIRST, head())
    for number in range(1, 5):
        clock.now += 0.4
        end = write(writer, FIRST, transaction(number), at=end)
    clock.now += 2.0
    writer.heartbeat()
    writer.heartbeat()
    write(writer, FIRST, [rotate(SECOND)], at=end)
    write(writer, SECOND, [*head(4), *transaction(5)])
    writer.close()
    return forced.calls


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # each of the five writes, the rotation, the new file's write; nothing is left to force at its end
        ("always", ["directory", *["file"] * 6, "directory", "file"]),
        # after 1.2 s, at the heartbeat, at the rotation, at the clean stop
        ("interval", ["directory", *["file"] * 3, "directory", "file"]),
        ("none", []),
    ],
)
def test_each_policy_forces_as_often_as_it_says(tmp_path: Path, policy: SyncPolicy, expected: list[str]) -> None:
    assert pulled(tmp_path, policy) == expected


def test_an_index_is_never_ahead_of_what_was_forced(tmp_path: Path) -> None:
    clock = FakeClock()
    sub = RelayDirectory(tmp_path).add(SERVER)
    forced_size = 0

    def force(descriptor: int) -> None:
        nonlocal forced_size
        seal = read_seal(sub.idx(FIRST))
        assert seal is None or seal.size <= forced_size
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            forced_size = os.fstat(descriptor).st_size

    writer = new_writer(tmp_path, clock=clock, durability=Durability("interval", clock, force), resume=True)
    end = write(writer, FIRST, head())
    for number in range(1, 70):
        end = write(writer, FIRST, transaction(number, 1 << 20), at=end)
    seal = read_seal(sub.idx(FIRST))
    assert seal is not None
    assert 1 << 20 < seal.size <= forced_size
    writer.close()
    seal = read_seal(sub.idx(FIRST))
    assert seal is not None
    assert seal.size == forced_size == end


def test_writes_are_buffered_up_to_a_mib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write_ = os.write

    def counted(descriptor: int, data: memoryview) -> int:
        written.append(len(data))
        return write_(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    writer = new_writer(tmp_path)
    write(writer, FIRST, [*head(), *(event for number in range(1, 41) for event in transaction(number, 100_000))])
    monkeypatch.undo()
    assert len(written) == 4
    assert all(size >= 1 << 20 for size in written[:-1])
    assert sum(written) == writer.sub.file(FIRST).stat().st_size
