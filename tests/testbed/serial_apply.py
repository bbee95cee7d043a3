"""Changes applied one by one: what every faster way has to equal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dm.changes.row_change import RowChange
from dm.downstream.apply import _Serial
from dm.downstream.connection import TargetConnection


def apply_serially(connection: TargetConnection, changes: Iterable[RowChange]) -> Sequence[RowChange]:
    """Apply the changes inside the open transaction; gives those that found no row, if that is allowed."""
    serial = _Serial(connection, None)
    serial.apply(changes)
    return serial.missing
