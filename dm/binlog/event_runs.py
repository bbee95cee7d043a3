"""Consecutive events read together: rows events, and whole transactions of rows.

Only the extension does that. Python, the reference, reads one event after another (`dm.binlog.reader`), so the Python
twins here find nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from dm.accelerator.structures import shared
from dm.accelerator.switch import Pair
from dm.binlog.event import RawEvent
from dm.binlog.rows import ROWS_TYPES, Rows, RowsForm
from dm.binlog.table_map import TableMap
from dm.binlog.transaction import uuid_texts
from dm.gtid import Gtid

PLAIN_ROWS: Final = {code: form for code, form in ROWS_TYPES.items() if not form.compressed}
"""The types of rows events that are read so."""

_RowsItem = TypeVar("_RowsItem", bound=tuple[TableMap, Rows])


@shared
class StreamState(NamedTuple):
    """The compiled readers' state of a stream."""

    trailing: int  # bytes after the body of an event
    bodies: dict[bytes, TableMap]  # the table maps by their bodies, after the table's number
    wanted: dict[bytes, TableMap]  # of these, those of tables that are wanted under any number
    maps: dict[int, TableMap | None]  # by their numbers; None: skip the rows
    forms: dict[int, RowsForm]  # of the types of rows events
    sessions: Mapping[bytes, object]  # known sessions, by their bytes


@shared
class FoundRows(NamedTuple, Generic[_RowsItem]):
    """Consecutive rows events."""

    items: list[_RowsItem]
    rows_size: int  # bytes of the items' events
    size: int  # bytes of all events read
    end: int  # the place of the first event not read


@shared
class FoundTransaction(NamedTuple, Generic[_RowsItem]):
    """A transaction of rows alone, in the terms of its events."""

    source: bytes | int | None  # of its GTID: MySQL's number of the server, MariaDB's domain
    number: int
    server_id: int
    timestamp: int  # of its end
    items: list[_RowsItem]
    rows_size: int  # bytes of the items' events
    size: int  # bytes of the events after the GTID
    length: int  # bytes of all its events


class PlainTransaction(NamedTuple, Generic[_RowsItem]):
    """A transaction of rows alone."""

    gtid: Gtid | None
    timestamp: int  # of its end
    items: list[_RowsItem]
    rows_size: int  # bytes of the items' events
    size: int  # bytes of the events after the GTID
    length: int  # bytes of all its events


class RowsOf(Protocol):
    """The loop over consecutive rows events."""

    def __call__(
        self, events: Sequence[RawEvent], at: int, state: StreamState, made: type[_RowsItem], /
    ) -> FoundRows[_RowsItem]:
        """The events at a place."""
        ...


class TransactionsOf(Protocol):
    """The loop over transactions."""

    def __call__(
        self, events: Sequence[RawEvent], at: int, state: StreamState, largest: int, made: type[_RowsItem], /
    ) -> tuple[list[FoundTransaction[_RowsItem]], int]:
        """The transactions at a place, and their end."""
        ...


def no_rows(
    events: Sequence[RawEvent], at: int, state: StreamState | None, made: type[_RowsItem]
) -> FoundRows[_RowsItem]:
    """Finds none."""
    return FoundRows([], 0, 0, at)


def _no_transactions(
    events: Sequence[RawEvent], at: int, state: StreamState, largest: int, made: type[_RowsItem]
) -> tuple[list[FoundTransaction[_RowsItem]], int]:
    return [], at


ROWS_OF: Final[Pair[RowsOf]] = Pair(no_rows, lambda native: native.rows_of)
TRANSACTIONS_OF: Final[Pair[TransactionsOf]] = Pair(_no_transactions, lambda native: native.transactions_of)


def plain_transaction(found: FoundTransaction[_RowsItem]) -> PlainTransaction[_RowsItem]:
    """The transaction with its GTID."""
    source, number, server_id, timestamp, items, rows_size, size, length = found
    if source is None:
        gtid = None
    elif isinstance(source, bytes):
        gtid = Gtid("mysql", uuid_texts[source], number)
    else:
        gtid = Gtid("mariadb", str(source), number, server_id)
    return PlainTransaction(gtid, timestamp, items, rows_size, size, length)
