"""What a plan is made from: the event, and all that is known when it is read.

Nothing here writes. `Known` is replaced as a whole when a plan has been carried out, never changed, so that planning an
event twice gives equal plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dm.binlog.reader import Query
from dm.ident import TableName
from dm.position import Position
from dm.progress.online import OnlineRecord
from dm.progress.operators import Operator
from dm.rules.table_rules import TableRules
from dm.schema.charset import Collated
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.syncer.ddl.temporary_tables import TemporaryTables
from dm.syncer.stream.origin import PresentTable
from dm.syncer.stream.transaction import SourceTransaction


class KnownStructures(Protocol):
    """The source's structures at the event; read only."""

    def get(self, table: TableName) -> TableSchema | None:
        """The structure of a table; None when it is not known."""
        ...

    def told_charset(self, schema: str) -> Collated | None:
        """The default of a schema; None when it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """What is asked of the source's server and its session."""

    context_of: Callable[[Query], SourceContext]
    is_view: Callable[[TableName], bool]  # now
    present: Callable[[TableName], PresentTable | None]  # now
    cascades_lost: bool = False  # neither the source logs what foreign keys do nor will the target do it
    singly: bool = False  # the target takes few operations of one statement together (`dm.sql.dependence`)
    replaces: bool = True  # the target has CREATE OR REPLACE (`dm.sql.split`)


@dataclass(frozen=True, slots=True)
class DumpWindow:
    """What the dump leaves to be known: which tables it read behind L, and where it ended."""

    points: Mapping[TableName, Position]
    # After a crash the bound is no further than the last DDL, so it finds none.
    until: Position | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of both sides before an event."""

    rules: TableRules
    structures: KnownStructures
    source: Source
    dump: DumpWindow
    online: Mapping[TableName, OnlineRecord]
    temporary: TemporaryTables


@dataclass(frozen=True, slots=True)
class StatementEvent:
    """A query event that is no transaction control, where it stands, and what a person says of it."""

    query: Query
    transaction: SourceTransaction
    operator: Operator | None = None
