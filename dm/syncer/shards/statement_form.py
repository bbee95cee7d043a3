"""Shards' statements: when two count as the same, and which ones have to wait for all shards.

Statements count as the same if they are written alike, except for what certainly changes nothing. Case, quotes and
comments do not matter, nor do ALGORITHM and LOCK. FIRST and AFTER do not either: rows find their columns by name, and
the target uses the place from the last shard to arrive. Some things have two names: a type, an index, CREATE INDEX,
CHANGE of a column to its own name. And without NOT NULL a column may be NULL, except a TIMESTAMP: there it depends on
the server.

Optimistic shard merge has statements that all shards have to arrive at before the target gets them. Which they are
depends on the statement, the shard's own structure and the target's keys, which change for all at once. It does not
depend on how far other shards are. So the same statement waits in every shard, and no statement waits for one that
others have passed. All shards have to arrive at:

- Keys. The plans and the conflict detectors of other subtasks were made from the target's keys.
- Changes of values or names: rows of shards that have not altered yet would get values that their source did not.
- DEFAULTs. Rows of shards that lack the column have the target's (`dm.mysql.schema.merged_table`).
- Any change, if the target has no key for the rows. They are found by all values, and those of a shard that lacks a
  column would match another shard's. So all have one structure.
- Partitions, unless ADD PARTITION only adds some to a RANGE or LIST. The target places rows by its own partitions. More
  of them take the rows of every shard. Fewer or other ones refuse or remove rows of shards that have not altered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Final

from dm.mysql.schema.merged_table import column_change, filling, finds_rows, implicit_default, needs_value
from dm.mysql.schema.normal import index_form, key_form
from dm.mysql.schema.partition import added_by_values
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor
from dm.mysql.sql.grammar import INDEX_KINDS, INDEX_WORDS
from dm.mysql.sql.operation import (
    AddColumn,
    AddIndex,
    AlterDefault,
    ChangeColumn,
    ColumnPlace,
    DropColumn,
    DropIndex,
    ModifyColumn,
    RenameColumn,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import Token, TokenKind
from dm.mysql.types import DataType, column_type, is_known, read_name

_NUMBER_WORDS: Final = ("UNSIGNED", "SIGNED", "ZEROFILL")


def form_of(pieces: Iterable[Piece]) -> str:
    """A text that is equal for equal statements; the order of operations counts."""
    return "; ".join(_form(_in_one_way(operation, piece.context)) for piece in pieces for operation in piece.operations)


def _in_one_way(operation: object, context: SourceContext) -> object:
    """The operation in one of its spellings."""
    if isinstance(operation, ChangeColumn) and operation.name == operation.column:
        operation = ModifyColumn(operation.column, operation.definition, operation.place, operation.if_exists)
    if isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        return replace(operation, definition=_column(operation.definition, context))
    if isinstance(operation, AddIndex):
        return replace(operation, definition=_index(operation), name=None)
    return operation


def _column(definition: Clause, context: SourceContext) -> Clause:
    """With the usual name of the type, and without a NULL after it."""
    if not is_known(definition.words[0]):
        return definition
    cursor = Cursor(definition, context)
    data_type = read_name(cursor)
    tokens, following = list(definition.tokens), cursor.at
    if not (data_type.charset or data_type.members or data_type.serial or data_type.document):  # no second name
        usual = _usual_type(data_type, tokens[0])
        tokens[: cursor.at], following = usual, len(usual)
    while following < len(tokens) and tokens[following].upper in _NUMBER_WORDS:
        following += 1
    moment = column_type(data_type.base).is_moment
    if following < len(tokens) and tokens[following].upper == "NULL" and not (moment or data_type.serial):
        del tokens[following]
    return Clause(definition.text, tuple(tokens))


def _usual_type(data_type: DataType, word: Token) -> list[Token]:
    sizes = [size for size in (data_type.length, data_type.decimals or None) if size is not None]
    size: list[tuple[TokenKind, str]] = [("number", str(each)) for each in sizes]
    inside: list[tuple[TokenKind, str]] = [*size[:1], ("symbol", ","), *size[1:]] if size[1:] else size
    written: list[tuple[TokenKind, str]] = [("symbol", "("), *inside, ("symbol", ")")] if size else []
    return [_named(word, data_type.base), *(word._replace(kind=kind, text=text, upper=text) for kind, text in written)]


def _named(word: Token, text: str) -> Token:
    return word._replace(text=text, upper=text.upper())


def _index(operation: AddIndex) -> Clause:
    """In the order of ADD INDEX: the kind, or INDEX; the name; the rest."""
    definition = operation.definition
    tokens, words = definition.tokens, definition.words
    head, rest = tokens[:1], tokens[1:]
    if words[0] in INDEX_KINDS:
        rest = rest[words[1] in INDEX_WORDS :]
    elif words[0] in INDEX_WORDS:
        head = (_named(tokens[0], "index"),)
    name = () if operation.name is None else (tokens[0]._replace(kind="name", text=operation.name, upper=""),)
    return Clause(definition.text, (*head, *name, *rest))


def _form(value: object) -> str:
    if isinstance(value, Clause):
        return " ".join(_token(token) for token in _without_options(value.tokens))
    if isinstance(value, ColumnPlace) or value is None:
        return ""
    if isinstance(value, tuple):
        return f"({', '.join(map(_form, value))})"
    if is_dataclass(value):
        return f"{type(value).__name__}({', '.join(_fields(value))})"
    return str(value).lower()


def _fields(value: object) -> Iterator[str]:
    assert is_dataclass(value)
    for field in fields(value):
        shown = _form(getattr(value, field.name))
        if shown:
            yield f"{field.name}={shown}"


def _token(token: Token) -> str:
    """Quotes of names and the case of words do not count; literals are compared as they are."""
    return token.text.lower() if token.kind in ("word", "name", "symbol") else repr(token.text)


def _without_options(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Without ALGORITHM and LOCK at the end of a CREATE INDEX; in ALTER TABLE they are operations of their own."""
    while True:
        size = next((size for size in (2, 3) if _is_option(tokens[-size:], size)), 0)
        if not size:
            return tokens
        tokens = tokens[:-size]


