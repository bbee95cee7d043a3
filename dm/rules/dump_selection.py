"""What dumpling's `-B`, `-T` and `-f` in `extra-args` leave of the lists: DM gives these options to dumpling.

`-T` names tables, `-f` has patterns; either stands in place of the block-allow-list. `-B` names schemas, and a table
must be in one of them besides. Of several patterns the last that fits decides: one that begins with `!` leaves out.
Server schemas never take part.

This decides for tasks that only load. One that follows the binlog follows what the lists say, and the rows of a table
that the dump has left out would be missing: there the lists decide alone, and a precheck asks the source whether that
is what the options mean (dm/task/precheck/dump_selection.py).
"""

from __future__ import annotations

from collections.abc import Callable

from dm.config.dumper import DumperConfig
from dm.config.table_filter import TableFilter
from dm.ident import TableName
from dm.rules.block_allow import SYSTEM_SCHEMAS

_Wanted = Callable[[TableName], bool]


class DumpSelection:
    """Decides which tables a dump has; an empty table asks for the schema as a whole."""

    def __init__(self, dumper: DumperConfig, lists: _Wanted, *, case_sensitive: bool) -> None:
        self._folded: Callable[[str], str] = str if case_sensitive else str.lower
        self._lists = lists
        self._schemas = frozenset(map(self._folded, dumper.databases))
        self._tables = frozenset(TableName(*self._folded(name).split(".", 1)) for name in dumper.tables)
        self._filters = [TableFilter.parse(rule, case_sensitive=case_sensitive) for rule in dumper.table_filters]

    def wanted(self, name: TableName) -> bool:
        """Whether the dump has the table."""
        folded = TableName(self._folded(name.schema), self._folded(name.table))
        if self._schemas and folded.schema not in self._schemas:
            return False
        if not self._tables and not self._filters:
            return self._lists(name)
        if name.schema.lower() in SYSTEM_SCHEMAS:
            return False
        if self._tables:
            return folded in self._tables or (
                not name.table and any(folded.schema == one.schema for one in self._tables)
            )
        return self._passes(name)

    def _passes(self, name: TableName) -> bool:
        for rule in reversed(self._filters):
            decides = rule.table(name.table) if name.table else rule.positive or rule.every_table
            if decides and rule.schema(name.schema):
                return rule.positive
        return False
