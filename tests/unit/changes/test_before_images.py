"""Which columns a before image needs at the target, and what an event has of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dm.changes.before_images import found_by
from dm.changes.event_form import LOOK
from dm.changes.event_or_sql import arranged
from dm.changes.event_rules import event_form
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema, wire_columns
from tests.unit.changes.event_tables import event_plan, events_of, pair_of, raw_change
from tests.unit.changes.plans import key, number, text

A, B, C = number("a"), number("b"), number("c", nullable=True)


def places(columns: list[Column], indexes: list[Index], **more: Any) -> tuple[int, ...]:
    """Of a table of InnoDB, unless its engine is given."""
    schema = TableSchema(TableName("d", "t"), tuple(columns), tuple(indexes), **{"engine": "InnoDB", **more})
    return found_by(schema, wire_columns(schema, "mariadb"))


@pytest.mark.parametrize(
    ("indexes", "found"),
    [
        ([key("PRIMARY", "a")], (0,)),
        ([key("PRIMARY", "B")], (1,)),
        ([key("PRIMARY", "b", "a")], (0, 1)),
        ([key("u", "b"), key("PRIMARY", "a")], (0,)),
        ([key("n", "c"), key("u", "b"), key("v", "a")], (1,)),
        ([key("n", "c")], ()),
        ([key("n", "c", "a")], ()),
        ([], ()),
        ([Index("k", "index", (IndexPart("a"),))], ()),
        ([Index("PRIMARY", "primary", (IndexPart("a", prefix=3),))], ()),
        ([Index("PRIMARY", "primary", (IndexPart("a", descending=True),))], (0,)),
        ([key("PRIMARY", "a"), Index("k", "index", (IndexPart(None, expression="a + 1"),))], ()),
    ],
)
def test_the_key_that_the_server_takes_for_the_primary_one(indexes: list[Index], found: tuple[int, ...]) -> None:
    assert places([A, B, C], indexes) == found


@pytest.mark.parametrize("engine", ["MyISAM", "BLACKHOLE", None])
def test_other_engines_get_whole_images(engine: str | None) -> None:
    assert places([A, B], [key("PRIMARY", "a")], engine=engine) == ()
    assert places([A, B], [key("PRIMARY", "a")], engine="INNODB") == (0,)


def test_a_key_that_is_computed_needs_what_it_is_computed_from() -> None:
    computed = replace(A, generated="stored", expression="b + 1")
    assert places([computed, B], [key("PRIMARY", "a")]) == ()
    assert places([A, replace(B, generated="stored", expression="a")], [key("PRIMARY", "a")]) == (0,)


def test_a_virtual_column_of_a_removed_row_needs_what_it_is_computed_from() -> None:
    assert places([A, replace(B, generated="virtual", expression="a"), C], [key("PRIMARY", "a")]) == ()


def test_columns_without_a_name_need_all_others() -> None:
    long = text("l", 4000)
    assert places([A, long], [key("PRIMARY", "a"), key("u", "l")]) == ()
    assert places([A, long], [key("PRIMARY", "a")]) == (0,)


def test_a_key_of_all_columns_leaves_nothing_out() -> None:
    assert places([A, B], [key("PRIMARY", "b", "a")]) == ()


def test_an_event_has_the_keys_columns_before_and_all_after(twin: str) -> None:
    plan = event_plan((A, C, B), [key("PRIMARY", "b")])
    changes = [
        raw_change(plan, (1, None, 3), (4, 5, 3)),
        raw_change(plan, (6, 7, 8), (6, 7, 9)),
        raw_change(plan, (1, 2, 10), None),
        raw_change(plan, None, (1, 2, 11)),
    ]
    (events,) = [each for each in arranged(changes, limit=1 << 20) if each.sql.startswith(b"BINLOG")]
    assert [(kind, pairs) for _, kind, pairs in events_of(events.sql, 3)] == [
        ("update", [((ABSENT, ABSENT, 3), (4, 5, 3)), ((ABSENT, ABSENT, 8), (6, 7, 9))]),
        ("delete", [((ABSENT, ABSENT, 10), None)]),
        ("insert", [(None, (1, 2, 11))]),
    ]
    assert changes[0].raw_before is not None
    assert len(changes[0].raw_before) == 1 + 2 * 4, "the whole image is kept: the change may become SQL"


def test_the_target_is_asked_for_its_primary_key(twin: str) -> None:
    columns, asked = (A, B, C), []
    for indexes in ([key("PRIMARY", "B", "a")], []):
        plan = event_plan(columns, indexes)
        look, *_ = arranged([raw_change(plan, None, (1, 2, 3))], limit=1 << 20)
        assert look.sql.startswith(LOOK)
        asked.append(look.expected.key)
    assert asked == [{"a", "b"}, frozenset()]


def test_a_table_that_dm_does_not_find_by_a_key_gets_whole_images() -> None:
    pair = pair_of((A, B), [key("PRIMARY", "a")], target=TargetTable(TableSchema(TableName("d", "t"), ())))
    assert event_form(pair, RowDecoder(pair.table_map, pair.wire)).cut is not None
    keyless = replace(pair, plan=replace(pair.plan, keyed=False))
    assert event_form(keyless, RowDecoder(pair.table_map, pair.wire)).cut is None
