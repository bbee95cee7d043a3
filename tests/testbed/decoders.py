"""The row decoder in Python and the compiled one, held against each other wherever a test decodes rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from dm.accelerator import switch
from dm.accelerator.native import Native
from dm.errors import DMError
from dm.mysql.binlog.decode import RowDecoder, RowPair
from dm.mysql.binlog.json_tree import TypedJson
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap, WireColumn


def compiled() -> Native | None:
    """The extension, also where DM_ACCELERATOR turns it off; None where it was not built."""
    try:
        from dm.accelerator import _native
    except ImportError:
        return None
    return cast("Native", _native)


running = switch.using


def outcome(
    native: Native | None, table_map: TableMap, columns: Sequence[WireColumn], rows: Rows
) -> list[RowPair] | DMError:
    """What one decoder makes of rows."""
    with running(native):
        try:
            return RowDecoder(table_map, columns).decode(rows)
        except DMError as error:
            return error


def told(found: object) -> object:
    """An outcome in a form that compares as equal only what is the same in every respect."""
    if isinstance(found, DMError):
        return found.name, str(found)
    if isinstance(found, list | tuple):
        return type(found).__name__, [told(each) for each in found]
    # By text, because a NaN equals nothing and 1 equals True.
    return type(found).__name__, repr(found), repr(found.tree) if isinstance(found, TypedJson) else ""


def decoded(table_map: TableMap, columns: Sequence[WireColumn], rows: Rows) -> list[RowPair]:
    """The rows, on which both decoders agree; raises DMError, on which they agree too."""
    found = outcome(None, table_map, columns, rows)
    native = compiled()
    if native is not None:
        assert told(outcome(native, table_map, columns, rows)) == told(found)
    if isinstance(found, DMError):
        raise found
    return found
