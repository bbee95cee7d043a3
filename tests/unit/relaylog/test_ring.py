"""The ring by itself: whatever a writer does while a reader copies, what the reader gives was in the file."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, partialmethod
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.relaylog.event_file import PIECE
from dm.relaylog.ring import DATA_AT, POINTER_NAME, Pointer, possible
from dm.relaylog.ring_reader import MappedRing, RingReader
from dm.relaylog.ring_writer import RingWriter
from tests.unit.relaylog.binlog_bytes import rows, transaction

pytestmark = pytest.mark.skipif(not possible(), reason="no ring on this machine")

SUB, FIRST, SECOND = "server.000001", "mysql-bin.000001", "mysql-bin.000002"
CAPACITY = 4096
Step = tuple[Any, ...]  # a name and its arguments


@contextmanager
def ring_of(root: Path, size: int = CAPACITY) -> Iterator[tuple[RingWriter, RingReader]]:
    writer = RingWriter.create(root, size)
    assert writer is not None
    reader = RingReader(root)
    try:
        yield writer, reader
    finally:
        reader.close()
        writer.close()


def event(number: int, size: int = 100) -> bytes:
    """An event whose bytes tell which one it is."""
    return rows(size)[:19] + random.Random(number).randbytes(size) + bytes(4)


class Source:
    """What the relay does, in steps that a reader may fall between, and the files as they are at each moment."""

    def __init__(self, root: Path, capacity: int) -> None:
        self.root = root
        self.capacity = capacity
        self.files: dict[str, bytes] = {}
        self.file = ""
        self.written = 0
        self._steps: list[Callable[[], None]] = []
        self.killed: list[RingWriter] = []
        self.ring = self._new_ring()
        self.rotate()

    def _new_ring(self) -> RingWriter:
        ring = RingWriter.create(self.root, self.capacity)
        assert ring is not None
        self._logical = 0
        return ring

    def rotate(self) -> None:
        self.finish()
        self.file = f"mysql-bin.{len(self.files) + 1:06d}"
        self.files[self.file] = b""
        self.ring.opened(SUB, self.file, 0)

    def write(self, sizes: list[int], parts: int) -> None:
        """To the file at once; into the ring too, or in steps that `step` takes."""
        self.finish()
        events = []
        for size in sizes:
            self.written += 1
            events.append(event(self.written, size))
        data = b"".join(events)
        self.files[self.file] += data
        self._logical += len(data)
        end = self._logical
        kept = memoryview(data)[-self.capacity :]
        start = end - len(kept)
        if not parts:
            self.ring.wrote(data)
            return
        cuts = sorted({0, *(len(kept) * part // parts for part in range(1, parts)), len(kept)})
        self._steps.append(partial(self.ring.reserve, end))
        for begin, stop in pairwise(cuts):
            self._steps.append(partial(self.ring.copy, start + begin, kept[begin:stop]))
        self._steps.append(partial(self.ring.commit, end))

    def step(self) -> None:
        if self._steps:
            self._steps.pop(0)()

    def finish(self) -> None:
        while self._steps:
            self.step()

    def cut(self, keep: int) -> None:
        """Cut the file back to its first events; what comes then is something else."""
        self.finish()
        self.ring.cut()
        content, at = self.files[self.file], 0
        for _ in range(keep):
            if at < len(content):
                at += int.from_bytes(content[at + 9 : at + 13], "little")
        self.files[self.file] = content[:at]
        self.ring.opened(SUB, self.file, at)

    def restart(self, clean: bool) -> None:
        """Another relay process: the ring of a killed one stays with its readers as it is."""
        if clean:
            self.finish()
            self.ring.close()
        self._steps.clear()
        self.killed.append(self.ring)  # as long as its pid lives, so does its memory
        self.ring = self._new_ring()
        self.ring.opened(SUB, self.file, len(self.files[self.file]))

    def close(self) -> None:
        for ring in (*self.killed, self.ring):
            ring.close()


WEIGHTS = {"write": 30, "read": 40, "step": 8, "finish": 3, "from_file": 12, "rotate": 3, "cut": 2, "restart": 1}


def planned(chance: random.Random, *, reads: bool = True) -> Step:
    """A step of the writer, or of the reader with some of the writer's in between."""
    names = [name for name in WEIGHTS if reads or name not in {"read", "from_file"}]
    name = chance.choices(names, [WEIGHTS[name] for name in names])[0]
    if name == "write":
        return (
            name,
            [chance.randrange(300 if reads else 1500) for _ in range(chance.randint(1, 5))],
            chance.randrange(4),
        )
    if name == "read":
        between = [planned(chance, reads=False) for _ in range(chance.choice([0, 0, 1, 4]))]
        return name, chance.choice([200, 1000, PIECE]), between, chance.randrange(4)
    if name in {"from_file", "cut"}:
        return name, chance.randint(1, 40)
    return (name, chance.random() < 0.5) if name == "restart" else (name,)


