"""Streams of transactions, whole and damaged, and two assemblers over each: a compiled one and one in Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.event import CheckedEvent, RawEvent, SourceRun
from dm.mysql.binlog.frame import checked_events
from dm.mysql.binlog.header import HEADER_SIZE, EventType, parse_header
from dm.mysql.binlog.table_map import TABLE_ID_SIZE
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.stream.assembler import TransactionAssembler
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.spool import OpenItems
from tests.testbed.decoders import running
from tests.unit.mysql.binlog.mutation import Mutator, packed_event
from tests.unit.mysql.binlog.sample import raw_events

UUID, FILE = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "mysql-bin.000001"
BEGINS = {EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID}


def groups(flavor: Flavor) -> list[list[RawEvent]]:
    """What a server wrote, transaction by transaction, each with its end; without checksums, as damaged events are."""
    found: list[list[RawEvent]] = []
    for raw in raw_events(flavor):
        if raw.header.type in BEGINS:
            found.append([])
        if found:
            found[-1].append(packed_event(raw.header.type, raw.body(checksum=True)))
    return found


def format_description(flavor: Flavor) -> RawEvent:
    """The stream's, as of a server that writes no checksums."""
    body = raw_events(flavor)[0].data[HEADER_SIZE:-5] + bytes(5)
    return packed_event(EventType.FORMAT_DESCRIPTION, body)


def stamped(events: Sequence[RawEvent]) -> list[CheckedEvent]:
    """Each with a time and a server of its own, so that one that is taken for another shows."""
    made = []
    for number, event in enumerate(events):
        data = (1000 + number).to_bytes(4, "little") + event.data[4:5] + (7).to_bytes(4, "little") + event.data[9:]
        made.append(CheckedEvent(parse_header(data), data))
    return made


class Listening:
    """An assembler over a stream, and everything it says."""

    def __init__(self, native: ModuleType | None, start: Position, directory: Path, wanted: int, quota: int) -> None:
        self._native = native
        self.said: list[str] = []
        self._memory = MemoryQuota(quota)
        with running(native):
            self._assembler = TransactionAssembler(
                start,
                lambda name: sum(name.table.encode()) % wanted == 0,
                PreparedTransactions(directory),
                OpenItems(self._memory, None),
            )

    def hear(self, runs: Sequence[Sequence[CheckedEvent]]) -> None:
        offset = 4
        with running(self._native):
            try:
                for events in runs:
                    end = offset + sum(len(event.data) for event in events)
                    for transaction in self._assembler.feed_run(SourceRun(events, UUID, FILE, offset, end)):
                        items = list(transaction.items)
                        self.said.append(
                            f"{transaction.begin} {transaction.end} {transaction.end.gtid_set} {transaction.gtid!r}"
                            f" {transaction.timestamp} {transaction.size} {transaction.items.size} {items}"
                        )
                        transaction.items.release()
                    offset = end
            except DMError as error:
                self.said.append(f"{error.name}: {error}")
        self.said.append(f"{self._assembler.position} {self._assembler.position.gtid_set} {self._memory.used}")


def in_bytes(native: ModuleType, events: list[CheckedEvent]) -> Sequence[CheckedEvent]:
    """The events as the reader of a file gives them; those that it does not take together, as they are."""
    data = b"".join(event.data for event in events)
    with running(native):
        found, end = checked_events(data, 0, len(data), False)
    return found if end == len(data) and len(found) == len(events) else events


def both_ways(
    native: ModuleType, flavor: Flavor, runs: Sequence[list[CheckedEvent]], directory: Path, chance: random.Random
) -> list[str]:
    executed = chance.choice(["", "", "00000000-0000-0000-0000-000000000001:1-5"]) if flavor == "mysql" else ""
    start = Position(UUID, FILE, chance.choice([4, 4, 2000]), GtidSet.parse(executed, flavor))
    wanted, quota = chance.choice([1, 2]), chance.choice([1 << 12, 1 << 30])
    compiled = Listening(native, start, directory, wanted, quota)
    python = Listening(None, start, directory, wanted, quota)
    compiled.hear([in_bytes(native, events) if chance.random() < 0.5 else events for events in runs])
    python.hear(runs)
    for one, other in zip(compiled.said, python.said, strict=True):
        assert one == other
    return compiled.said


def divided(events: list[CheckedEvent], chance: random.Random) -> list[list[CheckedEvent]]:
    """The stream as a reader of files brings it, in pieces that end anywhere."""
    runs = []
    while events:
        count = chance.randrange(1, 60)
        runs.append(events[:count])
        events = events[count:]
    return runs


def drawn(flavor: Flavor, chance: random.Random) -> list[RawEvent]:
    """The stream's transactions in any order, many of them again: from the second time on their tables are known."""
    known = groups(flavor)
    return [event for _ in range(40) for event in chance.choice(known)]


def damage(events: list[RawEvent], mutator: Mutator, chance: random.Random) -> None:
    """Put another damaged event in the place of one, or damage its body, or leave it out, or move a table's id."""
    at, kind = chance.randrange(len(events)), chance.random()
    if kind < 0.4:
        events[at] = mutator.event()
    elif kind < 0.8:
        body = bytearray(events[at].data[HEADER_SIZE:]) or bytearray(b"\0")
        body[chance.randrange(len(body))] = chance.choice([0, 1, 0x7F, 0x80, 0xFB, 0xFF, chance.randrange(256)])
        del body[len(body) - chance.choice([0, 0, 0, 1, 3]) :]
        events[at] = packed_event(events[at].header.type, bytes(body))
    elif kind < 0.9:
        del events[at]
    else:
        events.insert(at, renumbered(events, chance))


def renumbered(events: list[RawEvent], chance: random.Random) -> RawEvent:
    """A table map of the stream under the id of another, or under one that the stream does not have."""
    maps = [event.data[HEADER_SIZE:] for event in events if event.header.type == EventType.TABLE_MAP]
    number = chance.choice([chance.choice(maps)[:TABLE_ID_SIZE], chance.randbytes(TABLE_ID_SIZE)])
    return packed_event(EventType.TABLE_MAP, number + chance.choice(maps)[TABLE_ID_SIZE:])


def agree(native: ModuleType, flavor: Flavor, directory: Path, chance: random.Random, mutator: Mutator | None) -> None:
    """One stream, damaged in a few places if there is a mutator; both assemblers say the same of it."""
    events = drawn(flavor, chance)
    for _ in range(chance.randrange(4) if mutator else 0):
        assert mutator is not None
        damage(events, mutator, chance)
    runs = divided(stamped([format_description(flavor), *events]), chance)
    both_ways(native, flavor, runs, directory, chance)
