"""MariaDB's two kinds of zlib compression.

Events (`log_bin_compress`): a byte 0x80 | (number of length bytes), the length, a zlib stream (MariaDB source,
binlog_buf_compress). Columns (`COMPRESSED`): a byte with the method in its high half and, in its low half, 8 for a
stream without zlib's wrapping plus the number of length bytes; the value travels compressed in row events (MariaDB
source, Field_longstr::compress). Both lengths are big-endian.
"""

from __future__ import annotations

import zlib
from typing import Final

from dm.binlog.cursor import Malformed
from dm.binlog.unpacking import LARGEST_UNPACKED, demand_room

MAX_PLAIN_SIZE: Final = 1 << 30  # max_allowed_packet's upper limit


def _inflate(data: bytes, size: int, wbits: int) -> bytes:
    if size > MAX_PLAIN_SIZE:
        raise Malformed(f"{size} uncompressed bytes are more than a server writes")
    inflater = zlib.decompressobj(wbits)
    try:
        plain = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise Malformed("compressed bytes can't be decompressed") from error
    if len(plain) != size or not inflater.eof:
        raise Malformed("compressed bytes do not have the length they tell")
    return plain


def decompress_event(data: bytes, largest: int = LARGEST_UNPACKED) -> bytes:
    """The decompressed rest of a compressed event; raises DMError where that is larger than there is room for."""
    if not data or data[0] & 0xF0 != 0x80:
        raise Malformed("the compression is not known")
    length_size = data[0] & 0x07
    if not 1 <= length_size <= 4:
        raise Malformed("the compressed length is not readable")
    size = int.from_bytes(data[1 : 1 + length_size], "big")
    demand_room("a compressed event", size, len(data), largest)
    return _inflate(data[1 + length_size :], size, zlib.MAX_WBITS)


def decompress_column(stored: bytes) -> bytes:
    """The decompressed value of a COMPRESSED column; an empty value is stored as nothing."""
    if not stored:
        return stored
    method = stored[0] >> 4
    if method == 0:
        return stored[1:]
    if method != 8:
        raise Malformed(f"column compression method {method} is not known")
    length_size = stored[0] & 0x07
    raw = bool(stored[0] & 0x08)  # a deflate stream without zlib's wrapping
    if not 1 <= length_size <= 4:
        raise Malformed("the compressed length is not readable")
    size = int.from_bytes(stored[1 : 1 + length_size], "big")
    return _inflate(stored[1 + length_size :], size, -zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
