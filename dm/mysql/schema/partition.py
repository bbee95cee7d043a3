"""A table's partitions: their names, which rows each has, and what operations make of both.

Names show whether an operation on partitions took place. Which rows a name has matters where one statement is executed
for several tables: a partition that is dropped takes its rows along (`dm.mysql.schema.partition_rows` compares).

A table's `placing` says it: first the rule that finds a row's partition, without the number of partitions, then for
each name its values, `("<", ..)` of a RANGE, `("in", ..)` of a LIST, nothing of a HASH or KEY. Texts are in a normal
form, tokens with single spaces, names and words in lower case, so what two servers print of one clause is one text.
A structure of an earlier version has no placing: then it is not known, and stays so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from dm.mysql.schema.table import Placing, TableSchema
from dm.mysql.sql.cursor import Clause, Cursor, split_at_commas
from dm.mysql.sql.operation import OtherAlter
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import Token

Listed = tuple[str, tuple[str, ...]]
"""A partition's name and values."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of a table, in order; the rule is empty where it is not known."""

    rule: str = ""
    listed: tuple[Listed, ...] = ()

    @classmethod
    def of(cls, schema: TableSchema) -> Self:
        """Those of a table."""
        known = len(schema.placing) == len(schema.partitions) + 1
        values = schema.placing[1:] if known else ((),) * len(schema.partitions)
        rule = "".join(schema.placing[0]) if known else ""
        return cls(rule, tuple(zip(schema.partitions, values, strict=True)))

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(name for name, _ in self.listed)

    @property
    def placing(self) -> Placing:
        """What a structure keeps of the rows that they have."""
        return ((self.rule,), *(values for _, values in self.listed)) if self.rule else ()

    def with_listed(self, listed: Iterable[Listed]) -> Partitions:
        """Others, by the same rule."""
        return Partitions(self.rule, tuple(listed))


def _numbered(count: int, start: int = 0) -> tuple[Listed, ...]:
    return tuple((f"p{number}", ()) for number in range(start, start + count))


def _normal(tokens: Sequence[Token]) -> str:
    """The tokens in the normal form, which is the text of an SQL expression as well."""
    while _enclosed(tokens):
        tokens = tokens[1:-1]
    found = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.kind == "string":
            escaped = token.text.replace("\\", "\\\\").replace("'", "''")
            found.append(f"'{escaped}'")
        elif token.kind == "word" and token.text.startswith("_") and following is not None:
            # MySQL prints a literal's character set, which says nothing of ASCII.
            found += [] if following.kind == "string" and following.text.isascii() else [token.text.lower()]
        else:
            found.append(token.text if token.kind in ("number", "literal") else token.text.lower())
    return " ".join(found)


