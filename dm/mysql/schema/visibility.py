"""The words that hide columns and indexes, as the target has them.

A hidden column differs from others only in `SELECT *`, an INSERT without a list of columns, and LOAD DATA. dm sends
none of these, and row events have hidden columns like others. So hiding changes no row.

MySQL hides columns since 8.0.23, MariaDB since 10.3, TiDB never. Both say INVISIBLE. Only MySQL has VISIBLE, and
ALTER COLUMN .. SET INVISIBLE; MariaDB wants the whole definition again. An index is INVISIBLE to MySQL (8.0) and TiDB,
and IGNORED to MariaDB (10.6).

If a target can't hide something, the word is left out, and so is an operation that does nothing else. If that was the
only operation, the statement is empty. A MariaDB that hides columns is given ALTER COLUMN .. SET INVISIBLE, and refuses
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from dm.errors import DMError
from dm.mysql.dialect.pair import same_family
from dm.mysql.sql.alter import definition_kind
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor, outside_parentheses, split_at_commas
from dm.mysql.sql.grammar import parse
from dm.mysql.sql.operation import (
    AddColumn,
    AddIndex,
    AlterIndex,
    AlterVisibility,
    ChangeColumn,
    CreateTable,
    ModifyColumn,
    Operation,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import tokenize

_WORDS: Final = frozenset({"VISIBLE", "INVISIBLE", "IGNORED"})
_NAMES_FOLLOW: Final = frozenset({"REFERENCES", "."})

_Change = tuple[int, int, str]


def with_visibility(piece: Piece, target: SourceContext) -> Piece:
    """The piece with the target's words; `target` is how a statement is read there.

    It has no operation where all that it says is what the target does not have.
    """
    there = target.dialect
    if same_family(piece.context.flavor, target.flavor) and there.hides_columns and there.hides_indexes:
        return piece
    if not any(token.upper in _WORDS for token in tokenize(piece.text, piece.context)):
        return piece
    kept = _without_operations(piece, target)
    changes = [change for operation in kept.operations for change in _in_definitions(operation, kept.context, target)]
    changes += _of_altered_indexes(kept, target)
    if not changes:
        return kept
    text = kept.text
    for start, end, words in sorted(changes, reverse=True):
        text = text[:start] + words + text[end:]
    found = Piece.of(text, kept.context)
    same_names = [ref.name for ref in found.names] == [ref.name for ref in kept.names]
    if not same_names or len(found.operations) != len(kept.operations):
        raise DMError("ddl-splice-mismatch", statement=piece.text, why="it reads otherwise in the target's words")
    return found


def _without_operations(piece: Piece, target: SourceContext) -> Piece:
    """The piece without the operations that do nothing but hide or show what the target can't hide."""
    kinds = (
        *(() if target.dialect.hides_columns else (AlterVisibility,)),
        *(() if target.dialect.hides_indexes else (AlterIndex,)),
    )
    if not any(isinstance(operation, kinds) for operation in piece.operations):
        return piece
    parsed = parse(piece.text, piece.context)
    kept = [one for one in parsed.specifications if not isinstance(one.operation, kinds)]
    parts = [one.source for one in kept] + list(parsed.whole_options)
    partitions = parts.pop(len(kept) - 1) if parsed.partitioned else ""  # which follows without a comma
    found = Piece.of(f"{parsed.head} {', '.join(parts)} {partitions}".strip(), piece.context)
    if found.operations != tuple(one.operation for one in kept):
        raise DMError("ddl-splice-mismatch", statement=piece.text, why="a part of it reads otherwise")
    return found


def _in_definitions(operation: Operation, source: SourceContext, target: SourceContext) -> Iterator[_Change]:
    if isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        yield from _of_column(operation.definition, target)
    elif isinstance(operation, AddIndex):
        yield from _of_index(operation.definition, target)
    elif isinstance(operation, CreateTable):
        for element in split_at_commas(operation.body):
            kind = definition_kind(Cursor(element, source))
            if kind == "column":  # whose name may be any word
                yield from _of_column(Clause(element.text, element.tokens[1:]), target)
            elif kind == "index":
                yield from _of_index(element, target)


def _of_column(definition: Clause, target: SourceContext) -> Iterator[_Change]:
    for before, token in pairwise(outside_parentheses(definition)):  # the first one is the type
        if token.upper not in ("VISIBLE", "INVISIBLE") or before.upper in _NAMES_FOLLOW:
            continue
        if not target.dialect.hides_columns or (token.upper == "VISIBLE" and not target.dialect.says_visible):
            yield token.start, token.end, ""


def _of_index(definition: Clause, target: SourceContext) -> Iterator[_Change]:
    """What is visible need not be said here."""
    options = False  # which stand after the parts
    depth = 0
    for before, token in pairwise(definition.tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if depth == 0 and options and token.upper in _WORDS:
            shown = token.upper == "VISIBLE" or before.upper == "NOT"
            start = before.start if before.upper == "NOT" else token.start
            yield start, token.end, _index_word(hidden=True, target=target) if not shown else ""
        options = options or token.upper == ")"


def _of_altered_indexes(piece: Piece, target: SourceContext) -> Iterator[_Change]:
    if not any(isinstance(operation, AlterIndex) for operation in piece.operations):
        return
    for part in split_at_commas(Clause(piece.text, tokenize(piece.text, piece.context))):
        words = [token.upper for token in part.tokens]
        altered = any(one == "ALTER" and other in ("INDEX", "KEY") for one, other in pairwise(words))
        if altered and words[-1] in _WORDS:
            negated = words[-2] == "NOT"
            hidden = words[-1] != "VISIBLE" and not negated
            start = part.tokens[-2 if negated else -1].start
            yield start, part.tokens[-1].end, _index_word(hidden=hidden, target=target)


def _index_word(*, hidden: bool, target: SourceContext) -> str:
    return target.dialect.index_words[hidden] if target.dialect.hides_indexes else ""