def _is_option(tail: tuple[Token, ...], size: int) -> bool:
    words = [token.upper for token in tail]
    return len(tail) == size and words[0] in ("ALGORITHM", "LOCK") and (size == 2 or words[1] == "=")


_PASSING = AddColumn | DropColumn | ModifyColumn | ChangeColumn | AlterDefault | AddIndex | DropIndex


def gated(
    piece: Piece, before: TableSchema, after: TableSchema, target: TableSchema | None, extracted: frozenset[str]
) -> str:
    """Why all shards have to arrive at a piece; empty if they need not.

    `extracted` are columns of the target that hold parts of names, in lower case.
    """
    if target is not None and (why := _at_target(before, after, target, extracted)):
        return why
    if len(piece.operations) > 1:
        return "its operations belong together"
    for operation in piece.operations:
        if isinstance(operation, RenameColumn):
            return "a column gets another name"
        if isinstance(operation, ChangeColumn) and operation.column.lower() != operation.name.lower():
            return "a column gets another name"
        if not isinstance(operation, _PASSING) and added_by_values(piece) is None:
            return "only columns and indexes may differ between shards"
    return _table(before, after) or _columns(before, after) or _indexes(before, after)


def _at_target(before: TableSchema, after: TableSchema, target: TableSchema, extracted: frozenset[str]) -> str:
    if not finds_rows(before, target, extracted):
        return "the target has no key for its rows"
    for name in (name for index in target.unique_indexes for name in index.columns):
        one, other = before.column(name), after.column(name)
        if one is not other and (one is None or other is None or not column_change(one, other).nothing):
            return f"a key of the target has the column (column {name})"
    return ""


def _table(before: TableSchema, after: TableSchema) -> str:
    if _keys(before) != _keys(after):
        return "a key changes"
    if [key_form(key) for key in before.foreign_keys] != [key_form(key) for key in after.foreign_keys]:
        return "a foreign key changes"
    if before.checks != after.checks:
        return "a CHECK changes"
    if (before.charset, before.collation, before.engine) != (after.charset, after.collation, after.engine):
        return "the table's character set or engine changes"
    return ""


def _keys(schema: TableSchema) -> dict[str, tuple[object, ...]]:
    return {index.name.lower(): index_form(index, schema) for index in schema.unique_indexes}


def _columns(before: TableSchema, after: TableSchema) -> str:
    common = [column.name.lower() for column in before.columns if after.column(column.name) is not None]
    if common != [column.name.lower() for column in after.columns if before.column(column.name) is not None]:
        return "columns change places"
    for column in before.columns:
        there = after.column(column.name)
        why = _dropped(column, before) if there is None else _changed(column, there, before)
        if why:
            return f"{why} (column {column.name})"
    for column in after.columns:
        if before.column(column.name) is None and (why := _added(column)):
            return f"{why} (column {column.name})"
    return ""


def _dropped(column: Column, schema: TableSchema) -> str:
    if _indexed(column, schema.indexes):
        return "an index has the column"
    if column.generated is not None:
        return "the column is generated"
    if _judged(column, schema):
        return "a CHECK or a generated column may use it"
    if needs_value(column) and implicit_default(column) is None:
        return "no literal can stand for the value that rows of other shards have"
    return ""


def _added(column: Column) -> str:
    if column.generated is not None or column.auto_increment or column.on_update or column.invisible:
        return "the column has values of its own"
    if filling(column) is None:
        return "its rows get no constant value"
    return ""


def _changed(before: Column, after: Column, schema: TableSchema) -> str:
    change = column_change(before, after)
    if change.nothing:
        return ""
    if change.other:
        return change.other
    if _indexed(before, schema.unique_indexes):
        return "a key has the column"
    if _judged(before, schema):
        return "a CHECK or a generated column may use it"
    if change.to_not_null and change.widens:
        return "it changes its type and becomes NOT NULL at once"
    return ""


def _indexed(column: Column, indexes: tuple[Index, ...]) -> bool:
    name = column.name.lower()
    return any(name in map(str.lower, index.columns) or index.functional for index in indexes)


def _judged(column: Column, schema: TableSchema) -> bool:
    """Whether a CHECK or a generated column may use the column."""
    others = (other for other in schema.columns if other.name != column.name)
    return bool(schema.checks) or any(other.generated is not None for other in others)


def _indexes(before: TableSchema, after: TableSchema) -> str:
    there = {index.name.lower(): index for index in before.indexes}
    for index in after.indexes:
        known = there.get(index.name.lower())
        if known is None and index.functional:
            return "the index computes a column"
        if known is not None and index_form(known, before) != index_form(index, after):
            return "an index changes"
    return ""
