"""A value that a target without a strict mode turns into another one tells itself by a warning more or less."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dm.changes.statement import ApplyStatement, Expected
from dm.downstream.apply import _Serial
from dm.downstream.statements import StatementResult
from dm.errors import DMError
from tests.unit.changes.plans import insert, key, number, plan

ROW = insert(plan((number("id"), number("v")), (key("PRIMARY", "id"),)), 1, 2)


def checked(warnings: int, *, expected: int | None) -> None:
    """Look at the answer to an INSERT of a row; nothing is asked of a server."""
    statement = ApplyStatement(b"INSERT", Expected(affected=1, warnings=expected), (ROW,))
    _Serial(cast("Any", None), None)._check(statement, StatementResult(1, None, warnings))


@pytest.mark.parametrize(("warnings", "expected"), [(0, 1), (2, 1), (1, 0)])
def test_another_number_of_warnings_is_another_value(warnings: int, expected: int) -> None:
    with pytest.raises(DMError) as refused:
        checked(warnings, expected=expected)
    assert refused.value.name == "value-changed"
    assert "d.t" in str(refused.value)


@pytest.mark.parametrize(("warnings", "expected"), [(1, 1), (0, 0), (3, None)])
def test_the_number_that_is_expected_is_no_error(warnings: int, expected: int | None) -> None:
    checked(warnings, expected=expected)
