"""A relay that is killed anywhere goes on without a gap, a repetition or a damaged byte."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from tests.live.relay.relaying import (
    RelayProcess,
    binlogs,
    end_of,
    read_to,
    relaying,
    source_of,
    wait_equal,
)
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

FAULT_POINTS = ("relay.after_write", "relay.before_meta", "relay.inside_transaction", "relay.rotate")
SIGKILLED = -9


def write_much(source: ThrowawayServer) -> None:
    """Small transactions, one of several MiB in many events, and rotations."""
    source.execute(
        "CREATE DATABASE IF NOT EXISTS x",
        "CREATE TABLE IF NOT EXISTS x.a (id INT, b LONGBLOB)",
        *(f"INSERT INTO x.a VALUES ({n}, 'small')" for n in range(20)),
        "BEGIN",
        *(f"INSERT INTO x.a VALUES ({n}, REPEAT('x', 300000))" for n in range(12)),
        "COMMIT",
        "FLUSH BINARY LOGS",
        "INSERT INTO x.a VALUES (0, 'first of the next file')",
    )


@pytest.mark.parametrize("point", FAULT_POINTS)
@pytest.mark.parametrize("passage", [1, pytest.param(2, marks=pytest.mark.chaos)])
@pytest.mark.ci_sample(2)
def test_files_are_equal_after_a_kill_at_a_fault_point(
    server: ServerFactory, flavor: Flavor, tmp_path: Path, point: str, passage: int
) -> None:
    source = server(flavor)
    write_much(source)
    write_much(source)
    described = source_of(source)
    with RelayProcess(described, tmp_path, faults=f"{point}=kill@{passage}") as killed:
        assert killed.wait() == SIGKILLED
    with RelayProcess(described, tmp_path) as again:
        wait_equal(tmp_path, source)
        write_much(source)
        wait_equal(tmp_path, source)
        assert again.close() == 0


@pytest.mark.chaos
def test_files_are_equal_after_kills_at_any_moment(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    described = source_of(source)
    chance = random.Random(20261121)
    writing = threading.Event()

    def write() -> None:
        for _ in range(4):
            write_much(source)
        writing.set()

    writer = threading.Thread(target=write)
    writer.start()
    kills = 0
    while not writing.is_set() or kills < 4:
        with RelayProcess(described, tmp_path) as process:
            writing.wait(0.3 + chance.random())
            process.kill()
            assert process.wait() == SIGKILLED
        kills += 1
    writer.join()
    with RelayProcess(described, tmp_path):
        wait_equal(tmp_path, source)


def test_a_tail_torn_at_any_byte_is_pulled_again(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    write_much(source)
    source.execute("BEGIN", *(f"INSERT INTO x.a VALUES ({n}, 'of a transaction')" for n in range(5)), "COMMIT")
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    sub = RelayDirectory(tmp_path).last()
    assert sub is not None
    name = sub.files()[-1]
    whole = sub.file(name).read_bytes()
    chance = random.Random(7)
    for size in [3, 100, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(2))]:
        sub.file(name).write_bytes(whole[:size])
        sub.meta.unlink(missing_ok=True)
        with relaying(described, tmp_path):
            wait_equal(tmp_path, source)


def test_damaged_bytes_at_the_end_are_pulled_again(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    write_much(source)
    described = source_of(source)
    with RelayProcess(described, tmp_path) as process:
        wait_equal(tmp_path, source)
        process.kill()
        process.wait()
    sub = RelayDirectory(tmp_path).last()
    assert sub is not None
    path = sub.file(sub.files()[-1])
    damaged = bytearray(path.read_bytes())
    damaged[-30] ^= 0x40
    path.write_bytes(damaged)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)


def test_a_reader_follows_a_relay_that_is_killed_inside_a_transaction(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    source = server(flavor)
    write_much(source)
    first, end = Position("", binlogs(source)[0][0]), end_of(source)
    described = source_of(source)
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.extend(read_to(RelayEventSource(tmp_path, flavor), first, end)))
    reader.start()
    for _ in range(2):
        with RelayProcess(described, tmp_path, faults="relay.inside_transaction=kill@2") as killed:
            assert killed.wait() == SIGKILLED
    with RelayProcess(described, tmp_path):
        reader.join()
    assert found == read_to(RelayEventSource(tmp_path, flavor), first, end)


def test_a_second_relay_on_the_directory_waits(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
        second = pytest.raises(Exception, match="another relay process")
        with second, relaying(described, tmp_path):
            pass
