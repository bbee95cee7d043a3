"""In which form the rows of each target table go, why not as row events, and how they are found: for the status."""

from __future__ import annotations

from typing import Final, NamedTuple

from dm.changes.event_form import EventForm
from dm.changes.plan import TablePlan
from dm.changes.row_bag import LEAST
from dm.changes.row_hash import RowHash
from dm.ident import TableName
from dm.unit import JSON

_TABLES_KEPT: Final = 16384


class _Form(NamedTuple):
    """Of the rows of one source table."""

    events: EventForm | str  # or why there is none
    hash: RowHash | None

    @property
    def no_events(self) -> str:
        return self.events if isinstance(self.events, str) else self.events.refused


class RowForms:
    """Written by the dispatcher, read by any thread."""

    def __init__(self) -> None:
        self._tables: dict[str, dict[TableName, _Form]] = {}  # by target table: of each source table that goes there

    def learned(self, plan: TablePlan, why: str) -> None:
        """The table's rows go as the plan says; `why`: what keeps them from being row events."""
        if len(self._tables) >= _TABLES_KEPT:
            self._tables.clear()
        table = f"{plan.target.schema}.{plan.target.table}"
        self._tables.setdefault(table, {})[plan.source] = _Form(
            why if plan.events is None else plan.events, plan.row_hash
        )

    def of(self, table: str) -> dict[str, JSON]:
        """The fields of one table; none where no row of it has come."""
        forms = dict(self._tables.get(table, {})).values()  # a copy: more may be learned meanwhile
        if not forms:
            return {}
        why = next(filter(None, (form.no_events for form in forms)), "")
        fields: dict[str, JSON] = {"rowFormat": "sql" if why else "events", "rowFormatReason": why}
        hashes = [form.hash for form in forms if form.hash is not None]
        if hashes:
            refused = next((each.refused for each in hashes if each.refused), "")
            fields["rowHash"] = refused or f"in use: {LEAST} rows and more are found together, by SQL"
        return fields
