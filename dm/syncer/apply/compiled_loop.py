"""The syncer's uses of the compiled loop (`dm.changes.native_changes`), with or without a count of memory.

The loop makes changes of row events and counts the memory that they take until they are applied. It also spreads
changes over lanes; that makes no changes, so there is nothing to count.
"""

from __future__ import annotations

from dm.changes.native_changes import CompiledLoop, change_maker
from dm.sourcelog.stream.memory_quota import CHANGE_COST, DECODED_FACTOR


def changes_of_events() -> CompiledLoop | None:
    """The loop that makes changes; None without the accelerator."""
    return change_maker(DECODED_FACTOR, CHANGE_COST)


def spreader() -> CompiledLoop | None:
    """The loop that only spreads changes over lanes; None without the accelerator."""
    return change_maker(0, 0)
