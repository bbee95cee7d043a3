"""Rows of one source table that meet in a key which only the target has: none may go for another that is still there.

The load admits rows with the same key, since a dump without a lock reads a row twice that moves from one key to another
meanwhile. Where the source has the same key, that is the only reason for rows of one table to meet, and the stream
brings what has moved. Where the target makes the key by itself, it may be another one than the source's: a column that
is computed in another session, an expression that is not the source's, a unique index that the source lacks. Then a row
is lost, and all that tells is a number of replaced rows.

So where rows of a part of such a table have met others, the part is taken back and its rows are written one by one. The
row that would have to go is looked up by the key, and the source is asked for it. If the source has it as it was read,
the two are there at one time, and the target can't have both: the load ends (`load-row-replaced`). If the source has
changed or deleted it, the change is past the beginning of the dump, so the stream has it. A row that came from
another table of a merge is not in this one; `on-duplicate-logical` decides, as for every key that two sources share.

A source table without a key is read at one moment, so no row of it is read twice. The rows of SQL files are not known
here: they are loaded without `on-duplicate-logical`, so the target itself refuses the row (`load-duplicate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow

from dm.config.endpoint import Endpoint
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.chunk_plan import value_expression
from dm.dumpfiles.destination import Destination, OwnKey
from dm.dumpfiles.literals import row_literals, shown_row
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.expressions import columns_under, is_computed
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.progress.load_parts import LoadRun, tables_loaded_into
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import connect, fetch

Rows = Callable[[Sequence[str]], Iterable[pyarrow.RecordBatch]]


def own_keys(source: TableSchema, target: TableSchema) -> tuple[OwnKey, ...]:
    """The target's unique keys in which two rows of the source's table may meet that are two to the source."""
    identities = [
        frozenset(name.lower() for name in index.columns)
        for index in source.unique_indexes
        if not is_computed(index, source) and all(part.prefix is None for part in index.parts)
    ]
    keys = (_own(index, source, target, identities) for index in target.unique_indexes)
    return tuple(key for key in keys if key is not None)


def _own(index: Index, source: TableSchema, target: TableSchema, identities: Sequence[frozenset[str]]) -> OwnKey | None:
    whole = frozenset(part.column.lower() for part in index.parts if part.column is not None and part.prefix is None)
    # Rows that agree in all of it agree in a key of the source, whatever else is in it.
    if any(identity <= whole for identity in identities):
        return None
    alike = [key for key in source.unique_indexes if key.columns == index.columns and not is_computed(key, source)]
    if not is_computed(index, target) and any(_prefixes(key) == _prefixes(index) for key in alike):
        return None
    parts = tuple(
        f"({part.expression})" if part.column is None else _cut(part.column, part.prefix, target)
        for part in index.parts
    )
    keys = (key for key in source.unique_indexes if key.identifies(source) and not is_computed(key, source))
    identity = next(keys, None)
    read = columns_under(index, target)
    columns = [column for column in source.columns if column.generated is None]
    names = frozenset() if identity is None else {name.lower() for name in identity.columns}
    return OwnKey(
        index.name,
        parts,
        tuple(column for column in columns if column.name.lower() in names),
        # Of these types both servers compare values with what the other one reads (`value_expression`). All that a key
        # may be made of are among them: a row is known by the whole of its key, or another one is taken for it.
        tuple(
            column
            for column in columns
            if column.name.lower() in names | read and (column.type.ordered or column.type.has_members)
        ),
    )


def _prefixes(index: Index) -> list[int | None]:
    return [part.prefix for part in index.parts]


def _cut(column: str, prefix: int | None, table: TableSchema) -> str:
    found = table.column(column)
    name = Ident(column).sql
    return name if prefix is None or found is None else f"LEFT({name}, {prefix})"


@dataclass(frozen=True)
class ReplacedRows:
    """Looks for rows that a row of a part would replace; everything it writes is to be taken back."""

    connection: TargetConnection
    source: Endpoint
    source_table: TableName
    destination: Destination
    run: LoadRun

    def refuse(self, rows: Rows, head: bytes, tail: bytes) -> None:
        """Write the rows one by one, as `head` and `tail` say; raises DMError `load-row-replaced`."""
        into, connection = self.destination, self.connection
        connection.execute("SET NAMES binary")
        into_columns = head[head.index(b" INTO ") :]
        constants = [literal for _, literal in into.same]
        key = into.own_keys[0].identity
        for batch in rows([column.name for column in into.columns]):
            literals = row_literals(batch, into.columns, constants, moments=into.moments)
            conditions = _conditions(batch, key, into.moments)
            for at, (literal, mine) in enumerate(zip(literals, conditions, strict=True)):
                connection.execute("SAVEPOINT dm_row")
                try:
                    connection.execute(b"INSERT" + into_columns + literal)
                    continue
                except DMError as error:
                    if error.name != "duplicate-key":
                        raise
                    connection.execute("ROLLBACK TO SAVEPOINT dm_row")
                    self._look(shown_row(batch, at, into.key), mine, b"REPLACE" + into_columns + literal, error)
                connection.execute(head + literal + tail)

    def _look(self, row: str, mine: bytes, replacing: bytes, refused: DMError) -> None:
        """Raise DMError where a row that is still at the source has the key of this one, which `replacing` writes."""
        if not mine:
            if len(tables_loaded_into(self.connection, self.run, self.destination.target)) <= 1:
                raise self._lost(refused.cause, row, "another row", refused)
            self.connection.execute("SET NAMES binary")
            return
        for key in self.destination.own_keys:
            for there in self._with_the_key_of(key, row, mine, replacing):
                if self._at_source(there):
                    raise self._lost(key.index, row, _shown(there), refused)

    @reads_answers
    def _with_the_key_of(self, key: OwnKey, row: str, mine: bytes, replacing: bytes) -> list[dict[Column, Any]]:
        """The rows that have the key which the target gives to this one."""
        connection, target = self.connection, self.destination.target.sql.encode()
        names = [f"@dm_key{at}" for at in range(len(key.parts))]
        connection.execute(replacing)
        into = f"SELECT {', '.join(key.parts)} INTO {', '.join(names)} FROM "
        if connection.execute(into.encode() + target + b" WHERE " + mine) != 1:
            raise DMError("load-row-not-found", table=self.destination.target, row=row)
        connection.execute("ROLLBACK TO SAVEPOINT dm_row")
        same = " AND ".join(f"{part} = {name}" for part, name in zip(key.parts, names, strict=True))
        # The source gets texts in UTF-8, but the condition has the row's own bytes.
        connection.execute("SET SESSION character_set_results = utf8mb4")
        found = connection.query(
            f"SELECT {', '.join(map(_asked, key.asked))} FROM ".encode()
            + target
            + f" WHERE {same} AND NOT (".encode()
            + mine
            + b")"
        )
        connection.execute("SET NAMES binary")
        return [dict(zip(key.asked, row, strict=True)) for row in found]

    def _at_source(self, row: dict[Column, Any]) -> bool:
        condition = " AND ".join(f"{_asked(column)} <=> %s" for column in row)
        with closing(connect(self.source)) as session:
            sql = f"SELECT 1 FROM {self.source_table.sql} WHERE {condition} LIMIT 1"
            return bool(fetch(session, sql, tuple(row.values())))

    def _lost(self, index: str, row: str, there: str, refused: DMError) -> DMError:
        into = self.destination
        return DMError(
            "load-row-replaced",
            table=into.target,
            source_table=self.source_table,
            index=index,
            first=there,
            second=row,
            cause=refused.cause,
        ).numbered(refused.server_errno)


def _asked(column: Column) -> str:
    """The column for both servers, whatever zone their sessions are in."""
    return f"UNIX_TIMESTAMP({Ident(column.name).sql})" if column.type.is_moment else value_expression(column)


def _conditions(batch: pyarrow.RecordBatch, key: Sequence[Column], moments: Sequence[str]) -> Iterator[bytes]:
    """For each row what finds it by the source's key; empty without one."""
    if not key:
        yield from [b""] * batch.num_rows
        return
    parts = []
    for column in key:
        if column.type.is_bits:  # whose bytes in quotes are a text to a comparison
            values = batch.column(column.name).to_pylist()
            literals: Iterable[bytes] = (b"%d" % int.from_bytes(value, "big") for value in values)
        else:
            literals = row_literals(batch.select([column.name]), (column,), moments=moments)
        parts.append([Ident(column.name).sql.encode() + b" = " + literal for literal in literals])
    for row in zip(*parts, strict=True):
        yield b" AND ".join(row)


def _shown(values: dict[Column, Any]) -> str:
    return ", ".join(f"{column.name}={value!r}" for column, value in values.items())
