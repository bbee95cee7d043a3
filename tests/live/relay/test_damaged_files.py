"""Damaged relay files are fetched again from the source; what it has no more pauses for a person."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dm.config.references import StartPoint
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.binlog.header import EventType
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.index import ANY_SIZE, read_index
from dm.sourcelog.relaylog.layout import SubDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from tests.live.relay.relaying import (
    Shown,
    binlogs,
    end_of,
    flush_logs,
    has_reached,
    newest,
    read_to,
    relaying,
    source_of,
    wait_equal,
    wait_until,
)
from tests.live.relay.traffic import of_every_kind
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql"), pytest.mark.timeout(1800)]
SEED = 20261121


def read(root: Path, server: ThrowawayServer, first: str, end: tuple[str, int]) -> list[Shown]:
    """Up to a fixed end: MariaDB adds a checkpoint event to an idle binlog when it likes."""
    return read_to(RelayEventSource(root, server.flavor), Position("", first), end)


def read_error(root: Path, server: ThrowawayServer, first: str) -> DMError:
    with pytest.raises(DMError) as raised:
        read(root, server, first, end_of(server))
    return raised.value


def flip(path: Path, at: int, bit: int = 3) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        old = file.read(1)[0]
        file.seek(at)
        file.write(bytes([old ^ 1 << bit]))


def indexed(sub: SubDirectory, name: str) -> int:
    index = read_index(sub.idx(name), ANY_SIZE)
    return 0 if index is None else index.complete


def wait_mended(root: Path) -> None:
    wait_until(lambda: not checked_file.reported(newest(root)), "the relay to fetch the file again")


def test_a_damaged_file_is_fetched_again_wherever_it_is(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    described = source_of(source)
    first = binlogs(source)[0][0]
    of_every_kind(source, "x")
    source.execute("SET GLOBAL binlog_checksum = NONE")
    source.execute(*(f"INSERT INTO x.a (v) VALUES ('no checksum {number}')" for number in range(30)))
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
        sub = newest(tmp_path)
        end = end_of(source)
        everything = read(tmp_path, source, first, end)
        without = sub.files()[-1]
        # The file that is being written has no checksums; the heartbeat of the idle source brings its blocks' CRCs.
        wait_until(lambda: indexed(sub, without) == end_of(source)[1], "its index")
        for name in (sub.files()[1], without):
            flip(sub.file(name), sub.file(name).stat().st_size // 2)
            error = read_error(tmp_path, source, first)
            assert (error.name, error.details["file"]) == ("relay-file-corrupt", name), error
            assert error.retryable
            wait_mended(tmp_path)
            assert read(tmp_path, source, first, end) == everything
        source.execute("INSERT INTO x.a (v) VALUES ('goes on')")
        wait_equal(tmp_path, source)

    # While no relay runs: a closed file is cut, another loses its index, a third one goes. The next start finds the
    # first two by itself, a reader the third.
    cut, bare, gone = sub.files()[:3]
    sub.file(gone).unlink()
    sub.idx(gone).unlink()
    sub.file(cut).write_bytes(sub.file(cut).read_bytes()[:-50])
    sub.idx(bare).unlink()
    with relaying(described, tmp_path):
        wait_until(lambda: indexed(sub, bare) > 0, "the lost index")
        wait_mended(tmp_path)
        error = read_error(tmp_path, source, first)
        assert (error.name, error.details["file"]) == ("relay-file-corrupt", gone)
        wait_mended(tmp_path)
        assert read(tmp_path, source, first, end) == everything

        last = end_of(source)[0]
        flush_logs(source)
        wait_equal(tmp_path, source)
        purge_binlogs(source, end_of(source)[0])
        flip(sub.file(cut), 300)
        assert read_error(tmp_path, source, first).retryable
        wait_until(lambda: checked_file.lost(sub, cut) is not None, "the relay's answer")
        error = read_error(tmp_path, source, first)
        assert (error.name, error.retryable) == ("relay-file-lost", False)
        assert "the source has it no more" in error.message
        assert cut in error.message
        assert str(error.details["offset"]) in error.message
        source.execute("INSERT INTO x.a (v) VALUES ('the others go on')")
        wait_equal(tmp_path, source)
        assert read(tmp_path, source, last, end_of(source))
        # A person puts the file right.
        flip(sub.file(cut), 300)
        assert read(tmp_path, source, first, end) == everything


def test_a_task_applies_nothing_after_the_damage(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for where in (upstream, target):
        where.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v VARCHAR(50))")
    flush_logs(upstream)
    first, offset = end_of(upstream)
    upstream.execute(*(f"INSERT INTO {name}.a VALUES ({number}, 'row')" for number in range(50)))
    flush_logs(upstream)
    described = source_of(upstream, first=first)
    with relaying(described, tmp_path):
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay")
    events = read_to(RelayEventSource(tmp_path, upstream.flavor), Position("", first), end_of(upstream))
    inserts = [event for event in events if event[3] in {EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1}]
    flip(newest(tmp_path).file(first), inserts[30][2] - 6)
    meta = StartPoint(binlog_name=first, binlog_pos=offset)
    subtask = subtask_for(upstream, target, name, task=name, meta=meta)
    error = RunningSync(subtask, tmp_path).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.details["file"]) == ("relay-file-corrupt", first)
    assert set(target.query(f"SELECT id FROM {name}.a")) <= {(number,) for number in range(30)}
    with relaying(described, tmp_path):
        wait_mended(tmp_path)
        with running_sync(subtask, tmp_path) as running:
            running.wait_synced()
    assert target.query(f"SELECT COUNT(*) FROM {name}.a") == ((50,),)


@pytest.mark.chaos
def test_every_flipped_bit_of_a_servers_files_is_detected(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    of_every_kind(source, "x")
    source.execute("SET GLOBAL binlog_checksum = NONE")
    source.execute(*(f"INSERT INTO x.a (v, b) VALUES ('{number}', REPEAT('x', 50000))" for number in range(60)))
    flush_logs(source)
    first = binlogs(source)[0][0]
    with relaying(source_of(source), tmp_path):
        wait_equal(tmp_path, source)
    sub = newest(tmp_path)
    last = sub.files()[-1]
    end = (last, sub.file(last).stat().st_size)
    everything = read(tmp_path, source, first, end)
    chance = random.Random(SEED)
    flips = 500
    for number in range(flips):
        name = chance.choice(sub.files())
        at, bit = chance.randrange(sub.file(name).stat().st_size), chance.randrange(8)
        flip(sub.file(name), at, bit)
        found: list[Shown] = []
        with pytest.raises(DMError) as raised:
            found = read(tmp_path, source, first, end)
        assert not found, (number, name, at, bit)
        assert raised.value.name == "relay-file-corrupt"
        assert raised.value.details["file"] == name
        flip(sub.file(name), at, bit)
        checked_file.mended(sub, name)
    assert read(tmp_path, source, first, end) == everything
    record(f"relay.bit_flips.{flavor}", {"seed": SEED, "flips": flips, "detected": flips, "files": len(sub.files())})
