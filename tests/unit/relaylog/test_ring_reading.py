"""Readers of a relay with a ring: every event exactly once and in order, from wherever it comes, and nobody waits."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.binlog.event_source import SourceEvent
from dm.position import Position
from dm.relaylog.relay_source import RelayEventSource
from dm.relaylog.ring import possible
from dm.relaylog.ring_reader import MappedRing
from dm.unit import JSON
from tests.testbed.figures import record
from tests.unit.relaylog.binlog_bytes import SERVER
from tests.unit.relaylog.small_relay import FILE, SmallRelay, is_stored

pytestmark = pytest.mark.skipif(not possible(), reason="no ring on this machine")

START = Position(SERVER, FILE.format(1))


class Reader:
    """Reads as far as it is told to."""

    def __init__(self, root: Path) -> None:
        self.source = RelayEventSource(root, "mysql", idle_seconds=0.05)
        self._stop = threading.Event()
        self._events = self.source.events(START, self._stop)
        self.found: list[tuple[str, int, bytes]] = []
        self.taken: Counter[str] = Counter()

    def take(self, count: int) -> None:
        """Up to so many events, at most what there is."""
        for _ in range(count):
            event = next(self._events)
            if event is None:
                return
            self._keep(event)

    def take_all(self) -> None:
        while (event := next(self._events)) is not None:
            self._keep(event)

    def _keep(self, event: SourceEvent) -> None:
        if is_stored(event):
            self.found.append((event.file, event.end_offset, event.raw.data))
            self.taken[str(self.source.reading["readMode"])] += 1

    @property
    def switches(self) -> int:
        return int(str(self.source.reading["readModeSwitches"]))

    def close(self) -> None:
        self._stop.set()
        assert [event for event in self._events if event is not None] == []


@pytest.mark.parametrize("transactions", [150, pytest.param(2000, marks=pytest.mark.chaos)])
def test_twenty_switches_lose_and_repeat_nothing(tmp_path: Path, transactions: int) -> None:
    relay = SmallRelay(tmp_path, 16384)
    reader = Reader(tmp_path)
    reader.take_all()
    for cycle in range(10):
        relay.write(transactions)  # several times the ring: the reader is lapped
        if cycle % 3 == 2:
            relay.rotate()
        while len(reader.found) < len(relay.expected):
            reader.take_all()
        relay.write(5)
        while len(reader.found) < len(relay.expected):
            reader.take_all()
        assert reader.source.reading["readMode"] == "memory"
    assert reader.switches >= 20
    assert min(reader.taken["memory"], reader.taken["file"]) >= 100, reader.taken
    assert reader.found == relay.expected
    record("ring.switches", {"switches": reader.switches, "events": len(reader.found), "lost": 0, "repeated": 0})
    reader.close()
    relay.close()


def test_nothing_is_lost_or_repeated_whatever_happens_to_the_relay(tmp_path_factory: pytest.TempPathFactory) -> None:
    taken: Counter[str] = Counter()

    @given(st.integers(0, 1 << 32))
    @settings(max_examples=25, deadline=None)
    def check(seed: int) -> None:
        chance = random.Random(seed)
        root = tmp_path_factory.mktemp("relay")
        relay = SmallRelay(root, 8192)
        reader = Reader(root)
        for _ in range(25):
            what = chance.choices(["write", "take", "all", "rotate", "die", "stop"], [10, 8, 6, 2, 1, 1])[0]
            if what == "write":
                relay.write(chance.randint(1, 30), chance.choice([0, 40, 3000]))
            elif what in {"take", "all"} and len(reader.found) == len(relay.expected):
                continue  # it would wait for something
            elif what == "take":
                reader.take(chance.randint(1, 60))
            elif what == "all":
                reader.take_all()
            elif what == "die":
                relay.die(chance.choice([40, 3000]))
            else:
                getattr(relay, what)()
        while len(reader.found) < len(relay.expected):
            reader.take_all()
        assert reader.found == relay.expected
        taken.update(reader.taken)
        reader.close()
        relay.close()

    check()
    assert min(taken["memory"], taken["file"]) > 500, taken


def test_a_damaged_ring_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = MappedRing.copy
    copies = damaged = 0

    def with_a_flipped_bit(ring: MappedRing, at: int, size: int) -> list[bytes]:
        nonlocal copies, damaged
        events = copy(ring, at, size)
        copies += 1
        if events and copies % 3 == 0:
            damaged += 1
            last = bytearray(events[-1])
            last[25] ^= 4
            events[-1] = bytes(last)
        return events

    monkeypatch.setattr(MappedRing, "copy", with_a_flipped_bit)
    relay = SmallRelay(tmp_path, 16384)
    reader = Reader(tmp_path)
    for _ in range(30):
        relay.write(1)
        reader.take_all()
    while len(reader.found) < len(relay.expected):
        reader.take_all()
    assert reader.found == relay.expected
    assert damaged > 5
    reader.close()
    relay.close()


def test_a_relay_that_died_between_file_and_ring_is_read_from_its_file(tmp_path: Path) -> None:
    relay = SmallRelay(tmp_path, 16384)
    reader = Reader(tmp_path)
    relay.write(3)
    while len(reader.found) < len(relay.expected):
        reader.take_all()
    assert reader.source.reading["readMode"] == "memory"
    relay.writer._tap = None  # the write to the file was its last step
    relay.write(3)
    while len(reader.found) < len(relay.expected):
        reader.take_all()
    assert reader.source.reading["readMode"] == "file"
    assert reader.found == relay.expected
    reader.close()
    relay.close()


@contextmanager
def reading_process(root: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.relaylog.reading_process", str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def check_result(process: subprocess.Popen[str], relay: SmallRelay) -> dict[str, JSON]:
    """Tell the process where to end; what it has read must be everything, once and in order."""
    file, end, _ = relay.expected[-1]
    output, _ = process.communicate(f"{file} {end}\n")
    result: dict[str, JSON] = json.loads(output)
    digest = hashlib.sha256(b"".join(data for _, _, data in relay.expected)).hexdigest()
    assert (result["events"], result["digest"]) == (len(relay.expected), digest)
    return result


@pytest.mark.timeout(900)
@pytest.mark.parametrize("transactions", [4000, pytest.param(200_000, marks=pytest.mark.chaos)])
def test_another_process_reads_while_the_relay_writes(tmp_path: Path, transactions: int) -> None:
    relay = SmallRelay(tmp_path, 64 << 10)  # small, so that the writer is all the time about to overwrite
    chance = random.Random(transactions)
    with reading_process(tmp_path) as process:
        while relay.transactions < transactions:
            relay.write(chance.randint(1, 400), chance.choice([0, 40, 400]))
            if chance.random() < 0.05:
                relay.rotate()
        result = check_result(process, relay)
    record("ring.two_processes", {**result, "ring": 64 << 10})
    relay.close()


def test_a_stopped_reader_holds_nobody(tmp_path: Path) -> None:
    capacity = 256 << 10
    relay = SmallRelay(tmp_path, capacity)
    with reading_process(tmp_path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        before = relay.writer.bytes_written
        relay.write(4000)  # returns, or this test never ends
        relay.rotate()
        relay.write(1000)
        assert relay.writer.bytes_written - before > 4 * capacity
        assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        os.kill(process.pid, signal.SIGCONT)
        check_result(process, relay)
    relay.close()
