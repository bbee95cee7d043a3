"""Events at a file's start that list the transactions before it.

MySQL stores a GTID set in one of two forms; the highest byte of the count says which. The tagged form, used once a
tagged GTID was ever executed, puts the count one byte higher and a tag after each uuid (MySQL source,
Gtid_set::encode). Intervals exclude their end.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.binlog.cursor import ByteCursor, Malformed
from dm.binlog.transaction import uuid_texts
from dm.gtid import GtidSet

_MAX_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class PreviousGtids:
    """MySQL: every GTID in the files before this one."""

    gtid_set: GtidSet


@dataclass(frozen=True, slots=True)
class GtidList:
    """MariaDB: the position, per replication domain, at the start of this file."""

    gtid_set: GtidSet


def parse_previous_gtids(cursor: ByteCursor) -> PreviousGtids:
    """Read MySQL's previous-GTIDs event."""
    head = cursor.uint(8)
    form = head >> 56
    if form not in (0, 1):
        raise Malformed(f"GTID set format {form} is not known")
    count = head if form == 0 else head >> 8 & 0xFFFFFFFFFFFF
    parts: list[str] = []
    for _ in range(count):
        source = uuid_texts[cursor.take(16)]
        if form == 1 and (length := cursor.varlen()):
            source = f"{source}:{cursor.take(length).decode('ascii')}"
        for _ in range(cursor.uint(8)):
            first, after = cursor.uint(8), cursor.uint(8)
            if not 1 <= first < after <= _MAX_NUMBER:
                raise Malformed(f"{first}-{after} is no GTID interval")
            parts.append(f"{source}:{first}-{after - 1}")
    return PreviousGtids(GtidSet.parse(",".join(parts), "mysql"))


def parse_gtid_list(cursor: ByteCursor) -> GtidList:
    """Read MariaDB's GTID list: domain, server, sequence number; the count's four high bits are flags."""
    parts = []
    for _ in range(cursor.uint(4) & 0x0FFFFFFF):
        domain, server_id, number = cursor.uint(4), cursor.uint(4), cursor.uint(8)
        parts.append(f"{domain}-{server_id}-{number}")
    return GtidList(GtidSet.parse(",".join(parts), "mariadb"))
