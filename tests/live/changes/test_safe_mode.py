"""Safe mode: replaying a stretch of history over a target that is already somewhere inside it ends at its end."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_keys import TargetTable
from dm.config.units import InsertMode
from dm.downstream.apply import apply_batch
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.dialect import FLAVORS, Flavor
from dm.mysql.schema.table import Column, TableSchema
from tests.live.changes.tables import Shape, contents, endpoint_of, fill, primary, unique
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

_ID = Column("id", "int", nullable=False)
_NUMBER = Column("n", "int")
_PAIR = Column("m", "int", nullable=False)
_REST = Column("c", "int")
_OWN = Column("own", "int", nullable=False, default="7")
_COLUMNS = (_ID, _NUMBER, _PAIR, _REST)
_DDL = "id INT NOT NULL PRIMARY KEY, n INT, m INT NOT NULL, c INT"

SHAPES = {
    "one key": Shape(_DDL, _COLUMNS, (primary("id"),)),
    "three keys": Shape(
        f"{_DDL}, UNIQUE KEY n (n), UNIQUE KEY nm (m, n)",
        _COLUMNS,
        (primary("id"), unique("n", "n"), unique("nm", "m", "n")),
    ),
    "column of the target's own": Shape(
        f"{_DDL}, own INT NOT NULL DEFAULT 7, UNIQUE KEY n (n)",
        _COLUMNS,
        (primary("id"), unique("n", "n")),
        (_OWN,),
    ),
}

History = list[tuple[Row | None, Row | None]]


def _legal(rows: list[Row], new: Row, *, several: bool) -> bool:
    """Whether the source's unique keys allow the row beside the others."""
    if any(row[0] == new[0] for row in rows):
        return False
    return not several or new[1] is None or all(row[1] != new[1] for row in rows)


@st.composite
def _histories(draw: st.DrawFn, *, several: bool) -> History:
    """What a source may do: every change fits the rows that are there."""
    rows: list[Row] = []
    history: History = []
    for _ in range(draw(st.integers(1, 16))):
        new = (draw(st.integers(1, 4)), draw(st.none() | st.integers(1, 3)), draw(st.integers(1, 2)), len(history))
        old = draw(st.none() | st.sampled_from(rows)) if rows else None
        others = [row for row in rows if row is not old]
        if old is not None and draw(st.integers(0, 3)) == 0:
            history.append((old, None))
            rows = others
        elif _legal(others, new, several=several):
            history.append((old, new))
            rows = [*others, new]
    return history


def _changes(plan: TablePlan, history: History, *, safe: bool) -> list[RowChange]:
    kinds = {(True, False): ChangeKind.INSERT, (False, False): ChangeKind.UPDATE, (False, True): ChangeKind.DELETE}
    return [RowChange(plan, kinds[before is None, after is None], before, after, safe) for before, after in history]


@pytest.fixture(scope="module", params=FLAVORS)
def ground(request: pytest.FixtureRequest, park: ServerPark) -> Iterator[tuple[TargetConnection, dict[str, TablePlan]]]:
    flavor: Flavor = request.param
    server = park.shared(flavor, "target")
    server.execute("CREATE DATABASE in_safe_mode")
    plans = {}
    for number, (name, shape) in enumerate(SHAPES.items()):
        table = TableName("in_safe_mode", f"t{number}")
        shape.create(server, table)
        plans[name] = shape.plan(table, PlanOptions(flavor))
    with TargetConnection(endpoint_of(server)) as connection:
        yield connection, plans
    server.execute("DROP DATABASE in_safe_mode")


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_replay_from_any_point_over_any_later_state_ends_at_the_end(
    ground: tuple[TargetConnection, dict[str, TablePlan]], shape: str
) -> None:
    connection, plans = ground
    plan = plans[shape]

    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_histories(several=shape != "one key"), st.data())
    def check(history: History, data: st.DataObject) -> None:
        reached = data.draw(st.integers(0, len(history)))
        again = data.draw(st.integers(0, reached))
        fill(connection, plan, [])
        apply_batch(connection, _changes(plan, history, safe=False))
        final = contents(connection, plan.target)
        fill(connection, plan, [])
        apply_batch(connection, _changes(plan, history[:reached], safe=False))
        apply_batch(connection, _changes(plan, history[again:], safe=True))
        assert contents(connection, plan.target) == final

    check()


