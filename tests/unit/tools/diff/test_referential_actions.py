"""Changes of parents are followed over foreign keys that act, as a server does it."""

from __future__ import annotations

import pytest

from dm.tools.diff.referential_actions import ActingForeignKey, Change, reached

KEYS = (
    ActingForeignKey("s.orders", "s.items", "CASCADE", "RESTRICT"),
    ActingForeignKey("s.items", "s.notes", "SET NULL", "NO ACTION"),
    ActingForeignKey("s.notes", "s.marks", "CASCADE", "CASCADE"),
    ActingForeignKey("s.tree", "s.tree", "CASCADE", "RESTRICT"),
    ActingForeignKey("s.a", "s.b", "CASCADE", "CASCADE"),
    ActingForeignKey("s.b", "s.a", "CASCADE", "CASCADE"),
)


@pytest.mark.parametrize(
    ("changes", "tables"),
    [
        ([], set()),
        ([("s.orders", "delete")], {"s.items", "s.notes", "s.marks"}),
        ([("s.orders", "update")], set()),
        ([("s.items", "delete")], {"s.notes", "s.marks"}),
        ([("s.tree", "delete")], {"s.tree"}),
        ([("s.a", "update")], {"s.a", "s.b"}),
        ([("s.marks", "delete"), ("s.other", "delete")], set()),
        (None, {"s.items", "s.notes", "s.marks", "s.tree", "s.a", "s.b"}),
    ],
)
def test_all_that_keys_may_have_changed_is_found(changes: list[Change] | None, tables: set[str]) -> None:
    assert reached(KEYS, changes) == tables


def test_children_of_a_parent_that_is_not_migrated_count_as_changed() -> None:
    assert reached([*KEYS, ActingForeignKey(None, "s.items", "CASCADE", "RESTRICT")], []) == {
        "s.items",
        "s.notes",
        "s.marks",
    }
