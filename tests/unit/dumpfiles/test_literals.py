"""Literals of a load mean the bytes they were made of."""

from __future__ import annotations

import re

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.dumpfiles import literals
from dm.dumpfiles.literals import row_literals
from dm.mysql.schema.table import Column

# What the lexer makes of the escapes that we write; no other byte is special with character set binary.
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


def batch(*columns: list[bytes | None]) -> pyarrow.RecordBatch:
    arrays = [pyarrow.array(values, pyarrow.binary()) for values in columns]
    return pyarrow.record_batch(arrays, names=[f"c{at}" for at in range(len(arrays))])


def read_back(literal: bytes) -> bytes | None:
    if literal == b"NULL":
        return None
    match = re.fullmatch(rb"(?:_binary|_latin1|CONVERT\()?'((?:[^'\\]|\\.)*)'(?: USING utf8mb4\))?", literal, re.DOTALL)
    assert match is not None, literal
    return _ESCAPE.sub(rb"\1", match[1])


@given(st.lists(st.none() | st.binary(), min_size=1), st.sampled_from(["varchar", "longblob", "json", "enum", "bit"]))
def test_any_bytes_come_back(values: list[bytes | None], base: str) -> None:
    rows = list(row_literals(batch(values), [Column("c0", base)]))
    assert [read_back(row[1:-1]) for row in rows] == values


def test_each_type_is_written_as_the_server_needs_it() -> None:
    columns = [Column("c", base) for base in ("int", "float", "decimal", "varchar", "json", "geometry", "uuid")]
    values: list[bytes | None] = [b"1", b"-0", b"1.50", b"it's", b'"a\\"b"', b"\x00\\", b"6ccd780c"]
    (row,) = row_literals(batch(*[[value] for value in values]), columns)
    assert row == (
        b"('1','-0','1.50','it\\'s',CONVERT('\"a\\\\\"b\"' USING utf8mb4),_binary'\x00\\\\',_latin1'6ccd780c')"
    )


def test_slices_of_huge_batches_keep_order(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[bytes | None] = [str(number).encode() * 5 for number in range(100)]
    whole = list(row_literals(batch(values), [Column("c0", "varchar")]))
    monkeypatch.setattr(literals, "_LARGEST_SLICE", 64)
    assert list(row_literals(batch(values), [Column("c0", "varchar")])) == whole


def test_values_of_a_character_set_are_written_in_utf8_where_that_is_wanted() -> None:
    columns = [Column("c0", "varchar", charset="latin1"), Column("c1", "varchar", charset="gbk"), Column("c2", "blob")]
    rows = batch([b"M\xfcller \x80", b"ASCII", None], [b"\xd6\xd0", b"", None], [b"\xfc", b"", None])
    written = [row[1:-1].split(b",") for row in row_literals(rows, columns, in_utf8=("latin1",))]
    assert [read_back(row[0]) for row in written] == ["Müller €".encode(), b"ASCII", None]
    assert [read_back(row[1]) for row in written] == [b"\xd6\xd0", b"", None]
    assert [read_back(row[2]) for row in written] == [b"\xfc", b"", None]
