"""Keys that are equal at the target and are not at the source: the one row would replace the other.

A collation of the source may have become another one at the target (`collation-map`, and the pairs that hold by
themselves). Then two texts may be one key there that are two at the source: U+A7C2 and U+A7C3 are two letters for
MySQL's `utf8mb4_0900_ai_ci` and one for MariaDB's `utf8mb4_uca1400_nopad_ai_ci`. The load admits rows with the same
key, since a dump without a lock reads a value twice that moves from one row to another, and sources may be merged. So
the number of replaced rows does not tell a lost row from these.

A table with such a key is loaded like any other. Only if rows of a part met others, the part is taken back, and its
rows are written one by one to find out why: before each, rows are looked for that have the same key with other bytes.
If there is one, the source itself is asked whether the two texts are equal. If they are, no table has both at one
time, and `on-duplicate-logical` decides, as it does for the same bytes. If they are not, a row would be lost.

What is not looked at: keys that the target computes (`replaced_rows.py` looks at these) or a route fills, and the rows
of SQL files, whose values are not known here. Such files are loaded without `on-duplicate-logical` where a table has a
mapped key, so the target itself refuses the row (`load-duplicate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow

from dm.config.endpoint import Endpoint
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination, KeyColumn, MappedKey
from dm.dumpfiles.literals import row_literals
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import connect, fetch

Rows = Callable[[Sequence[str]], Iterable[pyarrow.RecordBatch]]


def mapped_keys(source: TableSchema, target: TableSchema) -> tuple[MappedKey, ...]:
    """The target's unique keys over texts that it compares otherwise than the source does."""
    keys = (_mapped(index, source, target) for index in target.unique_indexes)
    return tuple(key for key in keys if key is not None)


def _mapped(index: Index, source: TableSchema, target: TableSchema) -> MappedKey | None:
    columns: list[KeyColumn] = []
    for part in index.parts:
        of = None if part.column is None else source.column(part.column)
        to = None if part.column is None else target.column(part.column)
        if of is None or to is None or of.generated is not None or to.generated is not None:
            return None
        columns.append(KeyColumn(of, to.collation, part.prefix))
    return MappedKey(index.name, tuple(columns)) if any(each.mapped for each in columns) else None


@dataclass(frozen=True)
class EqualKeys:
    """Looks for rows of a part that another row would replace; everything it writes is to be taken back."""

    connection: TargetConnection
    source: Endpoint
    source_table: TableName
    destination: Destination

    def refuse(self, rows: Rows, head: bytes, tail: bytes) -> None:
        """Write the rows one by one, as `head` and `tail` say; raises DMError `load-keys-equal`."""
        into = self.destination
        self.connection.execute("SET NAMES binary")
        constants = [literal for _, literal in into.same]
        for batch in rows([column.name for column in into.columns]):
            lookups = [_lookups(batch, key, into.target) for key in into.mapped_keys]
            literals = row_literals(batch, into.columns, constants)
            for literal, *found in zip(literals, *lookups, strict=True):
                for key, (sql, texts) in zip(into.mapped_keys, found, strict=True):
                    if sql is not None:
                        self._look(key, sql, texts)
                self.connection.execute(head + literal + tail)

    @reads_answers
    def _look(self, key: MappedKey, sql: bytes, texts: Sequence[bytes]) -> None:
        for row in self.connection.query(sql):
            there = [bytes.fromhex(_ascii(value)) for value in row]
            pairs = zip(key.texts, texts, there, strict=True)
            other = [(column, mine, theirs) for column, mine, theirs in pairs if column.mapped and mine != theirs]
            if other and not self._equal_at_source(other):
                raise DMError(
                    "load-keys-equal",
                    table=self.destination.target,
                    source_table=self.source_table,
                    index=key.index,
                    first=_shown(there),
                    second=_shown(texts),
                    collations=", ".join(f"{each.collation} for {each.column.collation}" for each, _, _ in other),
                    mapped=", ".join(f"{each.column.collation}: {each.column.charset}_bin" for each, _, _ in other),
                )

    @reads_answers
    def _equal_at_source(self, pairs: Sequence[tuple[KeyColumn, bytes, bytes]]) -> bool:
        with closing(connect(self.source)) as session:
            for column, mine, theirs in pairs:
                collation = column.column.collation
                left, right = (_text(value, column, collation).decode() for value in (mine, theirs))
                if not fetch(session, f"SELECT {left} = {right}")[0][0]:
                    return False
        return True


def _lookups(
    batch: pyarrow.RecordBatch, key: MappedKey, target: TableName
) -> Iterator[tuple[bytes | None, Sequence[bytes]]]:
    """For each row the query of the rows with the same key, which gives texts in hexadecimal, and the row's own texts.

    No query where a NULL is in the key.
    """
    others = {column.column.name: _plain(batch, column.column) for column in key.columns if not column.text}
    values = {column.column.name: batch.column(column.column.name).to_pylist() for column in key.columns}
    hexadecimal = ", ".join(f"HEX({Ident(column.column.name).sql})" for column in key.texts)
    head = f"SELECT {hexadecimal} FROM {target.sql} WHERE ".encode()
    for row in range(batch.num_rows):
        if any(values[column.column.name][row] is None for column in key.columns):
            yield None, ()
            continue
        conditions = []
        for column in key.columns:
            name, value = column.column.name, values[column.column.name][row]
            left = Ident(name).sql if column.prefix is None or not column.text else _cut(Ident(name).sql, column)
            right = _text(value, column, column.collation) if column.text else others[name][row]
            conditions.append(left.encode() + b" = " + right)
        yield head + b" AND ".join(conditions), [values[column.column.name][row] for column in key.texts]


def _plain(batch: pyarrow.RecordBatch, column: Column) -> list[bytes]:
    return list(row_literals(batch.select([column.name]), (column,)))


def _text(value: bytes, column: KeyColumn, collation: str | None) -> bytes:
    """A stored text as SQL, to be compared as the collation compares."""
    sql = f"CONVERT(x'{value.hex()}' USING {column.column.charset}) COLLATE {collation}"
    return (sql if column.prefix is None else _cut(f"({sql})", column)).encode()


def _cut(sql: str, column: KeyColumn) -> str:
    return f"LEFT({sql}, {column.prefix})"


def _ascii(value: object) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _shown(texts: Sequence[bytes]) -> str:
    return ", ".join(f"'{text.decode('utf-8', 'replace')}' (0x{text.hex()})" for text in texts)
