"""`collation_compatible: strict`: a character set without a collation gets the collation it has at the source.

`CHARSET utf8mb4` without a COLLATE means utf8mb4_0900_ai_ci on MySQL 8 and utf8mb4_general_ci on MariaDB 10. The text
is kept. The source's default is added after the character set's name, only if the target's default differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dm.errors import DMError
from dm.schema.charset import charset_name, default_collation
from dm.schema.parse import server_collation
from dm.sql.context import SourceContext
from dm.sql.cursor import Clause, outside_parentheses, split_at_commas
from dm.sql.operation import (
    AddColumn,
    AlterDatabase,
    ChangeColumn,
    ConvertCharset,
    CreateDatabase,
    CreateTable,
    ModifyColumn,
    Operation,
    TableOptions,
)
from dm.sql.piece import Piece
from dm.sql.token import Token

_Insertions = list[tuple[int, str]]


def _scopes(operation: Operation) -> Iterator[Clause]:
    """The parts of an operation that each pair one character set with one collation."""
    if isinstance(operation, CreateTable):
        yield from split_at_commas(operation.body)
        yield operation.options
    elif isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        yield operation.definition
    elif isinstance(operation, TableOptions | ConvertCharset | CreateDatabase | AlterDatabase):
        yield operation.options


def _charset(tokens: list[Token]) -> Token | None:
    """The token that names the character set."""
    for at, token in enumerate(tokens):
        following = tokens[at + 1 :]
        if token.upper in ("CHARACTER", "CHAR") and following[:1] and following[0].upper == "SET":
            following = following[1:]
        elif token.upper != "CHARSET":
            continue
        if following and following[0].upper == "=":
            following = following[1:]
        if following:
            return following[0]
    return None


def lone_charsets(piece: Piece) -> Iterator[Token]:
    """The tokens of a statement that name a character set without a collation."""
    for named, words in _charsets(piece):
        if not words & {"COLLATE", "BINARY"}:
            yield named


def charsets(piece: Piece) -> frozenset[str]:
    """The character sets that a statement names, in lower case."""
    return frozenset(named.text.lower() for named, _ in _charsets(piece))


def _charsets(piece: Piece) -> Iterator[tuple[Token, set[str]]]:
    for operation in piece.operations:
        for scope in _scopes(operation):
            tokens = outside_parentheses(scope)
            named = _charset(tokens)
            if named is not None and named.upper != "DEFAULT":
                yield named, {token.upper for token in tokens}


def _insertion(named: Token, source: SourceContext, target: SourceContext) -> _Insertions:
    charset = charset_name(named.text, source)
    collation = default_collation(charset, source)
    return [] if collation == default_collation(charset, target) else [(named.end, f" COLLATE {collation}")]


def _whole_schema(piece: Piece, operation: CreateDatabase, target: SourceContext) -> _Insertions:
    """The options for a schema whose statement names neither; between servers of one flavour the session has them."""
    words = {token.upper for token in operation.options.tokens}
    if words & {"CHARSET", "CHARACTER", "CHAR", "COLLATE"} or piece.context.flavor == target.flavor:
        return []
    if piece.context.server_collation is None:
        why = "collation_compatible is strict, and the event does not tell collation_server"
        raise DMError("ddl-not-understood", statement=piece.text, why=why)
    charset, collation = server_collation(piece.context)
    return [(piece.names[0].end, f" CHARACTER SET {charset} COLLATE {collation}")]


def with_collations(piece: Piece, target: SourceContext) -> Piece:
    """The piece with the source's default collations; `target` is how a statement is read at the target."""
    if piece.context.flavor == target.flavor == "mysql":
        target = replace(target, utf8mb4_collation=piece.context.utf8mb4_collation)  # the session has the same
    insertions: _Insertions = []
    for named in lone_charsets(piece):
        insertions += _insertion(named, piece.context, target)
    for operation in piece.operations:
        if isinstance(operation, CreateDatabase):
            insertions += _whole_schema(piece, operation, target)
    text = piece.text
    for at, words in sorted(insertions, reverse=True):
        text = text[:at] + words + text[at:]
    return Piece.of(text, piece.context) if insertions else piece
