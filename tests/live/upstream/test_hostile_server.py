"""Whoever answers at the source's address may lie in every packet: nothing of it gets beyond a DMError.

Each lie is told by a proxy in front of a real server, from one packet on. What must hold of all of them: the error is a
DMError, what is read before it is bounded, no file of ours is sent away, and none is written outside the relay
directory.
"""

from __future__ import annotations

import itertools
import random
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from dm.config.source import SourceConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.binlog.header import HEADER_SIZE, EventType
from dm.position import Position
from dm.relay.unit import RelayUnit
from dm.session import login
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.upstream.connection import connect, fetch, identity_for
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from dm.sourcelog.upstream.remote_source import RemoteEventSource
from tests.live.relay.relaying import HEARTBEAT, PATIENCE, endpoint_of, source_of, wait_until
from tests.testbed.hostile import HostileProxy, Packet, Rewrite
from tests.testbed.unit_thread import UnitThread
from tests.unit.sourcelog.relaylog.binlog_bytes import rotate

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

MIB = 1 << 20
FULL = 0xFFFFFF
LOCAL_FILE = b"\xfb/etc/hostname"


def honest(packet: Packet) -> Iterable[bytes]:
    return (packet.payload,)


def at_dump(lie: Callable[[Packet], Iterable[bytes]], *, after: int = 0) -> Rewrite:
    """Lie instead of this event of a dump."""
    return lambda packet: lie(packet) if packet.of_dump and packet.number == after else honest(packet)


def named(*names: str) -> Iterator[bytes]:
    return (b"\0" + rotate(name, artificial=True) for name in names)


def endless_names(grows: bool) -> Iterator[bytes]:
    return (b"\0" + rotate(f"binlog.{number if grows else 7:06d}", artificial=True) for number in itertools.count(7))


def oversized(packet: Packet) -> Iterable[bytes]:
    event = bytearray(packet.payload)
    event[10:14] = struct.pack("<I", 0xFFFFFFF0)
    return (bytes(event),)


def without_end(declared: int) -> Callable[[Packet], Iterator[bytes]]:
    first = b"\0" + bytes(9) + struct.pack("<I", declared) + bytes(FULL - 14)
    return lambda _: itertools.chain((first,), itertools.repeat(bytes(FULL)))


DUMP_LIES: dict[str, Callable[[], Rewrite]] = {
    "an event that says it has 4 GiB": lambda: at_dump(oversized, after=1),
    "an event of 4 GiB that goes on for ever": lambda: at_dump(without_end(0xFFFFFFFF)),
    "an event of 20 MiB that goes on for ever": lambda: at_dump(without_end(20 * MIB)),
    "an event too short for its header": lambda: at_dump(lambda _: (b"\0short",)),
    "an empty packet": lambda: at_dump(lambda _: (b"",)),
    "an error of one byte": lambda: at_dump(lambda _: (b"\xff",)),
    "an error of 10 MiB": lambda: at_dump(lambda _: (b"\xff\xd4\x04#HY000" + b"x" * 10 * MIB,)),
    "a rotation to ../../x": lambda: at_dump(lambda _: named("../../x.000001")),
    "a rotation to an absolute name": lambda: at_dump(lambda _: named("/tmp/x.000001")),
    "a rotation to a name of 300 characters": lambda: at_dump(lambda _: named("x" * 300 + ".000001")),
    "a rotation to a name with a zero byte": lambda: at_dump(lambda _: named("x\0.000001")),
    "endless rotations to one file": lambda: at_dump(lambda _: endless_names(False)),
    "endless rotations to new files": lambda: at_dump(lambda _: endless_names(True)),
    "a request for a file": lambda: at_dump(lambda _: (LOCAL_FILE,)),
    "a request for a file as answer to the registration": lambda: (
        lambda packet: (LOCAL_FILE,) if packet.command[:1] == b"\x15" else honest(packet)
    ),
}


