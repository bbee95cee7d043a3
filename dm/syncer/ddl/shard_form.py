"""When shards' statements count as the same: what they do to the table, not how they are written or carried out.

Case, quotes and comments do not matter, nor do ALGORITHM and LOCK. FIRST and AFTER do not either: rows find their
columns by name, and the target has the place that the shard which comes last asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from dm.sql.cursor import Clause
from dm.sql.operation import ColumnPlace
from dm.sql.piece import Piece
from dm.sql.token import Token


def form_of(pieces: Iterable[Piece]) -> str:
    """A text that is equal for equal statements; the order of operations counts."""
    return "; ".join(_form(operation) for piece in pieces for operation in piece.operations)


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
    """Names in quotes and without are the same, and so are words in either case; literals are as they are."""
    return token.text.lower() if token.kind in ("word", "name", "symbol") else repr(token.text)


def _without_options(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Without ALGORITHM and LOCK at the end of CREATE INDEX; ALTER TABLE has them apart from its operations."""
    while True:
        size = next((size for size in (2, 3) if _is_option(tokens[-size:], size)), 0)
        if not size:
            return tokens
        tokens = tokens[:-size]


def _is_option(tail: tuple[Token, ...], size: int) -> bool:
    words = [token.upper for token in tail]
    return len(tail) == size and words[0] in ("ALGORITHM", "LOCK") and (size == 2 or words[1] == "=")
