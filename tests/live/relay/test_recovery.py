"""Whatever is cut off, lost or wrong beside the relay's files: afterwards they are the source's again."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from dm.config.source import SourceConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.relay.unit import RelayUnit
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.relaylog.index import ANY_SIZE, FileIndex, read_index, write_index
from dm.sourcelog.relaylog.layout import INDEX_NAME, SubDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.unit import JSON
from tests.live.relay.relaying import (
    HEARTBEAT,
    RelayProcess,
    Shown,
    binlogs,
    differences,
    end_of,
    flush_logs,
    newest,
    read_to,
    relaying,
    source_of,
    wait_equal,
    wait_until,
)
from tests.live.relay.traffic import of_every_kind
from tests.testbed.figures import record
from tests.testbed.fixtures import ServerFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.relay_meta import read_meta

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql"), pytest.mark.timeout(1800)]
SEED = 20261121


def numbers(events: list[Shown]) -> list[int]:
    """The end offsets, to see that nothing is repeated or left out."""
    return [event[2] for event in events]


def test_meta_and_index_files_are_rebuilt_from_what_the_files_prove(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    described = source_of(source)
    of_every_kind(source, "x")
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    sub = newest(tmp_path)
    index = tmp_path / INDEX_NAME
    names, meta = index.read_bytes(), sub.meta.read_bytes()
    older = f'binlog-name = "{sub.files()[0]}"\nbinlog-pos = 4\nbinlog-gtid = ""\n'.encode()
    newer = meta.replace(sub.files()[-1].encode(), b"binlog.000999")
    idx = sub.idx(sub.files()[-1])
    another = tmp_path / "idx of another file"
    write_index(another, FileIndex(complete=130, created=12345, flavor=flavor))
    for wrong in (
        {sub.meta: None, index: None, idx: None},
        {sub.meta: older, index: b"", idx: b'{"format": 1, "complete": 300, "created": 1}'},
        {sub.meta: newer, idx: another.read_bytes()},
        {sub.meta: b"\xff\x00 garbage = [", idx: b"\x00" * 700},
    ):
        for path, content in wrong.items():
            path.unlink()
            if content is not None:
                path.write_bytes(content)
        source.execute("INSERT INTO x.a (v) VALUES ('one more')")
        with relaying(described, tmp_path):
            wait_equal(tmp_path, source)
        assert index.read_bytes() == names
        stored = read_meta(sub.meta, sub.server_uuid)
        assert stored is not None
        assert (stored.file, stored.offset) == end_of(source)
        known = read_index(idx, ANY_SIZE)
        assert known is not None
        assert known.complete == stored.offset
        assert known.gtids == stored.gtid_set
    assert sub.file(sub.files()[-1]).stat().st_size > 20_000
    with relaying(described, tmp_path) as unit:
        wait_until(lambda: unit.status()["relayBinlog"] != "", "the pull")
        assert unit.status()["recoveryReadBytes"] == 4100  # the magic, and a piece with the format description
    index.write_bytes(b"a shopping list\n")
    with pytest.raises(DMError, match="not a relay directory"):
        RelayUnit(described, tmp_path).run(threading.Event())


def test_a_checkpoint_ahead_of_the_relay_is_waited_for(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    """A power cut without fsync: the target has more than the relay's files."""
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    source.execute(*(f"INSERT INTO x.a VALUES ({number})" for number in range(20)))
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    checkpoint = RelayEventSource(tmp_path, flavor).complete(Position("", *end_of(source)))
    source.execute(*(f"INSERT INTO x.a VALUES ({number})" for number in range(20, 30)))
    flush_logs(source)
    source.execute("INSERT INTO x.a VALUES (30)")
    end = end_of(source)
    sub = newest(tmp_path)
    name = sub.files()[-1]
    whole = sub.file(name).read_bytes()
    for lost in (700, 200):  # in front of the checkpoint and, while the index is from before the cut, wherever it lies
        sub.file(name).write_bytes(whole[:-lost])
        found: list[Shown] = []
        waiting = threading.Event()

        def follow(found: list[Shown] = found, waiting: threading.Event = waiting) -> None:
            waiting.set()
            found.extend(read_to(RelayEventSource(tmp_path, flavor), checkpoint, end))

        reader = threading.Thread(target=follow)
        reader.start()
        waiting.wait()
        with relaying(described, tmp_path):
            reader.join()
            wait_equal(tmp_path, source)
        assert found == read_to(RelayEventSource(tmp_path, flavor), checkpoint, end)
        assert found[0][2] == checkpoint.offset
        for later in sub.files()[sub.files().index(name) + 1 :]:
            sub.file(later).unlink()
            sub.idx(later).unlink()