def in_ci(lies: Iterable[str], *chosen: str) -> list[object]:
    """All of them, those not chosen in `make chaos` only."""
    return [lie if lie in chosen else pytest.param(lie, marks=pytest.mark.chaos) for lie in lies]


@pytest.mark.parametrize(
    "lie",
    in_ci(
        DUMP_LIES,
        "an event that says it has 4 GiB",
        "an event of 20 MiB that goes on for ever",
        "a rotation to ../../x",
        "a rotation to an absolute name",
        "a rotation to a name of 300 characters",
        "endless rotations to new files",
        "a request for a file",
    ),
)
def test_a_lie_in_the_dump_ends_the_pull(upstream: ThrowawayServer, lie: str, tmp_path: Path) -> None:
    with HostileProxy(upstream.host, upstream.port, DUMP_LIES[lie]()) as proxy:
        error = pulled(source_of(upstream, proxy.port), tmp_path)
        assert proxy.uploaded == b""
        # Each connection is refused after at most one event of the size it says, some socket buffers, and the login.
        assert proxy.sent < proxy.connections * 64 * MIB
    assert isinstance(error, DMError), error
    assert len(str(error)) < 10_000
    nothing_outside(tmp_path)


def pulled(source: SourceConfig, tmp_path: Path) -> BaseException | None:
    """What a relay of this source says, at its end or while it waits."""
    unit = RelayUnit(source, tmp_path / "in" / "relay", heartbeat_seconds=HEARTBEAT)
    running = UnitThread(unit)
    try:
        wait_until(lambda: running.error is not None or unit.trouble is not None, "the relay to complain")
        return running.error or unit.trouble
    finally:
        running.stop(PATIENCE)


def nothing_outside(tmp_path: Path) -> None:
    """Only the relay directory was written to, and in it only files of known names."""
    root = tmp_path / "in" / "relay"
    for path in tmp_path.rglob("*"):
        assert path in (root.parent, root) or root in path.parents, path
    known = {sub.name for sub in RelayDirectory(root).sub_directories()}
    for path in root.rglob("*"):
        if path.is_dir():
            assert path.name in known, path
    assert len(list(root.rglob("*"))) < 20


@pytest.mark.parametrize("lie", in_ci(DUMP_LIES, "endless rotations to new files", "a request for a file"))
def test_a_lie_ends_the_stream_of_a_task_without_relay(upstream: ThrowawayServer, lie: str) -> None:
    with HostileProxy(upstream.host, upstream.port, DUMP_LIES[lie]()) as proxy:
        source = RemoteEventSource(endpoint_of(upstream, proxy.port), identity_for("t", "s"))
        found = complaint(source, Position("", binlog_end_of(upstream).file))
        assert found.kind.scope in ("upstream", "not-set"), found
        assert proxy.uploaded == b""


def complaint(source: RemoteEventSource, start: Position) -> DMError:
    """What the source ends with, or says while it tries again."""
    try:
        for event in source.events(start, threading.Event()):
            if event is None and source.trouble is not None:
                return source.trouble
    except DMError as error:
        return error
    raise AssertionError("the stream ended without a word")


def binlog_end_of(server: ThrowawayServer) -> Position:
    connection = connect(endpoint_of(server))
    try:
        return binlog_end(connection)
    finally:
        connection.close()


def columns_without_end(count: int) -> Iterator[bytes]:
    definition = b"\x03def" + b"\0" * 5 + b"\x0c\x2d\x00\x00\x04\x00\x00\xfd\x00\x00\x00\x00\x00"
    return itertools.chain((b"\xfe" + struct.pack("<Q", count),), itertools.repeat(definition))


def rows_without_end(packet: Packet) -> Iterator[bytes]:
    """The real columns, then one large row for ever."""
    value = bytes(MIB)
    row = b"\xfd" + struct.pack("<I", len(value))[:3] + value
    return itertools.chain((packet.payload,), itertools.repeat(row * 2))


