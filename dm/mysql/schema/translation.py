"""`collation-map` and `engine-map`: names that the target gets instead of the source's, in the text of any statement.

A collation orders and equates texts, an engine stores rows; neither changes a stored value. So a statement may name
another one at the target, as long as all statements do: a table from the load and a column from a later ALTER have to
agree. Three places imply a collation without naming it: a character set alone has its default one, CREATE DATABASE uses
the session's, and CREATE TABLE the schema's (see below). If such a collation is mapped to another one, that is written
out.

MySQL 8 and MariaDB 10.10 have the same collations under different names: `0900` is Unicode's order of version 9 without
padding, `uca1400_nopad` that of version 14. MariaDB itself reads the first as the second since 11.4.5 (MDEV-20912).
These pairs apply unless the task says otherwise.

So do the pairs of engines that can't roll back, with InnoDB. A table of such an engine can't take rows together with
their progress, so no task can use it.

Only words are replaced; the rest of the text stays.

`collation_compatible: strict`: a character set without a collation gets the collation it has at the source.

`CHARSET utf8mb4` without a COLLATE means utf8mb4_0900_ai_ci on MySQL 8 and utf8mb4_general_ci on MariaDB 10. The text
is kept. The source's default is added after the character set's name, only if the target's default differs.

CREATE TABLE without a character set uses its schema's default, which may differ at the target.

It differs if a route leads into an existing schema with another default. The table would then store other text than the
source's, or none, and treat other keys as equal. So the source's default is written into the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from dm.errors import DMError
from dm.mysql.dialect.pair import both_of_mysql, same_family
from dm.mysql.schema.charset import Collated, charset_name, collated, default_collation
from dm.mysql.schema.parse import engine_name, options_of, server_collation
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor, outside_parentheses, split_at_commas
from dm.mysql.sql.operation import (
    AddColumn,
    AlterDatabase,
    ChangeColumn,
    ConvertCharset,
    CreateDatabase,
    CreateTable,
    ModifyColumn,
    Operation,
    OtherAlter,
    TableOptions,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import Token, tokenize

_FLAGS: Final = ("ai_ci", "as_ci", "as_cs")
_TO_MARIADB: Final = {
    **{f"utf8mb4_0900_{flags}": f"utf8mb4_uca1400_nopad_{flags}" for flags in _FLAGS},
    "utf8mb4_0900_bin": "utf8mb4_nopad_bin",
}
_TO_MYSQL: Final = {
    **{f"utf8mb4_uca1400_{pad}{flags}": f"utf8mb4_0900_{flags}" for flags in _FLAGS for pad in ("", "nopad_")},
    "utf8mb4_nopad_bin": "utf8mb4_0900_bin",
}
ENGINES_BY_DEFAULT: Final = {"MyISAM": "InnoDB", "MEMORY": "InnoDB", "Aria": "InnoDB"}
# What only engines without transactions have: row formats that InnoDB refuses, and options unknown to MySQL.
_FOREIGN_ROW_FORMATS: Final = ("FIXED", "PAGE")
_ENGINE_OPTIONS: Final = ("TRANSACTIONAL", "PAGE_CHECKSUM")
_SENSITIVITY: Final = re.compile(r"(?<=_)a[is]_c[is](?=_|$)")  # to accents, and to upper and lower case
_CHARSET_WORDS: Final = frozenset({"CHARSET", "CHARACTER", "CHAR", "COLLATE"})


@dataclass(frozen=True, slots=True)
class _Change:
    """Text that replaces a part of a statement, which may be empty."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Translation:
    """The names of a task's two maps; keys in lower case."""

    collations: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, collations: Mapping[str, str], engines: Mapping[str, str]) -> Translation:
        """The maps of a task file, over the pairs that apply by default."""
        return cls(
            {name.lower(): other.lower() for name, other in collations.items()},
            {_engine(name): other for pairs in (ENGINES_BY_DEFAULT, engines) for name, other in pairs.items()},
        )

    def collation(self, name: str, source: SourceContext, target: SourceContext) -> str:
        """The target's collation for one of the source's; by default the same one."""
        named = name.lower()
        if named.startswith("utf8_"):
            named = f"{source.utf8}_{named.removeprefix('utf8_')}"
        found = self.collations.get(name.lower()) or self.collations.get(named)
        return found or _by_default(source, target).get(named, name)

    def engine(self, name: str | None) -> str | None:
        """The target's engine for one of the source's."""
        return name if name is None else self.engines.get(_engine(name), name)

    def piece(self, piece: Piece, target: SourceContext) -> Piece:
        """The piece with the target's names; `target` is how a statement is read there."""
        changes = [*self._collations(piece, target), *self._engines(piece)]
        if not changes:
            return piece
        text = piece.text
        for change in sorted(changes, key=lambda change: change.start, reverse=True):
            text = text[: change.start] + change.text + text[change.end :]
        translated = Piece.of(text, piece.context)
        same_names = [ref.name for ref in translated.names] == [ref.name for ref in piece.names]
        if not same_names or len(translated.operations) != len(piece.operations):
            raise DMError("ddl-splice-mismatch", statement=piece.text, why="the new text names other tables")
        return translated

    def _collations(self, piece: Piece, target: SourceContext) -> Iterator[_Change]:
        source = piece.context
        for token in named_collations(piece):
            other = self.collation(token.text, source, target)
            if other != token.text:
                yield _Change(token.start, token.end, other)
        for token in lone_charsets(piece):
            silent = default_collation(charset_name(token.text, source), source)
            other = self.collation(silent, source, target)
            if other != silent:
                yield _Change(token.end, token.end, f" COLLATE {other}")
        for operation in piece.operations:
            if isinstance(operation, CreateDatabase) and source.server_collation is not None:
                words = {token.upper for token in operation.options.tokens}
                charset, silent = server_collation(source)
                other = self.collation(silent, source, target)
                if other != silent and not words & _CHARSET_WORDS:
                    at = piece.names[0].end
                    yield _Change(at, at, f" CHARACTER SET {charset} COLLATE {other}")

    def _engines(self, piece: Piece) -> Iterator[_Change]:
        if not self.engines:
            return
        for clause in _options(piece):
            changed = False
            for token in _values(clause.tokens, "ENGINE"):
                other = self.engine(token.text)
                if other is not None and other != token.text:
                    changed = True
                    yield _Change(token.start, token.end, other)
            for token in _values(clause.tokens, "ROW_FORMAT"):
                if token.upper in _FOREIGN_ROW_FORMATS:
                    yield _Change(token.start, token.end, "DEFAULT")
            if changed:
                yield from _without_engine_options(clause)


