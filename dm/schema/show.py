"""A structure as CREATE TABLE, the inverse of `dm.schema.parse` for everything that a structure holds.

Checks and partitions are left out, since a structure only holds their names; neither affects how rows are read.
"""

from __future__ import annotations

from typing import Final

from dm.ident import Ident
from dm.schema.table import Column, ForeignKey, Index, IndexPart, TableSchema
from dm.type_family import CHARACTERS, FLOATS, FRACTIONAL, INTEGERS

_WITH_LENGTH: Final = INTEGERS | CHARACTERS | {"bit", "binary", "varbinary", "vector"}
_KINDS: Final = {"unique": "UNIQUE KEY", "index": "KEY", "fulltext": "FULLTEXT KEY", "spatial": "SPATIAL KEY"}


def create_table(schema: TableSchema) -> str:
    """The statement that creates a table of this structure."""
    elements = [column_text(column) for column in schema.columns]
    elements += [index_text(index) for index in schema.indexes]
    elements += [_foreign_key(key) for key in schema.foreign_keys]
    body = ",\n  ".join(elements)
    return f"CREATE TABLE {schema.name.sql} (\n  {body}\n){_options(schema)}"


def type_text(column: Column) -> str:
    """A column's type as a statement writes it, without its character set."""
    base = column.base
    if column.members:
        base += f"({','.join(_member(member) for member in column.members)})"
    elif (base == "decimal" or base in FLOATS) and column.length is not None:
        base += f"({column.length},{column.decimals or 0})"
    elif (base in _WITH_LENGTH and column.length is not None) or (base in FRACTIONAL and column.decimals):
        base += f"({column.length if base in _WITH_LENGTH else column.decimals})"
    return base + (" unsigned" if column.unsigned else "")


def _options(schema: TableSchema) -> str:
    options = {"ENGINE": schema.engine, "DEFAULT CHARSET": schema.charset, "COLLATE": schema.collation}
    return "".join(f" {name}={value}" for name, value in options.items() if value is not None)


def column_text(column: Column) -> str:
    """A column's definition."""
    words = [Ident(column.name).sql, type_text(column)]
    if column.charset is not None:
        words.append(f"CHARACTER SET {column.charset}")
    if column.collation is not None:
        words.append(f"COLLATE {column.collation}")
    if column.expression is not None:
        words.append(f"GENERATED ALWAYS AS ({column.expression}) {(column.generated or 'virtual').upper()}")
    if not column.nullable:
        words.append("NOT NULL")
    elif column.base == "timestamp":
        words.append("NULL")  # the default depends on the server
    if column.default is not None:
        words.append(f"DEFAULT {column.default}")
    if column.on_update is not None:
        words.append(f"ON UPDATE {column.on_update}")
    if column.auto_increment:
        words.append("AUTO_INCREMENT")
    if column.invisible:
        words.append("INVISIBLE")
    return " ".join(words)


def _member(member: str) -> str:
    try:
        member.encode()
    except UnicodeEncodeError:  # bytes that are no text, as SHOW CREATE TABLE prints them
        return f"x'{member.encode('utf-8', 'surrogateescape').hex()}'"
    return "'" + member.replace("\\", "\\\\").replace("'", "''") + "'"


def index_text(index: Index) -> str:
    """An index's definition."""
    parts = ",".join(_part(part) for part in index.parts)
    if index.kind == "primary":
        return f"PRIMARY KEY ({parts})"
    by_hash = " USING HASH" if index.hash else ""
    hidden = " INVISIBLE" if index.invisible else ""  # for a MariaDB source, too, which writes IGNORED
    return f"{_KINDS[index.kind]} {Ident(index.name).sql} ({parts}){by_hash}{hidden}"


def _part(part: IndexPart) -> str:
    text = f"({part.expression})" if part.column is None else Ident(part.column).sql
    if part.prefix is not None:
        text += f"({part.prefix})"
    return text + (" DESC" if part.descending else "")


def _foreign_key(key: ForeignKey) -> str:
    columns = ",".join(Ident(name).sql for name in key.columns)
    parents = ",".join(Ident(name).sql for name in key.parent_columns)
    return (
        f"CONSTRAINT {Ident(key.name).sql} FOREIGN KEY ({columns}) REFERENCES {key.parent.sql} ({parents})"
        f" ON DELETE {key.on_delete.upper()} ON UPDATE {key.on_update.upper()}"
    )
