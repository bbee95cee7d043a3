"""Where the rows of a source table go: a table of the target, and what has to be known to write into it.

A keyed table may be read while it changes, because the syncer repeats changes of rows that it finds by key. The
target's table decides which key that is. The syncer's own plan for the table answers the question, so dump, load and
syncer always agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dm.changes.column_map import constant_columns
from dm.changes.computing import PLAIN, TableSettings
from dm.changes.plan import PlanOptions, build_plan
from dm.changes.row_keys import TargetTable
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import Column, TableSchema, wire_columns
from dm.rules import ExtractedColumn


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a unique key."""

    column: Column  # of the source
    collation: str | None  # the target's
    prefix: int | None = None

    @property
    def text(self) -> bool:
        """Whether a collation compares it."""
        return self.collation is not None and self.column.collation is not None

    @property
    def mapped(self) -> bool:
        """Whether the target compares it otherwise than the source."""
        return self.text and self.collation != self.column.collation


@dataclass(frozen=True, slots=True)
class MappedKey:
    """A unique key of the target that may take rows as equal which are two at the source."""

    index: str
    columns: tuple[KeyColumn, ...]

    @property
    def texts(self) -> tuple[KeyColumn, ...]:
        """Those that a collation compares."""
        return tuple(column for column in self.columns if column.text)


@dataclass(frozen=True, slots=True)
class OwnKey:
    """A unique key of the target in which rows may meet that the source's keys tell apart."""

    index: str
    parts: tuple[str, ...]  # as SQL
    identity: tuple[Column, ...]  # a key of the source's; empty without one
    asked: tuple[Column, ...]  # columns of it, and those that the unique key is made of


@dataclass(frozen=True, slots=True)
class Destination:
    """A table of the target, for the rows of one source table."""

    target: TableName
    columns: tuple[Column, ...]  # whose values the source sends, in order
    unique: bool  # the target admits some key once only
    constants: tuple[tuple[Column, bytes], ...] = ()  # what routes extract, as literals
    key: tuple[str, ...] = ()  # columns that name a row to a person
    typed: bool = False  # the types of values inside JSON documents count, where they are known
    local_data: bool = False  # the target takes LOAD DATA LOCAL for this table
    own: tuple[tuple[Column, bytes], ...] = ()  # of the target's, which depend on the time zone, as expressions
    computed: tuple[str, ...] = ()  # columns that the target generates of the others
    mapped_keys: tuple[MappedKey, ...] = ()  # that compare texts otherwise than the source
    own_keys: tuple[OwnKey, ...] = ()  # that the target computes, or that the source lacks
    unjudged: bool = False  # its CHECKs are the source's, which may hold rows that they forbid
    settings: TableSettings = PLAIN  # of the session, for its statements
    moments: Sequence[str] = ()  # the parts of a TIMESTAMP's literal, where that has to mean the same in any zone

    @property
    def same(self) -> tuple[tuple[Column, bytes], ...]:
        """The columns that all rows fill by the same text."""
        return (*self.constants, *self.own)


def is_keyed(
    source: TableSchema, target: TableSchema, flavor: Flavor, extracted: Sequence[ExtractedColumn] = ()
) -> bool:
    """Whether the target has a key whose columns all come unchanged from the source's rows or names."""
    names = {column.name.lower() for column in target.columns}
    # The load refuses a column that the target lacks; here the table counts as one without a key.
    wire = tuple(column for column in wire_columns(source, flavor) if column.name.lower() in names)
    constants = constant_columns(source.name, [column.name for column in wire], target, extracted)
    # Load and syncer refuse values that the target may change.
    options = PlanOptions(flavor, narrower_columns="accept")
    return build_plan(source, wire, TargetTable(target), options, constants).keyed