def at_variables(lie: Callable[[Packet], Iterable[bytes]], number: int = 0) -> Rewrite:
    """Lie in the answer to the first question."""
    return lambda packet: (
        lie(packet) if packet.answers(b"SHOW GLOBAL VARIABLES") and packet.number == number else honest(packet)
    )


def said_of(variable: bytes, value: bytes) -> Rewrite:
    """Another value of a variable."""

    def lie(packet: Packet) -> Iterable[bytes]:
        name = bytes([len(variable)]) + variable
        if packet.answers(b"SHOW GLOBAL VARIABLES") and packet.payload.startswith(name):
            return (name + bytes([len(value)]) + value,)
        return honest(packet)

    return lie


ANSWER_LIES: dict[str, Callable[[], Rewrite]] = {
    "a request for a file": lambda: at_variables(lambda _: (LOCAL_FILE,)),
    "2^62 columns": lambda: at_variables(lambda _: columns_without_end(1 << 62)),
    "rows without end": lambda: at_variables(rows_without_end, 3),
    "no column at all": lambda: at_variables(lambda _: (b"\x00\x00\x00\x02\x00\x00\x00",)),
    "columns of nothing": lambda: at_variables(lambda _: (b"\x02", b"", b"")),
    "an empty packet": lambda: at_variables(lambda _: (b"",)),
    "a row of nonsense": lambda: at_variables(lambda _: (b"\xfd\xff\xff\xff",), 4),
    "a server_uuid that leads away": lambda: said_of(b"server_uuid", b"../../../x"),
    "a server id that is no number": lambda: said_of(b"server_id", b"1; DROP"),
    "a version that is none": lambda: said_of(b"version", b"%s%n{}"),
}


@pytest.mark.parametrize("lie", ANSWER_LIES)
def test_a_lie_in_an_answer_is_an_error(mysql: ThrowawayServer, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "ANSWER_BYTES", 3 * MIB)  # the lies without end end sooner
    with HostileProxy(mysql.host, mysql.port, ANSWER_LIES[lie]()) as proxy:
        connection = connect(endpoint_of(mysql, proxy.port))
        try:
            with pytest.raises(DMError) as raised:
                read_facts(connection)
        finally:
            connection.close()
        assert raised.value.name in ("server-answer-garbled", "server-version-unknown", "connection-lost")
        assert proxy.uploaded == b""
        assert proxy.sent < 16 * MIB


@pytest.mark.parametrize("lie", in_ci(ANSWER_LIES, "a server_uuid that leads away"))
def test_a_lie_in_an_answer_ends_the_pull(
    mysql: ThrowawayServer, lie: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(login, "ANSWER_BYTES", 3 * MIB)
    with HostileProxy(mysql.host, mysql.port, ANSWER_LIES[lie]()) as proxy:
        assert isinstance(pulled(source_of(mysql, proxy.port), tmp_path), DMError)
        assert proxy.uploaded == b""
    nothing_outside(tmp_path)


def test_an_honest_answer_of_many_rows_is_read(mysql: ThrowawayServer) -> None:
    connection = connect(endpoint_of(mysql))
    try:
        assert len(fetch(connection, "SELECT a.x FROM (" + " UNION ALL ".join(["SELECT 1 x"] * 1000) + ") a")) == 1000
    finally:
        connection.close()


HANDSHAKES = {
    "nothing but zeros": bytes(80),
    "an empty packet": b"",
    "one byte": b"\x0a",
    "protocol 9": b"\x09" + b"3.23\0" + bytes(20),
    "a web server": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a version without end": b"\x0a" + b"8" * 70_000,
    "an unknown character set": b"\x0a9.9.9\0"
    + b"\1\0\0\0"
    + b"saltsalt\0"
    + b"\xff\xff\xff\xff\xff\xff\xff\x15"
    + bytes(23),
    "a request for a file": LOCAL_FILE,
    "an error without words": b"\xff\x00\x00",
}


@pytest.mark.parametrize("greeting", HANDSHAKES)
def test_a_garbled_greeting_is_an_error(mysql: ThrowawayServer, greeting: str) -> None:
    def lie(packet: Packet) -> Iterable[bytes]:
        return (HANDSHAKES[greeting],) if not packet.command and packet.number == 0 else honest(packet)

    with HostileProxy(mysql.host, mysql.port, lie) as proxy:
        with pytest.raises(DMError) as raised:
            connect(endpoint_of(mysql, proxy.port), connect_timeout=1)
        assert raised.value.name in ("connection-failed", "query-failed", "statement-failed", "access-denied")


def test_a_server_that_asks_for_the_password_in_clear_does_not_get_it(mysql: ThrowawayServer) -> None:
    seen: list[bytes] = []

    def lie(packet: Packet) -> Iterable[bytes]:
        seen.append(packet.command)
        return (b"\xfemysql_clear_password\0",) if packet.number == 1 and not packet.command else honest(packet)

    with HostileProxy(mysql.host, mysql.port, lie) as proxy:
        with pytest.raises(DMError) as raised:
            connect(endpoint_of(mysql, proxy.port))
        assert raised.value.name == "login-unsafe"
        assert mysql.password.encode() not in proxy.uploaded + b"".join(seen)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(2, 30))])
