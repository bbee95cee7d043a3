"""Rows that are found together are found by their bytes, as those that are found one by one: the near twin stays.

And the table is read as often for all rows as for one.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import pytest

from dm.changes import row_bag
from dm.changes.event_rules import RoutedTable
from dm.changes.hash_rules import row_hash
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import RowChange
from dm.downstream import rows_by_hash
from dm.downstream.apply import BatchResult, apply_batch, apply_parts
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.value import Row, Value
from dm.mysql.schema.table import Column, TableSchema
from tests.live.changes.tables import endpoint_of
from tests.live.changes.test_comparison import TWINS, Desk
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.park import ServerPark
from tests.unit.changes.event_tables import sees_all
from tests.unit.changes.plans import delete, insert, update

pytestmark = pytest.mark.live

OPTIONS = PlanOptions("mariadb", compact=True, sees_triggers=sees_all)
# Their values have no text of their own, or the target's column is of another type: they are found one by one.
ONE_BY_ONE = frozenset(
    {"indexed", "latin1 into utf8mb4", "enum renumbered", "set renumbered", "enum into text", "json", "json number"}
    | {"json null", "geometry", "uuid", "inet6", "enum error value"}
)


@pytest.fixture(scope="module")
def desk(park: ServerPark) -> Iterator[Desk]:
    server = park.shared("mariadb", "target")
    connect = partial(TargetConnection, endpoint_of(server), several=True)
    made = Desk(server, connect(), TargetSchemas(connect))
    yield made
    made.connection.close()
    made.schemas.close()


def create(desk: Desk, name: str, ddl: str, columns: Sequence[Column]) -> TablePlan:
    """A table of the target, and the plan of a source's table of these columns."""
    table = TableName(name, "t")
    desk.server.execute(f"CREATE TABLE {table.sql} ({ddl}) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4")
    target = desk.schemas.get(table)
    assert target is not None
    source = TableSchema(TableName("s", "t"), tuple(columns))
    plan = build_plan(source, source.columns, target, OPTIONS)
    found = row_hash(RoutedTable(cast(TableMap, None), source.columns, target, plan, OPTIONS))
    return replace(plan, row_hash=found)


