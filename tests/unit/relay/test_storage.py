"""Room for a relay: when it waits, when it goes on, when it purges; the clock and the free space are the test's."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.config.source import Purge
from dm.errors import DMError
from dm.position import Position
from dm.relay.purge import GIB
from dm.relay.storage import PURGE_AGAIN_SECONDS, RelayStorage
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.relaylog.layout import RelayDirectory
from tests.testbed.fake_clock import FakeClock
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.relay_files import add_files, binlog, names


class Disk:
    """A disk on which each relay file takes half a GiB."""

    def __init__(self, root: Path, free: float) -> None:
        self.root = root
        self.other = free + len(names(root)) / 2

    def free(self, _: Path) -> int:
        return int((self.other - len(names(self.root)) / 2) * GIB)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    add_files(RelayDirectory(tmp_path), SERVER, range(1, 11))
    return tmp_path


def storage_of(disk: Disk, clock: FakeClock, **settings: object) -> RelayStorage:
    keys = Purge.model_validate({"interval": 3600, "remain_space": 0, **settings})
    return RelayStorage(RelayDirectory(disk.root), keys, clock, disk.free)


def trouble(storage: RelayStorage) -> DMError | None:
    try:
        storage.require_room()
    except DMError as error:
        return error
    return None


def test_the_pull_waits_below_pause_space_and_goes_on_a_tenth_above_it(root: Path) -> None:
    disk = Disk(root, free=1.01)
    storage = storage_of(disk, FakeClock())
    assert trouble(storage) is None
    for free, waits in ((0.99, True), (1.0, True), (1.09, True), (1.11, False), (1.01, False), (0.5, True)):
        disk.other = free + len(names(root)) / 2
        storage.tick()
        error = trouble(storage)
        assert (error is not None) is waits, free
        assert storage.status()["waitsForSpace"] is waits
    assert error is not None
    assert (error.name, error.retryable) == ("relay-disk-low", True)
    assert "has 0.50 GB free" in error.message
    assert "continues at 1.10 GB" in error.message
    assert names(root)[0].endswith(binlog(1)), "nobody asked for a purge by space"


def test_without_a_limit_the_pull_never_waits(root: Path) -> None:
    assert trouble(storage_of(Disk(root, free=0.0), FakeClock(), pause_space=0)) is None


def test_the_message_says_which_task_keeps_the_files(root: Path) -> None:
    Hold(root, "paused").keep_from(Position(SERVER, binlog(1)))
    error = trouble(storage_of(Disk(root, free=0.5), FakeClock(), remain_space=5))
    assert error is not None
    assert f"(task paused needs the files from {binlog(1)} on)" in error.message


def test_low_space_purges_at_once_and_again_as_tasks_let_go(root: Path) -> None:
    disk, clock = Disk(root, free=0.5), FakeClock()
    hold = Hold(root, "t")
    hold.keep_from(Position(SERVER, binlog(2)))
    storage = storage_of(disk, clock, remain_space=3)
    storage.tick()
    assert len(names(root)) == 9
    assert trouble(storage) is not None, "1 GB is free, and 1.1 are needed"
    hold.keep_from(Position(SERVER, binlog(9)))
    storage.tick()
    assert len(names(root)) == 9, "not in every tick"
    clock.now += PURGE_AGAIN_SECONDS
    storage.tick()
    assert trouble(storage) is None
    assert disk.free(root) == 3 * GIB, "and no more than remain-space asks for"


def test_an_interval_passes_before_each_purge(root: Path) -> None:
    disk, clock = Disk(root, free=2), FakeClock()
    storage = storage_of(disk, clock, remain_space=3, pause_space=0)
    storage.tick()
    clock.now += 3599
    storage.tick()
    assert len(names(root)) == 10
    clock.now += 1
    storage.tick()
    assert len(names(root)) == 8
    disk.other -= 1
    storage.tick()
    assert len(names(root)) == 8
    clock.now += 3600
    storage.tick()
    assert len(names(root)) == 6


@pytest.mark.parametrize("settings", [{"interval": 0, "remain_space": 15}, {"expires": 0, "remain_space": 0}])
def test_files_stay_where_the_source_file_says_so_also_on_a_full_disk(root: Path, settings: dict[str, object]) -> None:
    clock = FakeClock()
    storage = storage_of(Disk(root, free=0), clock, **settings)
    for _ in range(5):
        clock.now += 3600
        storage.tick()
    storage.make_room()
    assert len(names(root)) == 10
    assert trouble(storage) is not None


def test_a_relay_that_must_be_let_go_on_gets_more_than_remain_space(root: Path) -> None:
    disk = Disk(root, free=0.5)
    storage = storage_of(disk, FakeClock(), remain_space=1, pause_space=2)
    storage.tick()
    assert trouble(storage) is None
    assert disk.free(root) >= 2.2 * GIB


def test_a_purge_is_asked_of_who_holds_the_directory_only(root: Path) -> None:
    storage = storage_of(Disk(root, free=100), FakeClock())
    with pytest.raises(DMError) as raised:
        storage.purge_before(binlog(3), "", "s")
    assert raised.value.name == "relay-in-use"
    assert len(names(root)) == 10