COPY = MappedRing.copy


class Reading:
    """A reader between the writer's steps, and what the files say to what it gives."""

    def __init__(self, root: Path) -> None:
        self.source = Source(root, CAPACITY)
        self.reader = RingReader(root)
        self.file, self.offset = self.source.file, 0
        self.given: Counter[str] = Counter()
        self._between: list[Step] = []
        self._early = 0

    def act(self, step: Step) -> None:
        name, *arguments = step
        getattr(self if name in {"read", "from_file"} else self.source, name)(*arguments)
        self.offset = min(self.offset, len(self.source.files[self.file]))  # who read what was cut off starts again

    def copied(self, ring: MappedRing, at: int, size: int) -> list[bytes]:
        """A copy that was torn: lengths and some of the events from before what the writer did meanwhile."""
        before = COPY(ring, at, size)
        while self._between:
            self.act(self._between.pop(0))
        after: list[bytes] = []
        for found in before:
            after.append(bytes(ring._bytes[DATA_AT + (at + n) % CAPACITY] for n in range(len(found))))
            at += len(found)
        self.given["torn"] += before != after
        return before[: self._early] + after[self._early :]

    def read(self, piece: int, between: list[Step], early: int) -> None:
        self._between, self._early = list(between), early
        before, offset = self.source.files[self.file], self.offset
        found = self.reader.read(SUB, self.file, self.offset, piece=piece)
        self.given["outside" if found is None else "events" if found else "end"] += 1
        data = b"".join(found or [])
        end = offset + len(data)
        assert data in (before[offset:end], self.source.files[self.file][offset:end])
        self.offset = end

    def from_file(self, count: int) -> None:
        """Pass some events, as a reader that found them in the file; at a file's end go on in the next."""
        content = self.source.files[self.file]
        for _ in range(count):
            if self.offset < len(content):
                self.offset += int.from_bytes(content[self.offset + 9 : self.offset + 13], "little")
        if self.offset >= len(content) and self.file != self.source.file:
            self.file, self.offset = f"mysql-bin.{int(self.file[-6:]) + 1:06d}", 0

    def close(self) -> None:
        self.reader.close()
        self.source.close()


def _copied(ring: MappedRing, run: Reading, at: int, size: int) -> list[bytes]:
    return run.copied(ring, at, size)


def test_whatever_is_given_is_what_the_file_holds(tmp_path_factory: pytest.TempPathFactory) -> None:
    given_at_all: Counter[str] = Counter()

    @given(st.integers(0, 1 << 32))
    @settings(max_examples=60, deadline=None)
    def check(seed: int) -> None:
        chance = random.Random(seed)
        run = Reading(tmp_path_factory.mktemp("relay"))
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(MappedRing, "copy", partialmethod(_copied, run))
                for _ in range(150):
                    run.act(planned(chance))
        finally:
            run.close()
        given_at_all.update(run.given)

    check()
    assert min(given_at_all[kind] for kind in ("events", "end", "outside", "torn")) > 50, given_at_all