@pytest.mark.parametrize("rounds", [2, pytest.param(100, marks=pytest.mark.chaos)])
def test_cuts_and_kills_leave_the_sources_files(
    server: ServerFactory, flavor: Flavor, tmp_path: Path, rounds: int
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.k (id INT, b LONGBLOB)")
    of_every_kind(source, "x")
    described = source_of(source)
    first = binlogs(source)[0][0]
    chance = random.Random(SEED)
    cuts = kills = inside = 0
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    for number in range(rounds):
        writing = threading.Thread(target=_write, args=(source, chance.randrange(1, 40), number))
        writing.start()
        if number % 2:
            kills += 1
            _killed(described, tmp_path, chance)
        else:
            cuts += 1
            _cut(newest(tmp_path), chance)
        writing.join()
        inside += _stored(tmp_path) != binlogs(source)
        with relaying(described, tmp_path):
            wait_equal(tmp_path, source)
    events = read_to(RelayEventSource(tmp_path, flavor), Position("", first), end_of(source))
    places = [(file, end) for _, file, end, *_ in events]
    assert places == sorted(set(places))
    assert differences(tmp_path, source) == []
    figures: dict[str, JSON] = {"seed": SEED, "cuts": cuts, "kills": kills, "not_all_there": inside, "equal": rounds}
    if rounds > 2:  # where the short run belongs to `make chaos` too, it may end last
        record(f"relay.cuts_and_kills.{flavor}", figures)


def _write(source: ThrowawayServer, count: int, number: int) -> None:
    source.execute(
        "BEGIN",
        *(f"INSERT INTO x.k VALUES ({row}, REPEAT('k', 40000))" for row in range(count)),
        "COMMIT",
        f"INSERT INTO x.k VALUES ({number}, 'small')",
        *(["FLUSH BINARY LOGS"] if number % 5 == 4 else []),
    )


def _killed(described: SourceConfig, root: Path, chance: random.Random) -> None:
    """Kill a relay at some moment after it began to write."""
    before = _stored(root)
    with RelayProcess(described, root) as process:
        while _stored(root) == before:
            assert process.running
            threading.Event().wait(0.001)
        threading.Event().wait(chance.random() * 0.006)
        process.kill()
        process.wait()


def _stored(root: Path) -> list[tuple[str, int]]:
    sub = newest(root)
    return [(name, sub.file(name).stat().st_size) for name in sub.files()]


def _cut(sub: SubDirectory, chance: random.Random) -> None:
    """Cut a file anywhere: mostly the newest, as a crash does, at times a closed one, as a bad disk does."""
    names = sub.files()
    name = names[-1] if chance.random() < 0.7 else chance.choice(names)
    path = sub.file(name)
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size + 1)])
    if chance.random() < 0.3:
        sub.idx(name).unlink(missing_ok=True)


