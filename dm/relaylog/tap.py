"""What the relay's writer tells whoever wants the bytes while they are still in its hands.

The writer calls after the write to the file returned, so nothing is tapped that is not in a file. It waits for no tap
and fails because of none: a tap that can't go on says nothing more and lets its readers find the file.
"""

from __future__ import annotations

from typing import Protocol


class Tap(Protocol):
    """Takes the bytes of relay files in the order in which they were written."""

    def opened(self, sub: str, file: str, offset: int) -> None:
        """From here on bytes of this file of this sub-directory follow, starting at this offset."""
        ...

    def wrote(self, data: bytes | memoryview) -> None:
        """The same bytes that were just written to the file; they end where an event ends."""
        ...

    def cut(self) -> None:
        """The file was cut back or abandoned: nothing given before is continued."""
        ...

    def close(self) -> None:
        """Nothing follows; called by who made the tap, because it outlives the writers."""
        ...
