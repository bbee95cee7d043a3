"""The first pass over a stretch: what is there, and whether its rows can be taken back at all.

It reads on from the stretch to the checkpoint, because a statement behind the stretch may have given a table another
structure than its rows in the stretch have. No row is decoded, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from dm.binlog.reader import Query
from dm.errors import DMError
from dm.flashback.request import DdlMet
from dm.ident import TableName
from dm.position import Position
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.sql.rows_before import Effect, effect_of
from dm.syncer.stream.transaction import RowsItem, SourceTransaction, StatementItem

_TOLD: Final = 100  # statements
_SHOWN: Final = 300  # characters of one
_PASSIVE: Final = frozenset({"restrict", "no action", ""})


@dataclass
class Survey:
    """What a stretch has in it."""

    begin: Position
    end: Position
    tables: dict[TableName, None] = field(default_factory=dict)  # of the source, with rows in the stretch
    ddl: list[DdlMet] = field(default_factory=list)
    ddl_untold: int = 0


class Surveyor:
    """Looks at the transactions of a stretch; `wanted` tells which tables' rows are to be taken back."""

    def __init__(self, wanted: Callable[[TableName], bool], context_of: Callable[[Query], SourceContext]) -> None:
        self._wanted = wanted
        self._context_of = context_of

    def look(self, start: Position, transactions: Iterator[tuple[SourceTransaction, bool]]) -> Survey:
        """All of them; raises DMError where a statement stands between rows and the present structure."""
        survey = Survey(start, start)
        for transaction, inside in transactions:
            for item in transaction.items:
                if isinstance(item, StatementItem):
                    self._statement(item, transaction, survey, inside=inside)
                elif isinstance(item, RowsItem) and inside:
                    survey.tables[TableName(item.table_map.schema, item.table_map.table)] = None
            if inside:
                survey.end = transaction.end
        return survey

    def _statement(self, item: StatementItem, transaction: SourceTransaction, survey: Survey, *, inside: bool) -> None:
        query = item.query
        effect = effect_of(query.readable, self._context_of(query), self._wanted)
        place = f"({transaction.end.file}, {item.start})"
        text = " ".join(query.readable.split())
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        stands_before = effect.stands_before(survey.tables)
        if stands_before:
            tables = ", ".join(map(str, sorted(stands_before)))
            behind = Position(transaction.end.server_uuid, transaction.end.file, transaction.end.offset)
            raise DMError("flashback-ddl", tables=tables, place=place, statement=shown, behind=behind)
        if inside and self._concerns(effect):
            if len(survey.ddl) < _TOLD:
                survey.ddl.append(DdlMet(place, shown))
            else:
                survey.ddl_untold += 1

    def _concerns(self, effect: Effect) -> bool:
        return effect.unknown or any(self._wanted(table) or not table.table for table in effect.named)


def parents(structures: Iterable[TableSchema]) -> dict[TableName, frozenset[str]]:
    """Tables whose changes change rows of others by a foreign key, and the columns that do it (in lower case)."""
    found: dict[TableName, frozenset[str]] = {}
    for schema in structures:
        for key in schema.foreign_keys:
            if not {key.on_delete.lower(), key.on_update.lower()} <= _PASSIVE:
                names = frozenset(name.lower() for name in key.parent_columns)
                found[key.parent] = found.get(key.parent, frozenset()) | names
    return found
