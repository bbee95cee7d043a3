"""Counters by table are exact, bounded, and forget what was rolled back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.ident import TableName
from dm.syncer.apply import table_counters
from dm.syncer.apply.table_counters import TableCounters
from dm.unit import JSON


@dataclass(frozen=True)
class Plan:
    target: TableName


PLANS = {name: cast(TablePlan, Plan(TableName("s", name))) for name in "abcd"}


def changes(text: str) -> list[RowChange]:
    """`ai bd`: an insert into a, a delete from b."""
    kinds = {"i": ChangeKind.INSERT, "u": ChangeKind.UPDATE, "d": ChangeKind.DELETE}
    return [RowChange(PLANS[word[0]], kinds[word[1]], None, None, safe=False) for word in text.split()]


def shown(counters: TableCounters) -> list[tuple[JSON, ...]]:
    tables = cast("list[dict[str, JSON]]", counters.report()["tables"])
    return [tuple(table[key] for key in ("table", "inserts", "updates", "deletes", "ddl")) for table in tables]


def test_rows_and_ddl_are_counted_by_table_the_busiest_first() -> None:
    counters, others = TableCounters(), TableCounters()
    counters.add(changes("ai ai bu ai bd bd au"))
    others.add(changes("bi bi bi"))
    others.add_ddl([TableName("s", "c")])
    counters.merge(others)
    assert shown(counters) == [("s.b", 3, 1, 2, 0), ("s.a", 3, 1, 0, 0), ("s.c", 0, 0, 0, 1)]


def test_what_is_read_again_is_counted_once() -> None:
    counters = TableCounters()

    def parts() -> Iterator[Sequence[RowChange]]:
        yield changes("ai ai")
        yield changes("au")

    counted = counters.counting(parts)
    next(iter(counted()))
    assert [len(part) for part in counted()] == [2, 1]
    assert shown(counters) == [("s.a", 2, 1, 0, 0)]


def test_there_is_a_limit_to_what_is_kept_and_to_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_counters, "TABLES_COUNTED", 2)
    counters = TableCounters()
    counters.add(changes("ai bi ci di ci"))
    assert shown(counters) == [("s.a", 1, 0, 0, 0), ("s.b", 1, 0, 0, 0), ("others, beyond 2", 3, 0, 0, 0)]
    monkeypatch.setattr(table_counters, "TABLES_SHOWN", 1)
    assert counters.report()["tablesNotShown"] == 1
