"""Dates and times against encoders that follow the servers' descriptions of the formats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from dm.mysql.binlog import value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
digits = st.integers(0, 6)


def fraction_text(micros: int, count: int) -> str:
    return f".{micros:06d}"[: count + 1] if count else ""


def stored_fraction(micros: int, count: int) -> int:
    """Microseconds in the unit of `count` digits' bytes: two digits a byte."""
    return micros // int(10 ** (6 - 2 * value.fraction_size(count)))


def cut(micros: int, count: int) -> int:
    return micros - micros % int(10 ** (6 - count))


@given(
    st.tuples(st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31)),
    st.tuples(st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999)),
    digits,
)
@example((0, 0, 0), (0, 0, 0, 0), 6)
def test_datetime(date: tuple[int, int, int], clock: tuple[int, int, int, int], count: int) -> None:
    (year, month, day), (hour, minute, second, micros) = date, clock
    micros = cut(micros, count)
    packed = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second
    size = value.fraction_size(count)
    raw = (packed + 0x8000000000).to_bytes(5, "big") + stored_fraction(micros, count).to_bytes(size, "big")
    text = f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{fraction_text(micros, count)}"
    assert value.datetime2_decoder(count)(raw) == text
    assert value.DATES[year << 9 | month << 5 | day] == text[:10]


@given(st.booleans(), st.integers(0, 838), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999), digits)
@example(True, 0, 0, 0, 250_000, 2)
@example(True, 0, 0, 1, 0, 0)
def test_time(negative: bool, hour: int, minute: int, second: int, micros: int, count: int) -> None:
    micros = cut(micros, count)
    size = value.fraction_size(count)
    number = (hour << 12 | minute << 6 | second) << size * 8 | stored_fraction(micros, count)
    negative = negative and number != 0
    stored = (0x800000 << size * 8) + (-number if negative else number)
    text = f"{'-' if negative else ''}{hour:02d}:{minute:02d}:{second:02d}{fraction_text(micros, count)}"
    assert value.time2_decoder(count)(stored.to_bytes(3 + size, "big")) == text


@given(st.integers(1, 0xFFFFFFFF), st.integers(0, 999_999), digits)
def test_timestamp(seconds: int, micros: int, count: int) -> None:
    micros = cut(micros, count)
    size = value.fraction_size(count)
    raw = seconds.to_bytes(4, "big") + stored_fraction(micros, count).to_bytes(size, "big")
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%d %H:%M:%S") + fraction_text(micros, count)
    assert value.timestamp2_decoder(count)(raw) == text


def test_the_zero_timestamp_is_the_zero_date() -> None:
    assert value.timestamp2_decoder(0)(bytes(4)) == "0000-00-00 00:00:00"
    assert value.timestamp2_decoder(2)(bytes(5)) == "0000-00-00 00:00:00.00"
    assert value.timestamp2_decoder(2)(bytes(4) + b"\x01") == "1970-01-01 00:00:00.01"


def test_old_layouts() -> None:
    assert value.old_datetime(20240203040506) == "2024-02-03 04:05:06"
    assert value.old_datetime(0) == "0000-00-00 00:00:00"
    assert value.old_time((-8385959).to_bytes(3, "little", signed=True)) == "-838:59:59"
