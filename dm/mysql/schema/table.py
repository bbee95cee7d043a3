"""The structure of one table: columns, indexes and what the replicator needs to know of them.

Which columns of a table appear in its row events.

Measured on both servers (MySQL 9.7, MariaDB 10.11): generated columns do, including virtual ones, and so do invisible
ones, including MySQL's generated primary key. MySQL's columns for functional indexes do not. MariaDB's columns for the
hash of a UNIQUE that is too long for an index do, at the end, one for each such index.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from dm.ident import TableName
from dm.mysql.binlog.charset import max_bytes
from dm.mysql.binlog.check import WireForm
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.sql.literal import Encoder
from dm.mysql.types import ColumnType, column_type

IndexKind = Literal["primary", "unique", "index", "fulltext", "spatial"]
Placing = tuple[tuple[str, ...], ...]
"""Which rows a table's partitions have (`dm.mysql.schema.partition`); empty where that is not known."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column, its type in the normal form (synonyms resolved, lower case)."""

    name: str
    base: str  # the type's name; `type` is what it means
    length: int | None = None  # display/char/byte length, decimal precision, or None where the type has none
    decimals: int | None = None  # decimal scale or fractional seconds
    unsigned: bool = False
    charset: str | None = None  # character columns, enum and set; None for others
    collation: str | None = None
    members: tuple[str, ...] = ()  # enum and set
    nullable: bool = True
    default: str | None = None  # source text of the DEFAULT clause; None when there is none
    on_update: str | None = None
    auto_increment: bool = False
    generated: Literal["virtual", "stored"] | None = None
    expression: str | None = None  # source text of a generated column
    invisible: bool = False
    # MariaDB: its own CHECK is JSON_VALID of it. Not compared, as no CHECK of a column is: they have no names.
    json_checked: bool = field(default=False, compare=False)

    @property
    def type(self) -> ColumnType:
        """What is known of its type; asked once per plan, never per row."""
        return column_type(self.base)

    def encoder(self) -> Encoder:
        """What writes its values as literals; made once, called per row."""
        return self.type.encoder(self.charset)

    @property
    def wire(self) -> WireForm:
        """What the type says of row events."""
        return self.type.wire


@dataclass(frozen=True, slots=True)
class IndexPart:
    """One part of an index: a column (perhaps only a prefix of it) or an expression."""

    column: str | None
    prefix: int | None = None
    expression: str | None = None
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """One index."""

    name: str  # "PRIMARY" for the primary key
    kind: IndexKind
    parts: tuple[IndexPart, ...]
    hash: bool = False  # USING HASH was written
    # INVISIBLE or IGNORED: the index works as any other, but no statement may name it. Not compared, since it changes
    # no rows.
    invisible: bool = field(default=False, compare=False)

    @property
    def unique(self) -> bool:
        """Whether the index is unique."""
        return self.kind in ("primary", "unique")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the parts that are columns."""
        return tuple(part.column for part in self.parts if part.column is not None)

    @property
    def functional(self) -> bool:
        """Whether some part is an expression."""
        return any(part.column is None for part in self.parts)

    def identifies(self, table: TableSchema) -> bool:
        """Whether it is unique, of whole columns that are NOT NULL."""
        never_null = {column.name.lower() for column in table.columns if not column.nullable}
        return self.unique and all(
            (part.column or "").lower() in never_null and part.prefix is None for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """One foreign key; names as written, parent schema resolved."""

    name: str
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    on_delete: str = "restrict"
    on_update: str = "restrict"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The structure of one table at one position; immutable, so a decoder may keep it."""

    name: TableName
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    charset: str | None = None
    collation: str | None = None
    engine: str | None = None
    checks: tuple[str, ...] = ()  # names of CHECK constraints
    partitions: tuple[str, ...] = ()  # names of partitions, in order; empty for a table without
    # Words of each CHECK, lower case: the columns it may use. Not compared: each server prints expressions its own way.
    check_words: tuple[tuple[str, ...], ...] = field(default=(), compare=False)
    # Columns, lower case, whose DROP the target did not get: it has them with their old values.
    kept: tuple[str, ...] = field(default=(), compare=False)
    placing: Placing = field(default=(), compare=False)  # each server prints expressions its own way

    def column(self, name: str) -> Column | None:
        """The column of that name; column names compare without case, as in the servers."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    @property
    def has_key(self) -> bool:
        """Whether a unique index identifies all rows: whole columns that are NOT NULL."""
        return any(index.identifies(self) for index in self.unique_indexes)

    @property
    def unique_indexes(self) -> tuple[Index, ...]:
        """Primary key first, then the unique indexes in order."""
        return tuple(
            sorted((index for index in self.indexes if index.unique), key=lambda index: index.kind != "primary")
        )


# A name that no target column has: for the column map it means that there is nothing to copy.
_HIDDEN: Final = "!hidden!DB_ROW_HASH_"
_LARGEST_KEY: Final = 3072  # bytes of an InnoDB index entry (row formats DYNAMIC and COMPRESSED)
_HASH_ENGINES: Final = frozenset({"memory", "heap"})


def _too_long(index: Index, schema: TableSchema) -> bool:
    size = 0
    for part in index.parts:
        column = schema.column(part.column or "")
        if column is None:
            continue
        if part.prefix is None and column.type.needs_prefix:
            return True
        characters = part.prefix or column.length or 0
        if column.type.is_text or (column.type.is_bytes and column.type.most_bytes is None):
            size += characters * max_bytes(column.charset)
    return size > _LARGEST_KEY


def wire_columns(schema: TableSchema, flavor: Flavor) -> tuple[Column, ...]:
    """The columns of a table map, in its order."""
    if not dialect(flavor).maps_long_keys or (schema.engine or "").lower() in _HASH_ENGINES:
        return schema.columns
    hashed = [index for index in schema.indexes if index.kind == "unique" and (index.hash or _too_long(index, schema))]
    return schema.columns + tuple(
        Column(f"{_HIDDEN}{number + 1}", "bigint", unsigned=True, generated="virtual", invisible=True)
        for number in range(len(hashed))
    )
