"""Events as packets of a dump."""

from __future__ import annotations

import struct
from dataclasses import dataclass


@dataclass
class Packets:
    """What a reader of a connection has in its hands."""

    data: bytes
    start: int = 0
    sequence: int = 0
    inside: bool = False


def packed(events: list[bytes], first: int = 0) -> bytes:
    """The protocol's form of short events."""
    return b"".join(
        struct.pack("<IB", len(data) + 1 | (first + number & 0xFF) << 24, 0) + data
        for number, data in enumerate(events)
    )
