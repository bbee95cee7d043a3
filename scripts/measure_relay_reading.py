"""What reading a relay costs from the ring and from the page cache: events and MB per CPU second, and wake-up latency.

    PYTHONPATH=. .venv/bin/python scripts/measure_relay_reading.py [bytes of a row ...]

The reading is that of the readers without the CRC-32 of every event, which costs both the same. The latency is from
before the writer's write to when a reader in another process has the transaction, one at a time, CRC-32 included.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dm.clock import SystemClock
from dm.position import MAGIC_SIZE, Position
from dm.relaylog.event_file import EventFile
from dm.relaylog.layout import RelayDirectory
from dm.relaylog.relay_source import RelayEventSource
from dm.relaylog.ring_reader import RingReader
from dm.relaylog.ring_writer import RingWriter
from dm.relaylog.writer import RelayWriter
from tests.unit.relaylog.binlog_bytes import SERVER, format_description, placed, previous_gtids, transaction

FILE = "mysql-bin.000001"
TOTAL = 48 << 20
ROUNDS = 15


def fill(writer: RelayWriter, size: int) -> int:
    writer.announce(FILE, MAGIC_SIZE)
    at = number = 0
    at = MAGIC_SIZE
    events = [format_description(), previous_gtids(0)]
    while at < TOTAL:
        for event in placed(events, at):
            at += len(event)
            writer.append(event, at)
        number += 1
        events = transaction(number, size)
    writer.flush()
    return at


def cost(read: Callable[[int], list[bytes] | None], end: int) -> tuple[int, float]:
    """How many events, and the CPU seconds to read them once."""
    began, at, count = time.process_time(), MAGIC_SIZE, 0
    while at < end:
        events = read(at)
        assert events
        count += len(events)
        at += sum(map(len, events))
    return count, time.process_time() - began


def latency(root: Path, writer: RelayWriter, at: int, rounds: int) -> list[float]:
    """Microseconds from before a write to when the other process has read all of it."""
    answers, told = os.pipe()
    child = os.fork()
    if not child:
        for item in RelayEventSource(root, "mysql").events(Position(SERVER, FILE, at), threading.Event()):
            if item is not None and item.raw.header.type == 16:
                os.write(told, b"x")
    found: list[float] = []
    try:
        for number in range(rounds):
            time.sleep(0.005)  # the reader has gone to sleep
            began = time.perf_counter()
            for event in placed(transaction(number + 1_000_000), at):
                at += len(event)
                writer.append(event, at)
            writer.flush()
            os.read(answers, 1)
            found.append((time.perf_counter() - began) * 1e6)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return found


def main() -> None:
    for size in [int(text) for text in sys.argv[1:]] or [40, 400, 4000]:
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            ring = RingWriter.create(root, 64 << 20)
            assert ring is not None
            writer = RelayWriter(RelayDirectory(root).add(SERVER), "mysql", SystemClock(), tap=ring)
            end = fill(writer, size)
            reader = RingReader(root)
            from_ring = partial(reader.read, writer.sub.name, FILE)
            assert from_ring(end) == []
            with EventFile(writer.sub.file(FILE)) as file:
                # In turns, because the machine has others to serve; the best of each.
                rounds = [(cost(file.read, end), cost(from_ring, end)) for _ in range(ROUNDS)]
            for number, label in enumerate(("file", "ring")):
                count, best = min((found[number] for found in rounds), key=lambda found: found[1])
                print(
                    f"rows of {size:4} bytes, {label}: {count / best:11,.0f} events,"
                    f" {end / best / 1e6:6,.0f} MB per CPU second"
                )
            reader.close()
            writer.close()
            ring.close()
    for label, size in (("file", 0), ("ring", 64 << 20)):
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            ring = RingWriter.create(root, size)
            writer = RelayWriter(RelayDirectory(root).add(SERVER), "mysql", SystemClock(), tap=ring)
            writer.announce(FILE, MAGIC_SIZE)
            at = MAGIC_SIZE
            for event in placed([format_description(), previous_gtids(0)], at):
                at += len(event)
                writer.append(event, at)
            writer.flush()
            found = sorted(latency(root, writer, at, 2000))
            print(
                f"write to event in the other process, {label}: median {statistics.median(found):.0f} us,"
                f" 99 % {found[int(len(found) * 0.99)]:.0f} us"
            )
            writer.close()
            if ring is not None:
                ring.close()


if __name__ == "__main__":
    main()
