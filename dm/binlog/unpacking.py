"""How large a compressed event may become.

Compression lets a few bytes of the network take any memory of who reads them: 33 KB of zstd hold a gigabyte of zeros,
and an event has to be in memory whole. A plain event of that size has at least been sent. So an event that is much
larger than what was sent for it (`_USUAL_RATIO`) has to fit into the memory that its reader gives to what it reads, for
a syncer its `memory-quota`; else it is refused by name before it is unpacked, and the task pauses. Rows compress well,
but nearly all events are small: a source writes rows of 8 KB together (`binlog_row_event_max_size`), and one row alone
where it is larger.
"""

from __future__ import annotations

from typing import Final

from dm.errors import DMError

LARGEST_UNPACKED: Final = 1 << 26  # where a reader names nothing
_USUAL_RATIO: Final = 8


def demand_room(event: str, size: int, packed: int, largest: int) -> None:
    """Raise DMError where an event of so many bytes came in a few, and is larger than `largest`."""
    if size > max(largest, _USUAL_RATIO * packed):
        # Half of a syncer's quota is for what is read (dm/syncer/resources.py).
        raise DMError("event-unpacks-too-large", event=event, size=size, packed=packed, wanted=2 * size)
