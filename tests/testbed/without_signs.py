"""Random tables without negative zeros, which a MariaDB prints like others: they are no difference that it tells."""

from __future__ import annotations

from dataclasses import replace

from tests.testbed.random_table import Table


def without_negative_zeros(table: Table) -> None:
    """Take them from the values that are written to the table."""
    table.columns = [
        replace(column, values=tuple(value for value in column.values if not _is_negative_zero(value)))
        if column.type.startswith(("FLOAT", "DOUBLE"))
        else column
        for column in table.columns
    ]


def _is_negative_zero(value: str) -> bool:
    return value.startswith("-") and float(value) == 0
