"""The compiled row decoder says what the one in Python says, or nothing."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.native_rows import NativeRows
from dm.mysql.binlog.value import ABSENT
from tests.testbed.decoders import outcome, running, told
from tests.testbed.figures import record
from tests.unit.accelerator.rows_at_random import Sample, sample

MANY = 100_000
seeds = st.integers(0, (1 << 64) - 1)
thorough = settings(max_examples=80, deadline=None)


def compiled_rows(native: ModuleType, given_sample: Sample) -> list[Any] | None:
    """What the compiled decoder alone says."""
    with running(native):
        RowDecoder(given_sample.table_map, given_sample.columns)  # raises where the two do not fit
        return NativeRows(native, given_sample.table_map, given_sample.columns).learn(given_sample.rows)


@thorough
@given(seeds)
def test_rows_of_a_server_are_read_by_the_compiled_decoder_itself(native: ModuleType, seed: int) -> None:
    found = sample(seed, damage=False)
    python = outcome(None, found.table_map, found.columns, found.rows)
    if isinstance(python, list):
        assert told(compiled_rows(native, found)) == told(python)


@thorough
@given(seeds)
def test_whatever_the_bytes_are_both_say_the_same(native: ModuleType, seed: int) -> None:
    found = sample(seed, damage=True)
    python = outcome(None, found.table_map, found.columns, found.rows)
    assert told(outcome(native, found.table_map, found.columns, found.rows)) == told(python)
    alone = compiled_rows(native, found)
    assert alone is None or told(alone) == told(python)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_both_say_the_same_of_very_many_rows(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    refused = 0
    for number in range(MANY):
        found = sample(seed + number, damage=number % 4 > 0)
        python = outcome(None, found.table_map, found.columns, found.rows)
        assert told(outcome(native, found.table_map, found.columns, found.rows)) == told(python), seed + number
        refused += not isinstance(python, list)
    record("accelerator.agreement", {"samples": MANY, "seed": seed, "refused": refused})


def test_no_step_with_senseless_numbers_is_taken(native: ModuleType) -> None:
    chance = random.Random(1)
    for _ in range(5000):
        kind, width, digits = (chance.randrange(256) for _ in range(3))
        step = (kind, width, digits, chance.choice((0, 1, 8, 9, 255, 65536, 1 << 31)), None)
        try:
            layout = native.Layout((step,), ABSENT)
        except ValueError:
            continue
        for size in range(80):
            native.decode(None, layout, chance.randbytes(size), 0, size)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (1, None, b"", 0, 0),
        (None, None, b"", 0, 0, 0),
        (None, "layout", b"", 0, 0),
        (None, None, b"", "0", 0),
    ],
)
def test_what_is_no_call_of_it_is_refused(native: ModuleType, arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        native.decode(*arguments)


@pytest.mark.parametrize(("start", "end"), [(-1, 4), (0, 5), (3, 2), (5, 5), (1 << 62, 1 << 62)])
def test_places_outside_of_the_bytes_are_left_to_python(native: ModuleType, start: int, end: int) -> None:
    layout = native.Layout(((1, 0, 0, 1, None),), ABSENT)
    assert native.decode(None, layout, b"\0\1\0\2", start, end) is None
    assert native.decode(None, layout, bytearray(b"\0\1\0\2"), 0, 4) is None
    assert native.decode(None, layout, b"\0\1\0\2", 0, 4) == [(None, (1,)), (None, (2,))]


def test_what_a_function_raises_is_judged_by_python_but_not_an_interrupt(native: ModuleType) -> None:
    def interrupted(raw: bytes) -> None:
        raise KeyboardInterrupt

    def failing(raw: bytes) -> None:
        raise RuntimeError(raw)

    assert native.decode(None, native.Layout(((15, 0, 0, 1, failing),), ABSENT), b"\0\1", 0, 2) is None
    with pytest.raises(KeyboardInterrupt):
        native.decode(None, native.Layout(((15, 0, 0, 1, interrupted),), ABSENT), b"\0\1", 0, 2)


def test_nothing_is_kept_of_what_was_decoded(native: ModuleType) -> None:
    import sys

    marker = object()
    before = sys.getrefcount(marker)
    layout = native.Layout((None, (1, 0, 0, 1, None), (15, 0, 0, 1, lambda raw: marker)), marker)
    for data in (b"\0\1\1" * 1000, b"\0\1\1" * 1000 + b"\0\1"):
        native.decode(layout, layout, data, 0, len(data))
    del layout
    assert sys.getrefcount(marker) == before


def test_a_layout_has_a_step_for_each_column_that_is_held(native: ModuleType) -> None:
    found = sample(5, damage=False)
    assert NativeRows(native, found.table_map, found.columns).layout(found.rows.present) is not None
