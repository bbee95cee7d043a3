"""Relay files on real servers: who keeps which, a purge that is killed, a disk that gets full and has room again."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dm.config.source import Purge, SourceConfig
from dm.demo.servers import ThrowawayServer
from dm.position import MAGIC_SIZE, Position
from dm.relay.purge import GIB
from dm.relay.unit import RelayUnit
from dm.sourcelog.relaylog.hold import Hold, needs
from dm.sourcelog.relaylog.layout import RelayDirectory, file_number
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.unit import JSON
from dm.verbs.sources import ShowSources
from tests.live.relay.relaying import (
    HEARTBEAT,
    PATIENCE,
    RelayProcess,
    differences,
    flush_logs,
    has_reached,
    read_to,
    source_of,
    wait_equal,
    wait_until,
)
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.unit.worker.home import REAL_DAEMON, TestHome, until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

# By itself, each second, whatever nobody needs: there is never so much space.
GREEDY = Purge(interval=1, remain_space=10**9, pause_space=0)
LOW = 30940
FAILED_WRITE = 30911


def stored(root: Path) -> list[str]:
    sub = RelayDirectory(root).last()
    return [] if sub is None else sub.files()


@dataclass
class TwoTasks:
    """A daemon with a greedy relay and the tasks a and b, which follow a schema each."""

    home: TestHome
    upstream: ThrowawayServer
    target: ThrowawayServer
    schemas: dict[str, str]

    @property
    def root(self) -> Path:
        return self.home.directory / "relay" / "one"

    def start(self) -> None:
        def login(server: ThrowawayServer) -> str:
            return f"{{host: {server.host}, port: {server.port}, user: {server.user}, password: '{server.password}'}}"

        purge = "enable-relay: true\npurge: {interval: 1, remain-space: 1000000000, pause-space: 0}\n"
        source = self.home.file("one.yaml", f"source-id: one\n{purge}from: {login(self.upstream)}\n")
        self.home.ok("operate-source", "create", source)
        until(lambda: stored(self.root))
        for task, schema in self.schemas.items():
            self.home.ok(
                "start-task",
                self.home.file(
                    f"{task}.yaml",
                    f"name: {task}\ntask-mode: incremental\ntarget-database: {login(self.target)}\n"
                    f"meta-schema: meta_{schema}\nignore-checking-items: [all]\n"
                    "mysql-instances:\n  - {source-id: one, block-allow-list: b}\n"
                    f"block-allow-list: {{b: {{do-dbs: [{schema}]}}}}\n",
                ),
            )
        until(lambda: len(self.held()) == 2 and all(self.held().values()))  # they begin at the end, and that is known

    def write(self, task: str, number: int) -> None:
        self.upstream.execute(f"INSERT INTO {self.schemas[task]}.t VALUES ({number})")

    def rows(self, task: str) -> list[int]:
        return [row[0] for row in self.target.query(f"SELECT id FROM {self.schemas[task]}.t ORDER BY id")]

    def held(self) -> dict[str, str]:
        return {need.task: need.file for need in needs(self.root)}

    def relay(self) -> Any:
        return self.home.ask(ShowSources())["sources"][0]["relayStatus"]


@pytest.fixture
def two_tasks(
    tmp_path: Path, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> Iterator[TwoTasks]:
    schemas = {task: schema(upstream, target, prefix=task) for task in ("a", "b")}
    for server in (upstream, target):
        server.execute(*(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)" for name in schemas.values()))
    one = TestHome(tmp_path / "home", program=REAL_DAEMON)
    one.start()
    yield TwoTasks(one, upstream, target, schemas)
    one.said("shutdown")
    target.execute(*(f"DROP DATABASE IF EXISTS meta_{name}" for name in schemas.values()))


def test_what_a_paused_task_needs_stays_although_another_is_six_files_ahead(two_tasks: TwoTasks) -> None:
    two_tasks.start()
    for number in (1, 2):
        flush_logs(two_tasks.upstream)
        for task in ("a", "b"):
            two_tasks.write(task, number)
    until(lambda: two_tasks.rows("a") == two_tasks.rows("b") == [1, 2])
    third = stored(two_tasks.root)[-1]
    until(lambda: two_tasks.held() == {"a": third, "b": third})
    two_tasks.home.ok("pause-task", "b")
    for number in range(3, 9):
        two_tasks.write("b", number)
        flush_logs(two_tasks.upstream)
        two_tasks.write("a", number)
    until(lambda: two_tasks.rows("a") == list(range(1, 9)))
    ninth = stored(two_tasks.root)[-1]
    assert file_number(ninth) == file_number(third) + 6
    until(lambda: two_tasks.held() == {"a": ninth, "b": third})

    kept = f"task b needs the files from {third} on"
    until(lambda: two_tasks.relay()["storage"]["lastPurge"]["keptBack"] == kept)
    until(lambda: stored(two_tasks.root)[0] == third)
    by_hand = two_tasks.home.said("purge-relay", "-s", "one", "--filename", ninth)
    assert (by_hand.status, by_hand.out.splitlines()) == (
        0,
        ["one: 0 files removed, 0.0 MB", f"one: the others stay: {kept}"],
    )
    assert len(stored(two_tasks.root)) == 7

    two_tasks.home.ok("resume-task", "b")
    until(lambda: two_tasks.rows("b") == list(range(1, 9)))
    assert two_tasks.home.ok("query-status", "b")["sources"][0]["subTaskStatus"][0]["sync"]["binlogType"] == "local"
    until(lambda: stored(two_tasks.root) == [ninth])
    two_tasks.home.ok("stop-task", "a")
    assert list(two_tasks.held()) == ["b"]


@pytest.mark.chaos
def test_start_time_is_found_in_the_relay_although_the_task_has_a_later_checkpoint(two_tasks: TwoTasks) -> None:
    """The task that goes back is in safe mode until it is where it was, so rows that it did are not in its way."""
    upstream, table = two_tasks.upstream, f"{two_tasks.schemas['a']}.t"
    two_tasks.start()
    two_tasks.home.ok("pause-task", "b")  # it keeps the relay's files
    two_tasks.write("a", 1)
    flush_logs(upstream)
    began = _next_second(upstream)
    two_tasks.write("a", 2)
    second = upstream.query("SHOW BINARY LOGS")[-1][0]
    flush_logs(upstream)
    two_tasks.write("a", 3)
    until(lambda: two_tasks.rows("a") == [1, 2, 3])
    two_tasks.home.ok("stop-task", "a")
    two_tasks.target.execute(f"DELETE FROM {table}", f"INSERT INTO {table} VALUES (3)")
    said = two_tasks.home.said("start-task", "a.yaml", "--start-time", began)
    assert said.status == 0, said.err
    assert f"source one begins at ({second}, " in said.err
    two_tasks.write("a", 4)
    until(lambda: two_tasks.rows("a") == [2, 3, 4])


def _next_second(server: ThrowawayServer) -> str:
    """A second of the source's clock, in its zone, before which everything so far lies."""
    now = "SELECT NOW(), UNIX_TIMESTAMP()"
    began = server.query(now)[0]
    wait_until(lambda: server.query(now)[0][1] > began[1], "the next second")
    return str(server.query(now)[0][0])


