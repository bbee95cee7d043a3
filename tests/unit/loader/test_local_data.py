"""Rows as the data of LOAD DATA, and that a server gets nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.ident import TableName
from dm.loader.local_data import load_statement, packets
from dm.mysql.schema.table import Column
from tests.testbed.decoders import compiled, running

_UNESCAPED = {b"t": b"\t", b"n": b"\n", b"\\": b"\\"}


def read(data: bytes) -> list[tuple[bytes | None, ...]]:
    """What LOAD DATA makes of the data."""

    def field(text: bytes) -> bytes | None:
        if text == b"\\N":
            return None
        return re.sub(rb"\\(.)", lambda found: _UNESCAPED[found[1]], text, flags=re.DOTALL)

    return [tuple(field(text) for text in line.split(b"\t")) for line in data.split(b"\n")[:-1]]


def sent(batch: pyarrow.RecordBatch, columns: Sequence[Column]) -> bytes:
    """The data, on which the compiled way and Arrow's agree; no piece is too large for a packet."""
    return in_pieces(batch, columns, 1 << 30, 7)


def in_pieces(batch: pyarrow.RecordBatch, columns: Sequence[Column], *sizes: int) -> bytes:
    """The data, the same in pieces of each of these sizes."""
    found = set()
    for native in {None, compiled()}:
        for size in sizes:
            with running(native):
                pieces = list(packets(batch, columns, size))
            assert all(0 < len(piece) < min(size + 1, 1 << 24) for piece in pieces)
            found.add(b"".join(pieces))
    (data,) = found
    return data


values = st.none() | st.binary(max_size=8) | st.text("\\\t\nN", max_size=5).map(str.encode)


@given(st.lists(st.tuples(values, values), max_size=20), st.integers(0, 9), st.integers(0, 9))
def test_each_value_is_read_as_it_was(rows: list[tuple[bytes | None, bytes | None]], first: int, last: int) -> None:
    arrays = [pyarrow.array([row[at] for row in rows], pyarrow.binary()) for at in range(2)]
    batch = pyarrow.RecordBatch.from_arrays(arrays, names=["a", "b"]).slice(first, max(0, len(rows) - first - last))
    data = sent(batch, [Column("a", "varchar"), Column("b", "longblob")])
    assert read(data) == rows[first : first + batch.num_rows]


def test_many_rows_go_in_pieces() -> None:
    rows = [(str(number).encode(), b"\t" * (number % 5000)) for number in range(2000)]
    arrays = [pyarrow.array([row[at] for row in rows], pyarrow.binary()) for at in range(2)]
    batch = pyarrow.RecordBatch.from_arrays(arrays, names=["a", "b"])
    assert read(sent(batch, [Column("a", "int"), Column("b", "text")])) == rows


def test_a_large_row_goes_in_pieces() -> None:
    value = b"\\" * (9 << 20)
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array([value], pyarrow.binary())], names=["a"])
    assert in_pieces(batch, [Column("a", "longblob")], 1 << 30) == value + value + b"\n"


@pytest.mark.parametrize(
    ("column", "places", "setting"),
    [
        (Column("a", "int"), b"(`a`)", b""),
        (Column("a", "json"), b"(@v0)", b" SET `a` = CONVERT(@v0 USING utf8mb4)"),
        (Column("a", "uuid"), b"(@v0)", b" SET `a` = CONVERT(@v0 USING latin1)"),
        (Column("a", "set", members=("", "x")), b"(@v0)", b" SET `a` = CAST(@v0 AS UNSIGNED)"),
        (Column("a`b", "text"), b"(`a``b`)", b""),
    ],
)
def test_what_bytes_alone_do_not_make_is_converted(column: Column, places: bytes, setting: bytes) -> None:
    statement = load_statement(TableName("s", "t"), [column], [], replace=True)
    assert b"REPLACE INTO TABLE `s`.`t` " in statement
    assert statement.endswith(places + setting)


def test_what_all_rows_have_is_set() -> None:
    constants = [(Column("c", "varchar"), b"_utf8mb4 0x61")]
    statement = load_statement(TableName("s", "t"), [Column("a", "int")], constants, replace=False)
    assert statement.endswith(b"(`a`) SET `c` = _utf8mb4 0x61")
    assert b"REPLACE" not in statement