def test_noise_in_the_dump_is_never_stored(upstream: ThrowawayServer, seed: int, tmp_path: Path) -> None:
    """A byte of the first events is another one: refused, or noticed by the checksum, and asked for again."""
    chance = random.Random(seed)
    after, at, bit = chance.randrange(1, 4), chance.random(), 1 << chance.randrange(8)

    def noise(packet: Packet) -> Iterable[bytes]:
        event = bytearray(packet.payload)
        event[int(at * len(event))] ^= bit
        return (bytes(event),)

    upstream.execute("FLUSH BINARY LOGS", f"CREATE DATABASE noise{seed}", f"DROP DATABASE noise{seed}")
    print(f"seed {seed}: event {after}, at {at:.0%} of it, bit {bit}")
    with HostileProxy(upstream.host, upstream.port, at_dump(noise, after=after)) as proxy:
        error = pulled(source_of(upstream, proxy.port, first=binlog_end_of(upstream).file), tmp_path)
    assert isinstance(error, DMError), error
    nothing_outside(tmp_path)
    (sub,) = RelayDirectory(tmp_path / "in" / "relay").sub_directories()
    for name in sub.files():
        stored = (sub.path / name).read_bytes()
        theirs = (Path(upstream.data) / name).read_bytes()[: len(stored)]
        assert stored[22:] == theirs[22:], name  # before it stands the flag that says the file is in use


def test_the_lies_are_told_by_packets_that_a_client_understands(upstream: ThrowawayServer, tmp_path: Path) -> None:
    """Without a lie the proxy is not noticed: what the tests above see is the lie, not the proxy."""
    kinds: list[int] = []

    def watch(packet: Packet) -> Iterable[bytes]:
        if packet.of_dump and len(packet.payload) > HEADER_SIZE:
            kinds.append(packet.payload[5])
        return honest(packet)

    with HostileProxy(upstream.host, upstream.port, watch) as proxy:
        source = source_of(upstream, proxy.port, first=binlog_end_of(upstream).file)
        unit = RelayUnit(source, tmp_path, heartbeat_seconds=HEARTBEAT)
        stop = threading.Event()
        thread = threading.Thread(target=unit.run, args=(stop,))
        thread.start()
        try:
            wait_until(lambda: unit.status()["relayCatchUpMaster"] is True, "the relay to catch up")
        finally:
            stop.set()
            thread.join(PATIENCE)
    assert unit.trouble is None
    assert kinds[:2] == [EventType.ROTATE, EventType.FORMAT_DESCRIPTION]