def _enclosed(tokens: Sequence[Token]) -> bool:
    """Whether the first token is a parenthesis that ends with the last one."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if depth == 0:
            return at > 0 and at == len(tokens) - 1
    return False


def _values(inner: Cursor) -> tuple[str, ...]:
    """What a definition says after its name."""
    if inner.accept("DEFAULT"):  # MariaDB: the rest of a LIST
        return ("in", "default")
    if not inner.accept("VALUES"):
        return ()
    kind = "<" if inner.accept("LESS", "THAN") else "in"
    inner.accept("IN")
    if inner.word() != "(":
        return (kind, _normal([inner.take()]))
    return (kind, *(_normal(part.tokens) for part in split_at_commas(inner.skip_group())))


def _listed(group: Clause, cursor: Cursor) -> tuple[Listed, ...]:
    """A list of partition definitions."""
    found = list[Listed]()
    for part in split_at_commas(group):
        inner = cursor.within(part)
        inner.expect("PARTITION")
        found.append((inner.name(), _values(inner)))
    return tuple(found)


def partitions_of(clause: Clause, cursor: Cursor) -> Partitions:
    """The partitions that a PARTITION BY clause makes; none without a clause."""
    if not clause.tokens:
        return Partitions()
    inner = cursor.within(clause)
    inner.accept("PARTITION", "BY")
    listed, rule, subpartitions = None, list[str](), False
    while inner.peek() is not None:
        if inner.sees("(", "PARTITION"):
            listed = _listed(inner.skip_group(), cursor)
            break
        if inner.accept("SUBPARTITION"):
            subpartitions = True
        elif inner.accept("PARTITIONS"):
            listed = _numbered(inner.number())
        elif inner.word() == "(":
            group = inner.skip_group()
            rule += [] if subpartitions else [f"({_normal(group.tokens)})"]
        else:
            token = inner.take()
            rule += [] if subpartitions else [_normal([token])]
    return Partitions(" ".join(rule), _numbered(1) if listed is None else listed)


def _names(cursor: Cursor) -> list[str]:
    names = [cursor.name()]
    while cursor.accept(","):
        names.append(cursor.name())
    return names


@dataclass(frozen=True, slots=True)
class AddedPartitions:
    """ADD PARTITION of a RANGE or LIST: the table takes more rows than before, and no row moves."""

    definitions: dict[str, str]  # by name, as written
    _head: str  # the statement up to the list
    _tail: str  # and from its end on

    def statement(self, names: Iterable[str]) -> str:
        """The statement for some of the partitions."""
        return self._head + ", ".join(self.definitions[name] for name in names) + self._tail


def added_by_values(piece: Piece) -> AddedPartitions | None:
    """The partitions that a piece adds to a RANGE or LIST; None for any other piece.

    Those of a HASH or KEY move rows, and MariaDB's of SYSTEM_TIME name no values.
    """
    if len(piece.operations) != 1 or not isinstance(piece.operation, OtherAlter):
        return None
    inner = Cursor(piece.operation.clause, piece.context)
    if not inner.accept("ADD", "PARTITION"):
        return None
    if not inner.accept("NO_WRITE_TO_BINLOG"):
        inner.accept("LOCAL")
    inner.accept("IF", "NOT", "EXISTS")
    if inner.word() != "(":
        return None
    definitions, group = dict[str, str](), inner.skip_group()
    for part in split_at_commas(group):
        definition = inner.within(part)
        definition.expect("PARTITION")
        name = definition.name()
        if not definition.accept("VALUES"):
            return None
        definitions[name] = part.source
    head, tail = piece.text[: group.tokens[0].start], piece.text[group.tokens[-1].end :]
    return AddedPartitions(definitions, head, tail)


def after_operation(partitions: Partitions, clause: Clause, cursor: Cursor) -> Partitions | None:
    """The partitions after an operation on them; None for any other clause."""
    inner = cursor.within(clause)
    now = list(partitions.listed)
    if inner.sees("PARTITION", "BY"):
        return partitions_of(clause, cursor)
    if inner.sees("REMOVE", "PARTITIONING"):
        return Partitions()
    verb = inner.word()
    if inner.word(1) != "PARTITION" or verb not in ("ADD", "DROP", "COALESCE", "REORGANIZE"):
        return None
    inner.at += 2
    if not inner.accept("NO_WRITE_TO_BINLOG"):
        inner.accept("LOCAL")
    if_not_exists = inner.accept("IF", "NOT", "EXISTS")
    inner.accept("IF", "EXISTS")
    if verb == "ADD":
        if inner.accept("PARTITIONS"):
            return partitions.with_listed((*now, *_numbered(inner.number(), len(now))))
        new = _listed(inner.skip_group(), cursor)
        there = {name.lower() for name, _ in now}
        if if_not_exists and any(name.lower() in there for name, _ in new):
            return partitions  # MariaDB skips all of them if one exists
        return partitions.with_listed((*now, *new))
    if verb == "COALESCE":
        return partitions.with_listed(now[: max(0, len(now) - inner.number())])
    if verb == "REORGANIZE" and inner.done:  # of a HASH or KEY: as many as if none were named, which is one
        return partitions.with_listed(_numbered(1))
    gone = [name.lower() for name in _names(inner)]
    left = [each for each in now if each[0].lower() not in gone]
    if verb == "DROP":
        return partitions.with_listed(left)
    inner.expect("INTO")
    at = min((place for place, (name, _) in enumerate(now) if name.lower() in gone), default=len(left))
    return partitions.with_listed((*left[:at], *_listed(inner.skip_group(), cursor), *left[at:]))


def losing_rows(piece: Piece) -> tuple[str, ...]:
    """The partitions whose rows a piece takes away; none where it takes all, or leaves them."""
    if piece.verb != "ALTER TABLE":
        return ()
    inner = Cursor.over(piece.text, piece.context)
    while not inner.done:
        if inner.accept_any("DROP", "TRUNCATE", "EXCHANGE", "DISCARD") and inner.accept("PARTITION"):
            inner.accept("IF", "EXISTS")
            return () if inner.accept("ALL") else tuple(_names(inner))
        inner.at += not inner.done
    return ()
