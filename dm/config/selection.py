"""The block-allow-list: which schemas and tables of a source take part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dm.config.pattern import ListedPattern
from dm.config.section import Issue, Section

Names = tuple[ListedPattern, ...]


class TablePattern(Section):
    """A pattern for a schema and one for a table in it."""

    db_name: ListedPattern
    tbl_name: ListedPattern

    def check(self) -> Iterator[Issue]:
        """Both must be there, as in DM."""
        for key, value in (("db-name", self.db_name), ("tbl-name", self.tbl_name)):
            if not value:
                yield Issue("config-list", key, details={"why": f"`{key}` is empty"})


class BlockAllowList(Section):
    """What to replicate and what to leave out; both levels must let a table pass."""

    place: ClassVar = "under `block-allow-list`"
    do_dbs: Names = ()
    do_tables: tuple[TablePattern, ...] = ()
    ignore_dbs: Names = ()
    ignore_tables: tuple[TablePattern, ...] = ()

    def check(self) -> Iterator[Issue]:
        """An empty name in a list of schemas is refused, as in DM."""
        for key, names in (("do-dbs", self.do_dbs), ("ignore-dbs", self.ignore_dbs)):
            if "" in names:
                yield Issue("config-list", key, details={"why": "an empty name"})
