"""Names that are one to a target that does not tell upper from lower case."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.ident import TableName
from dm.rules.router import FoldedNames, PresentNames, refuse_alike

MERGED = {TableName("d", "T"): TableName("d", "all"), TableName("d", "t"): TableName("d", "all")}


def test_tables_that_a_route_merges_and_others_stay() -> None:
    tables = [TableName("d", "T"), TableName("d", "t"), TableName("d", "Other"), TableName("e", "t")]
    refuse_alike(tables, lambda table: [MERGED.get(table, table)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TableName("d", "T"), TableName("d", "t")),
        (TableName("D", "t"), TableName("d", "u")),  # a DROP DATABASE of one would take the other
        (TableName("d", "ÄRGER"), TableName("d", "ärger")),
        (TableName("x", "routed"), TableName("d", "ROUTED")),
    ],
)
def test_names_that_differ_by_case_only_are_refused(one: TableName, other: TableName) -> None:
    with pytest.raises(DMError) as refused:
        refuse_alike([one, other], lambda table: [table._replace(schema="d") if table.schema == "x" else table])
    assert refused.value.name == "target-names-alike"


TABLES = [TableName(schema, table) for schema in ("d", "D", "e") for table in ("t", "T", "u")]


def merged(table: TableName) -> list[TableName]:
    """Routes one schema into another one."""
    return [table._replace(schema="d") if table.schema == "e" else table]


@given(st.lists(st.sampled_from(TABLES)), st.sampled_from(TABLES), st.sets(st.sampled_from(TABLES)))
def test_names_that_come_and_go_are_as_those_that_are_left(
    moves: list[TableName], asked: TableName, left_out: set[TableName]
) -> None:
    names, there = FoldedNames([], merged), set[TableName]()
    for table in moves:
        (names.remove if table in there else names.add)(table)
        there ^= {table}
    anew = FoldedNames(there - left_out, merged)
    assert refused(anew, asked) == refused(names, asked, lambda other: other not in left_out)
    for table in there:
        names.remove(table)
    assert not any(refused(names, table) for table in TABLES)


def refused(names: FoldedNames, asked: TableName, counts: Callable[[TableName], bool] = lambda other: True) -> bool:
    try:
        names.demand_own(asked, counts)
    except DMError:
        return True
    return False


@pytest.mark.parametrize(
    ("folding", "asked", "spelled", "there"),
    [
        (0, TableName("d", "Orders"), TableName("d", "Orders"), True),
        (0, TableName("d", "orders"), TableName("d", "orders"), False),
        (1, TableName("D", "Orders"), TableName("d", "orders"), True),
        (1, TableName("D", "New"), TableName("d", "new"), False),
        (2, TableName("d", "ORDERS"), TableName("d", "Orders"), True),
        (2, TableName("d", "New"), TableName("d", "New"), False),
    ],
)
def test_a_name_is_found_as_the_target_lists_it(
    folding: int, asked: TableName, spelled: TableName, there: bool
) -> None:
    listed = TableName("d", "orders" if folding == 1 else "Orders")
    present = PresentNames([listed], folding)
    assert (present.spelled(asked), asked in present) == (spelled, there)
