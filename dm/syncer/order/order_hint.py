"""A word between the subtasks of a task on one host: look at the rows again.

A source that has stored its row sends an empty datagram to each other one. One that waits for its turn looks at once
then, not after its pause. Nothing is right or wrong because of a hint: one that is lost costs the rest of the pause.
What is true is in the rows. The names of the sockets are no files (Linux's abstract names), so nothing is left behind.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

_DATAGRAM: Final = 16


def _name(place: Path, source: str) -> str:
    return "\0dm-order-" + sha256(f"{place.absolute()}\0{source}".encode()).hexdigest()[:32]


class OrderHint:
    """The ear of one source, and the names of the others'; `place` is common to all of them."""

    def __init__(self, place: Path, source: str, others: Sequence[str]) -> None:
        self._others = [_name(place, other) for other in others]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        with suppress(OSError):  # an older run still has the name: this one waits as long as its pauses are
            self._socket.bind(_name(place, source))

    def tell(self) -> None:
        """Have the others look."""
        for other in self._others:
            with suppress(OSError):  # nobody is there, or has more hints than it has read
                self._socket.sendto(b"", other)

    def wait(self, over: threading.Event, seconds: float) -> bool:
        """Wait for a hint, at most so long; whether the run is over."""
        if not over.is_set() and select.select([self._socket], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                while True:
                    self._socket.recv(_DATAGRAM)
        return over.is_set()

    def close(self) -> None:
        """Give the name back."""
        self._socket.close()
