"""CREATE TABLE without a character set uses its schema's default, which may differ at the target.

It differs if a route leads into an existing schema with another default. The table would then store other text than the
source's, or none, and treat other keys as equal. So the source's default is written into the statement.
"""

from __future__ import annotations

from dataclasses import replace

from dm.errors import DMError
from dm.mysql.dialect.pair import same_family
from dm.mysql.schema.charset import Collated, collated, default_collation
from dm.mysql.schema.parse import options_of, server_collation
from dm.mysql.schema.translation import Translation
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor
from dm.mysql.sql.operation import CreateTable
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import tokenize


def inherits_charset(piece: Piece) -> bool:
    """Whether the piece creates a table that inherits its character set from its schema."""
    operation = piece.operations[0] if piece.operations else None
    if not isinstance(operation, CreateTable) or operation.like is not None:
        return False
    options, _ = options_of(operation.options, Cursor(Clause(piece.text), piece.context))
    return not any(option.name in ("CHARSET", "COLLATE") for option in options)


def with_inherited_charset(
    piece: Piece,
    source: Collated | None,
    there: Collated,
    target: SourceContext,
    *,
    strict: bool,
    translation: Translation | None = None,
) -> Piece:
    """The piece, whose table inherits its character set, with the source's one written out if the target's differs.

    `source` and `there` are the defaults of the two schemas, `target` is how a statement is read at the target. With
    `strict` collations must be the same, too; otherwise two server defaults of one character set count as the same.
    `translation` maps the source's collation to the target's.
    """
    reader = target
    if same_family(piece.context.flavor, target.flavor):  # the session has the same
        target = replace(
            target,
            utf8mb4_collation=piece.context.utf8mb4_collation,
            charset_collations=piece.context.charset_collations,
        )
    there = collated(there.charset, there.collation, there, target)
    ours = server_collation(piece.context) if source is None else source
    by_default = ours.collation == default_collation(ours.charset, piece.context)
    wanted = ours
    if translation is not None:
        wanted = Collated(ours.charset, translation.collation(ours.collation, piece.context, reader))
    if there == wanted or (source is None and there == ours):
        return piece
    translated = wanted != ours and source is not None
    if not (strict or translated) and by_default and there == (ours.charset, default_collation(ours.charset, target)):
        return piece
    if source is None:
        why = "it takes the default character set of its schema, which the source has no more"
        raise DMError("ddl-not-understood", statement=piece.text, why=why)
    words = f" CHARACTER SET {wanted.charset}"
    if strict or translated or not by_default:
        words += f" COLLATE {wanted.collation}"
    at = _after_columns(piece)
    return Piece.of(f"{piece.text[:at]}{words}{piece.text[at:]}", piece.context)


def _after_columns(piece: Piece) -> int:
    operation = piece.operations[0]
    assert isinstance(operation, CreateTable)
    last = operation.body.tokens[-1].end
    return next(token.end for token in tokenize(piece.text, piece.context) if token.start >= last)
