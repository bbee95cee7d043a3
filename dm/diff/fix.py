"""The statements that make the target's rows those of the sources; nothing here executes them.

Rows of keyed tables are replaced or deleted by their keys. A row of a table without a key is deleted by the hash of its
text, as the comparison computes it, so that exactly one of several equal rows goes.

All deletions of a table come before its replacements, since a row that is too much may hold a unique value that a row
which is missing needs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dm.binlog.value import Value
from dm.changes.statement import lenient_script
from dm.diff.table import ComparedTable, TableAt, quoted_columns
from dm.dumpfiles.json_types import typed_tree
from dm.equality.checksum import has_text
from dm.equality.values import Part
from dm.errors import DMError
from dm.ident import Ident
from dm.sql.json_expression import json_expression
from dm.sql.json_types import NOTHING
from dm.sql.literal import encode
from dm.sql.member_number import equal_members
from dm.type_family import FLOATS, INTEGERS

Values = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """What one difference needs; each statement without its end."""

    deletions: tuple[bytes, ...] = ()
    insertions: tuple[bytes, ...] = ()
    impossible: str = ""  # why there is no statement


def fix_of(
    table: ComparedTable,
    ours: tuple[TableAt, Values] | None,
    theirs: Values | None,
    missing: Counter[bytes],
    extra: Counter[bytes],
) -> Fix:
    """The statements for one row: as it is at a source, at the target, and how many times it is missing or too much."""
    try:
        insertions = [] if ours is None else [_insertion(table, *ours)] * (1 if table.keyed else missing.total())
        deletions = []
        if theirs is not None and (ours is None or not table.keyed):
            deletions = [_deletion(table, theirs, extra)]
        if None in deletions:
            return Fix(impossible="no server can compute what its rows are known by, and it has no key")
    except DMError as error:
        return Fix(impossible=str(error))
    return Fix(tuple(each for each in deletions if each is not None), tuple(insertions))


def _insertion(table: ComparedTable, side: TableAt, values: Values) -> bytes:
    listed, literals, strict = [], [], True
    for at, part in enumerate(side.row):
        column = table.target.row[at].label.removesuffix(" (number)")
        if not part.base or column in table.generated:
            continue
        listed.append(column)
        strict = strict and not (part.base == "enum" and values[at] == b"0")
        literals.append(_document(side, at, values) if part.base == "json" else _literal(part, values[at]))
    verb = "REPLACE" if table.keyed else "INSERT"
    start = f"{verb} INTO {table.target.name.sql} ({quoted_columns(listed)}) VALUES ("
    sql = start.encode() + b", ".join(literals) + b")"
    # A strict mode refuses an ENUM's error value.
    return sql if strict else lenient_script(table.flavor, sql, tidb=table.tidb)


def _deletion(table: ComparedTable, values: Values, extra: Counter[bytes]) -> bytes | None:
    target = table.target
    start = f"DELETE FROM {target.name.sql} WHERE ".encode()
    if not table.keyed:
        if target.text is None:
            return None
        return start + f"{has_text(target.text, next(iter(extra)))} LIMIT {extra.total()}".encode()
    conditions = []
    for at in target.key:
        part = target.row[at]
        if part.base:
            name = Ident(part.label.removesuffix(" (number)")).sql.encode()
            literal = _literal(part, values[at])
            conditions.append(equal_members(name, literal) if part.base == "enum" else name + b" = " + literal)
    return start + b" AND ".join(conditions)


@dataclass(frozen=True, slots=True)
class _Column:
    base: str
    charset: str | None


def _literal(part: Part, value: bytes | None) -> bytes:
    """What was read as a literal."""
    return encode(None if value is None else _value(part.base, value), _Column(part.base, part.charset))


def _value(base: str, value: bytes) -> Value:
    if base in INTEGERS or base == "enum":
        return int(value)
    if base in FLOATS:
        return float(value)
    return value if base in ("varchar", "blob") else value.decode()


def _document(side: TableAt, at: int, values: Values) -> bytes:
    """A document, with the types that its text leaves out where they were read."""
    text = values[at]
    following = side.row[at + 1] if at + 1 < len(side.row) else None
    listed = following is not None and following.label.endswith(" (types)")
    types = side.row[at + 1].canonical(values[at + 1]) if listed else None
    if text is None or types is None or types == NOTHING:
        return _literal(side.row[at], text)
    return json_expression(typed_tree(text, types), side.row[at].label)
