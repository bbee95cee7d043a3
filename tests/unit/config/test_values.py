"""Single values mean what they mean in DM's files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.config.scalar import byte_size
from dm.text import go_duration
from tests.unit.config.texts import SOURCE, TASK, source, task, task_problems


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m0s", 300),
        ("1h30m", 5400),
        ("300ms", 0.3),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("0", 0),
        ("0s", 0),
        ("-1s", -1),
        ("60", None),
        ("", None),
        ("s", None),
        ("5 m", None),
        ("5min", None),
        ("1d", None),
        ("--1s", None),
    ],
)
def test_durations_are_those_of_go(text: str, seconds: float | None) -> None:
    assert go_duration(text) == (None if seconds is None else pytest.approx(seconds))


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int, millis: int) -> None:
    expected = hours * 3600 + minutes * 60 + seconds + millis / 1000
    assert go_duration(f"{hours}h{minutes}m{seconds}s{millis}ms") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "unit", "size"),
    [
        ("64", 1 << 20, 64 << 20),
        ("64M", 1 << 20, 64 << 20),
        ("64MiB", 1, 64 << 20),
        ("500m", 1, 500 << 20),
        ("2g", 1, 2 << 30),
        ("x", 1, None),
        ("-1", 1, None),
        ("", 1, None),
    ],
)
def test_sizes_take_units(text: str, unit: int, size: int | None) -> None:
    assert byte_size(text, unit) == size


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", "Asia/Shanghai", "+08:00", "-12:59", "+14:00", "''"])
def test_zones_of_the_database_and_offsets_are_possible(zone: str) -> None:
    assert task(f"{TASK}timezone: {zone}\n").timezone == zone.strip("'")


def test_a_mistyped_zone_gets_a_suggestion() -> None:
    (problem,) = task_problems(TASK + "timezone: Europe/Belin\n")
    assert "did you mean `Europe/Berlin`?" in problem.suggestion


@pytest.mark.parametrize(
    ("written", "value"), [("true", True), ("yes", True), ("On", True), ("no", False), ("OFF", False)]
)
def test_switches_are_those_of_yaml(written: str, value: bool) -> None:
    assert source(f"{SOURCE}enable-gtid: {written}\n").enable_gtid is value


def test_a_text_of_digits_stays_as_written() -> None:
    text = SOURCE.replace("secret", "0123").replace("mysql-01", "001")
    read = source(text)
    assert (read.source_id, read.endpoint.password.get_secret_value()) == ("001", "0123")


def test_a_key_without_value_has_its_default() -> None:
    assert source(SOURCE + "enable-gtid:\nserver-id: ~\n") == source()


def test_session_variables_compare_without_case() -> None:
    read = source(SOURCE + "  session: {SQL_MODE: ANSI, wait_timeout: 10}\n")
    assert read.endpoint.session == {"sql_mode": "ANSI", "wait_timeout": "10"}