@st.composite
def _exchanges(draw: st.DrawFn) -> list[tuple[History, list[Row]]]:
    """Statements of a source whose rows have the ids as a key, each with the rows after it; no two have one `m`."""
    rows: dict[int, Row] = {}
    steps: list[tuple[History, list[Row]]] = []
    for number in range(draw(st.integers(1, 12))):
        one, other = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        value = draw(st.integers(1, 4))
        taken = {row[2] for key, row in rows.items() if key != one}
        before, new = rows.get(one), (one, None, value, number)
        if before is not None and other in rows and other != one:
            second = rows[other]
            rows[one], rows[other] = (one, None, second[2], number), (other, None, before[2], number)
            steps.append(([(before, rows[one]), (second, rows[other])], list(rows.values())))
        elif before is not None and other == one and value == 1:
            del rows[one]
            steps.append(([(before, None)], list(rows.values())))
        elif value not in taken:
            rows[one] = new
            steps.append(([(before, new)], list(rows.values())))
    return steps


@pytest.mark.parametrize("own", [False, True])
def test_a_replay_where_rows_exchange_a_key_of_the_target_s_own_ends_at_the_end(
    park: ServerPark, schema: SchemaFactory, own: bool
) -> None:
    server = park.shared("mysql", "target")
    table = TableName(schema(server), "t")
    extra = (_OWN,) if own else ()
    kept = ", own INT NOT NULL DEFAULT 7" if own else ""
    server.execute(f"CREATE TABLE {table.sql} (id INT NOT NULL, n INT, m INT PRIMARY KEY, c INT{kept})")
    plan = build_plan(
        TableSchema(table, _COLUMNS, (primary("id"),)),
        _COLUMNS,
        TargetTable(TableSchema(table, (*_COLUMNS, *extra), (primary("m"),))),
        PlanOptions("mysql", compact=True),
    )

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_exchanges(), st.data())
    def check(steps: list[tuple[History, list[Row]]], data: st.DataObject) -> None:
        reached = data.draw(st.integers(0, len(steps)))
        again = data.draw(st.integers(0, reached))
        fill(connection, plan, steps[reached - 1][1] if reached else [])
        replayed = [change for history, _ in steps[again:] for change in history]
        apply_batch(connection, _changes(plan, replayed, safe=True))
        final = sorted((tuple(row) for row in (steps[-1][1] if steps else [])), key=repr)
        assert sorted((row[:4] for row in contents(connection, table)), key=repr) == final

    with TargetConnection(endpoint_of(server)) as connection:
        check()


def test_safe_mode_keeps_what_only_the_target_knows(
    ground: tuple[TargetConnection, dict[str, TablePlan]],
) -> None:
    connection, plans = ground
    plan = plans["column of the target's own"]
    fill(connection, plan, [(1, 1, 1, 1), (2, 2, 2, 2)])
    connection.execute(f"UPDATE {plan.target.sql} SET own = id + 10")
    history: History = [
        (None, (1, 1, 1, 5)),
        ((2, 2, 2, 2), (3, 2, 2, 6)),
        (None, (4, 4, 4, 4)),
    ]
    for _ in range(2):
        apply_batch(connection, _changes(plan, history, safe=True))
        assert contents(connection, plan.target) == [(1, 1, 1, 5, 11), (3, 2, 2, 6, 12), (4, 4, 4, 4, 7)]


# What an INSERT does to a row that has its key: by `insert-mode` and safe mode.
CELLS = [("insert", False, False), ("replace", False, True), ("insert", True, True), ("replace", True, True)]


