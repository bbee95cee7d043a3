"""The paths that documents are asked for, and the numbers that their texts have, by both twins."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow
import pytest

from dm.accelerator import switch
from dm.dumper.asked_paths import Unproven, count_numbers, number_paths, numbers_in, proven
from dm.dumpfiles.text_rows import ColumnBatch
from dm.mysql.sql.json_literal import NOTHING
from tests.testbed.decoders import compiled

TEXTS = {
    b'{"a": 1, "b": [-2.5, 1e100, "3", "a\\"4"], "c": true, "d": null}': 3,
    b"7": 1,
    b'"7"': 0,
    b"[]": 0,
    b'{"t": "2024-01-01"}': -1,
    b'{"t": "2024-01-01 10:00:00.000000"}': -1,
    b'["-838:59:59.000000"]': -1,
    b'"base64:type15:AA=="': -1,
    b'{"2024-01-01": 1}': -1,
    b'["12345678", "-1234567", "2024-01-01T10:00:00Z", "base64", "1:2"]': 0,
    b'["a': -1,
    b'["a\\': -1,
    b"[1, -": 1,
}


def batch(texts: list[bytes | None], counts: list[bytes | None]) -> ColumnBatch:
    columns = [pyarrow.array(texts, pyarrow.binary()), pyarrow.array(counts, pyarrow.binary())]
    return ColumnBatch(columns, len(texts), 0)


@pytest.mark.parametrize("native", [compiled(), None], ids=["C", "Python"])
def test_numbers_are_counted(native: Any) -> None:
    with switch.using(native):
        for text, wanted in TEXTS.items():
            assert count_numbers(pyarrow.array([text], pyarrow.binary())) == wanted, text
        assert count_numbers(pyarrow.array([b"1", None, b"2", b""], pyarrow.binary())) == 2
        assert count_numbers(pyarrow.array([None], pyarrow.binary())) == 0
        assert count_numbers(pyarrow.array([], pyarrow.binary())) == 0


def test_the_twins_agree() -> None:
    native = compiled()
    if native is None:
        pytest.skip("the extension is not built")
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    dice = random.Random(seed)
    for _ in range(3000):
        texts = [bytes(dice.choices(b'"\\{}1-+e:. ,a', k=dice.randrange(14))) for _ in range(dice.randrange(4))]
        column = pyarrow.array(texts, pyarrow.binary())
        with switch.using(native):
            assert count_numbers(column) == numbers_in(texts), texts


@pytest.mark.parametrize("native", [None, compiled()], ids=["python", "compiled"])
def test_a_part_of_a_column_has_its_own_numbers(native: Any) -> None:
    column = pyarrow.array([b"[1, 2]", b"[3]", b"4"], pyarrow.binary())
    with switch.using(native):
        assert [count_numbers(column.slice(at)) for at in range(4)] == [4, 2, 1, 0]


def test_the_paths_are_those_of_numbers() -> None:
    def found(*documents: Any) -> tuple[str, ...] | None:
        return number_paths([None, *(json.dumps(document).encode() for document in documents)])

    assert found({"a": 1, "b": {"c": [True, "x", {"d": 1.5}]}}, {"a": 2, "e_1": None}) == ('$."a"', '$."b"."c"[2]."d"')
    assert found(3) == ("$",)
    assert found() == found({}, []) == ()
    assert found({"a b": 1}) is None
    assert found({"é": 1}) is None
    assert found({"a": "2024-01-01"}) is None
    assert found(list(range(20))) is not None
    assert found(list(range(21))) is None
    assert found({"a": 1}, {"a": [1]}) is None, "both find what is no array"
    assert found({"a": {"b": 1}}, {"a": [{"b": 1}]}) is None
    assert number_paths([b""]) is None


def test_a_batch_is_proven_where_each_number_was_asked_for() -> None:
    fine = batch([b'{"a": 1}', None, b"{}"], [b"1", b"0", b"0"])
    (given,) = proven(iter([fine]), [(0, 1)])
    assert given.columns[1].to_pylist() == [NOTHING] * 3


@pytest.mark.parametrize(
    ("texts", "counts"),
    [([b'{"a": 1}'], [b"0"]), ([b'{"a": 1}'], [None]), ([b'["2024-01-01"]'], [b"0"]), ([b"1", b"2"], [b"1", b"0"])],
)
def test_a_batch_is_refused_and_what_is_left_is_not_read_yet(
    texts: list[bytes | None], counts: list[bytes | None]
) -> None:
    """Whoever reads it again keeps the task's pace with that."""
    answer = iter([batch(texts, counts) for _ in range(3)])
    with pytest.raises(Unproven):
        list(proven(answer, [(0, 1)]))
    assert len([*answer]) == 2
