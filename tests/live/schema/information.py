"""A tracked structure against information_schema: the same columns and keys, said in the server's own terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dm.mysql.schema.table import Column, TableSchema

_CHARACTER = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
_AUTO_INCREMENT = 9
_ALIASES = {"geometrycollection": "geomcollection"}


def _tracked(column: Column) -> tuple[object, ...]:
    text = column.base in _CHARACTER
    return (
        column.name,
        _ALIASES.get(column.base, column.base),
        column.unsigned,
        column.nullable,
        column.charset if text else None,
        column.collation if text else None,
        column.length if column.base in ("char", "varchar", "binary", "varbinary") else None,
        (column.length, column.decimals) if column.base == "decimal" else None,
        column.decimals or 0 if column.base in ("time", "datetime", "timestamp") else None,
        column.auto_increment,
        column.generated,
        column.invisible,
    )


def _told(row: tuple[Any, ...]) -> tuple[object, ...]:
    name, base, kind, nullable, charset, collation, length, precision, scale, fraction, extra = row
    base = _ALIASES.get(str(base).lower(), str(base).lower())
    extra = str(extra).lower()
    generated = "virtual" if "virtual" in extra else "stored" if "stored" in extra or "persistent" in extra else None
    return (
        name,
        base,
        "unsigned" in str(kind).lower().split("(")[-1] and base not in ("enum", "set"),
        nullable == "YES",
        charset,
        collation,
        length if base in ("char", "varchar", "binary", "varbinary") else None,
        (precision, scale) if base == "decimal" else None,
        (fraction or 0) if base in ("time", "datetime", "timestamp") else None,
        "auto_increment" in extra,
        generated,
        "invisible" in extra,
    )


def differences(table: TableSchema, ask: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
    """What the server says otherwise."""
    schema, name = (part.replace("\\", "\\\\").replace("'", "''") for part in table.name)
    where = f"TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{name}'"
    rows = ask(
        "SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME,"
        " CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, EXTRA"
        f" FROM information_schema.COLUMNS WHERE {where} ORDER BY ORDINAL_POSITION"
    )
    found = []
    told = [_told(row) for row in rows]
    known = [_tracked(column) for column in table.columns]
    # AUTO_INCREMENT NULL can be written and holds no NULL; MariaDB's SHOW CREATE TABLE does not tell it either.
    told = [(*row[:3], False, *row[4:]) if row[_AUTO_INCREMENT] else row for row in told]
    if told != known:
        found += [f"columns {one} is {other}" for one, other in zip(known, told, strict=False) if one != other]
        found += [f"{len(known)} columns are {len(told)}"] if len(known) != len(told) else []
    keys: dict[str, list[str | None]] = {}
    for index, column in ask(
        f"SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE {where} AND NON_UNIQUE = 0"
        " ORDER BY INDEX_NAME, SEQ_IN_INDEX"
    ):
        keys.setdefault(str(index).lower(), []).append(None if column is None else str(column).lower())
    tracked = {
        index.name.lower(): [None if part.column is None else part.column.lower() for part in index.parts]
        for index in table.unique_indexes
    }
    if tracked != keys:
        found.append(f"unique keys {tracked} are {keys}")
    return found