@pytest.mark.parametrize("case", [name for name, twins in TWINS.items() if twins.only in (None, "mariadb")])
def test_the_twin_of_a_row_stays(desk: Desk, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setattr(row_bag, "MIN_SEARCHED", 1)
    twins = TWINS[case]
    if case == "uuid" and not desk.server.query("SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'uuid'"):
        pytest.skip("the server has no type UUID")
    plan = create(desk, schema(desk.server), f"v {twins.ddl}", [twins.column])
    assert (plan.row_hash is None) is (case in ONE_BY_ONE - {"enum error value"})
    if case in ONE_BY_ONE:
        return
    connection, read = desk.connection, f"SELECT {twins.read} FROM {plan.target.sql}"

    def apply(change: RowChange) -> None:
        applied = apply_batch(connection, [change])
        searched = int(change.before is not None)
        assert (applied.by_hash, applied.row_by_row) == (searched, False)

    apply(insert(plan, twins.second))
    twin = connection.query(read)
    for _ in range(2):
        apply(insert(plan, twins.first))
    first = next(row for row in connection.query(read) if repr(row) != repr(twin[0]))
    apply(delete(plan, twins.first))
    assert sorted(map(repr, connection.query(read))) == sorted(map(repr, [*twin, first]))
    apply(update(plan, (twins.first,), (twins.second,)))
    assert list(map(repr, connection.query(read))) == [repr(twin[0])] * 2
    with pytest.raises(DMError) as caught:
        apply_batch(connection, [delete(plan, twins.first)])
    assert caught.value.name == "row-missing"
    assert list(map(repr, connection.query(read))) == [repr(twin[0])] * 2


@pytest.mark.parametrize("base", ["FLOAT", "DOUBLE"])
def test_neighbours_among_floating_numbers_have_hashes_of_their_own(
    desk: Desk, schema: SchemaFactory, base: str
) -> None:
    chance = random.Random(20261127)
    kind, bits = ("<f", "<I") if base == "FLOAT" else ("<d", "<Q")
    size = 32 if base == "FLOAT" else 64
    rows: list[Row] = []
    while len(rows) < 4000:
        number = chance.getrandbits(size)
        near = [struct.unpack(kind, struct.pack(bits, number & ~1 | last))[0] for last in (0, 1)]
        if all(value == value and abs(value) != float("inf") and value for value in near):
            rows += [(value,) for value in near]
    plan = create(desk, schema(desk.server), f"v {base}", [Column("v", base.lower())])
    apply_batch(desk.connection, [insert(plan, *row) for row in set(rows)])
    assert plan.row_hash is not None
    found = desk.connection.query(b"SELECT %b FROM %b" % (plan.row_hash.of_row, plan.target.sql.encode()))
    assert len(set(found)) == len(found) == len(set(rows))
    applied = apply_batch(desk.connection, [delete(plan, *row) for row in set(rows)])
    assert (applied.by_hash, applied.row_by_row) == (len(found), False)


def test_values_do_not_run_into_each_other(desk: Desk, schema: SchemaFactory) -> None:
    columns = [Column(name, "varchar", 9, charset="utf8mb4") for name in "ab"]
    plan = create(desk, schema(desk.server), "a VARCHAR(9), b VARCHAR(9)", columns)
    rows: list[Row] = [(b"a", b"b"), (b"ab", b""), (b"", b"ab"), (b"a,b", b""), (b"N", b""), (None, b""), (b"", None)]
    apply_batch(desk.connection, [insert(plan, *row) for row in rows])
    assert plan.row_hash is not None
    found = desk.connection.query(b"SELECT %b FROM %b" % (plan.row_hash.of_row, plan.target.sql.encode()))
    assert len(set(found)) == len(rows)


NUMBERS = "a INT NOT NULL, b VARCHAR(20)"
COLUMNS = (Column("a", "int", nullable=False), Column("b", "varchar", 20, charset="utf8mb4"))


def filled(desk: Desk, schema: SchemaFactory, rows: int, equal: int = 1) -> TablePlan:
    """A table of so many rows, each of them there so often."""
    plan = create(desk, schema(desk.server), NUMBERS, COLUMNS)
    apply_batch(desk.connection, [insert(plan, at, b"old") for at in range(rows) for _ in range(equal)])
    return plan


def read_by(connection: TargetConnection, apply: list[RowChange]) -> tuple[BatchResult, int]:
    """How the changes went, and how many rows were read for them, in whatever way."""

    def reads() -> int:
        return sum(int(row[1]) for row in connection.query("SHOW SESSION STATUS LIKE 'Handler_read%'"))

    connection.execute("FLUSH STATUS")
    return apply_batch(connection, apply), reads()


def test_the_table_is_read_once_for_all_rows(desk: Desk, schema: SchemaFactory) -> None:
    size = 1500
    plan = filled(desk, schema, size)
    changes = [update(plan, (at, b"old"), (at, b"new")) for at in range(size)]
    applied, reads = read_by(desk.connection, changes)
    assert (applied.by_hash, applied.row_by_row) == (size, False)
    assert reads < 3 * size
    # Three statements of 500 rows that hash them, three that write them, and the one that reads the table.
    assert applied.statements <= 8
    again = [update(plan, (at, b"new"), (at, b"newest")) for at in range(size - row_bag.MIN_SEARCHED + 1, size)]
    _, each = read_by(desk.connection, again)
    assert each > size * len(again) // 2, "the counter counts what rows that are found one by one cost"


def test_the_list_of_hashes_is_as_long_as_a_packet_takes(desk: Desk, schema: SchemaFactory) -> None:
    plan = filled(desk, schema, 3000)
    with TargetConnection(endpoint_of(desk.server), several=True) as connection:
        connection.statement_bytes = 32 << 10  # 500 hashes
        applied, reads = read_by(connection, [delete(plan, at, b"old") for at in range(1500)])
    assert (applied.by_hash, applied.row_by_row) == (1500, False)
    assert reads < 2 * 3000


def test_a_server_with_small_packets_finds_rows_one_by_one(server: ServerFactory) -> None:
    small = server("mariadb", max_allowed_packet=4096)
    small.execute("CREATE DATABASE d")
    connect = partial(TargetConnection, endpoint_of(small), several=True)
    with connect() as connection:
        schemas = TargetSchemas(connect)
        plan = create(Desk(small, connection, schemas), "d", NUMBERS, COLUMNS)
        changes = [insert(plan, at, b"old") for at in range(row_bag.MIN_SEARCHED)]
        apply_batch(connection, changes)
        applied = apply_batch(connection, [delete(plan, at, b"old") for at in range(row_bag.MIN_SEARCHED)])
        assert (applied.by_hash, applied.row_by_row) == (0, False)
        assert plan.row_hash is not None
        assert "list of so many" in plan.row_hash.refused
        schemas.close()


def test_a_reading_that_the_server_ends_is_not_repeated(desk: Desk, schema: SchemaFactory) -> None:
    plan = filled(desk, schema, 3000)
    changes = [update(plan, (at, b"old"), (at, b"new")) for at in range(row_bag.MIN_SEARCHED)]
    with TargetConnection(endpoint_of(desk.server), several=True) as connection:
        connection.execute("SET SESSION max_statement_time = 0.05")
        with desk.server.connect() as other, other.cursor() as cursor:
            cursor.execute(f"LOCK TABLES {plan.target.sql} WRITE")  # so the reading takes longer, however fast it is
            with pytest.raises(DMError) as caught:
                apply_batch(connection, changes)
        assert (caught.value.retryable, caught.value.server_errno) == (True, 1969)
        connection.execute("SET SESSION max_statement_time = 0")
        applied = apply_batch(connection, changes)
    assert (applied.by_hash, applied.row_by_row) == (0, False)
    assert plan.row_hash is not None
    assert "max_statement_time" in plan.row_hash.refused


LONG = 50_000


def test_equal_rows_that_come_back_take_no_memory_of_their_own(
    desk: Desk, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_bag, "MIN_SEARCHED", 1)
    plan = create(desk, schema(desk.server), "v MEDIUMTEXT", [Column("v", "mediumtext", charset="utf8mb4")])
    row: Row = (b"x" * LONG,)
    for _ in range(600):
        apply_batch(desk.connection, [insert(plan, *row)])
    tracemalloc.start()
    try:
        applied = apply_batch(desk.connection, [delete(plan, *row)])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (applied.by_hash, applied.row_by_row) == (1, False)
    assert peak < 200 * LONG
    assert desk.connection.query(f"SELECT COUNT(*) FROM {plan.target.sql}") == [(599,)]
    monkeypatch.setattr(rows_by_hash, "_WRITTEN_AGAIN_BYTES", 597 * LONG)
    applied = apply_batch(desk.connection, [delete(plan, *row)])
    assert (applied.by_hash, applied.row_by_row) == (0, False)
    assert desk.connection.query(f"SELECT COUNT(*) FROM {plan.target.sql}") == [(598,)]


def test_a_table_that_is_in_doubt_leaves_the_others_together(desk: Desk, schema: SchemaFactory) -> None:
    """In a batch and in each part; no change is done one by one."""
    equal, other = filled(desk, schema, 1, equal=3000), filled(desk, schema, 200)
    least = row_bag.MIN_SEARCHED
    first = [update(equal, (0, b"old"), (at, b"new")) for at in range(least)]
    first += [update(other, (at, b"old"), (at, b"new")) for at in range(200)]
    applied = apply_batch(desk.connection, first)
    assert (applied.changes, applied.by_hash, applied.row_by_row) == (least + 200, 200, False)
    assert equal.row_hash is not None
    equal.row_hash.refused = ""
    parts = [[update(equal, (0, b"old"), (at, b"new")) for at in range(least)]]
    parts.append([update(other, (at, b"new"), (at, b"newest")) for at in range(200)])
    applied = apply_parts(desk.connection, lambda: iter(parts))
    assert (applied.changes, applied.by_hash, applied.row_by_row) == (least + 200, 200, False)
    assert rows_of(desk, other) == sorted(((at, "newest") for at in range(200)), key=repr)
    assert len(rows_of(desk, equal)) == 3000


def rows_of(desk: Desk, plan: TablePlan) -> list[tuple[object, ...]]:
    return sorted(desk.connection.query(f"SELECT * FROM {plan.target.sql}"), key=repr)


def test_of_equal_rows_as_many_go_as_changes_say(desk: Desk, schema: SchemaFactory) -> None:
    plan = filled(desk, schema, 100, equal=3)
    changes = [delete(plan, at, b"old") for at in range(100) for _ in range(1 + at % 3)]
    applied = apply_batch(desk.connection, changes)
    assert (applied.by_hash, applied.row_by_row) == (len(changes), False)
    assert rows_of(desk, plan) == sorted(((at, "old") for at in range(100) for _ in range(2 - at % 3)), key=repr)


def test_where_nearly_all_rows_are_equal_each_is_found_by_itself(desk: Desk, schema: SchemaFactory) -> None:
    plan = filled(desk, schema, 2, equal=2000)
    changes = [update(plan, (1, b"old"), (at, b"new")) for at in range(row_bag.MIN_SEARCHED)]
    applied = apply_batch(desk.connection, changes)
    assert (applied.by_hash, applied.row_by_row) == (0, False)
    assert plan.row_hash is not None
    assert "equal rows" in plan.row_hash.refused
    assert len(rows_of(desk, plan)) == 4000


def test_a_missing_row_is_the_error_of_its_own_change(desk: Desk, schema: SchemaFactory) -> None:
    plan = filled(desk, schema, 200)
    before = rows_of(desk, plan)
    changes = [update(plan, (at, b"old"), (at, b"new")) for at in range(200)]
    changes[120] = update(plan, (120, b"lost"), (120, b"new"))
    failed: list[RowChange] = []
    with pytest.raises(DMError) as caught:
        apply_batch(desk.connection, changes, failed=failed.append)
    assert caught.value.name == "row-missing"
    assert failed == [changes[120]]
    assert rows_of(desk, plan) == before
    assert plan.row_hash is not None
    assert plan.row_hash.refused == "", "the row is to blame"


@pytest.mark.parametrize(
    "altered",
    [
        "ALTER TABLE {} ADD own INT DEFAULT 7",
        "CREATE TRIGGER {}_fires BEFORE INSERT ON {} FOR EACH ROW SET NEW.b = 'x'",
    ],
)
def test_what_somebody_adds_to_the_table_meanwhile_is_kept(desk: Desk, schema: SchemaFactory, altered: str) -> None:
    plan = filled(desk, schema, 100)
    table = f"{plan.target.schema}.{plan.target.table}"
    desk.server.execute(altered.format(table, table))
    if "own" in altered:
        desk.server.execute(f"UPDATE {table} SET own = a")
    changes = [update(plan, (at, b"old"), (at, b"new")) for at in range(100)]
    applied = apply_batch(desk.connection, changes)
    assert (applied.by_hash, applied.row_by_row) == (0, False)
    assert rows_of(desk, plan) == sorted(
        ((at, "new", at) if "own" in altered else (at, "new") for at in range(100)), key=repr
    )
    assert plan.row_hash is not None
    assert "another one" in plan.row_hash.refused


@pytest.mark.parametrize(
    ("column", "type_now", "own", "looked_for"),
    [
        (Column("v", "decimal", 10, 2), "DECIMAL(12,4)", "1.0049", "1.00"),
        (Column("v", "decimal", 3, 2), "DECIMAL(9,2)", "123.45", "9.99"),
        (Column("v", "int"), "DECIMAL(12,4)", "16.5", 17),
        (Column("v", "int"), "DOUBLE", "1.4", 1),
    ],
    ids=["more digits", "a longer number", "a fraction", "a floating number"],
)
def test_a_row_that_another_source_wrote_into_a_wider_column_stays(
    desk: Desk, schema: SchemaFactory, column: Column, type_now: str, own: str, looked_for: Value
) -> None:
    """Its source has altered the merged table; the one that looks for rows knows the old type."""
    type_then = f"DECIMAL({column.length},{column.decimals})" if column.base == "decimal" else column.base
    ddl = f"a INT NOT NULL, v {type_then}"
    plan = create(desk, schema(desk.server), ddl, [COLUMNS[0], column])
    rows: list[Row] = [(at, looked_for) for at in range(row_bag.MIN_SEARCHED)]
    apply_batch(desk.connection, [insert(plan, *row) for row in rows])
    table = plan.target.sql
    desk.server.execute(f"ALTER TABLE {table} MODIFY v {type_now}", f"INSERT INTO {table} VALUES (0, '{own}')")
    (kept,) = desk.connection.query(f"SELECT * FROM {table} WHERE v = '{own}'")
    apply_batch(desk.connection, [delete(plan, *row) for row in rows])
    assert desk.connection.query(f"SELECT * FROM {table}") == [kept]


def test_a_large_transaction_is_one_that_is_read_once_for_each_part(desk: Desk, schema: SchemaFactory) -> None:
    plan = filled(desk, schema, 300)
    first = [update(plan, (at, b"old"), (at, b"new")) for at in range(200)]
    second = [update(plan, (at, b"new" if at < 200 else b"old"), (at, b"newest")) for at in range(100, 300)]
    applied = apply_parts(desk.connection, lambda: iter([first, second]))
    assert (applied.changes, applied.by_hash, applied.row_by_row) == (400, 400, False)
    expected = [(at, "new" if at < 100 else "newest") for at in range(300)]
    assert rows_of(desk, plan) == sorted(expected, key=repr)
    lost = [update(plan, (at, b"gone"), (at, b"new")) for at in range(100)]
    again = [update(plan, (at, b"new"), (at, b"again")) for at in range(100)]
    with pytest.raises(DMError) as caught:
        apply_parts(desk.connection, lambda: iter([again, lost]))
    assert caught.value.name == "row-missing"
    assert rows_of(desk, plan) == sorted(expected, key=repr)


def test_a_text_that_is_longer_than_a_packet_stands_for_no_row(
    server: ServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_bag, "MIN_SEARCHED", 1)
    small = server("mariadb", max_allowed_packet=20480)
    small.execute("CREATE DATABASE d")
    connect = partial(TargetConnection, endpoint_of(small), several=True)
    with connect() as connection:
        schemas = TargetSchemas(connect)
        plan = create(
            Desk(small, connection, schemas),
            "d",
            "v VARCHAR(15000)",
            [Column("v", "varchar", 15000, charset="utf8mb4")],
        )
        one, other = b"x" * 12000, b"x" * 11999 + b"y"
        ((without_text,),) = small.query("SELECT HEX(REPEAT('x', 12000)) IS NULL")  # not yet in MariaDB 11.4.5
        for value in (other, None, one):
            apply_batch(connection, [insert(plan, value)])
        applied = apply_batch(connection, [delete(plan, one)])
        assert (applied.by_hash, applied.row_by_row) == (0 if without_text else 1, False)
        assert set(connection.query("SELECT v FROM d.t")) == {(other.decode(),), (None,)}
        assert plan.row_hash is not None
        assert ("no hash" in plan.row_hash.refused) is bool(without_text)
        plan.row_hash.refused = ""
        apply_batch(connection, [delete(plan, None)])
        assert connection.query("SELECT v FROM d.t") == [(other.decode(),)], "a value without a text is not NULL"
        schemas.close()
