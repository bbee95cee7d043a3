"""Batches of the feed: where one ends, how it is divided into tasks, and the rows of a part of the relay.

A position of the feed is the end of a transaction, so a part of the relay between two positions always has the same
rows, whoever reads it and how often. That is what makes a restart exact: Spark stores both ends of a batch before it
reads, and after a crash the same part is read again.

Within a batch, the names of the files and the offsets are the order of the changes: a batch ends where the source is
another server, and where names begin anew.

A batch ends before a statement that changes the table's columns, so everything before it is delivered. The next batch
then fails and says so. Rows of prepared XA transactions lie before the place where they are decided, perhaps in another
batch; such transactions are refused.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

from dm.binlog.check import mismatch
from dm.binlog.decode import RowDecoder
from dm.binlog.table_map import TableMap
from dm.errors import DMError
from dm.feed.images import image_of, merged
from dm.feed.options import FeedOptions
from dm.gtid import Gtid
from dm.ident import TableName
from dm.position import Position
from dm.schema.parse import parse_create_table
from dm.schema.table import Column, TableSchema
from dm.schema.wire import wire_columns
from dm.sql.context import SourceContext
from dm.sql.operation import CreateTable
from dm.sql.piece import Piece
from dm.sql.rows_before import effect_of
from dm.syncer.stream.prepared import PreparedRows, PreparedTransactions, Wanted
from dm.syncer.stream.relay_reading import RelayReading
from dm.syncer.stream.transaction import RowsItem, SourceTransaction, StatementItem, TransactionItems

Image = dict[str, bytes | None] | None
Change = tuple[str, str, int, int, str, datetime, str, str, str, Image, Image]

_VERSIONS: Final = {"mysql": 90700, "mariadb": 101100}


class _NoPrepared(PreparedTransactions):
    """Refuses rows whose verdict comes later."""

    def __init__(self) -> None:
        pass

    def hold(
        self,
        xid: str,
        items: TransactionItems,
        *,
        end: Position,
        gtid: Gtid | None,
        timestamp: int,
        left_out: frozenset[TableName] = frozenset(),
    ) -> None:
        if len(items):
            raise DMError("feed-xa", xid=xid, place=end)

    def commit(self, xid: str, *, end: Position, gtid: Gtid | None, wanted: Wanted) -> PreparedRows:
        raise DMError("feed-xa", xid=xid, place=end)

    def rollback(self, xid: str, *, end: Position, gtid: Gtid | None) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Batch:
    """A part of the relay, cut into pieces for tasks: each begins where the one before ends."""

    end: Position
    cuts: tuple[Position, ...] = ()


@dataclass(slots=True)
class _Table:
    table_map: TableMap
    schema: TableSchema
    wire: tuple[Column, ...]
    decoder: RowDecoder = field(init=False)

    def __post_init__(self) -> None:
        self.decoder = RowDecoder(self.table_map, self.wire)


class FeedReading:
    """Reads parts of one relay."""

    def __init__(self, options: FeedOptions) -> None:
        self._options = options
        self._known: dict[int, _Table] = {}

    def _wanted(self, table: TableName) -> bool:
        return table in self._options.structures

    def _transactions(self, start: Position, scratch: str) -> Iterator[SourceTransaction]:
        options = self._options
        # Only the server knows whether MariaDB's numbers are in order; without that, only places count.
        reading = RelayReading(options.relay, options.flavor, self._wanted, gtids_ordered=options.flavor == "mysql")
        return reading.transactions(start, _NoPrepared(), Path(scratch), threading.Event())

    def batch(self, start: Position, size: int | None, limit: Position | None = None) -> Batch:
        """What comes behind `start`: at most about `size` bytes, and nothing that ends behind `limit`."""
        end, cuts, read, of_task = start, [], 0, 0
        try:
            with tempfile.TemporaryDirectory(prefix="dm-feed-") as scratch:
                for transaction in self._transactions(start, scratch):
                    if limit is not None and transaction.end.same_files(limit) and transaction.end.order > limit.order:
                        break
                    if (statement := self._change_of_table(transaction)) is not None:
                        if end == start:
                            self._refuse(transaction, statement)
                        break
                    if end != start and not _sorts_behind(transaction.end, end):
                        break
                    if size is not None and read and read + transaction.size > size:
                        break
                    if of_task and of_task + transaction.size > self._options.task_bytes:
                        cuts.append(end)
                        of_task = 0
                    end = transaction.end
                    read += transaction.size
                    of_task += transaction.size
        except DMError as error:
            if error.name != "source-switched" or end == start:  # else the next batch says it
                raise
        return Batch(end, tuple(cuts))

    def _change_of_table(self, transaction: SourceTransaction) -> StatementItem | None:
        for item in transaction.items:
            if isinstance(item, StatementItem):
                flavor = self._options.flavor
                context = SourceContext(flavor, _VERSIONS[flavor], item.query.schema)
                text = item.query.readable
                effect = effect_of(text, context, self._wanted)
                if effect.stands_before(self._options.structures) and not self._makes_it(text, context):
                    return item
        return None

    def _makes_it(self, text: str, context: SourceContext) -> bool:
        """Whether the statement creates the table with the columns that are expected."""
        try:
            operation = Piece.of(text, context).operation
            if not isinstance(operation, CreateTable) or operation.like is not None:
                return False
            made = parse_create_table(text, context)
        except DMError:
            return False
        expected = self._options.structures.get(made.name)
        return expected is not None and _names(made) == _names(expected)

    @staticmethod
    def _refuse(transaction: SourceTransaction, item: StatementItem) -> NoReturn:
        end = transaction.end
        text = " ".join(item.query.readable.split())[:300]
        raise DMError(
            "feed-ddl", place=f"({end.file}, {item.start})", statement=text, behind=f"{end.file}:{end.offset}"
        )

    def changes(self, start: Position, end: Position) -> Iterator[Change]:
        """The rows of the part between two positions, in the relay's order; raises DMError."""
        if start == end:
            return
        there = start
        with tempfile.TemporaryDirectory(prefix="dm-feed-") as scratch:
            for transaction in self._transactions(start, scratch):
                there = transaction.end
                if (statement := self._change_of_table(transaction)) is not None:
                    self._refuse(transaction, statement)
                yield from self._of_transaction(transaction)
                if there.covers(end):
                    return
        raise DMError("feed-relay-short", there=there, wanted=end)

    def _of_transaction(self, transaction: SourceTransaction) -> Iterator[Change]:
        number, end = 0, transaction.end
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        committed = datetime.fromtimestamp(transaction.timestamp, UTC)
        for item in transaction.items:
            if not isinstance(item, RowsItem):
                continue
            table = self._known.get(id(item.table_map)) or self._learn(item.table_map, end)
            name, kind = table.schema.name, item.rows.kind
            for pair in table.decoder.decode(item.rows):
                before, after = (
                    None if row is None else image_of(table.schema, table.wire, row) for row in merged(*pair)
                )
                number += 1
                place = (end.server_uuid, end.file, end.offset, number, gtid, committed)
                yield (*place, name.schema, name.table, kind, before, after)

    def _learn(self, table_map: TableMap, end: Position) -> _Table:
        schema = self._options.structures[TableName(table_map.schema, table_map.table)]
        wire = tuple(wire_columns(schema, self._options.flavor))
        why = mismatch(table_map, wire)
        if why is not None:
            raise DMError("structure-mismatch", table=str(schema.name), why=why, position=end)
        self._known[id(table_map)] = table = _Table(table_map, schema, wire)
        return table


def _sorts_behind(place: Position, before: Position) -> bool:
    """Whether whoever orders changes by file and offset, with names as texts, has the two in their order."""
    return place.server_uuid == before.server_uuid and place.file >= before.file


def _names(schema: TableSchema) -> list[str]:
    return [column.name.lower() for column in schema.columns]
