"""What counts as the same structure, where the target tells it in another way."""

from __future__ import annotations

import pytest

from dm.equality.structure import ColumnFacts, Structure, differences


def table(type_: str) -> Structure:
    column = ColumnFacts("c", type_, True, None, None, None, "", "", "")
    return Structure((column,), (), frozenset(), frozenset())


@pytest.mark.parametrize(
    ("source", "target", "equal"),
    [
        ("int(10) unsigned zerofill", "int unsigned", True),
        ("decimal(10,2) unsigned zerofill", "decimal(10,2) unsigned", True),
        ("int(10) unsigned zerofill", "int", False),
        ("int", "int unsigned", False),
        ("decimal(10,2) unsigned zerofill", "decimal(10,3) unsigned", False),
    ],
)
def test_a_tidb_tells_of_no_zerofill(source: str, target: str, equal: bool) -> None:
    assert (differences(table(source), table(target), same_flavor=True, tidb=True) == []) is equal


def test_elsewhere_zerofill_counts() -> None:
    assert differences(table("int(10) unsigned zerofill"), table("int unsigned"), same_flavor=True)
