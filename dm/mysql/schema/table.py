"""The structure of one table: columns, indexes, what the replicator needs to know of them, and their form in JSON.

Which columns of a table appear in its row events.

Measured on both servers (MySQL 9.7, MariaDB 10.11): generated columns do, including virtual ones, and so do invisible
ones, including MySQL's generated primary key. MySQL's columns for functional indexes do not. MariaDB's columns for the
hash of a UNIQUE that is too long for an index do, at the end, one for each such index.

Changes of a column's type that keep every value, on any server.

Any other change converts: it rounds or cuts, reads text as a number or prints a number as text. The two flavours differ
there: one rounds a fraction of a second, the other cuts it off; DATETIME becomes YEAR in one and zero in the other. No
document says which conversions agree, so only changes without conversion are listed here.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.charset import max_bytes
from dm.mysql.binlog.table_map import WireForm
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.sql.literal import Encoder
from dm.mysql.types import ColumnType, column_type, has_type
from dm.mysql.types.strings import same_characters

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


def without_columns(schema: TableSchema, names: Collection[str]) -> TableSchema:
    """The table as if it had those of its rows alone that are equal in these columns (lower case), and not the columns.

    A unique key over one of them and others is one over the others. Of a key over these alone, which would say that
    there is one such row, nothing is left; nor of foreign keys over them.
    """
    indexes = []
    for index in schema.indexes:
        parts = tuple(part for part in index.parts if (part.column or "").lower() not in names)
        if parts:
            indexes.append(replace(index, parts=parts))
    return replace(
        schema,
        columns=tuple(column for column in schema.columns if column.name.lower() not in names),
        indexes=tuple(indexes),
        foreign_keys=tuple(
            key for key in schema.foreign_keys if {name.lower() for name in key.columns}.isdisjoint(names)
        ),
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


def same_type(before: Column, after: Column) -> bool:
    """Whether the type is the same; a collation orders values but changes none."""
    return _type(before) == _type(after)


def widens(before: Column, after: Column) -> bool:
    """Whether each value of the old type is the same value in the new one; NULL has no type."""
    if after.generated is not None or same_type(before, after):
        return True  # a generated column's values are computed again, whatever they were
    if before.unsigned != after.unsigned or not same_characters(before, after):
        return False
    return before.type.widens(before, after)


def _type(column: Column) -> tuple[object, ...]:
    length = None if column.type.is_integer else column.length
    return column.base, length, column.decimals or 0, column.unsigned, column.charset, column.members


def faithful(source: Column, target: Column) -> bool:
    """Whether every value that the target accepts from the source is stored unchanged, not rounded or padded."""
    return source.type.faithful(source, target)


# Table structures as JSON, the form in which checkpoints and intents keep them.

_VERSION: Final = 1


# By name, since `dataclasses.asdict` copies every value, and each DDL statement stores its structures three times.
_OF_COLUMN: Final = tuple(field.name for field in fields(Column))
_OF_PART: Final = tuple(field.name for field in fields(IndexPart))
_OF_FOREIGN_KEY: Final = tuple(field.name for field in fields(ForeignKey))


def _lean(item: Column | IndexPart, names: tuple[str, ...]) -> dict[str, Any]:
    values = ((name, getattr(item, name)) for name in names)
    return {name: value for name, value in values if value is not None and value is not False and value != ()}


def _lean_column(column: Column) -> dict[str, Any]:
    lean = _lean(column, _OF_COLUMN) | {"nullable": column.nullable}
    return lean | {"members": [_stored_member(member) for member in column.members]} if column.members else lean


def _stored_member(member: str) -> str | dict[str, str]:
    """Members of CHARACTER SET binary may be bytes that are no text, and no server's JSON holds those."""
    try:
        member.encode()
    except UnicodeEncodeError:
        return {"bytes": member.encode("utf-8", "surrogateescape").hex()}
    return member


def _member(stored: str | dict[str, str]) -> str:
    if isinstance(stored, str):
        return stored
    return bytes.fromhex(stored["bytes"]).decode("utf-8", "surrogateescape")


def schema_to_json(schema: TableSchema) -> str:
    """A structure as JSON text; empty fields are left out."""
    return json.dumps(
        {
            "v": _VERSION,
            "name": list(schema.name),
            "columns": [_lean_column(column) for column in schema.columns],
            "indexes": [
                {"name": index.name, "kind": index.kind, "parts": [_lean(part, _OF_PART) for part in index.parts]}
                | ({"hash": True} if index.hash else {})
                | ({"invisible": True} if index.invisible else {})
                for index in schema.indexes
            ],
            "foreign_keys": [{name: getattr(key, name) for name in _OF_FOREIGN_KEY} for key in schema.foreign_keys],
            "charset": schema.charset,
            "collation": schema.collation,
            "engine": schema.engine,
            "checks": list(schema.checks),
            "partitions": list(schema.partitions),
            "check_words": [list(words) for words in schema.check_words],
        }
        | ({"kept": list(schema.kept)} if schema.kept else {})
        | ({"placing": [list(each) for each in schema.placing]} if schema.placing else {}),
        separators=(",", ":"),
    )


def _column(item: dict[str, Any], table: TableName) -> Column:
    if not has_type(item["base"]):
        raise DMError("column-type-unknown", table=table, column=item["name"], type=item["base"])
    return Column(**{**item, "members": tuple(_member(member) for member in item.get("members", ()))})


def _part(item: dict[str, Any]) -> IndexPart:
    return IndexPart(**{"column": None, **item})


def _index(item: dict[str, Any]) -> Index:
    parts = tuple(_part(part) for part in item["parts"])
    return Index(item["name"], item["kind"], parts, item.get("hash", False), item.get("invisible", False))


def _foreign_key(item: dict[str, Any]) -> ForeignKey:
    return ForeignKey(
        item["name"],
        tuple(item["columns"]),
        TableName(*item["parent"]),
        tuple(item["parent_columns"]),
        item["on_delete"],
        item["on_update"],
    )


def schema_from_json(text: str) -> TableSchema:
    """The structure that `schema_to_json` wrote; raises DMError."""
    try:
        data = json.loads(text)
        if data["v"] != _VERSION:
            raise DMError("structure-not-understood", statement=text, why=f"it has version {data['v']}")
        name = TableName(*data["name"])
        return TableSchema(
            name,
            tuple(_column(item, name) for item in data["columns"]),
            tuple(_index(item) for item in data["indexes"]),
            tuple(_foreign_key(item) for item in data["foreign_keys"]),
            data["charset"],
            data["collation"],
            data["engine"],
            tuple(data["checks"]),
            tuple(data["partitions"]),
            tuple(tuple(words) for words in data.get("check_words", ())),
            tuple(data.get("kept", ())),
            tuple(tuple(each) for each in data.get("placing", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DMError("structure-not-understood", statement=text, why="its stored form is damaged") from error
