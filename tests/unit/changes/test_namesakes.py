"""An UPDATE between two values that a TiDB takes for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.changes.plan import PlanOptions, TablePlan
from dm.changes.safe_mode import row_statements
from dm.changes.statement import ONE_AFFECTED
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column
from tests.unit.changes.plans import insert, key, plan, update

ID = Column("id", "int", nullable=False)
SET = Column("s", "set", members=("a", "", "c"))
ENUM = Column("e", "enum", members=("a", ""))
TIDB = PlanOptions("tidb")


def table(options: PlanOptions = TIDB) -> TablePlan:
    return plan((ID, SET, ENUM), [key("PRIMARY", "id")], options=options)


@pytest.mark.parametrize(("before", "after"), [((1, 0, 1), (1, 2, 1)), ((1, 2, 1), (1, 0, 1)), ((1, 1, 0), (1, 1, 2))])
def test_the_row_is_written_anew(before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    (first,) = row_statements(update(table(), before, after))
    (second,) = first.found
    assert (first.sql[:6], first.expected, second.sql[:6]) == (b"DELETE", ONE_AFFECTED, b"INSERT")
    assert [each.sql[:6] for each in row_statements(update(table(), before, after, safe=True))] == [
        b"DELETE", b"DELETE", b"REPLAC",
    ]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [((1, 1, 1), (1, 0, 1)), ((1, 0, 1), (1, 3, 1)), ((1, 2, 2), (2, 2, 2))])
def test_others_are_updated(before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
    assert [each.sql[:6] for each in row_statements(update(table(), before, after))] == [b"UPDATE"]


def test_in_safe_mode_what_is_there_may_be_the_other() -> None:
    assert [each.sql[:6] for each in row_statements(insert(table(), 1, 0, 1, safe=True))] == [b"DELETE", b"REPLAC"]
    assert [each.sql[:6] for each in row_statements(insert(table(), 1, 0, 1))] == [b"INSERT"]
    replacing = table(replace(TIDB, insert_mode="replace"))
    assert [each.sql[:6] for each in row_statements(insert(replacing, 1, 0, 1))] == [b"DELETE", b"REPLAC"]


def test_a_row_that_is_not_known_as_a_whole_is_refused() -> None:
    with pytest.raises(DMError) as caught:
        row_statements(update(table(), (1, 0, 1), (1, 2, ABSENT)))
    assert caught.value.name == "member-missing"
    with pytest.raises(DMError):
        row_statements(update(table(), (1, ABSENT, 1), (1, 2, ABSENT)))


def test_other_targets_know_them_apart() -> None:
    other = table(replace(TIDB, flavor="mysql"))
    assert [each.sql[:6] for each in row_statements(update(other, (1, 0, 1), (1, 2, 1)))] == [b"UPDATE"]
    assert not other.namesakes