@pytest.mark.parametrize(("mode", "safe", "wins"), CELLS)
@pytest.mark.parametrize("kind", ["plain", "column of the target's own", "parent", "trigger"])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_who_wins_where_a_row_is_there_already(
    park: ServerPark, schema: SchemaFactory, flavor: Flavor, kind: str, mode: InsertMode, safe: bool, wins: bool
) -> None:
    server = park.shared(flavor, "target")
    name = schema(server)
    table = TableName(name, "t")
    own = ", own INT NOT NULL DEFAULT 7" if kind == "column of the target's own" else ""
    server.execute(
        f"CREATE TABLE {table.sql} (id INT PRIMARY KEY, n INT, c INT{own}, UNIQUE KEY n (n))",
        f"CREATE TABLE {name}.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {table.sql} (id))",
        f"CREATE TABLE {name}.seen (what CHAR(6), id INT)",
        f"INSERT INTO {table.sql} (id, n, c) VALUES (1, 1, 1), (2, 2, 2)",
        f"INSERT INTO {name}.child VALUES (1, 1)",
    )
    if own:
        server.execute(f"UPDATE {table.sql} SET own = 8")
    if kind == "trigger":
        for verb in ("INSERT", "UPDATE", "DELETE"):
            row = "OLD" if verb == "DELETE" else "NEW"
            server.execute(
                f"CREATE TRIGGER {name}.on_{verb} AFTER {verb} ON {table.sql} FOR EACH ROW"
                f" INSERT INTO {name}.seen VALUES ('{verb}', {row}.id)"
            )
    connect = partial(TargetConnection, endpoint_of(server), foreign_key_checks=kind == "parent")
    targets = TargetSchemas(connect, foreign_key_checks=kind == "parent")
    target = targets.get(table)
    assert target is not None
    columns = (_ID, _NUMBER, _REST)
    plan = build_plan(
        TableSchema(table, columns, (primary("id"), unique("n", "n"))),
        columns,
        target,
        PlanOptions(flavor, insert_mode=mode, foreign_key_checks=kind == "parent"),
    )
    changes = [RowChange(plan, ChangeKind.INSERT, None, (1, 5, 6), safe)]
    kept: tuple[object, ...] = (8,) if own else ()
    with connect() as connection:
        if wins:
            apply_batch(connection, changes)
        else:
            with pytest.raises(DMError) as caught:
                apply_batch(connection, changes)
            assert caught.value.name == "duplicate-key"
        assert contents(connection, table) == [(1, 5, 6, *kept) if wins else (1, 1, 1, *kept), (2, 2, 2, *kept)]
        assert contents(connection, TableName(name, "child")) == [(1, 1)]
        seen = {str(what) for what, _ in connection.query(f"SELECT what, id FROM {name}.seen")}
        assert seen == ({"DELETE", "INSERT"} if kind == "trigger" and wins else set())
        # A row with another key that the new one takes goes, where the new one wins.
        if kind != "trigger" and wins:
            apply_batch(connection, [RowChange(plan, ChangeKind.INSERT, None, (1, 2, 6), safe)])
            assert contents(connection, table) == [(1, 2, 6, *kept)]
    targets.close()


def test_a_partial_image_changes_what_it_holds(ground: tuple[TargetConnection, dict[str, TablePlan]]) -> None:
    connection, plans = ground
    plan = plans["one key"]
    fill(connection, plan, [(1, 1, 1, 1), (2, 2, 2, 2)])
    partial: History = [((1, ABSENT, ABSENT, ABSENT), (ABSENT, ABSENT, ABSENT, 9))]
    for safe in (False, True):
        apply_batch(connection, _changes(plan, partial, safe=safe))
        assert contents(connection, plan.target) == [(1, 1, 1, 9), (2, 2, 2, 2)]
        connection.execute(f"UPDATE {plan.target.sql} SET c = 1 WHERE id = 1")
    apply_batch(connection, _changes(plan, [((2, ABSENT, ABSENT, ABSENT), None)], safe=False))
    assert contents(connection, plan.target) == [(1, 1, 1, 1)]
