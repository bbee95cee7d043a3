"""Readers of a relay that writes: every event exactly once and in order, and no reader holds the writer."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.mysql.binlog.event import SourceEvent
from dm.position import Position
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.unit import JSON
from tests.testbed.figures import record
from tests.unit.sourcelog.relaylog.binlog_bytes import SERVER
from tests.unit.sourcelog.relaylog.small_relay import FILE, SmallRelay, is_stored

MIB = 1 << 20
START = Position(SERVER, FILE.format(1))


class Reader:
    """Reads as far as it is told to."""

    def __init__(self, root: Path) -> None:
        self.source = RelayEventSource(root, "mysql", idle_seconds=0.05)
        self._stop = threading.Event()
        self._events = self.source.events(START, self._stop)
        self.found: list[tuple[str, int, bytes]] = []

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

    def close(self) -> None:
        self._stop.set()
        assert [event for event in self._events if event is not None] == []


def test_a_reader_that_fell_behind_catches_up(tmp_path: Path) -> None:
    relay = SmallRelay(tmp_path)
    reader = Reader(tmp_path)
    reader.take_all()
    for cycle in range(10):
        relay.write(150)
        if cycle % 3 == 2:
            relay.rotate()
        reader.take(5)  # then it sleeps while the relay goes on
        relay.write(150)
        while len(reader.found) < len(relay.expected):
            reader.take_all()
    assert reader.found == relay.expected
    reader.close()
    relay.close()


def test_nothing_is_lost_or_repeated_whatever_happens_to_the_relay(tmp_path_factory: pytest.TempPathFactory) -> None:
    @given(st.integers(0, 1 << 32))
    @settings(max_examples=25, deadline=None)
    def check(seed: int) -> None:
        chance = random.Random(seed)
        root = tmp_path_factory.mktemp("relay")
        relay = SmallRelay(root)
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
        reader.close()
        relay.close()

    check()


@contextmanager
def reading_process(root: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.sourcelog.relaylog.reading_process", str(root)],
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
    relay = SmallRelay(tmp_path)
    chance = random.Random(transactions)
    with reading_process(tmp_path) as process:
        while relay.transactions < transactions:
            relay.write(chance.randint(1, 400), chance.choice([0, 40, 400]))
            if chance.random() < 0.05:
                relay.rotate()
        result = check_result(process, relay)
    record("relay.two_processes", result)
    relay.close()


def test_a_stopped_reader_holds_nobody(tmp_path: Path) -> None:
    relay = SmallRelay(tmp_path)
    with reading_process(tmp_path) as process:
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        before = relay.writer.bytes_written
        relay.write(4000)  # returns, or this test never ends
        relay.rotate()
        relay.write(1000)
        assert relay.writer.bytes_written - before > MIB
        assert Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        os.kill(process.pid, signal.SIGCONT)
        check_result(process, relay)
    relay.close()


def test_a_killed_reader_holds_nobody(tmp_path: Path) -> None:
    relay = SmallRelay(tmp_path)
    with reading_process(tmp_path) as process:
        process.kill()
        process.wait()
        relay.write(1000)
        relay.rotate()
        relay.write(1000)
    with reading_process(tmp_path) as process:
        check_result(process, relay)
    relay.close()
