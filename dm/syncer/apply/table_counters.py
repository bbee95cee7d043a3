"""The status per target table: rows committed by kind, DDL pieces executed, the form in which rows go.

Each counting thread has its own counters; a report adds them up. Rows are counted by the plans of a batch
(`dm.changes.row_change`). Memory is bounded: beyond a number of tables, the others are counted together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dm.changes.event_form import EventForm
from dm.changes.plan import TablePlan
from dm.changes.row_bag import MIN_SEARCHED
from dm.changes.row_change import RowChange, tally
from dm.changes.row_hash import RowHash
from dm.ident import TableName
from dm.unit import JSON

TABLES_COUNTED: Final = 2000
TABLES_SHOWN: Final = 50

_INSERTS, _UPDATES, _DELETES, _DDL = range(4)
_OTHERS: Final = TableName("", "")

Parts = Callable[[], Iterable[Sequence[RowChange]]]


class TableCounters:
    """Counters by target table; written by one thread, read by any."""

    def __init__(self) -> None:
        self._counts: dict[TableName, list[int]] = {}

    def add(self, changes: Sequence[RowChange]) -> None:
        """These row changes were committed."""
        for plan, inserts, updates, deletes in tally(changes):
            self._count(plan.target, inserts, updates, deletes)

    def _count(self, table: TableName, inserts: int, updates: int, deletes: int) -> None:
        counts = self._of(table)
        counts[_INSERTS] += inserts
        counts[_UPDATES] += updates
        counts[_DELETES] += deletes

    def add_ddl(self, tables: Iterable[TableName]) -> None:
        """A piece that changed these tables was executed."""
        for table in tables:
            self._of(table)[_DDL] += 1

    def merge(self, other: TableCounters) -> None:
        """Add another thread's counters."""
        for table, counts in list(other._counts.items()):
            mine = self._of(table)
            for number, count in enumerate(counts):
                mine[number] += count

    def counting(self, parts: Parts) -> Parts:
        """The same parts, counted. A second reading means that the first was rolled back, so its count is dropped."""

        def counted() -> Iterator[Sequence[RowChange]]:
            self._counts.clear()
            for part in parts():
                self.add(part)
                yield part

        return counted

    def report(self, more: Callable[[str], dict[str, JSON]] = lambda table: {}) -> dict[str, JSON]:
        """The busiest tables first, and how many are not shown; `more` gives further fields of a table."""
        counts = dict(self._counts)
        others = counts.pop(_OTHERS, None)
        busiest = sorted(counts.items(), key=lambda item: (-sum(item[1]), item[0]))
        names = [(f"{table.schema}.{table.table}", table.schema, found) for table, found in busiest[:TABLES_SHOWN]]
        shown: list[JSON] = [{**_entry(name, schema, found), **more(name)} for name, schema, found in names]
        if others is not None:
            shown.append(_entry(f"others, beyond {TABLES_COUNTED}", "", others))
        return {"tables": shown, "tablesNotShown": max(0, len(counts) - TABLES_SHOWN)}

    def _of(self, table: TableName) -> list[int]:
        counts = self._counts.get(table)
        if counts is None:
            if len(self._counts) >= TABLES_COUNTED and table != _OTHERS:
                return self._of(_OTHERS)
            counts = self._counts[table] = [0, 0, 0, 0]
        return counts


def _entry(name: str, schema: str, counts: Sequence[int]) -> dict[str, JSON]:
    return {
        "table": name, "schema": schema, "inserts": counts[_INSERTS], "updates": counts[_UPDATES],
        "deletes": counts[_DELETES], "ddl": counts[_DDL],
    }  # fmt: skip


_TABLES_KEPT: Final = 16384


class _Form(NamedTuple):
    """The form of one source table's rows."""

    events: EventForm | str  # or why there is none
    hash: RowHash | None

    @property
    def no_events(self) -> str:
        return self.events if isinstance(self.events, str) else self.events.refused


class RowForms:
    """How the rows of each target table go: as row events or why not, found by hash or not.

    Written by the dispatcher, read by any thread.
    """

    def __init__(self) -> None:
        self._tables: dict[str, dict[TableName, _Form]] = {}  # by target table and source table

    def learned(self, plan: TablePlan, why: str) -> None:
        """The table's rows go as the plan says; `why`: what prevents row events."""
        if len(self._tables) >= _TABLES_KEPT:
            self._tables.clear()
        table = f"{plan.target.schema}.{plan.target.table}"
        self._tables.setdefault(table, {})[plan.source] = _Form(
            why if plan.events is None else plan.events, plan.row_hash
        )

    def of(self, table: str) -> dict[str, JSON]:
        """The fields of one table; none before its first row."""
        forms = dict(self._tables.get(table, {})).values()  # a copy: more may be learned meanwhile
        if not forms:
            return {}
        why = next(filter(None, (form.no_events for form in forms)), "")
        fields: dict[str, JSON] = {"rowFormat": "sql" if why else "events", "rowFormatReason": why}
        hashes = [form.hash for form in forms if form.hash is not None]
        if hashes:
            refused = next((each.refused for each in hashes if each.refused), "")
            fields["rowHash"] = refused or f"in use: {MIN_SEARCHED} rows and more are found together, by SQL"
        return fields
