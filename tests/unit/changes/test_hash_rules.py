"""Each rule that keeps rows from being found by their hash, and that none stands in the way of an ordinary table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.changes.hash_rules import row_hash
from dm.changes.plan import PlanOptions, sees_none
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema
from tests.unit.changes.event_tables import pair_of, sees_all
from tests.unit.changes.plans import key, number

ID = number("id")
V = Column("v", "int")
COLUMNS = [ID, V]
MARIADB = PlanOptions("mariadb", compact=True, sees_triggers=sees_all)
_EMPTY = TableSchema(TableName("d", "t"), ())


def test_nothing_stands_in_the_way_of_equal_tables() -> None:
    found = row_hash(pair_of(COLUMNS, [], options=MARIADB))
    assert found is not None
    assert found.drops


@pytest.mark.parametrize(
    "changed",
    [
        {"flavor": "mysql"},
        {"flavor": "tidb"},
        {"others_alter": "with shards"},
        {"multiple_rows": False},
        {"foreign_key_checks": True},
        {"insert_mode": "replace"},
        {"missing_row": "count"},
        {"sees_triggers": sees_none},
    ],
    ids=lambda changed: str(changed.get("flavor", next(iter(changed)))),
)
def test_what_the_server_or_the_task_says(changed: dict[str, object]) -> None:
    options = replace(MARIADB, **changed)  # type: ignore[arg-type]  # the values of these fields
    assert row_hash(pair_of(COLUMNS, [], options=options)) is None


@pytest.mark.parametrize(
    "index", [key("PRIMARY", "id"), key("u", "v"), Index("k", "index", (IndexPart("v"),))], ids=str
)
def test_a_table_with_an_index(index: Index) -> None:
    assert row_hash(pair_of(COLUMNS, [index], options=MARIADB)) is None


def test_triggers() -> None:
    assert row_hash(pair_of(COLUMNS, [], options=MARIADB, target=TargetTable(_EMPTY, triggers=True))) is None


def test_columns_of_a_route() -> None:
    pair = pair_of(COLUMNS, [], options=MARIADB)
    assert row_hash(replace(pair, plan=replace(pair.plan, constants=(b"x",)))) is None


@pytest.mark.parametrize(
    "target",
    [
        [*COLUMNS, Column("own", "int", default="1")],
        [V, ID],
        [ID, replace(V, base="bigint")],
        [ID, replace(V, nullable=False)],
    ],
)
def test_a_table_that_is_another(target: list[Column]) -> None:
    options = replace(MARIADB, narrower_columns="accept")
    assert row_hash(pair_of(target, [], source=COLUMNS, options=options)) is None


@pytest.mark.parametrize("base", ["json", "point", "geometry", "vector", "uuid", "inet6", "inet4"])
def test_values_that_no_text_tells_apart(base: str) -> None:
    assert row_hash(pair_of([ID, Column("v", base)], [], options=MARIADB)) is None


@pytest.mark.parametrize("generated", ["virtual", "stored"])
def test_what_the_target_computes(generated: str) -> None:
    computed = replace(V, generated=generated, expression="id")  # type: ignore[arg-type]  # of these values
    assert row_hash(pair_of([ID, computed], [], options=MARIADB)) is None
