"""`timezone` of a task: a zone of the IANA database or an offset."""

from __future__ import annotations

import re
import zoneinfo
from functools import lru_cache
from typing import Annotated

from dm.config.problem import did_you_mean
from dm.config.scalar import checked, wrong

_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_EXPECTED = "an IANA name such as `Europe/Berlin`, or an offset from `-12:59` to `+14:00`"


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _check(text: str) -> None:
    if not text:
        return
    problem = wrong("config-time-zone", _EXPECTED, value=repr(text[:60]))
    offset = _OFFSET.fullmatch(text)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        if int(offset[3]) > 59 or minutes > (14 * 60 if offset[1] == "+" else 12 * 60 + 59):
            raise problem
        return
    # `Local` and `SYSTEM` mean another zone on every machine; a system without a zone database accepts any name's form.
    if text.lower() in ("local", "system") or not _NAME.fullmatch(text):
        raise problem
    if _known() and text not in _known():
        raise wrong("config-time-zone", _EXPECTED, did_you_mean(text, _known()), value=repr(text[:60]))


TimeZoneText = Annotated[str, checked(_check)]
