"""In which form the rows of each target table go, why not as row events, and how they are found: for the status."""

from __future__ import annotations

from typing import Final

from dm.changes.event_form import EventForm
from dm.changes.plan import TablePlan
from dm.changes.row_bag import LEAST
from dm.changes.row_hash import RowHash
from dm.ident import TableName
from dm.unit import JSON

_TABLES_KEPT: Final = 16384


class RowForms:
    """Written by the dispatcher, read by any thread."""

    def __init__(self) -> None:
        self._tables: dict[
            str, dict[TableName, EventForm | str]
        ] = {}  # by target table: the form, or why there is none
        self._hashes: dict[str, dict[TableName, RowHash]] = {}  # by target table: of each source table that has one

    def learned(self, plan: TablePlan, why: str) -> None:
        """The table's rows go as the plan says; `why`: what keeps them from being row events."""
        if len(self._tables) >= _TABLES_KEPT:
            self._tables.clear()
            self._hashes.clear()
        form = why if plan.events is None else plan.events
        table = f"{plan.target.schema}.{plan.target.table}"
        self._tables.setdefault(table, {})[plan.source] = form
        hashes = dict(self._hashes.get(table, {}))  # whoever reads the other one goes on
        if plan.row_hash is None:
            hashes.pop(plan.source, None)
        else:
            hashes[plan.source] = plan.row_hash
        self._hashes[table] = hashes

    def of(self, table: str) -> dict[str, JSON]:
        """The fields of one table; none where no row of it has come."""
        forms = dict(self._tables.get(table, {}))
        if not forms:
            return {}
        reasons = [form if isinstance(form, str) else form.refused for form in forms.values()]
        why = next(filter(None, reasons), "")
        fields: dict[str, JSON] = {"rowFormat": "sql" if why else "events", "rowFormatReason": why}
        hashes = self._hashes.get(table)
        if hashes:
            refused = next((each.refused for each in hashes.values() if each.refused), "")
            fields["rowHash"] = refused or f"in use: {LEAST} rows and more are found together, by SQL"
        return fields
