"""What a replay applies, and when it must not."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.replayed import RelayRange, StoredReplay
from dm.tools.replay.decoding import Decoded
from dm.tools.replay.pieces import RelayStretch, demand_planned, plan_of

FILE = "bin.000001"
PIECE = RelayRange(FILE, 100, 900)
L, E = Position("uuid", FILE, 100), Position("uuid", FILE, 900)
ONE, TWO, NOTES = TableName("shop_1", "t"), TableName("shop_2", "t"), TableName("shop_2", "notes")
HERE = TableName("shop", "t")
PLANNED = StoredReplay("n1", 1, L, L, (PIECE,), 4, again=False)
STORED = replace(PLANNED, end=E, replayed={ONE: HERE}, left={NOTES: "it has no key by which rows are found"})


class Stretch:
    """Places without a relay."""

    def place(self, file: str, offset: int) -> Position:
        return Position("uuid", file, offset)


def route(table: TableName) -> TableName:
    """Both shops into one, whose name the target folds."""
    return TableName("shop" if table == ONE else "SHOP", table.table)


def plan(*found: Decoded, bound: Position | None = None) -> StoredReplay:
    return plan_of(PLANNED, found, cast("RelayStretch", Stretch()), "task", bound, route)


def test_tables_that_are_left_have_tables_of_their_own() -> None:
    made = plan(Decoded(PIECE, 2, 2, taken=((ONE, HERE),), left=((NOTES, "it has no key"),)))
    assert (made.end, made.replayed, made.left) == (E, {ONE: HERE}, {NOTES: "it has no key"})
    # The syncer would put rows of L beside those of E.
    with pytest.raises(DMError) as raised:
        plan(Decoded(PIECE, 2, 2, taken=((ONE, HERE),), left=((TWO, "its structure is not known"),)))
    assert raised.value.name == "replay-unsuited"
    assert "shop_1.t and shop_2.t share a table" in raised.value.message


def test_a_replay_does_not_end_before_what_the_last_run_did() -> None:
    assert plan(Decoded(PIECE, 1, 1, taken=((ONE, HERE),)), bound=E).end == E
    with pytest.raises(DMError) as raised:
        plan(Decoded(PIECE, 1, 1, taken=((ONE, HERE),)), bound=replace(E, offset=901))
    assert raised.value.name == "replay-unsuited"


def test_a_piece_that_is_read_again_has_the_tables_of_the_plan() -> None:
    read = Decoded(PIECE, 2, 2, taken=((ONE, HERE),), left=((NOTES, "it has no key"),))
    demand_planned(STORED, read)
    demand_planned(STORED, Decoded(PIECE, 0, 0))
    demand_planned(replace(STORED, removals=True), replace(read, first=(ONE,)))
    for changed in (
        Decoded(PIECE, 1, 1, left=((ONE, "the target's table has triggers"),)),
        Decoded(PIECE, 1, 1, taken=((NOTES, NOTES),)),
        replace(read, first=(ONE,)),
        replace(read, barrier="ALTER TABLE t"),
    ):
        with pytest.raises(DMError) as raised:
            demand_planned(STORED, changed)
        assert raised.value.name == "replay-target-changed"
