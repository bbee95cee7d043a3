"""Two sources that write one key are noticed, and nobody else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dm.changes.keys import WILD, Key
from dm.changes.row_change import ChangeKind, RowChange
from dm.ident import TableName
from dm.syncer.apply import conflict_detector
from dm.syncer.apply.conflict_detector import KeyWriters
from tests.testbed.fake_clock import FakeClock

TABLE = TableName("shop", "orders")


@pytest.fixture
def writers(tmp_path: Path) -> tuple[KeyWriters, KeyWriters]:
    path, clock = tmp_path / "task" / "writers", FakeClock()
    return KeyWriters(path, "a", ["b"], clock), KeyWriters(path, "b", ["a"], clock)


def changes(*keys: Key, table: TableName = TABLE) -> Sequence[RowChange]:
    plan: Any = SimpleNamespace(target=table)
    return [RowChange(plan, ChangeKind.INSERT, None, (1,), safe=False, keys=(key,)) for key in keys]


def count(writers: KeyWriters) -> object:
    return writers.report["keysOfTwoSources"]


def test_a_key_that_goes_from_source_to_source_is_counted_where_it_comes(
    writers: tuple[KeyWriters, KeyWriters],
) -> None:
    one, other = writers
    one.note(changes(("k", 0)))
    other.note(changes(("k", 10)))
    one.note(changes(("k", 1), ("k", 2)))  # from now on both know of each other
    other.note(changes(("k", 2), ("k", 3), ("k", "1")))
    assert (count(one), count(other)) == (0, 1)
    one.note(changes(("k", 2), ("k", 2)))
    assert (count(one), count(other)) == (1, 1)
    assert one.report["keysOfTwoSourcesTables"] == {str(TABLE): 1}
    assert one.report["lastKeyOfTwoSources"] == f"{TABLE}, written by b before"


def test_a_table_of_one_source_is_not_looked_at(
    writers: tuple[KeyWriters, KeyWriters], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = writers
    monkeypatch.setattr(conflict_detector, "keys_of", lambda _: pytest.fail("nobody else writes it"))
    one.note(changes(("k", 1)))
    one.note(changes(("k", 1)))
    other.note(changes(("k", 1), table=TableName("shop", "items")))


def test_what_is_no_key_of_a_row_is_nobodys(writers: tuple[KeyWriters, KeyWriters]) -> None:
    one, other = writers
    for _ in range(2):
        one.note(changes(("shop.orders",), WILD))
        other.note(changes(("shop.orders",), WILD))
    assert (count(one), count(other)) == (0, 0)


def test_a_source_that_the_task_does_not_have_is_nobody(tmp_path: Path) -> None:
    path, clock = tmp_path / "writers", FakeClock()
    gone, one = KeyWriters(path, "gone", ["a"], clock), KeyWriters(path, "a", ["b"], clock)
    for _ in range(2):
        gone.note(changes(("k", 1)))
        one.note(changes(("k", 1)))
    assert count(one) == 0


def test_only_so_many_keys_a_second_are_looked_at(
    writers: tuple[KeyWriters, KeyWriters], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conflict_detector, "KEYS_PER_SECOND", 3)
    one, other = writers
    for number in (0, 1):
        one.note(changes(("first", number)))
        other.note(changes(("second", number)))
    one._clock.now += 1  # type: ignore[attr-defined]
    one.note(changes(*(("k", number) for number in range(5))))
    other.note(changes(*(("k", number) for number in range(5))))
    assert count(other) == 3