# -- a disk that gets full


class Disk:
    """What the relay is told of its disk."""

    def __init__(self) -> None:
        self.free = 100 * GIB

    def __call__(self, _: Path) -> int:
        return self.free


@contextmanager
def relay_on(source: SourceConfig, root: Path, disk: Disk) -> Iterator[RelayUnit]:
    unit = RelayUnit(source, root, heartbeat_seconds=HEARTBEAT, free_space=disk)
    stop = threading.Event()
    thread = threading.Thread(target=unit.run, args=(stop,))
    thread.start()
    try:
        yield unit
    finally:
        stop.set()
        thread.join()


def code_of(unit: RelayUnit) -> int | None:
    result: Any = unit.status()["result"]
    errors = result["errors"]
    return errors[0]["ErrCode"] if errors else None


def test_a_full_disk_lets_the_relay_wait_while_readers_go_on_and_room_lets_it_go_on(
    upstream: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name, disk = schema(upstream), Disk()
    flush_logs(upstream)
    with relay_on(source_of(upstream, first=_last_file(upstream)), tmp_path, disk) as unit:
        upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1)")
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay")
        here = stored(tmp_path)[-1], (RelayDirectory(tmp_path).last().path / stored(tmp_path)[-1]).stat().st_size  # type: ignore[union-attr]
        disk.free = GIB // 2
        wait_until(lambda: code_of(unit) == LOW, "the relay waits for space")
        storage: Any = unit.status()["storage"]
        assert (unit.status()["stage"], storage["waitsForSpace"]) == ("Running", True)
        upstream.execute(f"INSERT INTO {name}.t VALUES (2)")
        assert not has_reached(tmp_path, upstream), "no pull is under way"
        start = Position("", here[0], MAGIC_SIZE)
        assert read_to(RelayEventSource(tmp_path, upstream.flavor), start, here)[-1][1:3] == here
        disk.free = 2 * GIB
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay goes on")
        wait_until(lambda: code_of(unit) is None, "and says so")


def _last_file(server: ThrowawayServer) -> str:
    return str(server.query("SHOW BINARY LOGS")[-1][0])


