"""The first pass over a stretch: what is there, and whether its rows can be taken back at all.

It reads on from the stretch to the checkpoint, because a statement after the stretch may have given a table another
structure than its rows in the stretch have. No row is decoded, and nothing is written.

The transactions of a stretch of the relay, in its order.

Both ends cut the binlog as `start-task --until` does (`dm.sourcelog.stream.until`): the stretch has what comes after
the first cut and not after the second. So two stretches that share a place share no transaction and leave none out.
Reading begins exactly at the first cut, so only the second is looked for.

The relay is read up to the checkpoint and never waited for: what the relay does not have by now is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import Effect, effect_of
from dm.position import Position
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource, find_time
from dm.sourcelog.stream.marks import Marks
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition, UntilTime
from dm.tools.errands import DdlMet

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
            after = Position(transaction.end.server_uuid, transaction.end.file, transaction.end.offset)
            raise DMError("flashback-ddl", tables=tables, place=place, statement=shown, after=after)
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


@dataclass(frozen=True, slots=True)
class Stretch:
    """From one cut to another, as far as the target is."""

    source_id: str
    relay: Path
    flavor: Flavor
    begin: Until
    end: Until | None
    checkpoint: Position
    room: int  # bytes of memory for a transaction
    gtids_ordered: bool = True
    marks: Marks | None = None  # what the opposite task has written to the source the task did not bring to the target

    def start(self) -> Position:
        """Where to begin to read; raises DMError where the relay has not all of the stretch, or the target has not."""
        if not RelayDirectory(self.relay).sub_directories():
            raise DMError("flashback-without-relay", source=self.source_id)
        ahead = self.end is not None and not isinstance(self.end, UntilTime) and not self.end.reached(self.checkpoint)
        if ahead:
            raise DMError("flashback-ahead", place=self.end, checkpoint=self.checkpoint)
        source = RelayEventSource(self.relay, self.flavor)
        match self.begin:
            case UntilPosition(position):
                return source.complete(position)
            case UntilGtids(gtid_set):
                return Position("", "", gtid_set=gtid_set)
            case UntilTime(seconds, _):
                found = find_time(RelayDirectory(self.relay), self.flavor, seconds)
                if found is None:
                    return self.checkpoint  # nothing is as late
                if not found.known:
                    raise DMError("flashback-relay-younger", time=self.begin, place=found.position)
                return found.position
        raise DMError("internal-error", what=f"no place is known of {self.begin}")

    def transactions(
        self, start: Position, wanted: Callable[[TableName], bool], scratch: Path, stop: threading.Event
    ) -> Iterator[tuple[SourceTransaction, bool]]:
        """Everything from `start` to the checkpoint, and whether it is in the stretch.

        Each is valid until the next is asked for.
        """
        if start.file and start.covers(self.checkpoint):
            return
        prepared = PreparedTransactions(scratch / "prepared")
        prepared.open(0, None)
        events = RelayEventSource(self.relay, self.flavor)
        log = SourceLog(events, wanted, prepared, gtids_ordered=self.gtids_ordered, marks=self.marks)
        inside, there = True, start
        for transaction in log.transactions(start, Space(self.room, scratch / "spool"), stop):
            inside = inside and (self.end is None or self.end.admits(transaction))
            yield transaction, inside
            there = transaction.end
            if there.covers(self.checkpoint):
                return
        if not stop.is_set():
            raise DMError("flashback-relay-behind", source=self.source_id, there=there, wanted=self.checkpoint)
