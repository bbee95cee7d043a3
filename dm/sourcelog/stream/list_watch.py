"""Entries of the block-allow-list that match nothing at the source: said until what they name is there.

A schema or table may come later, and a misspelt name looks like one that does. `check-task` warns once; a person who
looks at the task later finds it in the status. While an entry is left, the source is asked once a minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dm.clock import Clock
from dm.ident import TableName
from dm.rules.block_allow import ListEntry
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import ServerFacts, list_tables

ASK_SECONDS: Final = 60.0


class ListWatch:
    """Called at each check of the source; its report is part of the unit's status."""

    def __init__(self, entries: Iterable[tuple[str, ListEntry]], clock: Clock, *, case_sensitive: bool) -> None:
        self._left = tuple(entries)
        self._clock = clock
        self._case_sensitive = case_sensitive
        self._asked_at: float | None = None

    @property
    def report(self) -> list[str]:
        """The entries left, each with its place in the list; none before the first look."""
        return [] if self._asked_at is None else [f"{place}: {entry}" for place, entry in self._left]

    def look(self, connection: Connection, facts: ServerFacts, source_time: float) -> None:
        """Ask for what is not there yet, now and then; raises DMError."""
        now = self._clock.monotonic()
        if not self._left or (self._asked_at is not None and now - self._asked_at < ASK_SECONDS):
            return
        schemas = [str(row[0]) for row in fetch(connection, "SELECT schema_name FROM information_schema.schemata")]
        of_tables = any(entry.table for _, entry in self._left)
        self.seen(schemas, list_tables(connection) if of_tables else ())
        self._asked_at = now

    def seen(self, schemas: Iterable[str], tables: Iterable[TableName]) -> None:
        """The source has these."""
        schemas, tables = tuple(schemas), tuple(tables)
        self._left = tuple(
            (place, entry)
            for place, entry in self._left
            if not entry.there(schemas, tables, case_sensitive=self._case_sensitive)
        )
