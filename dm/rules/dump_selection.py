"""What dumpling's `-B`, `-T` and `-f` in `extra-args` leave of the lists: DM gives these options to dumpling.

`-T` names tables, `-f` has patterns; either stands in place of the block-allow-list. `-B` names schemas, and a table
must be in one of them besides. Of several patterns the last that fits decides: one that begins with `!` leaves out.
Server schemas never take part.

This is for tasks that only load. One that follows the binlog would follow what the lists say, and miss the rows of each
table that the dump has left out (dm/config/task.py refuses it).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

from dm.config.dumper import DumperConfig
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
        self._filters = [self._filter(pattern) for pattern in dumper.table_filters]

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
        return self._passes(folded)

    def _filter(self, pattern: str) -> tuple[bool, re.Pattern[str], re.Pattern[str]]:
        schema, _, table = self._folded(pattern.removeprefix("!")).partition(".")
        return not pattern.startswith("!"), re.compile(translate(schema)), re.compile(translate(table))

    def _passes(self, name: TableName) -> bool:
        for positive, schema, table in reversed(self._filters):
            if schema.match(name.schema) and (table.match(name.table) if name.table else positive):
                return positive
        return False
