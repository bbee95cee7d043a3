"""Names of a table's partitions, before and after operations on them.

Only names are tracked: they show whether an operation on partitions took place, and rows depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dm.sql.cursor import Clause, Cursor, split_at_commas
from dm.sql.operation import OtherAlter
from dm.sql.piece import Piece


def _numbered(count: int, start: int = 0) -> tuple[str, ...]:
    return tuple(f"p{number}" for number in range(start, start + count))


def _listed(group: Clause, cursor: Cursor) -> tuple[str, ...]:
    """Names in a list of partition definitions."""
    names = []
    for part in split_at_commas(group):
        inner = cursor.within(part)
        inner.expect("PARTITION")
        names.append(inner.name())
    return tuple(names)


def partition_names(clause: Clause, cursor: Cursor) -> tuple[str, ...]:
    """Names of the partitions that a PARTITION BY clause makes; empty without a clause."""
    if not clause.tokens:
        return ()
    inner = cursor.within(clause)
    count = 1
    while inner.peek() is not None:
        if inner.sees("(", "PARTITION"):
            return _listed(inner.skip_group(), cursor)
        if inner.word() == "(":
            inner.skip_group()
        elif inner.accept("SUBPARTITION"):
            continue
        elif inner.accept("PARTITIONS"):
            count = inner.number()
        else:
            inner.take()
    return _numbered(count)


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


def after_operation(partitions: Sequence[str], clause: Clause, cursor: Cursor) -> tuple[str, ...] | None:
    """Names after an operation on partitions; None for any other clause."""
    inner = cursor.within(clause)
    now = list(partitions)
    if inner.sees("PARTITION", "BY"):
        return partition_names(clause, cursor)
    if inner.sees("REMOVE", "PARTITIONING"):
        return ()
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
            return (*now, *_numbered(inner.number(), len(now)))
        new = _listed(inner.skip_group(), cursor)
        there = {name.lower() for name in now}
        if if_not_exists and any(name.lower() in there for name in new):
            return tuple(now)  # MariaDB skips all of them if one exists
        return (*now, *new)
    if verb == "COALESCE":
        return tuple(now[: max(0, len(now) - inner.number())])
    if verb == "REORGANIZE" and inner.done:  # of a HASH or KEY: as many as if none were named, which is one
        return _numbered(1)
    gone = [name.lower() for name in _names(inner)]
    left = [name for name in now if name.lower() not in gone]
    if verb == "DROP":
        return tuple(left)
    inner.expect("INTO")
    at = min((place for place, name in enumerate(now) if name.lower() in gone), default=len(left))
    return (*left[:at], *_listed(inner.skip_group(), cursor), *left[at:])
