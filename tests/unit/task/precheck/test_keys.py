"""What check-task says of tables without a key: how a target finds their rows depends on its dialect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect
from dm.task.precheck.context import Answers
from dm.task.precheck.tables import keys


@pytest.mark.parametrize(
    ("flavor", "scans", "unless"), [("mysql", False, False), ("mariadb", True, True), ("tidb", True, False)]
)
def test_a_target_that_reads_the_table_for_each_row(flavor: Flavor, scans: bool, unless: bool) -> None:
    context: Any = SimpleNamespace(
        keyless=[TableName("d", "t")],
        syncs=True,
        target=SimpleNamespace(facts=SimpleNamespace(dialect=dialect(flavor, 80011))),
    )
    (result,) = keys(context, Answers("table_schema", "s"))
    assert ("for each row" in result.message) is scans
    assert ("unless many change at once" in result.message) is unless
    assert ("ADD KEY (..)" in result.instruction) is scans
