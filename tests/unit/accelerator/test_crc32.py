"""The CRC-32 is zlib's, whatever the length and wherever the bytes lie."""

from __future__ import annotations

import random
import zlib
from types import ModuleType


def test_every_length_and_place(native: ModuleType) -> None:
    data = random.Random(32).randbytes(2000)
    view = memoryview(data)
    for size in range(600):
        at = size % 17
        assert native.crc32(view[at : at + size]) == zlib.crc32(view[at : at + size]), size


def test_long_ones(native: ModuleType) -> None:
    for size in (4096, 65_535, 65_536, 1_000_003):
        data = random.Random(size).randbytes(size)
        assert native.crc32(data) == zlib.crc32(data)


def test_whatever_the_bytes_are(native: ModuleType) -> None:
    for byte in range(256):
        data = bytes((byte,)) * 333
        assert native.crc32(data) == zlib.crc32(data)
