"""B at the start of a run: what the lanes of the last run left, also when it read another server than L names."""

from __future__ import annotations

from dm.gtid import GtidSet
from dm.position import Position
from dm.progress.checkpoint import Checkpoint
from dm.progress.lane_rows import ATOMIC, KEYLESS, LaneRow, worker_lane
from dm.progress.takeover import Takeover

FIRST, SECOND = "0-1", "0-2"


def at(server: str, offset: int, number: int | None) -> Position:
    gtids = GtidSet.empty("mariadb") if number is None else GtidSet.parse(f"0-{server[-1]}-{number}", "mariadb")
    return Position(server, "binlog.000001", offset, gtids)


def bound(start: Position, *left: Position, stored: Position | None = None) -> Position | None:
    rows = [LaneRow(worker_lane(number), 1, 1, position) for number, position in enumerate(left)]
    return Takeover({}, Checkpoint(start, stored), None, rows).bound()


def test_everything_beyond_l_counts() -> None:
    assert bound(at(FIRST, 100, 5)) is None
    assert bound(at(FIRST, 100, 5), at(FIRST, 90, 4)) is None
    assert bound(at(FIRST, 100, 5), at(FIRST, 300, 9), at(FIRST, 200, 7)) == at(FIRST, 300, 9)
    assert bound(at(FIRST, 100, 5), at(FIRST, 200, 7), stored=at(FIRST, 400, 11)) == at(FIRST, 400, 11)


def test_what_was_read_at_a_standby_counts_when_the_task_goes_back() -> None:
    went_on = at(SECOND, 50, 9)
    found = bound(at(FIRST, 100, 5), went_on, stored=at(SECOND, 20, 7))
    assert found == went_on
    assert not at(FIRST, 150, 8).covers(found)


def test_lanes_left_before_a_switch_are_behind_l() -> None:
    assert bound(at(SECOND, 20, 7), at(FIRST, 900, 6)) is None
    assert bound(at(SECOND, 20, None), at(FIRST, 900, None)) is None


def test_the_keyless_lane_has_its_own_position() -> None:
    row = LaneRow(KEYLESS, 1, 1, at(FIRST, 300, 9))
    taken = Takeover({}, Checkpoint(at(FIRST, 100, 5)), None, [row])
    assert taken.bound() is None
    assert taken.keyless_done() == at(FIRST, 300, 9)


def test_what_was_applied_in_whole_transactions_counts_for_all_tables() -> None:
    whole, keyless = LaneRow(ATOMIC, 1, 1, at(FIRST, 300, 9)), LaneRow(KEYLESS, 1, 1, at(FIRST, 200, 7))
    taken = Takeover({}, Checkpoint(at(FIRST, 100, 5)), None, [keyless, whole])
    assert taken.atomic_done() == taken.keyless_done() == at(FIRST, 300, 9)
    # A run with several lanes replays what the one lane did.
    assert taken.bound() == at(FIRST, 300, 9)
    # What only the keyless lane did is not done for tables with a key.
    later = Takeover({}, Checkpoint(at(FIRST, 100, 5)), None, [LaneRow(KEYLESS, 1, 1, at(FIRST, 400, 11)), whole])
    assert (later.atomic_done(), later.keyless_done()) == (at(FIRST, 300, 9), at(FIRST, 400, 11))
    # L has passed both.
    done = Takeover({}, Checkpoint(at(FIRST, 500, 12)), None, [keyless, whole])
    assert (done.atomic_done(), done.keyless_done(), done.bound()) == (None, None, None)


def test_exact_positions_take_another_form_where_l_has_not_passed_them() -> None:
    rows = [LaneRow(ATOMIC, 1, 1, at(FIRST, 300, 9)), LaneRow(KEYLESS, 1, 1, at(FIRST, 50, 3))]
    taken = Takeover({}, Checkpoint(at(FIRST, 100, 5)), None, rows).with_exact_lanes(lambda _: at(SECOND, 30, 9))
    assert [row.position for row in taken.rows] == [at(SECOND, 30, 9), at(FIRST, 50, 3)]
