"""What the processes of a task share of its pace: a small file in the task's work directory.

Problem: a task works in many processes at once: a syncer for each source, Spark's workers, a comparison. A limit of
1,000 rows per second is meant for all of them together, must change while they run, and none may have to ask another
process that may be gone.

So limits and what was used of them are in a file of one page, under a lock that the kernel gives back with its holder.
Rows and bytes are tokens: time adds them, work takes them. A batch larger than what is there is let through and leaves
a debt, so the sum over time is exact, whatever the size of the batches. Not more than a second's worth is saved up.
What depends on servers is measured by one process at a time (`lead`), which writes down why everybody must wait.

Invariants:
- An asker waits while there is a reason to hold, or a debt. It asks again within `LONGEST_WAIT`, so a change takes
  effect within that time.
- A limit that must be measured holds everybody until it was measured, also when the measuring process was killed.
- With a limit of a replica's delay, no more bytes are let through between two measurements than the first one allows,
  but for the last piece, which can't be divided: a transaction of the source, or a statement of a load.
- Without limits, asking costs a look at one byte of memory.

Seconds are the system's monotonic clock, which all processes of a machine share; it begins anew with the machine.
"""

from __future__ import annotations

import fcntl
import json
import math
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from dm.clock import Clock
from dm.config.pace import PaceConfig
from dm.errors import DMError

LONGEST_WAIT: Final = 0.25  # seconds between two questions of an asker
UNMEASURED: Final = "what the limits depend on is yet to be measured"
UNSEEN: Final = "what the target's replicas make of the last rows is yet to be measured"

_FORMAT: Final = 1
_MAGIC: Final = b"dmpc"
_PAGE: Final = 4096
_SAVED_SECONDS: Final = 1.0
_STILL_WAITING: Final = 2 * LONGEST_WAIT  # between two questions of one wait
# magic, format, limited, measured, at run time, length of the limits, checksum of the limits, number of the change
_LIMITS: Final = struct.Struct("<4sH???xHxxII")
# tokens of rows, of bytes, as of when; began, held in all, noted last; measured until, by whom, length of words; bytes
# until the next measurement
_USED: Final = struct.Struct("<dddddddIHxxd")
_LIMITED_AT: Final = 6
_USED_AT: Final = 64
_TEXT_AT: Final = 256
_WORDS_AT: Final = 3072
_MOST_WORDS: Final = 1000


@dataclass(slots=True)
class _Tokens:
    rows: float = 0.0
    bytes: float = 0.0
    refilled: float = 0.0
    began: float = 0.0  # when the limits were set
    held: float = 0.0  # seconds since then in which somebody waited
    noted: float = 0.0  # when somebody who waits asked last
    measured_until: float = 0.0
    leader: int = 0
    words: str = ""
    allowed: float = 0.0  # bytes until the next measurement


@dataclass(frozen=True, slots=True)
class PaceState:
    """How the pace is."""

    config: PaceConfig = field(default_factory=PaceConfig)
    run_time: bool = False  # set by `dmctl pace`, not by the task file
    holding: str = ""  # why everybody waits; empty: nobody does
    held_share: float = 0.0  # of the time since the limits were set