def test_what_is_overwritten_while_it_is_copied_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ring_of(tmp_path) as (writer, reader):
        writer.opened(SUB, FIRST, 0)
        writer.wrote(event(1))
        assert reader.read(SUB, FIRST, 0) == [event(1)]

        def overwritten(ring: MappedRing, at: int, size: int) -> list[bytes]:
            found = COPY(ring, at, size)
            writer.reserve(len(event(1)) + CAPACITY)  # the first step of a write that fills the whole ring
            return found

        monkeypatch.setattr(MappedRing, "copy", overwritten)
        assert reader.read(SUB, FIRST, 0) is None


def test_bytes_of_the_next_file_are_not_taken_for_the_ones_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ring_of(tmp_path) as (writer, reader):
        writer.opened(SUB, FIRST, 0)
        writer.wrote(event(1))
        end = len(event(1))
        assert reader.read(SUB, FIRST, end) == []
        find = MappedRing._events

        def late(ring: MappedRing, *arguments: object) -> list[bytes] | None:
            monkeypatch.undo()
            writer.opened(SUB, SECOND, 0)
            writer.wrote(event(2))
            return find(ring, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(MappedRing, "_events", late)
        assert reader.read(SUB, FIRST, end) == []
        assert reader.read(SUB, SECOND, 0) == [event(2)]


def test_a_place_before_what_the_writer_resumed_at_is_not_in_the_ring(tmp_path: Path) -> None:
    with ring_of(tmp_path) as (writer, reader):
        writer.opened(SUB, FIRST, 0)
        writer.wrote(event(1))
        writer.cut()
        assert reader.read(SUB, FIRST, 0) is None
        writer.opened(SUB, FIRST, 500)
        writer.wrote(event(2))
        assert reader.read(SUB, FIRST, 0) is None
        assert reader.read(SUB, FIRST, 500 + len(event(2)) + 1) is None
        assert reader.read(SUB, FIRST, 500) == [event(2)]
        assert reader.read("another.000002", FIRST, 500) is None


def test_an_event_longer_than_a_piece_is_given_whole_and_one_longer_than_the_ring_not_at_all(tmp_path: Path) -> None:
    with ring_of(tmp_path) as (writer, reader):
        writer.opened(SUB, FIRST, 0)
        writer.wrote(event(1, 1500))
        assert reader.read(SUB, FIRST, 0, piece=100) == [event(1, 1500)]
        writer.wrote(event(2, 3 * CAPACITY))
        assert reader.read(SUB, FIRST, len(event(1, 1500))) is None
        at = len(event(1, 1500)) + len(event(2, 3 * CAPACITY))
        assert reader.read(SUB, FIRST, at) == []
        writer.wrote(event(3))
        assert reader.read(SUB, FIRST, at) == [event(3)]


def test_a_reader_that_fell_behind_comes_back_in_the_newer_half(tmp_path: Path) -> None:
    with ring_of(tmp_path) as (writer, reader):
        writer.opened(SUB, FIRST, 0)
        for number in range(CAPACITY // len(event(0))):
            writer.wrote(event(number))
        assert reader.read(SUB, FIRST, 0) is None
        newer = [n for n in range(32) if (found := RingReader(tmp_path).read(SUB, FIRST, n * len(event(0)))) and found]
        assert newer == list(range(17, 33))[: len(newer)]
        assert len(newer) > 10


def test_files_beyond_the_table_and_behind_the_writer_are_forgotten(tmp_path: Path) -> None:
    with ring_of(tmp_path) as (writer, reader):
        names = [f"mysql-bin.{number:06d}" for number in range(300)]
        for number, name in enumerate(names):
            writer.opened(SUB, name, 0)
            writer.wrote(event(number, 40))
        inside = [name for name in names if reader.read(SUB, name, 0)]
        assert inside == names[-len(inside) :]
        assert len(inside) >= CAPACITY // 2 // len(event(0, 40)) - 1
        for number in range(300):
            writer.opened(SUB, "n" * 200 + f".{number:06d}", 0)
        assert reader.read(SUB, "n" * 200 + ".000299", 0) == []


def test_readers_follow_a_new_ring_and_leave_a_closed_one(tmp_path: Path) -> None:
    reader = RingReader(tmp_path)
    assert reader.read(SUB, FIRST, 0) is None
    with ring_of(tmp_path) as (first, _):
        first.opened(SUB, FIRST, 0)
        first.wrote(event(1))
        assert reader.read(SUB, FIRST, 0) == [event(1)]
        end = len(event(1))
        with ring_of(tmp_path) as (second, _):  # the first one was killed: it has not said that it is over
            assert reader.read(SUB, FIRST, end) is None
            second.opened(SUB, FIRST, end)
            second.wrote(event(2))
            assert reader.read(SUB, FIRST, end) == [event(2)]
        assert reader.read(SUB, FIRST, end) is None
        assert reader.watched is None
        assert not (tmp_path / POINTER_NAME).exists()
    reader.close()


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"pid": "x"}', '{"pid": 1, "more": 2}', "\0" * 70000])
def test_a_pointer_that_is_none_points_nowhere(tmp_path: Path, text: str) -> None:
    (tmp_path / POINTER_NAME).write_text(text)
    assert RingReader(tmp_path).read(SUB, FIRST, 0) is None


def test_a_pointer_to_what_is_not_the_ring_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(bytes(DATA_AT + 100))
    with other.open("rb") as file:
        found = os.fstat(file.fileno())
        good = Pointer(os.getpid(), file.fileno(), found.st_dev, found.st_ino, 7)
        for pointer in (
            Pointer(4_000_000_000, 3, 0, 0, 7),  # no such process
            Pointer(os.getpid(), file.fileno(), found.st_dev, found.st_ino + 1, 7),  # the number was used again
            good,  # no ring
        ):
            pointer.store(tmp_path)
            assert RingReader(tmp_path).read(SUB, FIRST, 0) is None
    reading_end, writing_end = os.pipe()
    Pointer(os.getpid(), reading_end, os.fstat(reading_end).st_dev, os.fstat(reading_end).st_ino, 7).store(tmp_path)
    assert RingReader(tmp_path).read(SUB, FIRST, 0) is None
    os.close(reading_end)
    os.close(writing_end)


def test_there_is_no_ring_where_it_is_off_or_there_is_no_memory(tmp_path: Path) -> None:
    (tmp_path / POINTER_NAME).write_text("of a relay that was killed")
    assert RingWriter.create(tmp_path, 0) is None
    assert not (tmp_path / POINTER_NAME).exists()
    assert RingWriter.create(tmp_path, CAPACITY, tmp_path / "none") is None
    assert RingWriter.create(tmp_path / "none", CAPACITY) is None  # the pointer can't be stored
    free = os.statvfs(tmp_path)
    large = RingWriter.create(tmp_path, free.f_blocks * free.f_frsize * 4, Path("/proc/self"))
    assert large is None


def test_nothing_of_the_ring_is_left_in_shared_memory(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    writer = RingWriter.create(tmp_path, CAPACITY, shared)
    assert writer is not None
    assert list(shared.iterdir()) == []  # also while it is in use: a kill can leave nothing
    pointer = Pointer.load(tmp_path)
    assert pointer is not None
    assert os.stat(f"/proc/self/fd/{pointer.descriptor}").st_mode & 0o777 == 0o600
    writer.close()
    writer.close()
    writer.wrote(b"".join(transaction(1)))
    writer.opened(SUB, FIRST, 0)
    assert list(tmp_path.iterdir()) == [shared]
