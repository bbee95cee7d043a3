"""Names that are one to a target that does not tell upper from lower case."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.rules.folded_names import refuse_alike

MERGED = {TableName("d", "T"): TableName("d", "all"), TableName("d", "t"): TableName("d", "all")}


def test_tables_that_a_route_merges_and_others_stay() -> None:
    tables = [TableName("d", "T"), TableName("d", "t"), TableName("d", "Other"), TableName("e", "t")]
    refuse_alike(tables, lambda table: MERGED.get(table, table))


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
        refuse_alike([one, other], lambda table: table._replace(schema="d") if table.schema == "x" else table)
    assert refused.value.name == "target-names-alike"