class SharedPace:
    """The file of one task; any thread of any process."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._read: tuple[int, PaceConfig] | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            if os.fstat(self._file).st_size < _PAGE:
                os.ftruncate(self._file, _PAGE)
            self._page = mmap.mmap(self._file, _PAGE)
        except OSError as error:
            raise DMError("pace-file-unusable", path=path) from error
        self.path = path
        try:
            with self._locked():
                self._begin()
        except DMError:
            self.close()
            raise

    @classmethod
    def begun(cls, path: Path, config: PaceConfig, clock: Clock) -> Self:
        """The file, with the limits of the task file unless a person has set others since."""
        made = cls(path, clock)
        try:
            with made._locked():
                if not made._page[_LIMITED_AT + 2] and made.config != config:
                    made._write(config, run_time=False)
        except DMError:
            made.close()
            raise
        return made

    def close(self) -> None:
        """Give file and memory back."""
        self._page.close()
        os.close(self._file)

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self._page[_LIMITED_AT] != 0

    @property
    def measured(self) -> bool:
        """Whether a limit depends on what servers say, or on the hour."""
        return self._page[_LIMITED_AT + 1] != 0

    @property
    def config(self) -> PaceConfig:
        """The limits as they are now."""
        limits = self._limits()
        return PaceConfig() if limits is None else limits

    def change(self, config: PaceConfig, *, run_time: bool) -> None:
        """Set other limits; `run_time`: a task that starts anew keeps them."""
        with self._locked():
            self._write(config, run_time=run_time)

    def state(self) -> PaceState:
        """How the pace is now."""
        with self._locked():
            used, now = self._used(), self._clock.monotonic()
            config = self.config
            waiting = now - used.noted < _STILL_WAITING
            words = (used.words or _unseen(used, config) or _rate_words(config)) if waiting else ""
            share = used.held / (now - used.began) if now > used.began else 0.0
            return PaceState(config, self._page[_LIMITED_AT + 2] != 0, words, min(1.0, share))

    def take(self, rows: int, size: int) -> float:
        """Take so many rows and bytes; 0, or the seconds after which to ask again, and then nothing was taken."""
        return self.take_first([(rows, size)])[1]

    def take_first(self, pieces: Sequence[tuple[int, int]]) -> tuple[int, float]:
        """Take rows and bytes of the first of these pieces; how many pieces, or 0 and the seconds to wait.

        All of them, unless a replica's delay is limited: then as many as are allowed until the next measurement, at
        least one.
        """
        with self._locked():
            config, used, now = self.config, self._used(), self._clock.monotonic()
            self._refill(used, config, now)
            if config.measured and not _leads(used, now):
                used.words = UNMEASURED
            wait = LONGEST_WAIT if used.words or _unseen(used, config) else _debt(used, config)
            taken = 0
            if wait:
                if now - used.noted < _STILL_WAITING:
                    used.held += now - used.noted
                used.noted = now
            else:
                taken = len(pieces) if config.replica_lag is None else _fitting(pieces, used.allowed)
                rows, size = (sum(each) for each in zip(*pieces[:taken], strict=True))
                used.rows -= rows
                used.bytes -= size
                used.allowed -= size
            self._put(used)
            return taken, min(wait, LONGEST_WAIT)

    def lead(self, seconds: float) -> bool:
        """Whether this process is to measure, for so long; another one does meanwhile where it was first."""
        with self._locked():
            used, now, me = self._used(), self._clock.monotonic(), os.getpid()
            if used.leader != me and _leads(used, now) and used.measured_until <= now + 10 * seconds:
                return False
            if used.leader != me or not _leads(used, now):
                used.words = UNMEASURED  # what was measured before is too old to go by
            used.leader, used.measured_until = me, now + seconds
            self._put(used)
            return True

    @property
    def allowed(self) -> float:
        """Bytes that are left until the next measurement."""
        with self._locked():
            return self._used().allowed

    def hold(self, words: str, allowed: float = math.inf) -> None:
        """Let everybody wait, for a reason in words; the empty ones let all go on, for so many bytes.

        Nothing is done where another process leads by now: this one's measurement took too long.
        """
        with self._locked():
            used = self._used()
            if used.leader == os.getpid():
                used.words, used.allowed = words, allowed
                self._put(used)

    def retire(self) -> None:
        """This process measures no more: until another one has, everybody waits."""
        with self._locked():
            used = self._used()
            if used.leader == os.getpid():
                used.leader, used.measured_until = 0, 0.0
                used.words = UNMEASURED if self.measured else ""
                self._put(used)

    # The page; with the lock.

    def _begin(self) -> None:
        magic, form = struct.unpack_from("<4sH", self._page)
        if magic not in (_MAGIC, b"\0" * 4) or (magic == _MAGIC and form > _FORMAT):
            raise DMError("pace-file-foreign", path=self.path)
        if magic != _MAGIC or self._limits() is None:  # new, or torn when the machine fell
            self._write(PaceConfig(), run_time=False)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._mutex:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def _limits(self) -> PaceConfig | None:
        *_, length, checksum, number = _LIMITS.unpack_from(self._page)
        if self._read is not None and self._read[0] == number:
            return self._read[1]
        text = self._page[_TEXT_AT : _TEXT_AT + length]
        if not length or zlib.crc32(text) != checksum:
            return None
        config = PaceConfig.model_validate(json.loads(text))
        self._read = (number, config)
        return config

    def _write(self, config: PaceConfig, *, run_time: bool) -> None:
        text = config.model_dump_json(by_alias=True, exclude_defaults=True).encode()
        if len(text) > _WORDS_AT - _TEXT_AT:
            raise DMError("pace-too-long", most=_WORDS_AT - _TEXT_AT, length=len(text))
        *_, number = _LIMITS.unpack_from(self._page)
        self._page[_TEXT_AT : _TEXT_AT + len(text)] = text
        now = self._clock.monotonic()
        self._put(_Tokens(refilled=now, began=now, words=UNMEASURED if config.measured else ""))
        _LIMITS.pack_into(
            self._page, 0, _MAGIC, _FORMAT, config.limited, config.measured, run_time, len(text), zlib.crc32(text),
            (number + 1) & 0xFFFFFFFF,
        )  # fmt: skip

    def _used(self) -> _Tokens:
        rows, size, refilled, began, held, noted, until, leader, length, allowed = _USED.unpack_from(
            self._page, _USED_AT
        )
        words = self._page[_WORDS_AT : _WORDS_AT + length].decode("utf-8", "replace")
        return _Tokens(rows, size, refilled, began, held, noted, until, leader, words, allowed)

    def _put(self, used: _Tokens) -> None:
        words = used.words.encode()[:_MOST_WORDS]
        self._page[_WORDS_AT : _WORDS_AT + len(words)] = words
        _USED.pack_into(
            self._page, _USED_AT, used.rows, used.bytes, used.refilled, used.began, used.held, used.noted,
            used.measured_until, used.leader, len(words), used.allowed,
        )  # fmt: skip

    def _refill(self, used: _Tokens, config: PaceConfig, now: float) -> None:
        passed = now - used.refilled
        if passed < 0:  # the machine was started since: its clock began anew
            used.began = used.refilled = now
            used.held = used.noted = used.measured_until = passed = 0.0
            used.rows = used.bytes = 0.0
        used.refilled = now
        used.rows = _refilled(used.rows, config.rows_per_second, passed)
        used.bytes = _refilled(used.bytes, config.bytes_per_second, passed)


def _refilled(tokens: float, limit: int | None, seconds: float) -> float:
    return 0.0 if limit is None else min(tokens + limit * seconds, limit * _SAVED_SECONDS)


def _leads(used: _Tokens, now: float) -> bool:
    """Whether a process that measures has done so lately, and is still there."""
    if not used.leader or now >= used.measured_until:
        return False
    return used.leader == os.getpid() or Path(f"/proc/{used.leader}").exists()


def _debt(used: _Tokens, config: PaceConfig) -> float:
    """Seconds until rows and bytes are there again."""
    pairs = ((used.rows, config.rows_per_second), (used.bytes, config.bytes_per_second))
    return max((-tokens / limit + 1e-4 for tokens, limit in pairs if limit is not None and tokens < 0), default=0.0)


def _fitting(pieces: Sequence[tuple[int, int]], allowed: float) -> int:
    """How many pieces from the first on are not more bytes than are allowed; one at least."""
    number, left = 1, allowed - pieces[0][1]
    while number < len(pieces) and left >= pieces[number][1]:
        left -= pieces[number][1]
        number += 1
    return number


def _unseen(used: _Tokens, config: PaceConfig) -> str:
    return UNSEEN if config.replica_lag is not None and used.allowed <= 0 else ""


def _rate_words(config: PaceConfig) -> str:
    rows, size = config.rows_per_second, config.bytes_per_second
    limits = [f"{rows} rows per second" if rows else "", f"{size} bytes per second" if size else ""]
    words = " and ".join(filter(None, limits))
    return f"the limit of {words}" if words else ""
