"""How fast a task may be: `pace` in a task file, and what `dmctl pace` changes at run time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Final

from pydantic import BeforeValidator

from dm.config.document import Scalar
from dm.config.scalar import Text, decimal, duration, size, whole, wrong, wrong_type
from dm.config.section import Issue, Section

_HOURS: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])", re.ASCII)
_REPLICA: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+)(:[0-9]{1,5})?", re.ASCII)
_MINUTES: Final = 24 * 60


def _text(value: object) -> str:
    if isinstance(value, Scalar | str):
        return value if isinstance(value, str) else value.text
    raise wrong_type(value, "a text")


def _hours(value: object) -> str:
    text = _text(value)
    match = _HOURS.fullmatch(text)
    if match is None or not 0 <= _minute(match[3], match[4]) <= _MINUTES or match[1] + match[2] == match[3] + match[4]:
        raise wrong("config-bad-value", "hours of the day such as `22:00-06:00`", value=repr(text[:60]))
    return text


def _replica(value: object) -> str:
    text = _text(value)
    if not _REPLICA.fullmatch(text) or len(text) > 300:
        raise wrong("config-bad-value", "a server such as `db-7` or `db-7:3306`", value=repr(text[:60]))
    return text


def _minute(hour: str, minute: str) -> int:
    return int(hour) * 60 + int(minute)


class PaceConfig(Section):
    """The limits; all together hold, and no key is no limit."""

    place: ClassVar = "under `pace`"

    rows_per_second: Annotated[int, whole(1)] | None = None
    bytes_per_second: Annotated[int, size()] | None = None
    target_threads_running: Annotated[int, whole(1, 1_000_000)] | None = None
    source_threads_running: Annotated[int, whole(1, 1_000_000)] | None = None  # for dumps and comparisons
    replica_lag: Annotated[float, duration(1.0)] | None = None  # seconds
    replicas: tuple[Annotated[str, BeforeValidator(_replica)], ...] = ()
    query: Text = ""  # of one number, asked at the target
    query_limit: Annotated[float, decimal(-1e18, 1e18)] | None = None
    hours: tuple[Annotated[str, BeforeValidator(_hours)], ...] = ()  # in which the task works, by this machine's clock

    def check(self) -> Iterator[Issue]:
        """What stands only together."""
        for key, other in (("replica-lag", "replicas"), ("query", "query-limit")):
            has, other_has = self._says(key), self._says(other)
            if has != other_has:
                missing, there = (other, key) if has else (key, other)
                value = {"value": f"`{there}` without `{missing}`"}
                yield Issue("config-refused-value", there, "", f"write `{missing}`, too", details=value)

    def _says(self, key: str) -> bool:
        return getattr(self, key.replace("-", "_")) not in (None, (), "")

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self != PaceConfig()

    @property
    def measured(self) -> bool:
        """Whether there is a limit by what servers say, or by the hour."""
        return self != PaceConfig(rows_per_second=self.rows_per_second, bytes_per_second=self.bytes_per_second)

    def works_at(self, hour: int, minute: int) -> bool:
        """Whether the task may work at this time of day."""
        now = hour * 60 + minute
        return not self.hours or any(_within(now, each) for each in self.hours)


def _within(now: int, hours: str) -> bool:
    match = _HOURS.fullmatch(hours)
    assert match is not None
    begin, end = _minute(match[1], match[2]), _minute(match[3], match[4])
    return begin <= now < end if begin < end else now >= begin or now < end
