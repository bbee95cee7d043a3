"""TIMESTAMPs at the target, in a session of any zone: what a value is written as, and what finds it."""

from __future__ import annotations

from calendar import timegm
from datetime import UTC, datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.changes.column_map import MappedColumn
from dm.changes.computing import Computing
from dm.changes.row_keys import equal, exact
from dm.ident import TableName
from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column
from dm.mysql.sql.literal import Usual

TABLE = TableName("d", "t")


def mapped(source: Column, *, offsets: bool) -> MappedColumn:
    encode = Computing(zone="dm/Summer", offset_literals=offsets).moment(source.encoder(), source)
    return MappedColumn(0, source, Column("ts", "timestamp", 6), b"`ts`", encode, (Usual.CALL, b""), True)


def found(source: Column, value: Value, *, offsets: bool) -> bytes:
    column = mapped(source, offsets=offsets)
    condition = exact(column, "mysql", TABLE, indexed=True)(value)
    if value is not None:
        assert equal(column, column.encode(value)) == condition
    return condition


SOURCES = {
    "timestamp": st.integers(86400, 2**31 - 1).map(
        lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}.250000"
    ),
    "datetime": st.builds(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}".format,
        *(st.integers(0, most) for most in (9999, 12, 31, 23, 59, 59)),
    ),
    "date": st.builds("{:04}-{:02}-{:02}".format, *(st.integers(0, most) for most in (9999, 12, 31))),
    "time": st.builds("{}:{:02}:{:02}".format, *(st.integers(0, most) for most in (838, 59, 59))),
    "varchar": st.binary(max_size=30) | st.dates().map(lambda day: f"{day} 1:2:3".encode()),
    "binary": st.binary(max_size=30),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "decimal": st.decimals(0, 10**14, places=2).map(lambda number: f"{number:f}"),
    "double": st.floats(allow_nan=False, allow_infinity=False),
}


@pytest.mark.parametrize("offsets", [False, True])
@pytest.mark.parametrize("base", SOURCES)
@given(data=st.data())
def test_every_value_of_a_source_finds_a_moment_or_none(base: str, offsets: bool, data: st.DataObject) -> None:
    source = Column("ts", base, 20, charset="utf8mb4" if base == "varchar" else None)
    value = cast("Value", data.draw(SOURCES[base] | st.none()))
    condition = found(source, value, offsets=offsets)
    assert condition.startswith(b"`ts`") or condition in (b"FALSE", b"UNIX_TIMESTAMP(`ts`)=0")
    if base == "timestamp" and isinstance(value, str):
        seconds = timegm(datetime.fromisoformat(value).timetuple())
        assert condition.endswith(f"UNIX_TIMESTAMP(`ts`)={seconds}.{value[-6:]}".encode())


def test_a_number_means_the_moment_in_utc_like_every_other_value() -> None:
    literal = mapped(Column("ts", "bigint"), offsets=True).encode(20200701233000)
    assert b"CONVERT_TZ(20200701233000,'+00:00',@@SESSION.time_zone)" in literal


@pytest.mark.parametrize("value", ["2020-00-01 10:00:00", "2021-02-31 00:00:00"])
def test_what_no_timestamp_is_finds_none(value: str) -> None:
    assert found(Column("ts", "datetime"), value, offsets=False) == b"FALSE"
