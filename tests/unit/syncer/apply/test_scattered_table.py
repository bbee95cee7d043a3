"""Rows of one table go to the tables that they name: after a merge, scattering gives back what was merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.changes.column_map import with_constants
from dm.changes.keys import keys_of
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind
from dm.changes.row_keys import TargetTable
from dm.config.rules import RouteRule, ScatterPlace
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder, RowPair
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.schema.table import Column, TableSchema, without_columns
from dm.position import Position
from dm.rules.router import Router, Scattering
from dm.rules.table_rules import RowEvent
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction
from dm.syncer.apply.scattered_table import ScatteredColumns, ScatteredTable, scattered_values
from dm.syncer.apply.source_table import KINDS, SourceTable
from tests.unit.changes.plans import key, number, text

PLACE = Position("uuid", "binlog.000001", 100, GtidSet.empty("mysql"))
TRANSACTION = SourceTransaction(PLACE, PLACE, None, 0)
SOURCE = TableName("d", "gathered")
NAMES = ("1", "a", "A", "", "日本", "a'`b")
SHARDS = {shard: TableName("old", f"t_{shard}") for shard in NAMES}
COLUMNS = (text("shard"), number("id"), number("v", nullable=True))
SCHEMA = TableSchema(SOURCE, COLUMNS, (key("PRIMARY", "shard", "id"),))
RULE = RouteRule(
    schema_pattern="d", table_pattern="gathered", target_schema="old",
    scatter=tuple(ScatterPlace(target_table=to.table, columns={"Shard": shard}) for shard, to in SHARDS.items()),
)  # fmt: skip
MAP = cast(TableMap, SimpleNamespace(schema="d", table="gathered"))
WHOLE = dict.fromkeys(KINDS, True)


class Decoded:
    """Row events that are their rows."""

    def decode(self, rows: Any) -> Sequence[RowPair]:
        return cast(Sequence[RowPair], rows.pairs)


class Rows:
    """A row event."""

    foreign_keys_unchecked = constraints_unchecked = False

    def __init__(self, kind: RowEvent, pairs: Sequence[RowPair], *, whole: bool = True) -> None:
        self.kind, self.pairs, self.whole = kind, pairs, whole


def scattered(
    columns: tuple[Column, ...] = COLUMNS, keyed: TableSchema = SCHEMA, *, acting: bool = False
) -> ScatteredTable:
    found = Router((RULE,), case_sensitive=True).scattered(SOURCE)
    assert isinstance(found, Scattering)
    places = ScatteredColumns.of(SOURCE, columns, found.columns)
    rows = tuple(columns[at] for at in places.kept)
    part = without_columns(keyed, found.columns)
    decoder, table_map = cast(RowDecoder, Decoded()), MAP
    tables: dict[tuple[str | None, ...], SourceTable | TableName] = {
        values: SourceTable(table_map, rows, decoder, plan_into(name, part, rows, acting=acting), WHOLE, None, None)
        for values, name in scattered_values(found, columns).items()
    }
    return ScatteredTable(table_map, columns, decoder, places, tables, WHOLE, None)


def plan_into(name: TableName, part: TableSchema, rows: tuple[Column, ...], *, acting: bool = False) -> TablePlan:
    target = TargetTable(TableSchema(name, part.columns, part.indexes), acting=acting)
    return build_plan(part, rows, target, PlanOptions("mysql"))


def placed(kind: RowEvent, *pairs: RowPair, whole: bool = True, safe: bool = False) -> list[Any]:
    item = RowsItem(MAP, cast(Any, Rows(kind, pairs, whole=whole)))
    return [row.change(item) for row in scattered().placed(item, TRANSACTION, safe=safe)]


def told(changes: Sequence[Any]) -> list[tuple[str, ChangeKind, Row | None, Row | None]]:
    return [(each.plan.target.table, each.kind, each.before, each.after) for each in changes]


_SHARD = st.sampled_from(NAMES)
_CHANGES = st.lists(st.tuples(_SHARD, st.integers(0, 4), st.integers(0, 9), st.sampled_from(["put", "del"])))


@given(changes=_CHANGES)
def test_what_is_merged_and_scattered_is_what_it_was(changes: list[tuple[str, int, int, str]]) -> None:
    rows = {shard: dict[int, int]() for shard in NAMES}
    for shard, number_of, value, what in changes:
        old = rows[shard].get(number_of)
        if what == "del" and old is None:
            continue
        before = None if old is None else (number_of, old)
        after = None if what == "del" else (number_of, value)
        kind = "delete" if after is None else "insert" if before is None else "update"
        # As the merge would bring it: its columns stand after the source's, here in front of them.
        ((first, second),) = with_constants([(before, after)], (shard.encode(),))
        pair = tuple(None if row is None else (row[-1], *row[:-1]) for row in (first, second))
        (change,) = placed(cast(RowEvent, kind), cast(RowPair, pair))
        assert told([change]) == [(SHARDS[shard].table, KINDS[cast(RowEvent, kind)], before, after)]
        if after is None:
            del rows[shard][number_of]
        else:
            rows[shard][number_of] = value


_MOVES = st.lists(st.tuples(st.integers(0, 4), st.none() | _SHARD, st.integers(0, 4), st.integers(0, 9)), max_size=20)


@given(moves=_MOVES, safe=st.booleans())
def test_each_table_ends_with_the_rows_that_name_it_also_where_rows_move(
    moves: list[tuple[int, str | None, int, int]], safe: bool
) -> None:
    merged = dict[int, tuple[str, int, int]]()  # by a number that no row shows
    tables = {to.table: dict[int, int]() for to in SHARDS.values()}
    for number_of, shard, new_id, value in moves:
        old, new = merged.get(number_of), None if shard is None else (shard, new_id, value)
        others = [row for at, row in merged.items() if at != number_of]
        if (old is None and new is None) or (new is not None and new[:2] in [row[:2] for row in others]):
            continue
        before, after = (None if row is None else (row[0].encode(), *row[1:]) for row in (old, new))
        kind = "insert" if before is None else "delete" if after is None else "update"
        for change in placed(cast(RowEvent, kind), (before, after), safe=safe):
            table = tables[change.plan.target.table]
            if change.before is not None:
                assert table.pop(change.before[0]) == change.before[1]
            if change.after is not None:
                assert change.after[0] not in table, "a key of one table meets rows of that table alone"
                table[change.after[0]] = change.after[1]
        if new is None:
            merged.pop(number_of)
        else:
            merged[number_of] = new
    for shard, to in SHARDS.items():
        assert tables[to.table] == {row[1]: row[2] for row in merged.values() if row[0] == shard}


def test_a_row_that_gets_another_name_is_deleted_there_and_then_inserted_here() -> None:
    changes = placed("update", ((b"a", 1, 7), (b"A", 2, 8)))
    assert told(changes) == [("t_a", ChangeKind.DELETE, (1, 7), None), ("t_A", ChangeKind.INSERT, None, (2, 8))]
    assert not set(keys_of(changes[0])) & set(keys_of(changes[1]))
    assert told(placed("update", ((b"a", 1, 7), (ABSENT, 1, 8)), whole=False)) == [
        ("t_a", ChangeKind.UPDATE, (1, 7), (1, 8))
    ]
    assert told(placed("update", ((b"a", 1, 7), (b"1", ABSENT, ABSENT)), whole=False)) == [
        ("t_a", ChangeKind.DELETE, (1, 7), None), ("t_1", ChangeKind.INSERT, None, (1, 7)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "pair",
    [(None, (b"a ", 1, 2)), (None, (None, 1, 2)), ((b"b", 1, 2), None), ((b"a", 1, 2), (b"\xff", 1, 2))],
)
def test_a_row_that_names_no_table_pauses_by_name(pair: RowPair) -> None:
    kind: RowEvent = "insert" if pair[0] is None else "delete" if pair[1] is None else "update"
    with pytest.raises(DMError) as caught:
        placed(kind, pair)
    assert (caught.value.name, caught.value.position) == ("row-names-no-table", str(PLACE))
    assert "d.gathered" in caught.value.message
    assert "shard" in caught.value.message


@pytest.mark.parametrize(
    ("pair", "column"),
    [
        (((ABSENT, 1, ABSENT), None), "shard"),  # not in the key that the source logs
        (((b"a", 1, ABSENT), (b"A", 1, ABSENT)), "v"),  # a row that moves is written whole
    ],
)
def test_an_image_that_does_not_tell_pauses(pair: RowPair, column: str) -> None:
    with pytest.raises(DMError, match=f"lacks column {column}"):
        placed("delete" if pair[1] is None else "update", pair, whole=False)


@pytest.mark.parametrize("acting", [False, True], ids=["by key", "with cascades"])
@pytest.mark.parametrize("all_in_order", [False, True], ids=["lanes", "one lane"])
def test_images_are_completed_as_the_lane_of_their_table_applies_them(acting: bool, all_in_order: bool) -> None:
    """In safe mode a row that leaves its key must be whole. A lane that may not use safe mode does not ask for that."""
    table = scattered(acting=acting)
    item = RowsItem(MAP, cast(Any, Rows("update", [((b"a", 1, ABSENT), (b"a", 2, ABSENT))], whole=False)))
    rows = partial(table.placed, item, TRANSACTION, safe=True, all_in_order=all_in_order)
    if acting:
        (row,) = rows()
        change = row.change(item)
        assert (row.in_order, change.safe, change.before, change.after) == (True, False, (1, ABSENT), (2, ABSENT))
    else:
        with pytest.raises(DMError, match="lacks column v"):
            rows()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Column("shard", "char", 20, charset="latin1", collation="latin1_bin", nullable=False), (b"a", b"a  ")),
        (Column("shard", "binary", 8, nullable=False), (b"a\0\0\0\0\0\0\0", b"a")),
    ],
    ids=["char", "binary"],
)
def test_what_fills_up_a_column_tells_no_tables_apart(column: Column, values: Sequence[bytes]) -> None:
    table = scattered((column, *COLUMNS[1:]))
    item = RowsItem(MAP, cast(Any, Rows("insert", [(None, (value, 1, 2)) for value in values])))
    assert [row.table.plan.target for row in table.placed(item, TRANSACTION, safe=False)] == [SHARDS["a"]] * len(values)


@pytest.mark.parametrize("value", [b"a ", b"\0a", b"A\0 "])
def test_other_bytes_of_a_binary_column_count(value: bytes) -> None:
    table = scattered((Column("shard", "binary", 8, nullable=False), *COLUMNS[1:]))
    item = RowsItem(MAP, cast(Any, Rows("insert", [(None, (value.ljust(8, b"\0"), 1, 2))])))
    with pytest.raises(DMError, match="names none of the tables"):
        table.placed(item, TRANSACTION, safe=False)


def test_columns_without_text_name_no_table() -> None:
    with pytest.raises(DMError, match="of type INT"):
        scattered((number("shard"), *COLUMNS[1:]))
    with pytest.raises(DMError, match="no such column"):
        scattered(COLUMNS[1:])
