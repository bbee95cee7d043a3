"""What the relay's live tests share: a relay, in this process or in one to kill, and the files to compare."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.config.source import SourceConfig
from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.event import EventSource, SourceEvent
from dm.mysql.binlog.header import EventType
from dm.position import Position
from dm.relay.unit import RelayUnit
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory
from tests.testbed.unit_thread import UnitThread

HEARTBEAT = 1.0
PATIENCE = 60.0  # a deadline and no measure: the machine may be busy
POLL = 0.1  # each look is a new connection
IN_USE_FLAG_AT = 21  # of the format description: the one byte in which an active file differs


def endpoint_of(server: ThrowawayServer, port: int | None = None) -> Endpoint:
    return Endpoint(host=server.host, port=port or server.port, user=server.user, password=SecretStr(server.password))


def source_of(server: ThrowawayServer, port: int | None = None, *, first: str | None = None) -> SourceConfig:
    """The server as a source whose relay starts with its first file."""
    name = binlogs(server)[0][0] if first is None else first
    return SourceConfig(source_id="replica-01", endpoint=endpoint_of(server, port), relay_binlog_name=name)


def binlogs(server: ThrowawayServer) -> list[tuple[str, int]]:
    return [(str(row[0]), int(row[1])) for row in server.query("SHOW BINARY LOGS")]


def flush_logs(server: ThrowawayServer) -> None:
    server.execute("FLUSH BINARY LOGS")


def end_of(server: ThrowawayServer) -> tuple[str, int]:
    return binlogs(server)[-1]


def replicate(old: ThrowawayServer, new: ThrowawayServer) -> None:
    """Make the new server a replica of the old one."""
    login = f"'{old.host}', {{}}_PORT = {old.port}, {{}}_USER = '{old.user}', {{}}_PASSWORD = '{old.password}'"
    if old.flavor == "mysql":
        new.execute(
            "RESET BINARY LOGS AND GTIDS",
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = "
            + login.replace("{}", "SOURCE")
            + ", SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
        )
    else:
        new.execute("CHANGE MASTER TO MASTER_HOST = " + login.replace("{}", "MASTER") + ", MASTER_USE_GTID = slave_pos")
    new.execute("START REPLICA")


def wait_until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, f"waited {PATIENCE:g} s for {what}"
        time.sleep(POLL)


def newest(root: Path) -> SubDirectory:
    sub = RelayDirectory(root).last()
    assert sub is not None, f"{root} has no sub-directory"
    return sub


def last_directory(root: Path) -> Path:
    return newest(root).path


def has_reached(root: Path, server: ThrowawayServer) -> bool:
    """Whether the relay's newest file is as long as the server's."""
    file, size = end_of(server)
    sub = RelayDirectory(root).last()
    stored = None if sub is None else sub.path / file
    return stored is not None and stored.exists() and stored.stat().st_size >= size


def differences(root: Path, server: ThrowawayServer) -> list[str]:
    """Where the relay's files are not the server's, the in-use flag of an active file left aside."""
    found: list[str] = []
    newest = RelayDirectory(root).last()
    assert newest is not None
    for name, size in binlogs(server):
        if name not in newest.files():
            found.append(f"{name} is missing")
            continue
        theirs = bytearray((Path(server.data) / name).read_bytes()[:size])
        try:
            ours = bytearray((newest.path / name).read_bytes())
        except FileNotFoundError:  # the relay of a source that was reset sets the files aside
            found.append(f"{name} is gone")
            continue
        theirs[IN_USE_FLAG_AT] &= 0xFE
        if theirs != ours:
            at = next((i for i, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1]), -1)
            found.append(f"{name}: {len(theirs)} and {len(ours)} bytes, first difference at {at}")
    return found


def at_rest(server: ThrowawayServer) -> bool:
    """Whether the server adds nothing to its binlog by itself.

    MariaDB adds a checkpoint event to a new file when no older one is needed for recovery, a second or so later. It is
    the one that names the file itself.
    """
    if server.flavor == "mysql":
        return True
    name, size = end_of(server)
    named = len(name).to_bytes(4, "little") + name.encode()
    return named in (Path(server.data) / name).read_bytes()[:size]


def wait_equal(root: Path, server: ThrowawayServer) -> None:
    """Wait until the relay has what the server has, and the server is at rest."""
    end = time.monotonic() + PATIENCE
    found: list[str] = []
    while not at_rest(server) or not has_reached(root, server) or (found := differences(root, server)):
        assert time.monotonic() < end, (
            found if has_reached(root, server) else f"the relay has not reached {end_of(server)}"
        )
        time.sleep(POLL)


@contextmanager
def relaying(source: SourceConfig, root: Path) -> Iterator[RelayUnit]:
    """A relay in a thread of this process; its error, if it ended with one, is raised at the end."""
    unit = RelayUnit(source, root, heartbeat_seconds=HEARTBEAT)
    with UnitThread(unit, "relay-unit"):
        yield unit


class RelayProcess:
    """A relay in a process that may be armed with faults and killed."""

    def __init__(self, source: SourceConfig, root: Path, *, faults: str = "") -> None:
        environment = dict(os.environ, DM_FAULTS=faults)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.relay.relay_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=Path(__file__).parents[3],
            text=True,
        )
        assert self._process.stdin is not None
        given = {"source": source.to_wire(), "directory": str(root), "heartbeat": HEARTBEAT}
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        """Wait for its end; the return code, negative for a signal."""
        return self._process.wait(PATIENCE)

    def close(self) -> int:
        """End it in order."""
        try:
            self._process.communicate(timeout=PATIENCE)
        finally:
            self._process.kill()
        return self._process.returncode

    def __enter__(self) -> RelayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


Shown = tuple[str, str, int, int, int, bytes]


def shown(event: SourceEvent) -> Shown:
    """An event in a form to compare; a format description's bytes depend on who repeats it."""
    header = event.raw.header
    same_bytes = b"" if header.type == EventType.FORMAT_DESCRIPTION else event.raw.data
    return (event.server_uuid, event.file, event.end_offset, header.type, header.flags, same_bytes)


def read_to(source: EventSource, start: Position, end: tuple[str, int]) -> list[Shown]:
    """Everything a source gives from `start` to the file and offset, without heartbeats."""
    stop = threading.Event()
    found: list[Shown] = []
    until = time.monotonic() + PATIENCE
    for event in source.events(start, stop):
        if event is None:
            assert time.monotonic() < until, f"nothing more comes, {end} is not reached"
            continue
        if event.raw.header.type in {EventType.HEARTBEAT, EventType.HEARTBEAT_V2}:
            continue
        found.append(shown(event))
        if (event.file, event.end_offset) == end:
            break
    return found