def test_a_write_that_meets_a_full_disk_is_cut_back_and_done_again(
    upstream: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the bytes fit, then none: what statvfs does not show (a quota) is met by the write itself."""
    name, full, write = schema(upstream), threading.Event(), os.write
    halves: list[int] = []

    def limited(descriptor: int, data: Any) -> int:
        relay = os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(tmp_path))
        if not full.is_set() or not relay or len(data) < 1000:  # what comes before the large event still fits
            return write(descriptor, data)
        if len(halves) % 2:
            halves.append(0)
            raise OSError(errno.ENOSPC, "No space left on device")
        halves.append(write(descriptor, data[: len(data) // 2]))
        return halves[-1]

    flush_logs(upstream)
    first = _last_file(upstream)
    with relay_on(source_of(upstream, first=first), tmp_path, Disk()) as unit:
        upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v LONGBLOB)")
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay")
        monkeypatch.setattr(os, "write", limited)
        full.set()
        upstream.execute(f"INSERT INTO {name}.t VALUES (1, REPEAT('x', 300000))")
        wait_until(lambda: len(halves) >= 4, "two attempts that fail")
        wait_until(lambda: code_of(unit) == FAILED_WRITE, "the relay says why it waits")
        full.clear()
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay goes on")
    monkeypatch.undo()
    assert sum(halves) > 100_000, "half of a large event was in the file"
    found = [line for line in differences(tmp_path, upstream) if not line.endswith("is missing")]
    assert found == []


# -- a purge that is killed


def purging(source: SourceConfig) -> SourceConfig:
    return source.model_copy(update={"purge": GREEDY})


POINTS = ("purge.decided", "purge.index_removed", "purge.file_removed")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.chaos)])
def test_a_purge_that_is_killed_under_load_leaves_a_relay_that_is_the_source_s(
    upstream: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, kills: int
) -> None:
    name = schema(upstream)
    seed = int(os.environ.get("DM_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
    print(f"DM_SEED={seed}")
    chance = random.Random(seed)
    flush_logs(upstream)
    source = purging(source_of(upstream, first=_last_file(upstream)))
    hold = Hold(tmp_path, "t")
    hold.create()
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARBINARY(4000))")
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            upstream.execute(*(f"INSERT INTO {name}.t (v) VALUES (REPEAT('x', 4000))" for _ in range(20)))
            flush_logs(upstream)

    writer = threading.Thread(target=load)
    writer.start()
    died: dict[str, int] = {}
    removed = 0
    try:
        for number in range(kills):
            point = POINTS[number % len(POINTS)]
            with RelayProcess(source, tmp_path, faults=f"{point}=kill@{chance.randint(1, 4)}") as relay:
                before = len(stored(tmp_path))
                _advance(hold, tmp_path, relay)
                assert relay.wait() == -9
            died[point] = died.get(point, 0) + 1
            removed += max(0, before - len(stored(tmp_path)))
            _is_sound(tmp_path, upstream)
    finally:
        over.set()
        writer.join()
    with RelayProcess(source, tmp_path) as relay:
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay")
        newest = stored(tmp_path)[-1]
        hold.keep_from(Position(_uuid(tmp_path), newest))
        wait_until(lambda: stored(tmp_path) == [newest], "everything else is purged")
        assert relay.close() == 0
    _is_sound(tmp_path, upstream)
    assert set(died) == set(POINTS)
    if kills > len(POINTS):
        record(f"relay.purge_killed.{upstream.flavor}", {"kills": dict[str, JSON](died), "seed": seed})


def _advance(hold: Hold, root: Path, relay: RelayProcess) -> None:
    """Let go of all but the newest two files again and again, until the relay dies of it."""
    end = time.monotonic() + PATIENCE
    while relay.running:
        assert time.monotonic() < end, "nobody was killed"
        files = stored(root)
        if len(files) > 2:
            hold.keep_from(Position(_uuid(root), files[-2]))
        time.sleep(0.05)


def _uuid(root: Path) -> str:
    sub = RelayDirectory(root).last()
    assert sub is not None
    return sub.server_uuid


def _is_sound(root: Path, server: ThrowawayServer) -> None:
    """No gap, what the hold names is there, no index without its file, bytes are the source's."""
    files = stored(root)
    numbers = [file_number(file) for file in files]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    (need,) = needs(root)
    assert need.everything or need.file in files
    sub = RelayDirectory(root).last()
    assert sub is not None
    assert {path.stem for path in sub.path.glob("*.idx")} <= set(files)
    for file in files[:-1]:
        theirs = bytearray((Path(server.data) / file).read_bytes())
        ours = bytearray(sub.file(file).read_bytes())
        theirs[21] &= 0xFE
        assert ours == theirs, file


@pytest.mark.chaos
def test_the_relay_notices_a_full_disk_and_new_room_within_five_seconds(
    server: ServerFactory, flavor: Any, tmp_path: Path
) -> None:
    one, disk, seconds = server(flavor), Disk(), {"low": 0.0, "room": 0.0}
    with relay_on(source_of(one), tmp_path, disk) as unit:
        wait_equal(tmp_path, one)
        for round_ in range(6):
            low = round_ % 2 == 0
            disk.free = 0 if low else 100 * GIB
            began = time.monotonic()
            wait_until(lambda low=low: (code_of(unit) == LOW) is low, "the change")  # type: ignore[misc]
            key = "low" if low else "room"
            seconds[key] = max(seconds[key], time.monotonic() - began)
    record(f"relay.disk_low.{flavor}", {f"longest_seconds_to_{key}": round(value, 2) for key, value in seconds.items()})
    assert max(seconds.values()) <= 6.0  # 5 s, and the poll's own time
