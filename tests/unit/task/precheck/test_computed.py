"""Which generated columns of a target make other values than the source's."""

from __future__ import annotations

import pytest

from dm.task.precheck.computed import UNTOLD, computes_otherwise


@pytest.mark.parametrize(
    ("source", "target", "comparable", "otherwise"),
    [
        ("`a` + 1", "`a` + 2", True, True),
        ("`a` + 1", "`a` + 1", True, False),
        ("`a` + 1", "(`a` + 1)", False, False),
        ("", "`a` + 1", True, True),
        ("", "`a` + 1", False, True),
        ("`a` + 1", "", True, False),
        (UNTOLD, "`a` + 1", True, False),
        ("`a` + 1", UNTOLD, True, False),
        ("", UNTOLD, True, True),
    ],
)
def test_an_expression_counts_where_both_tell_it(source: str, target: str, comparable: bool, otherwise: bool) -> None:
    assert computes_otherwise(source, target, comparable=comparable) is otherwise
