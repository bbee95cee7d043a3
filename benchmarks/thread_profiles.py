"""The CPU time of this process by thread and module, from one cProfile for each thread.

cProfile sees the thread that turns it on only; so each thread turns on its own when it begins. The clock is the
thread's own CPU clock: waiting for a server, a lock or the interpreter costs nothing. Builtin functions count for the
module that calls them. The profile costs time itself, most where functions are many and small: shares are what it
tells, and they are rough by that.
"""

from __future__ import annotations

import cProfile
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import CodeType, FrameType

Booked = dict[tuple[str, str], float]
"""CPU seconds by thread (`lane` for all lanes) and module."""

GENERATED: Mapping[str, str] = {"<string>": "collections"}  # of named tuples


class ThreadProfiles:
    """One profile per thread that begins after `start`, and one for the thread that calls it."""

    def __init__(self) -> None:
        self._profiles: list[tuple[str, cProfile.Profile]] = []

    @staticmethod
    def possible() -> bool:
        """Whether this Python lets several threads have profiles of their own; from 3.12 on there is one for all."""
        return sys.version_info < (3, 12)

    def start(self) -> None:
        """Begin."""
        threading.setprofile(self._begin)
        self._profile().enable()

    def stop(self) -> Booked:
        """What the threads used; those that are profiled should have ended."""
        self._profiles[0][1].disable()
        threading.setprofile(None)
        modules = {str(getattr(module, "__file__", "")): name for name, module in list(sys.modules.items())}
        booked: Booked = {}
        for thread, profile in self._profiles:
            for entry in profile.getstats():
                if isinstance(entry.code, CodeType):
                    builtins = sum(called.inlinetime for called in entry.calls or () if isinstance(called.code, str))
                    file = entry.code.co_filename
                    place = thread, modules.get(file) or GENERATED.get(file, file)
                    booked[place] = booked.get(place, 0.0) + entry.inlinetime + builtins
        return booked

    def _begin(self, _frame: FrameType, _event: str, _argument: object) -> None:
        """The first thing that a new thread does; its own profile takes the place of this function."""
        self._profile().enable()

    def _profile(self) -> cProfile.Profile:
        clock: Callable[[], float] = time.thread_time
        profile = cProfile.Profile(clock)
        self._profiles.append((threading.current_thread().name.partition("-")[0], profile))
        return profile
