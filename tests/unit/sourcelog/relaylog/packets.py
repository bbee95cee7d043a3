"""Events as packets of a dump."""

from __future__ import annotations

import struct


class Packets:
    """What a reader of a connection has in its hands."""

    def __init__(self, data: bytes, *, sequence: int = 0, inside: bool = False) -> None:
        self.data = bytearray(data)
        self.start = 0
        self.sequence = sequence
        self.inside = inside


def packed(events: list[bytes], first: int = 0) -> bytes:
    """The protocol's form of short events."""
    return b"".join(
        struct.pack("<IB", len(data) + 1 | (first + number & 0xFF) << 24, 0) + data
        for number, data in enumerate(events)
    )