def test_a_gap_is_taken_where_no_task_needs_what_is_missing(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
    stored = RelayEventSource(tmp_path, flavor).complete(Position("", *end_of(source)))
    old = newest(tmp_path)
    source.execute("INSERT INTO x.a VALUES (1)")
    flush_logs(source)
    source.execute("INSERT INTO x.a VALUES (2)")
    flush_logs(source)
    last = end_of(source)[0]
    purge_binlogs(source, last)
    source.execute("INSERT INTO x.a VALUES (3)")

    Hold(tmp_path, "t").create()
    Hold(tmp_path, "t").keep_from(stored)
    with pytest.raises(DMError) as raised:
        RelayUnit(described, tmp_path).run(threading.Event())
    assert raised.value.name == "source-binlog-purged"
    assert "task t" in raised.value.message
    Hold(tmp_path, "t").keep_from(Position(stored.server_uuid, last))  # the task came past the gap from the source

    with relaying(described, tmp_path):
        wait_until(lambda: newest(tmp_path) != old, "a new sub-directory")
        wait_equal(tmp_path, source)
    assert newest(tmp_path).name == f"{stored.server_uuid}.000002"
    with pytest.raises(DMError) as raised:
        read_to(RelayEventSource(tmp_path, flavor), stored, end_of(source))
    assert raised.value.name == "relay-gap"
    assert read_to(RelayEventSource(tmp_path, flavor), Position(stored.server_uuid, last), end_of(source))


@pytest.mark.chaos
@pytest.mark.parametrize("gtid", [True, False])
def test_a_source_that_renames_its_binlog(server: ServerFactory, flavor: Flavor, tmp_path: Path, gtid: bool) -> None:
    gtid = gtid or flavor == "mariadb"  # which always has them
    source = server(flavor, gtid=gtid)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)", "INSERT INTO x.a VALUES (1)")
    flush_logs(source)
    source.execute("INSERT INTO x.a VALUES (2)")
    described = source_of(source)
    first = binlogs(source)[0][0]
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
        checkpoint = RelayEventSource(tmp_path, flavor).complete(Position("", *end_of(source)))
    source.stop()
    # One index for files of both names, as a careful administrator keeps it.
    source.options |= {"log_bin": "other", "log_bin_index": "binlog.index"}
    source.start()
    source.execute("INSERT INTO x.a VALUES (3)")
    assert [name.split(".")[0] for name, _ in binlogs(source)][-2:] == ["binlog", "other"]
    if not gtid:
        with pytest.raises(DMError) as raised:
            RelayUnit(described, tmp_path, heartbeat_seconds=HEARTBEAT).run(threading.Event())
        assert raised.value.name == "binlog-renamed-without-gtid"
        return
    with relaying(described, tmp_path):
        wait_until(lambda: newest(tmp_path).number == 2, "a new sub-directory")
        wait_until(lambda: newest(tmp_path).files() == [end_of(source)[0]], "the renamed file")
        events = read_to(RelayEventSource(tmp_path, flavor), checkpoint, end_of(source))
        source.execute("INSERT INTO x.a VALUES (4)")
        events = read_to(RelayEventSource(tmp_path, flavor), Position("", first), end_of(source))
    assert {event[1].split(".")[0] for event in events} == {"binlog", "other"}


def test_numbers_past_999999(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x", "CREATE TABLE x.a (id INT PRIMARY KEY)")
    described = source_of(source)
    with relaying(described, tmp_path):
        wait_equal(tmp_path, source)
        if flavor == "mariadb":
            source.stop()  # it looks for the largest number when it starts, MySQL for each new file
        (Path(source.data) / "binlog.999998").touch()
        if flavor == "mariadb":
            source.start()
        for number in range(3):
            flush_logs(source)
            source.execute(f"INSERT INTO x.a VALUES ({number})")
        wait_equal(tmp_path, source)
    names = newest(tmp_path).files()
    assert {"binlog.999999", "binlog.1000000", "binlog.1000001"} < set(names)
    first = binlogs(source)[0][0]
    events = read_to(RelayEventSource(tmp_path, flavor), Position("", first), end_of(source))
    assert list(dict.fromkeys(event[1] for event in events)) == names
