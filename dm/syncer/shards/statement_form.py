"""When shards' statements count as the same: they are written alike, except for what certainly changes nothing.

Case, quotes and comments do not matter, nor do ALGORITHM and LOCK. FIRST and AFTER do not either: rows find their
columns by name, and the target uses the place from the last shard to arrive. Some things have two names: a type, an
index, CREATE INDEX, CHANGE of a column to its own name. And without NOT NULL a column may be NULL, except a TIMESTAMP:
there it depends on the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Final

from dm.mysql.sql.cursor import Clause
from dm.mysql.sql.operation import AddColumn, AddIndex, ChangeColumn, ColumnPlace, ModifyColumn
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import Token, TokenKind

# Synonyms in the lexers of both servers (sql/lex.h), or in their rule for types (sql_yacc.yy). REAL is not here, since
# it depends on the sql_mode.
_TYPES: Final = {
    "INT1": "tinyint", "INT2": "smallint", "INT3": "mediumint", "MIDDLEINT": "mediumint", "INT4": "int",
    "INTEGER": "int", "INT8": "bigint", "DEC": "decimal", "NUMERIC": "decimal", "FIXED": "decimal", "FLOAT4": "float",
    "FLOAT8": "double", "CHARACTER": "char", "VARCHARACTER": "varchar",
}  # fmt: skip
_TYPES_OF_TWO_WORDS: Final = {
    ("DOUBLE", "PRECISION"): "double", ("CHAR", "VARYING"): "varchar", ("CHARACTER", "VARYING"): "varchar",
}  # fmt: skip
_ONE: Final[tuple[tuple[TokenKind, str], ...]] = (("symbol", "("), ("number", "1"), ("symbol", ")"))
_NUMBER_WORDS: Final = ("UNSIGNED", "SIGNED", "ZEROFILL")
_INDEX_WORDS: Final = ("INDEX", "KEY")
_INDEX_KINDS: Final = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")


def form_of(pieces: Iterable[Piece]) -> str:
    """A text that is equal for equal statements; the order of operations counts."""
    return "; ".join(_form(_in_one_way(operation)) for piece in pieces for operation in piece.operations)


def _in_one_way(operation: object) -> object:
    """The operation in one of its spellings."""
    if isinstance(operation, ChangeColumn) and operation.name == operation.column:
        operation = ModifyColumn(operation.column, operation.definition, operation.place, operation.if_exists)
    if isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        return replace(operation, definition=_column(operation.definition))
    if isinstance(operation, AddIndex):
        return replace(operation, definition=_index(operation), name=None)
    return operation


def _column(definition: Clause) -> Clause:
    """With the usual name of the type, and without a NULL after it."""
    tokens = list(_usual_type(definition))
    following = 1
    if len(tokens) > 1 and tokens[1].upper == "(":
        following = _group_end(tokens, 1)
    while following < len(tokens) and tokens[following].upper in _NUMBER_WORDS:
        following += 1
    if following < len(tokens) and tokens[following].upper == "NULL" and tokens[0].upper not in ("TIMESTAMP", "SERIAL"):
        del tokens[following]
    return Clause(definition.text, tuple(tokens))


def _usual_type(definition: Clause) -> tuple[Token, ...]:
    first, rest, words = definition.tokens[0], definition.tokens[1:], definition.words
    if words[0] in ("BOOL", "BOOLEAN"):
        size = [first._replace(kind=kind, text=text, upper=text) for kind, text in _ONE]
        return _named(first, "tinyint"), *size, *rest
    if (usual := _TYPES_OF_TWO_WORDS.get((words[0], "".join(words[1:2])))) is not None:
        return _named(first, usual), *rest[1:]
    if words[0] in _TYPES:
        return _named(first, _TYPES[words[0]]), *rest
    return first, *rest


def _named(word: Token, text: str) -> Token:
    return word._replace(text=text, upper=text.upper())


def _group_end(tokens: list[Token], start: int) -> int:
    """The index after the parenthesis that closes the one at `start`."""
    depth = 0
    for at in range(start, len(tokens)):
        depth += (tokens[at].upper == "(") - (tokens[at].upper == ")")
        if not depth:
            return at + 1
    return len(tokens)


def _index(operation: AddIndex) -> Clause:
    """In the order of ADD INDEX: the kind, or INDEX; the name; the rest."""
    definition = operation.definition
    tokens, words = definition.tokens, definition.words
    head, rest = tokens[:1], tokens[1:]
    if words[0] in _INDEX_KINDS:
        rest = rest[words[1] in _INDEX_WORDS :]
    elif words[0] in _INDEX_WORDS:
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
