"""Curves of lag and rate for a day: a point for every two minutes of each subtask.

All curves are in memory, in arrays of a fixed length that are used as rings. After every point they are written as one
file, atomically. A subtask takes 5.8 kB, so a daemon of 100 subtasks writes 0.6 MB in two minutes, and a kill loses the
last point. A checksum ends the file: one that was damaged, or is of another format, is put aside, and the curves begin
anew.

The bound is a number of curves. Beyond it, curves that got no point for the longest time go first: their tasks were
stopped. Where all curves live, a further subtask has none, and the log says so once.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import threading
import zlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from dm.atomic_file import write_atomically
from dm.clock import Clock
from dm.worker.history.put_aside import UnreadableHistory, put_aside

FORMAT: Final = 1
SLOT_SECONDS: Final = 120
SLOTS: Final = 24 * 3600 // SLOT_SECONDS
_MAGIC: Final = b"dm curves"
_HEAD: Final = struct.Struct("<HIQI")  # format, seconds of a slot, newest slot, bytes of the names
_VALUE_BYTES: Final = 4 * 2 * SLOTS
_NOTHING: Final = math.nan
CURVE_BYTES: Final = _VALUE_BYTES + 40  # with its name, about

Name = tuple[str, str]
"""Task and source."""


@dataclass(frozen=True, slots=True)
class Point:
    """Of one subtask at one time; None is what nobody knows."""

    at: float
    lag: float | None
    rate: float | None


class Curve:
    """The rings of one subtask."""

    __slots__ = ("fed", "values")

    def __init__(self) -> None:
        self.values = array("f", [_NOTHING]) * (2 * SLOTS)  # lags, then rates
        self.fed = 0  # the slot of the last point

    def to_bytes(self) -> bytes:
        """The values as the file has them, the low byte first."""
        values = self.values[:]
        if sys.byteorder == "big":
            values.byteswap()
        return values.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, fed: int) -> Self:
        """From the file."""
        curve = cls()
        curve.values, curve.fed = array("f", data), fed
        if sys.byteorder == "big":
            curve.values.byteswap()
        return curve


class Curves:
    """Takes points, and shows them; from any thread."""

    def __init__(self, path: Path, clock: Clock, most_bytes: int) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._curves: dict[Name, Curve] = {}
        self._newest = self._slot()
        self._most = 0
        self._said_full = self._said_failing = False
        self.bound(most_bytes)
        self._take_up()

    def bound(self, most_bytes: int) -> None:
        """From now on the file has at most this size."""
        with self._lock:
            self._most = most_bytes // CURVE_BYTES
            self._drop_idle()

    def feed(self, values: Mapping[Name, tuple[float | None, float | None]]) -> None:
        """Lag and rate of each subtask now; the file is written."""
        with self._lock:
            self._advance()
            at = self._newest % SLOTS
            for name, (lag, rate) in values.items():
                curve = self._curves.get(name) or self._room_for(name)
                if curve is not None:
                    curve.fed = self._newest
                    curve.values[at] = _NOTHING if lag is None else lag
                    curve.values[SLOTS + at] = _NOTHING if rate is None else rate
            data = self._encoded()
        try:
            write_atomically(self._path, data, durable=False)
            self._said_failing = False
        except OSError as error:
            if not self._said_failing:
                structlog.get_logger().warning("the curves can't be written", error=error)
            self._said_failing = True

    def of(self, task: str, source: str) -> Sequence[Point]:
        """The points of the last day, the oldest first; none for a subtask without a curve."""
        with self._lock:
            curve = self._curves.get((task, source))
            if curve is None:
                return []
            self._advance()
            slots = range(self._newest - SLOTS + 1, self._newest + 1)
            lags, rates = curve.values[:SLOTS], curve.values[SLOTS:]
            points = [
                Point(slot * SLOT_SECONDS, _known(lags[slot % SLOTS]), _known(rates[slot % SLOTS])) for slot in slots
            ]
        return [point for point in points if point.lag is not None or point.rate is not None]

    def _slot(self) -> int:
        return int(self._clock.time()) // SLOT_SECONDS

    def _advance(self) -> None:
        """Forget what is over a day old. After the clock was set back, the newest point is written again and again."""
        now = self._slot()
        for slot in range(max(self._newest + 1, now - SLOTS + 1), now + 1):
            for curve in self._curves.values():
                curve.values[slot % SLOTS] = curve.values[SLOTS + slot % SLOTS] = _NOTHING
        self._newest = max(self._newest, now)

    def _drop_idle(self) -> None:
        """Keep as many curves as may be, those that were fed last."""
        for name in sorted(self._curves, key=lambda each: -self._curves[each].fed)[self._most :]:
            del self._curves[name]

    def _room_for(self, name: Name) -> Curve | None:
        while len(self._curves) >= self._most:
            idle = min(self._curves, key=lambda each: self._curves[each].fed, default=None)
            if idle is None or self._curves[idle].fed >= self._newest - 1:
                if not self._said_full:
                    structlog.get_logger().warning(
                        "subtasks without curves: `dmctl config worker --history-max-size` allows more", most=self._most
                    )
                self._said_full = True
                return None
            del self._curves[idle]
        self._curves[name] = made = Curve()
        return made

    # the file

    def _take_up(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            put_aside(self._path, f"it can't be read: {error.strerror}")
            return
        try:
            newest, curves = _decoded(data)
        except UnreadableHistory as found:
            put_aside(self._path, str(found))
            return
        now = self._newest
        if newest > now + SLOTS:
            put_aside(self._path, "its points are of a later day than now")
            return
        self._newest, self._curves = newest, curves
        self._advance()
        self._drop_idle()

    def _encoded(self) -> bytes:
        names = json.dumps([[*name, curve.fed] for name, curve in self._curves.items()]).encode()
        head = _MAGIC + _HEAD.pack(FORMAT, SLOT_SECONDS, self._newest, len(names))
        body = b"".join([head, names, *(curve.to_bytes() for curve in self._curves.values())])
        return body + zlib.crc32(body).to_bytes(4, "little")


def _decoded(data: bytes) -> tuple[int, dict[Name, Curve]]:
    """The newest slot, and the curves; raises UnreadableHistory."""
    body, checksum = data[:-4], int.from_bytes(data[-4:], "little")
    if not body.startswith(_MAGIC) or len(body) < len(_MAGIC) + _HEAD.size:
        raise UnreadableHistory("it does not begin as a file of curves")
    number, seconds, newest, length = _HEAD.unpack_from(body, len(_MAGIC))
    if (number, seconds) != (FORMAT, SLOT_SECONDS):
        ours = f"{FORMAT} with {SLOT_SECONDS} s between points"
        raise UnreadableHistory(f"it has the format {number} with {seconds} s, and this version writes {ours}")
    if zlib.crc32(body) != checksum:
        raise UnreadableHistory("its checksum is wrong")
    place = len(_MAGIC) + _HEAD.size
    curves: dict[Name, Curve] = {}
    for index, (task, source, fed) in enumerate(json.loads(body[place : place + length])):
        begin = place + length + index * _VALUE_BYTES
        curves[task, source] = Curve.from_bytes(body[begin : begin + _VALUE_BYTES], fed)
    return newest, curves


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
