"""The binary form of a MySQL GTID set in COM_BINLOG_DUMP_GTID.

mysql-replication encodes plain sets but can't even read a set with tags (MySQL 8.3 and later). So this module writes
both forms, and the tests compare the plain form with the library's. The layout follows the server's `Gtid_set::encode`.
It begins with eight bytes for the number of sources; in a tagged set the format number 1 is in the first and the last
of these bytes. Then, per source, come the 16 bytes of its uuid, in the tagged form the tag as a variable-length integer
and text, and the intervals as half-open pairs of 64-bit numbers.
"""

from __future__ import annotations

import struct
import uuid

from dm.gtid import GtidSet
from dm.text import is_decimal

Sources = dict[tuple[str, str], list[tuple[int, int]]]


def sources_of(gtid_set: GtidSet) -> Sources:
    """(uuid, tag) -> intervals with both ends included, from the set's text form."""
    found: Sources = {}
    for part in filter(None, str(gtid_set).split(",")):
        name, *fields = part.split(":")
        tag = ""
        for field in fields:
            if is_decimal(field[0]):
                first, _, last = field.partition("-")
                found.setdefault((name, tag), []).append((int(first), int(last or first)))
            else:
                tag = field
    return found


def encode(gtid_set: GtidSet) -> bytes:
    """The bytes for the server; plain if the set has no tag, so that older servers understand them."""
    sources = sources_of(gtid_set)
    tagged = any(tag for _, tag in sources)
    count = len(sources)
    parts = [struct.pack("<Q", (1 << 56) | (count << 8) | 1) if tagged else struct.pack("<Q", count)]
    for (name, tag), intervals in sources.items():
        parts.append(uuid.UUID(name).bytes)
        if tagged:
            # mysql::serialization's variable-length integer: one byte for values below 128, shifted left by one.
            parts.append(bytes([len(tag) << 1]) + tag.encode("ascii"))
        parts.append(struct.pack("<Q", len(intervals)))
        parts.extend(struct.pack("<QQ", first, last + 1) for first, last in intervals)
    return b"".join(parts)
