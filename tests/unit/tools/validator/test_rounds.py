"""Rounds of looks that give way to the syncer are short, and look at what can tell something."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import cast

from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.progress.validator_errors import RowError
from dm.tools.validator.judge import Judge, Wrong
from dm.tools.validator.pending import PendingRow, PendingRows
from dm.tools.validator.rounds import Places, RoundContext, Rounds
from dm.tools.validator.throttle import Throttle
from tests.testbed.fake_clock import FakeClock
from tests.unit.tools.validator.test_pending import COLUMNS, row, shape

ROWS, BATCH, DELAY = 25_000, 100, 60.0


def at(offset: int) -> Position:
    return Position("one", "binlog.000001", offset)


@dataclass
class AllRight:
    """Finds all rows equal, and has a clock pass meanwhile."""

    clock: FakeClock
    looked: list[PendingRow] = field(default_factory=list)

    def look(self, rows: Sequence[PendingRow], target: TableSchema | None) -> list[Wrong]:
        assert target is not None
        self.looked += rows
        self.clock.now += 0.001
        return []

    def close(self) -> None:
        """There is no session."""


class OneTable:
    def read(self, table: TableName) -> TableSchema:
        return TableSchema(table, COLUMNS)


class World:
    """So many rows that wait, and rounds that give way."""

    def __init__(self, rows: int) -> None:
        self.clock = FakeClock()
        self.pending = PendingRows(1 << 30, 1 << 30)
        self.applied = at(500)
        of = shape()
        self.rows = [row(of, key) for key in range(rows)]
        for each in self.rows:
            self.pending.put(each)
        self.judge = AllRight(self.clock)
        self.pace = Throttle(lambda: at(1000), self.clock)
        self.pace.follow(self.applied)
        around = RoundContext(
            self.pending,
            cast("TargetSchemas", OneTable()),
            Places(lambda: at(500), lambda: self.applied, lambda: at(1000)),
            self._store,
            lambda _, why: self._unfit(why),
        )
        self.rounds = Rounds(around, [cast("Judge", self.judge)], self.pace, self.clock, BATCH, DELAY)

    def _store(self, errors: Sequence[RowError]) -> None:
        raise AssertionError(errors)

    def _unfit(self, why: str) -> None:
        raise AssertionError(why)


def test_a_round_that_gives_way_is_short_and_the_next_one_goes_on() -> None:
    world = World(ROWS)
    with closing(world.rounds):
        began = world.clock.now
        world.rounds.look()
        assert world.judge.looked == world.rows[:10_000]
        more = [world.rounds.more]
        assert world.clock.now - began > 100 * 0.001 * 19  # each look is a twentieth of the time
        for _ in range(2):
            world.rounds.look()
            more.append(world.rounds.more)
    assert more == [True, True, False]
    assert world.judge.looked == world.rows
    assert len(world.pending) == 0


def test_a_round_that_does_not_give_way_looks_at_all_rows() -> None:
    world = World(ROWS)
    world.pace.follow(None)
    with closing(world.rounds):
        world.rounds.look()
    assert sorted(map(id, world.judge.looked)) == sorted(map(id, world.rows))
    assert not world.rounds.more


def test_the_last_round_looks_at_all_rows() -> None:
    world = World(ROWS)
    with closing(world.rounds):
        world.rounds.look(final=True)
    assert len(world.judge.looked) == ROWS


def test_who_gives_way_looks_again_when_the_fence_is_passed_and_the_delay_over() -> None:
    world = World(4)
    early, young, old, new = world.rows
    early.fence, early.failed_at = at(501), 0.0  # the validator has read up to 500
    young.fence, young.failed_at = at(500), world.clock.now - DELAY + 1
    old.fence, old.failed_at = at(500), world.clock.now - DELAY
    with closing(world.rounds):
        world.rounds.look()
        assert world.judge.looked == [old, new]
        world.clock.now += 1
        world.rounds.look()
    assert world.judge.looked == [old, new, young]
    assert world.pending.all() == [early]
