"""Which generated columns of a target make other values than the source's."""

from __future__ import annotations

import pytest

from dm.mysql.schema.expressions import UNTOLD, computes_otherwise


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


@pytest.mark.parametrize(
    ("written", "printed", "otherwise"),
    [
        ("v + 1", "(`v` + 1)", False),
        ("V+1", "`v` + 1", False),
        ("CONCAT(v, 'x')", "concat(`v`,'x')", False),
        ("(v + 1) * (w + 1)", "((`v` + 1) * (`w` + 1))", False),
        ("(v + 1) * (w + 1)", "v + 1) * (w + 1", True),
        ("(v + 1) * 2", "v + 1 * 2", True),
        ("v + 1 * 2", "(`v` + (1 * 2))", True),  # in doubt
        ("v + 1", "`v` - 1", True),
        ("concat(v, 'x')", "concat(`v`,'X')", True),
        ("concat(v, 'x')", "concat(`v`,`x`)", True),
        ("ifnull(v, true)", "ifnull(`v`,`true`)", True),
        ("ifnull(v, true)", "ifnull(`v`,TRUE)", False),
        ("concat(v, 'x)", "concat(`v`,'x')", True),
        ("", "(`v` + 1)", True),
    ],
)
def test_what_a_server_prints_is_what_somebody_wrote(written: str, printed: str, otherwise: bool) -> None:
    assert computes_otherwise(written, printed, comparable=True) is otherwise
