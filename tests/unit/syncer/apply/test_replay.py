"""How a transaction is applied, by where it lies before the bound and by what the record of undone changes says."""

from __future__ import annotations

import pytest

from dm.changes.keys import keys_of
from dm.position import Position
from dm.progress.takeover import Undone, UndoneKeys, digests, transaction_key
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply.safe_mode_window import AGAIN, FIRST_TIME, SafeModeWindow, WindowReplay
from tests.testbed.fake_clock import FakeClock
from tests.unit.changes.plans import insert, key, number, plan

TABLE = plan([number("a")], [key("PRIMARY", "a")])
ONE, TWO = keys_of(insert(TABLE, 1)), keys_of(insert(TABLE, 2))


def at(offset: int) -> Position:
    return Position("a", "bin.000001", offset)


def transaction(begin: int, end: int) -> SourceTransaction:
    return SourceTransaction(at(begin), at(end), None, 0)


def replay(undone: Undone, *, always: bool = False) -> WindowReplay:
    """With the bound at 200."""
    return WindowReplay(SafeModeWindow(at(200), always=always, seconds=0, clock=FakeClock()), undone)


def test_what_lies_before_the_bound_is_applied_again_and_what_lies_after_it_for_the_first_time() -> None:
    found = replay(Undone())
    assert found.of(transaction(100, 200)) is AGAIN
    assert found.of(transaction(200, 300)) is FIRST_TIME


def test_a_transaction_of_which_nothing_was_done_comes_for_the_first_time() -> None:
    found = replay(Undone({transaction_key(at(150)): UndoneKeys(None)}))
    assert found.of(transaction(100, 150)) is FIRST_TIME
    assert found.of(transaction(150, 180)) is AGAIN


def test_changes_that_were_not_done_are_strict_among_those_that_were() -> None:
    keys = UndoneKeys(digests(ONE))
    how = replay(Undone({transaction_key(at(150)): keys})).of(transaction(100, 150))
    assert how.safe
    assert how.strict_keys is keys
    assert (keys.hold(ONE), keys.hold(TWO)) == (True, False)


@pytest.mark.parametrize("keys", [UndoneKeys(None), UndoneKeys(digests(ONE))])
def test_where_the_task_file_asks_for_safe_mode_nothing_is_strict(keys: UndoneKeys) -> None:
    found = replay(Undone({transaction_key(at(150)): keys}), always=True)
    assert found.of(transaction(100, 150)) is AGAIN
    assert found.of(transaction(300, 400)) is AGAIN


def test_the_record_notes_what_the_run_has_come_to_also_after_the_bound() -> None:
    undone = Undone({transaction_key(at(end)): UndoneKeys(None) for end in (150, 400, 500)})
    found = replay(undone)
    assert found.of(transaction(100, 150)) is FIRST_TIME
    assert found.of(transaction(300, 400)) is FIRST_TIME
    assert undone.taken == {transaction_key(at(150)), transaction_key(at(400))}
