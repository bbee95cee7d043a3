"""Rows of prepared XA transactions come with their XA COMMIT, whatever happened to the process or the host before it.

A host that lacks them reads them again from the source, as the list says that is stored with the checkpoint.

The model: a history of PREPAREs and verdicts, read from the checkpoint L on, by runs that end before any step on the
disk. Each XA COMMIT that a run reads has to give the rows of its own PREPARE: the oracle is the history itself.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm import atomic_file
from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.ident import TableName
from dm.mysql.binlog.query import Query, QuerySession
from dm.position import Position
from dm.sourcelog.stream import prepared_list
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.spool_file import HEADER, SpoolWriter
from dm.sourcelog.stream.transaction import MemoryItems, StatementItem

ONE = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "7c1e6a52-71ca-11e1-9e33-c80aa9429562"
ORIGIN = "aaaaaaaa-71ca-11e1-9e33-c80aa9429562"


def everything(_: TableName) -> bool:
    return True


def rows(text: str) -> MemoryItems:
    return MemoryItems([StatementItem(Query("db", text.encode(), QuerySession(), 1, 2, 3, 0))])


def text_of(items: object) -> list[str]:
    assert hasattr(items, "__iter__")
    return [item.query.sql.decode() for item in items]


@dataclass(frozen=True)
class Step:
    what: Literal["prepare", "commit", "rollback", "other"]
    xid: str = ""
    rows: str = ""  # of a prepare, and what its commit has to give


def position(steps: int, *, gtids: bool = True, server: str = ONE) -> Position:
    """The end of the first so many steps."""
    found = GtidSet.parse(f"{ORIGIN}:1-{steps}" if gtids and steps else "", "mysql")
    return Position(server, "bin.000001", 4 + 100 * steps, found)


class Crashed(BaseException):
    """The process is gone."""


class Crashes:
    """Ends the process before its n-th step on the disk."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.synced: set[int] = set()  # inodes that a power cut leaves whole

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crashed

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in (
                (os, "link"), (Path, "rename"), (Path, "replace"), (Path, "mkdir"), (Path, "unlink"),
                (shutil, "rmtree"), (SpoolWriter, "append"), (SpoolWriter, "finish"), (SpoolWriter, "flush"),
                (prepared_list, "sync_directory"), (atomic_file, "sync_directory"),
            ):  # fmt: skip
                patch.setattr(owner, name, self._stepping(getattr(owner, name)))
            patch.setattr(os, "fsync", self._fsync(os.fsync))
            yield

    def _fsync(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def fsync(descriptor: int) -> None:
            self.step()
            call(descriptor)
            self.synced.add(os.fstat(descriptor).st_ino)

        return fsync

    def _stepping(self, call: Callable[..., object]) -> Callable[..., object]:
        def stepping(*arguments: object, **named: object) -> object:
            self.step()
            return call(*arguments, **named)

        return stepping


class World:
    """The target with its checkpoint, and one folder per host."""

    def __init__(self, directory: Path, history: list[Step], chance: random.Random) -> None:
        self.directory = directory
        self.history = history
        self.chance = chance
        self.stored = 0  # L, in steps
        self.listed = ""  # what is stored with L
        self.epoch = 0
        self.moved = False  # another host has had the task
        self.host = "a"
        self.crashes = Crashes()
        self.ghosts: list[Run] = []

    def run(self) -> Run:
        self.epoch += 1
        return Run(self, self.epoch)

    def power_cut(self) -> None:
        """What was not synced is gone, though its name may be there; so are all processes, also those that hang."""
        self.ghosts.clear()
        for path in self.directory.rglob("*.xa"):
            if path.stat().st_ino not in self.crashes.synced:
                path.write_bytes(b"")


class Run:
    """One life of the syncer: reads, applies, writes checkpoints."""

    def __init__(self, world: World, epoch: int) -> None:
        self.world = world
        self.prepared = PreparedTransactions(world.directory / world.host)
        self.read = world.stored
        self.prepared.open(epoch, position(world.stored), world.listed)
        found = {held.xid: held.prepared.end.offset for held in self.prepared.undecided}
        assert found == undecided(world.history[: world.stored])
        if lost := self.prepared.without_rows():  # the source has them
            assert world.moved
            for held in lost:
                step = world.history[(held.prepared.end.offset - 4) // 100 - 1]
                assert (step.what, step.xid) == ("prepare", held.xid)
                self.prepared.read_again(held, rows(step.rows), frozenset())
            self.prepared.restored(position(world.stored))

    def read_next(self) -> None:
        step = self.world.history[self.read]
        end = position(self.read + 1)
        gtid = Gtid("mysql", ORIGIN, self.read + 1)
        if step.what == "prepare":
            self.prepared.hold(step.xid, rows(step.rows), end=end, gtid=gtid, timestamp=self.read)
        elif step.what == "rollback":
            self.prepared.rollback(step.xid, end=end, gtid=gtid)
        elif step.what == "commit":
            try:
                found = text_of(self.prepared.commit(step.xid, end=end, gtid=gtid, wanted=everything))
            except DMError as error:
                # Another host has gone on, and the power of this one went before a checkpoint of its own had the rows
                # synced.
                if self in self.world.ghosts or error.name != "xa-rows-damaged" or not self.world.moved:
                    raise
            else:
                assert found == [step.rows] or self in self.world.ghosts
        self.read += 1

    def checkpoint(self) -> None:
        world = self.world
        mark = world.chance.randint(world.stored, self.read)
        listed = self.prepared.make_durable(position(mark))
        if world.chance.random() < 0.8:  # else the target did not take it
            world.stored, world.listed = mark, listed
            self.prepared.delete_decided(position(mark))


def undecided(history: list[Step]) -> dict[str, int]:
    """What waits for its verdict at the end of the steps, and where its PREPARE ends."""
    found: dict[str, int] = {}
    for number, step in enumerate(history):
        if step.what == "prepare":
            found[step.xid] = position(number + 1).offset
        elif step.what in ("commit", "rollback"):
            found.pop(step.xid, None)
    return found


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """PREPAREs and verdicts of a few xids that are used again and again."""
    steps: list[Step] = []
    prepared: dict[str, str] = {}
    for number in range(draw(st.integers(3, 24))):
        xid = f"X'{draw(st.integers(1, 3)):02x}',X'',1"
        kind = draw(st.sampled_from(("verdict", "verdict", "unlogged", "other")))
        if xid not in prepared or kind == "unlogged":  # the source lost the first one, and takes the xid again
            prepared[xid] = f"rows of {number}"
            steps.append(Step("prepare", xid, prepared[xid]))
        elif kind == "verdict":
            verdict: Literal["commit", "rollback"] = draw(st.sampled_from(("commit", "rollback")))
            steps.append(Step(verdict, xid, prepared.pop(xid)))
        else:
            steps.append(Step("other"))
    return steps


def follow(world: World, *, ghosts: bool, hosts: bool) -> None:
    """Runs until everything is read and stored; each may end before any step."""
    lives = 0
    while world.stored < len(world.history):
        lives += 1
        world.crashes.left = world.chance.randint(0, 40) if lives < 12 else None
        if hosts and world.chance.random() < 0.3:
            world.host = world.chance.choice("ab")
            world.moved = True
        run: Run | None = None
        with suppress(Crashed):
            run = world.run()
            while world.stored < len(world.history):
                if world.ghosts and world.chance.random() < 0.2:
                    haunt(world)
                if run.read < len(world.history) and world.chance.random() < 0.7:
                    run.read_next()
                else:
                    run.checkpoint()
                if lives < 12 and world.chance.random() < 0.05:
                    raise Crashed
        world.crashes.left = None
        if ghosts and run is not None and world.chance.random() < 0.5:
            world.ghosts.append(run)
        elif world.chance.random() < 0.3:
            world.power_cut()


def haunt(world: World) -> None:
    """A process that was stopped goes on beside its successor: it reads, and settles what the target then refuses."""
    ghost = world.chance.choice(world.ghosts)
    left, world.crashes.left = world.crashes.left, None
    try:
        if ghost.read < len(world.history) and world.chance.random() < 0.7:
            ghost.read_next()
        else:
            ghost.prepared.make_durable(position(ghost.read))
    except DMError as error:
        # It has no directory any more, or the one that it reads is not its own history.
        if error.name not in ("spool-not-written", "xa-rows-damaged", "xa-prepare-missing"):
            raise
        world.ghosts.remove(ghost)
    finally:
        world.crashes.left = left


@settings(max_examples=20, deadline=None)
@given(histories(), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_each_commit_gives_the_rows_of_its_own_prepare_whatever_ended_before(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step], seed: int, ghosts: bool, hosts: bool
) -> None:
    follow_to_the_end(tmp_path_factory, history, seed, ghosts=ghosts, hosts=hosts)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@settings(max_examples=1000, deadline=None)
@given(histories(), st.integers(0, 2**32), st.booleans(), st.booleans())
def test_each_commit_gives_the_rows_of_its_own_prepare_at_length(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step], seed: int, ghosts: bool, hosts: bool
) -> None:
    follow_to_the_end(tmp_path_factory, history, seed, ghosts=ghosts, hosts=hosts)


def follow_to_the_end(
    tmp_path_factory: pytest.TempPathFactory, history: list[Step], seed: int, *, ghosts: bool, hosts: bool
) -> None:
    world = World(tmp_path_factory.mktemp("prepared"), history, random.Random(seed))
    with world.crashes.installed():
        follow(world, ghosts=ghosts, hosts=hosts)
        last = world.run()
    left = {held.number for held in last.prepared.undecided}
    assert [path.name for path in (world.directory / world.host).iterdir()] == [str(world.epoch)]
    assert {path.name for path in (world.directory / world.host).rglob("*.xa")} <= {f"{number}.xa" for number in left}


def reader_of(directory: Path, epoch: int, stored: Position | None) -> PreparedTransactions:
    prepared = PreparedTransactions(directory)
    prepared.open(epoch, stored)
    return prepared


def hold(prepared: PreparedTransactions, xid: str, text: str, step: int, **named: Any) -> None:
    prepared.hold(xid, rows(text), end=position(step), gtid=Gtid("mysql", ORIGIN, step), timestamp=step, **named)


def store(prepared: PreparedTransactions, step: int) -> None:
    prepared.make_durable(position(step))
    prepared.delete_decided(position(step))


def commit(prepared: PreparedTransactions, xid: str, step: int, server: str = ONE) -> list[str]:
    end = position(step, server=server)
    return text_of(prepared.commit(xid, end=end, gtid=Gtid("mysql", ORIGIN, step), wanted=everything))


def test_rows_of_a_host_that_was_left_out_meanwhile_are_not_taken_for_those_of_the_same_xid(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    here = reader_of(ours, 1, position(0))
    hold(here, "x", "of the first", 1)
    store(here, 1)
    there = reader_of(theirs, 2, position(1))
    there.rollback("x", end=position(2), gtid=Gtid("mysql", ORIGIN, 2))
    hold(there, "x", "of the second", 3)
    store(there, 3)
    back = reader_of(ours, 3, position(3))
    assert back.undecided == []
    with pytest.raises(DMError) as caught:
        commit(back, "x", 4)
    assert caught.value.name == "xa-prepare-missing"


@pytest.mark.parametrize("before", [0, 1])
def test_a_host_that_a_task_comes_back_to_has_the_rows_that_another_one_could_not_read(
    tmp_path: Path, before: int
) -> None:
    """The checkpoint has moved on there, so the list here counts no more; the files are those of the same PREPARE."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    here = reader_of(ours, 1, position(0))
    for step in range(1, 1 + before):
        hold(here, f"decided {step}", "rows", step)
        here.rollback(f"decided {step}", end=position(step + 1), gtid=Gtid("mysql", ORIGIN, step + 1))
    hold(here, "x", "of the first", 3)
    listed = here.make_durable(position(3))
    here.delete_decided(position(3))
    there = PreparedTransactions(theirs)
    there.open(2, position(3), listed)
    assert [held.xid for held in there.without_rows()] == ["x"]
    there.restored(position(3))
    listed = there.make_durable(position(4))
    there.delete_decided(position(4))
    back = PreparedTransactions(ours)
    back.open(3, position(4), listed)
    assert back.without_rows() == []
    assert commit(back, "x", 5) == ["of the first"]


def test_rows_outlive_a_switch_to_a_server_with_another_order(tmp_path: Path) -> None:
    prepared = reader_of(tmp_path, 1, position(0))
    hold(prepared, "x", "rows", 1)
    hold(prepared, "gone", "rolled back", 2)
    prepared.rollback("gone", end=position(3), gtid=Gtid("mysql", ORIGIN, 3))
    store(prepared, 1)
    switched = Position(OTHER, "bin.000007", 44, GtidSet.parse(f"{ORIGIN}:1-3:8", "mysql"))
    prepared.make_durable(switched)
    prepared.delete_decided(switched)
    after = reader_of(tmp_path, 2, switched)
    assert [held.xid for held in after.undecided] == ["x"]
    assert commit(after, "x", 9, server=OTHER) == ["rows"]


@pytest.mark.parametrize("stored_there", [False, True])
def test_rows_outlive_a_switch_between_servers_whose_numbers_are_in_no_order(
    tmp_path: Path, stored_there: bool
) -> None:
    def place(server: str, offset: int) -> Position:
        return Position(server, "bin.000001", offset, GtidSet.parse("0-1-100", "mariadb"))

    def gtid(number: int) -> Gtid:
        return Gtid("mariadb", "0", number, 1, ordered=False)

    first = reader_of(tmp_path, 1, place(ONE, 4))
    first.hold("x", rows("of x"), end=place(ONE, 100), gtid=gtid(9), timestamp=1)
    first.make_durable(place(ONE, 100))
    first.delete_decided(place(ONE, 100))
    # The checkpoint stays a place of the first server until one of the other is stored.
    second = reader_of(tmp_path, 2, place(ONE, 100))
    second.hold("y", rows("of y"), end=place(OTHER, 44), gtid=gtid(3), timestamp=2)
    if not stored_there:
        second.rollback("x", end=place(OTHER, 55), gtid=gtid(2))
    second.make_durable(place(OTHER, 60))
    if stored_there:
        second.delete_decided(place(OTHER, 60))
    third = reader_of(tmp_path, 3, place(OTHER, 60) if stored_there else place(ONE, 100))
    assert [held.xid for held in third.undecided] == (["x", "y"] if stored_there else ["x"])


def test_a_task_without_a_checkpoint_begins_with_nothing(tmp_path: Path) -> None:
    prepared = reader_of(tmp_path, 1, position(0))
    hold(prepared, "x", "of an earlier life", 1)
    store(prepared, 1)
    assert reader_of(tmp_path, 2, None).undecided == []
    assert list(tmp_path.rglob("*.xa")) == []


def test_decided_before_the_checkpoint_nothing_waits_for_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = reader_of(tmp_path, 1, position(0))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for step in range(1, 41, 2):
        hold(prepared, "x", "rows", step)
        assert commit(prepared, "x", step + 1) == ["rows"]
    store(prepared, 40)
    assert synced == []
    assert list(tmp_path.rglob("*.xa")) == []


def test_rows_of_tables_that_the_rules_leave_out_now_stay_and_those_they_want_now_are_asked_for(
    tmp_path: Path,
) -> None:
    prepared = reader_of(tmp_path, 1, position(0))
    hold(prepared, "x", "rows", 1, left_out=frozenset({TableName("db", "new"), TableName("db", "never")}))
    hold(prepared, "y", "rows", 2, left_out=frozenset({TableName("db", "never")}))
    store(prepared, 2)
    prepared = reader_of(tmp_path, 2, position(2))

    def wanted(table: TableName) -> bool:
        return table.table == "new"

    with pytest.raises(DMError) as caught:
        prepared.commit("x", end=position(3), gtid=None, wanted=wanted)
    assert caught.value.name == "xa-rows-left-out"
    assert "db.new" in caught.value.message
    assert text_of(prepared.commit("y", end=position(4), gtid=None, wanted=wanted)) == ["rows"]


@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "of an older version"])
def test_held_rows_that_are_not_as_they_were_written_pause_at_their_commit(tmp_path: Path, damage: str) -> None:
    prepared = reader_of(tmp_path, 1, position(0))
    hold(prepared, "x", "rows", 1)
    store(prepared, 1)
    file = next(tmp_path.rglob("*.xa"))
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[30] ^= 1
    if damage == "of an older version":  # rows began with R
        magic, size, _ = HEADER.unpack_from(data)
        data[HEADER.size] = ord("R")
        HEADER.pack_into(data, 0, magic, size, crc32(data[HEADER.size : HEADER.size + size]))
    file.write_bytes(data[:-5] if damage == "cut" else data)
    if damage == "gone":
        file.unlink()
    prepared = reader_of(tmp_path, 2, position(1))
    with pytest.raises(DMError) as caught:
        commit(prepared, "x", 2)
    assert caught.value.name == "xa-rows-damaged"
    assert str(file.parent.with_name("2") / file.name) in caught.value.message
