"""Rows as literals, compiled and in Python."""

from __future__ import annotations

import random
from types import ModuleType

import pytest

from dm.changes.column_map import MappedColumn
from tests.unit.accelerator.literals_at_random import any_columns, any_value, written


def test_rows_of_any_values(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance = random.Random(seed)
    right = 0
    for _ in range(3000):
        columns = any_columns(chance)
        row = tuple(any_value(chance) for _ in columns)
        found = written(native, columns, row)
        assert found == written(None, columns, row), (seed, row)
        right += isinstance(found, bytes)
    assert right > 100, seed


def test_a_row_that_is_too_short(native: ModuleType) -> None:
    columns: tuple[MappedColumn, ...] = any_columns(random.Random(1))
    assert written(native, columns, ()) == "IndexError"


@pytest.mark.parametrize("steps", [None, (), [], ((0, 99, b"", repr),), ((-1, 1, b"", repr),), ((0, 1, b"", 5),), (1,)])
def test_what_is_no_step_is_refused(native: ModuleType, steps: object) -> None:
    if steps == ():
        assert native.Literals(steps, b"(", b")")(()) == b"()"
        return
    with pytest.raises((TypeError, ValueError)):
        native.Literals(steps, b"(", b")")


def test_an_encoder_may_write_other_rows(native: ModuleType) -> None:
    inner = native.Literals(((0, 1, b"", repr),), b"", b"")
    outer = native.Literals(((0, 0, b"", lambda value: inner((value,))), (0, 1, b"", repr)), b"<", b">")
    assert outer((7,)) == b"<7,7>"


def test_what_an_encoder_raises_comes_through(native: ModuleType) -> None:
    def refuse(value: object) -> bytes:
        raise TypeError(f"not {value}")

    with pytest.raises(TypeError, match="not x"):
        native.Literals(((0, 1, b"", refuse),), b"", b"")(("x",))
    with pytest.raises(TypeError, match="bytes"):
        native.Literals(((0, 0, b"", str),), b"", b"")(("x",))