def nearest(collation: str, known: Collection[str]) -> str | None:
    """A known collation that orders texts almost as this one does, the best first; None if there is none.

    A collation for one language becomes the general one.
    """
    charset, _, rest = collation.lower().partition("_")
    found = _SENSITIVITY.search(rest)
    flags = "" if found is None else found[0]
    if rest.endswith("bin"):
        wanted = [f"{charset}_nopad_bin", f"{charset}_0900_bin", f"{charset}_bin"]
    else:
        wanted = [f"{charset}_uca1400_nopad_{flags}", f"{charset}_0900_{flags}"]
        wanted += [f"{charset}_bin"] if flags.endswith("_cs") else []
        wanted += [f"{charset}_unicode_520_nopad_ci"] if "_0900_" in collation or "_nopad_" in collation else []
        wanted += [f"{charset}_{name}" for name in ("unicode_520_ci", "unicode_ci", "general_ci")]
    return next((name for name in wanted if name in known), None)


def named_collations(piece: Piece) -> Iterator[Token]:
    """The collations that a statement names, in any place."""
    return _values(tokenize(piece.text, piece.context), "COLLATE")


def _by_default(source: SourceContext, target: SourceContext) -> Mapping[str, str]:
    if same_family(source.flavor, target.flavor):
        return {}
    if target.dialect.has_uca1400:
        return _TO_MARIADB
    return _TO_MYSQL if target.dialect.has_uca0900 else {}


def _engine(name: str) -> str:
    return engine_name(name) or name.lower()


def _values(tokens: Sequence[Token], option: str) -> Iterator[Token]:
    """The tokens after a word, with or without an equals sign."""
    for at, token in enumerate(tokens):
        if token.upper != option:
            continue
        following = tokens[at + 1 : at + 3]
        if following and following[0].upper == "=":
            following = following[1:]
        if following and following[0].kind in ("word", "name", "string"):
            yield following[0]


def _options(piece: Piece) -> Iterator[Clause]:
    """The parts of a statement that may name an engine, those of partitions included."""
    for operation in piece.operations:
        if isinstance(operation, CreateTable | TableOptions):
            yield operation.options
        elif isinstance(operation, OtherAlter):
            yield operation.clause


def _without_engine_options(clause: Clause) -> Iterator[_Change]:
    """Remove options that the table's new engine does not have, with the comma before them."""
    for before, token in pairwise(clause.tokens):
        if token.upper not in _ENGINE_OPTIONS:
            continue
        at = clause.tokens.index(token)
        value = clause.tokens[at + (2 if clause.tokens[at + 1].upper == "=" else 1)]
        yield _Change(before.start if before.upper == "," else token.start, value.end, "")


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
    if words & {"CHARSET", "CHARACTER", "CHAR", "COLLATE"} or same_family(piece.context.flavor, target.flavor):
        return []
    if piece.context.server_collation is None:
        why = "collation_compatible is strict, and the event does not tell collation_server"
        raise DMError("ddl-not-understood", statement=piece.text, why=why)
    charset, collation = server_collation(piece.context)
    return [(piece.names[0].end, f" CHARACTER SET {charset} COLLATE {collation}")]


def with_collations(piece: Piece, target: SourceContext) -> Piece:
    """The piece with the source's default collations; `target` is how a statement is read at the target."""
    if both_of_mysql(piece.context.flavor, target.flavor):
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
