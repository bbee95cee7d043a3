"""Rows that meet in a key of the target and not at the source: none may go for another that is still there.

**Keys that only the target has** (`ReplacedRows`). The load admits rows with the same key, since a dump without a lock
reads a row twice that moves from one key to another meanwhile. Where the source has the same key, that is the only
reason for rows of one table to meet, and the stream brings what has moved. Where the target makes the key by itself, it
may be another one than the source's: a column that is computed in another session, an expression that is not the
source's, a unique index that the source lacks. Then a row is lost, and all that tells is a number of replaced rows.

So where rows of a part of such a table have met others, the part is taken back and its rows are written one by one. The
row that would have to go is looked up by the key, and the source is asked for it. If the source has it as it was read,
the two are there at one time, and the target can't have both: the load ends (`load-row-replaced`). If the source has
changed or deleted it, the change is past the beginning of the dump, so the stream has it. A row that came from
another table of a merge is not in this one; `on-duplicate-logical` decides, as for every key that two sources share.

A source table without a key is read at one moment, so no row of it is read twice. The rows of SQL files are not known
here: they are loaded without `on-duplicate-logical`, so the target itself refuses the row (`load-duplicate`).

**Keys that are equal only at the target** (`EqualKeys`). A collation of the source may have become another one at the
target (`collation-map`, and the pairs that hold by themselves). Then two texts may be one key there that are two at the
source: U+A7C2 and U+A7C3 are two letters for MySQL's `utf8mb4_0900_ai_ci` and one for MariaDB's
`utf8mb4_uca1400_nopad_ai_ci`. The load admits rows with the same key, since a dump without a lock reads a value twice
that moves from one row to another, and sources may be merged. So the number of replaced rows does not tell a lost row
from these.

A table with such a key is loaded like any other. Only if rows of a part met others, the part is taken back, and its
rows are written one by one to find out why: before each, rows are looked for that have the same key with other bytes.
If there is one, the source itself is asked whether the two texts are equal. If they are, no table has both at one time,
and `on-duplicate-logical` decides, as it does for the same bytes. If they are not, a row would be lost.

What is not looked at: keys that the target computes (see above) or a route fills, and the rows of SQL files, whose
values are not known here. Such files are loaded without `on-duplicate-logical` where a table has a mapped key, so the
target itself refuses the row (`load-duplicate`).
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
from dm.dumpfiles.destination import Destination, KeyColumn, MappedKey, OwnKey
from dm.dumpfiles.literals import row_literals, shown_row
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.expressions import columns_under, is_computed
from dm.mysql.schema.own_keys import own_indexes
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.progress.load_parts import LoadRun, tables_loaded_into
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import connect, fetch


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
                    first=_texts_shown(there),
                    second=_texts_shown(texts),
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
            left = Ident(name).sql if column.prefix is None or not column.text else _key_part(Ident(name).sql, column)
            right = _text(value, column, column.collation) if column.text else others[name][row]
            conditions.append(left.encode() + b" = " + right)
        yield head + b" AND ".join(conditions), [values[column.column.name][row] for column in key.texts]


def _plain(batch: pyarrow.RecordBatch, column: Column) -> list[bytes]:
    return list(row_literals(batch.select([column.name]), (column,)))


def _text(value: bytes, column: KeyColumn, collation: str | None) -> bytes:
    """A stored text as SQL, to be compared as the collation compares."""
    sql = f"CONVERT(x'{value.hex()}' USING {column.column.charset}) COLLATE {collation}"
    return (sql if column.prefix is None else _key_part(f"({sql})", column)).encode()


def _key_part(sql: str, column: KeyColumn) -> str:
    return f"LEFT({sql}, {column.prefix})"


def _ascii(value: object) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _texts_shown(texts: Sequence[bytes]) -> str:
    return ", ".join(f"'{text.decode('utf-8', 'replace')}' (0x{text.hex()})" for text in texts)


Rows = Callable[[Sequence[str]], Iterable[pyarrow.RecordBatch]]


def own_keys(source: TableSchema, target: TableSchema) -> tuple[OwnKey, ...]:
    """The target's unique keys in which two rows of the source's table may meet that are two to the source."""
    return tuple(_own(index, source, target) for index in own_indexes(source, target))


def _own(index: Index, source: TableSchema, target: TableSchema) -> OwnKey:
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
