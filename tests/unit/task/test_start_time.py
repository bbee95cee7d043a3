"""A start time as a person writes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dm.errors import DMError
from dm.task.start_and_end import StartTime


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-21T10:00:00+02:00", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("2026-11-21 10:00:00+0200", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("2026-11-21 10:00:00-05:30", datetime(2026, 11, 21, 15, 30, tzinfo=UTC)),
        (" 2026-11-21T10:00:00Z ", datetime(2026, 11, 21, 10, tzinfo=UTC)),
    ],
)
def test_with_a_zone_it_is_an_instant(text: str, instant: datetime) -> None:
    moment = StartTime.parse(text).moment
    assert moment.utcoffset() is not None
    assert moment - instant == timedelta()


@pytest.mark.parametrize("text", ["2026-11-21 10:00:00", "2026-11-21T10:00:00"])
def test_without_a_zone_it_is_the_source_s_to_say(text: str) -> None:
    assert StartTime.parse(text).moment.isoformat(" ") == "2026-11-21 10:00:00"
    assert StartTime.parse(text).moment.tzinfo is None


@pytest.mark.parametrize(
    "text",
    ["yesterday", "", "2026-11-21", "2026-13-21 10:00:00", "10:00:00", "2026-11-21 10:00", "2026-11-21 25:00:00"],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(DMError) as raised:
        StartTime.parse(text)
    assert (raised.value.name, raised.value.kind.error_class) == ("start-time-unreadable", "config")
