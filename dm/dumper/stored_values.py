"""Whether a source's STORED columns have what its server would compute: asked of each chunk before it is read.

Problem: a dump has no values of generated columns, since the target computes them: in the zone of the source's server,
or in that which `application-time-zone` names (`dm.changes.computing`). A session of the source in another zone has
stored something else, and nobody would notice: the syncer compares what a row's image holds, but a load has no image.

So the source itself is asked, in a session of that zone and in the snapshot that the chunk is read from: for a row
whose stored value is not what the expression gives. That sends no values, and needs no key and no target. So it is the
same for files of any form and for a stream. Tables without such a column are not asked.

A value of an expression becomes another one when a column stores it: digits are rounded, a moment loses its time. The
casts of `_computed` do the same (seen on MySQL 9.7 and MariaDB 10.11, each pair of types in the tests).

Bounds of a chunk may be TIMESTAMPs, which mean other moments in the other zone. Each chunk begins where the one before
ends, in any zone, and both ends of the table are open: so together the questions are about all rows. A condition of the
user's (`where`) is not asked along if it may mean other rows there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dm.changes.computing import PADDING, SourceSettings
from dm.dumpfiles.chunk_plan import value_expression
from dm.dumpfiles.literals import naming_key, shown_value
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.schema.expressions import column_depends_on_zone, text_depends_on_zone
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.literal import quoted
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, fetch

# Of a FLOAT, to which no cast of all versions leads: what its 24 bits leave of a value, half a bit.
_FLOAT_ERROR = "6e-8"


@dataclass(frozen=True, slots=True)
class StoredValues:
    """The question about one table."""

    table: TableName
    select: str  # everything up to the WHERE
    condition: str  # that a row has another value than the zone gives
    key: tuple[str, ...]  # what names a row
    columns: tuple[str, ...]  # that are compared
    zone: str
    pads: bool
    everywhere: bool  # the user's condition means other rows in this zone

    @classmethod
    def of(
        cls, schema: TableSchema, flavor: Flavor, settings: SourceSettings, *, zone: str, index: str, where: str
    ) -> StoredValues | None:
        """That of a table; None if it has no such column. An empty `zone`: the server's; `index`: it is read by it."""
        columns = [
            column
            for column in schema.columns
            if column.generated == "stored" and column_depends_on_zone(column, schema) and column.expression is not None
        ]
        if not columns:
            return None
        key = naming_key(schema)
        told = [column for column in schema.columns if column.name in key]
        hint = f" FORCE INDEX ({Ident(index).sql})" if index else ""
        return cls(
            schema.name,
            f"SELECT {', '.join(map(value_expression, (*told, *columns)))} FROM {schema.name.sql}{hint}",
            " OR ".join(f"NOT ({_same(column, flavor)})" for column in columns),
            tuple(column.name for column in told),
            tuple(column.name for column in columns),
            zone or settings.zone,
            PADDING in settings.modes,
            text_depends_on_zone(where, schema),
        )

    @reads_answers
    def demand(self, connection: Connection, chunk: str, where: str) -> None:
        """Raise DMError `dump-computed-otherwise` for a row of these conditions; they are texts, or empty."""
        conditions = (self.condition, chunk, "" if self.everywhere else where)
        texts = " AND ".join(f"({text})" for text in conditions if text)
        with self._computing(connection):
            rows = fetch(connection, f"{self.select} WHERE {texts} LIMIT 1")
        if rows:
            shown = [shown_value(value if value is None else _bytes(value)) for value in rows[0]]
            named = list(zip((*self.key, *self.columns), shown, strict=True))
            at = len(self.key)
            raise DMError(
                "dump-computed-otherwise",
                table=self.table,
                key=", ".join(f"{name} = {value}" for name, value in named[:at]) or "no key",
                stored=", ".join(f"{name} = {value}" for name, value in named[at:]),
                zone=self.zone,
            )

    @contextmanager
    def _computing(self, connection: Connection) -> Iterator[None]:
        mode = f"CONCAT(@@SESSION.sql_mode, ',{PADDING}')" if self.pads else "@@SESSION.sql_mode"
        zone = quoted(self.zone.encode()).decode()
        fetch(connection, "SET @dm_zone = @@SESSION.time_zone, @dm_mode = @@SESSION.sql_mode")
        fetch(connection, f"SET SESSION time_zone = {zone}, SESSION sql_mode = {mode}")
        yield  # after an error the session is of no further use
        fetch(connection, "SET SESSION time_zone = @dm_zone, SESSION sql_mode = @dm_mode")


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _same(column: Column, flavor: Flavor) -> str:
    """The condition that the column has what its expression gives."""
    name, value = Ident(column.name).sql, f"({column.expression})"
    if column.type.is_text:
        stored, computed = (f"CONVERT({text} USING {column.charset})" for text in (name, value))
        if column.type.pads_with_spaces:
            stored, computed = (f"TRIM(TRAILING ' ' FROM {text})" for text in (stored, computed))
        return f"CAST({stored} AS BINARY) <=> CAST({computed} AS BINARY)"
    made = column.type.computed(column, value, dialect(flavor))
    if column.type.is_single:
        return f"{name} <=> {made} OR ABS({name} - {made}) <= ABS({made}) * {_FLOAT_ERROR}"
    return f"{name} <=> {made}"
