"""Index and foreign key definitions, and the names that servers give to those without one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dm.mysql.schema.table import ForeignKey, Index, IndexKind, IndexPart
from dm.mysql.sql.cursor import Clause, Cursor, NameRef, split_at_commas

_KINDS: Final[dict[str, IndexKind]] = {
    "UNIQUE": "unique",
    "FULLTEXT": "fulltext",
    "SPATIAL": "spatial",
    "VECTOR": "index",
    "INDEX": "index",
    "KEY": "index",
}


@dataclass(slots=True)
class IndexDefinition:
    """An index as written: it may have no name yet."""

    name: str | None
    kind: IndexKind
    parts: tuple[IndexPart, ...]
    hash: bool = False
    invisible: bool = False
    generated: bool = False  # created for a foreign key: it is dropped when another index covers the same columns

    def named(self, taken: Iterable[str]) -> Index:
        """The index, with the name that the server assigns if it has none."""
        if self.kind == "primary":
            return Index("PRIMARY", "primary", self.parts)
        return Index(self.name or _free_name(self.parts, taken), self.kind, self.parts, self.hash, self.invisible)


def _free_name(parts: tuple[IndexPart, ...], taken: Iterable[str]) -> str:
    """The first column's name, or that with _2, _3 .. appended (make_unique_key_name in sql/sql_table.cc of both)."""
    used = {name.lower() for name in taken}
    base = parts[0].column or "functional_index"
    if base.lower() not in used and base.lower() != "primary":
        return base
    return next(name for number in range(2, 10000) if (name := f"{base}_{number}").lower() not in used)


def _part(clause: Clause, cursor: Cursor) -> IndexPart:
    inner = cursor.within(clause)
    if inner.word() == "(":
        expression = inner.skip_group().source
        return IndexPart(None, expression=expression, descending=inner.accept("DESC"))
    column = inner.name()
    prefix = None
    if inner.accept("("):
        prefix = inner.number()
        inner.expect(")")
    descending = inner.accept("DESC")
    inner.accept("ASC")
    if inner.sees("WITHOUT", "OVERLAPS"):
        inner.fail("application-time periods are not supported")
    if not inner.done:
        inner.fail("the part of an index should end")
    return IndexPart(column, prefix, descending=descending)


def _constraint_name(cursor: Cursor) -> str | None:
    if cursor.accept("CONSTRAINT") and cursor.word() not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
        return cursor.name()
    return None


def read_index(clause: Clause, cursor: Cursor) -> IndexDefinition:
    """Read an index definition in a table body."""
    inner = cursor.within(clause)
    symbol = _constraint_name(inner)
    if inner.accept("PRIMARY", "KEY"):
        kind: IndexKind = "primary"
    else:
        word = inner.take().upper
        if word not in _KINDS:
            inner.at -= 1
            inner.fail("expected an index")
        kind = _KINDS[word]
        inner.accept_any("INDEX", "KEY")
    inner.accept("IF", "NOT", "EXISTS")
    name = None
    if inner.word() != "(" and not (inner.word() in ("USING", "TYPE") and inner.word(1) in ("BTREE", "HASH", "RTREE")):
        name = inner.name()
    by_hash = inner.word() in ("USING", "TYPE") and inner.word(1) == "HASH"
    if inner.accept_any("USING", "TYPE"):
        inner.take()
    group = inner.skip_group()
    parts = tuple(_part(part, inner) for part in split_at_commas(group))
    invisible = False
    while not inner.done:
        by_hash = by_hash or inner.sees("USING", "HASH")
        if inner.accept("NOT", "IGNORED"):
            continue
        invisible = invisible or inner.word() in ("INVISIBLE", "IGNORED")
        inner.take()
    # The rest (COMMENT, WITH PARSER, ..) does not matter for row changes.
    return IndexDefinition(name or symbol, kind, parts, by_hash, invisible)


def read_foreign_key(clause: Clause, cursor: Cursor) -> tuple[ForeignKey, IndexDefinition]:
    """Read a foreign key, and its index unless another one covers its columns."""
    inner = cursor.within(clause)
    symbol = _constraint_name(inner)
    inner.expect("FOREIGN", "KEY")
    inner.accept("IF", "NOT", "EXISTS")
    index_name = inner.name() if inner.word() != "(" else None
    columns = []
    group = inner.within(inner.skip_group())
    while not group.done:
        columns.append(group.name())
        group.accept(",")
    inner.expect("REFERENCES")
    parent, parent_columns, on_delete, on_update = read_references(inner)
    key = ForeignKey(
        symbol or index_name or "", tuple(columns), parent.name, parent_columns or tuple(columns), on_delete, on_update
    )
    return key, IndexDefinition(
        symbol or index_name, "index", tuple(IndexPart(column) for column in columns), generated=True
    )


def read_references(cursor: Cursor) -> tuple[NameRef, tuple[str, ...], str, str]:
    """What follows REFERENCES: parent, its columns, actions on delete and update."""
    parent = cursor.table(foreign=True)
    columns: list[str] = []
    if cursor.word() == "(":
        inner = cursor.within(cursor.skip_group())
        while not inner.done:
            columns.append(inner.name())
            inner.accept(",")
    if cursor.accept("MATCH"):
        cursor.take()
    actions = {"DELETE": "restrict", "UPDATE": "restrict"}
    while cursor.word() == "ON" and cursor.word(1) in actions:
        event = cursor.word(1)
        cursor.at += 2
        if cursor.accept("NO", "ACTION"):
            actions[event] = "no action"
        elif cursor.accept("SET", "NULL"):
            actions[event] = "set null"
        elif cursor.accept("SET", "DEFAULT"):
            actions[event] = "set default"
        else:
            word = cursor.accept_any("RESTRICT", "CASCADE")
            if not word:
                cursor.fail("expected an action of a foreign key")
            actions[event] = word.lower()
    return parent, tuple(columns), actions["DELETE"], actions["UPDATE"]


def covers(index: Index, columns: tuple[str, ...]) -> bool:
    """Whether an index can serve a foreign key on these columns."""
    first = index.parts[: len(columns)]
    return (
        index.kind in ("primary", "unique", "index")
        and len(first) == len(columns)
        and all(
            part.column is not None and part.prefix is None and part.column.lower() == column.lower()
            for part, column in zip(first, columns, strict=True)
        )
    )
