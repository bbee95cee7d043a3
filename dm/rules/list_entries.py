"""Entries of a block-allow-list that take tables in: which of them match nothing that a source has.

A list may be used for several sources, of which each has some of its tables, and name what is still to come. So an
entry without a match is said and stops nothing, as long as another one of its level (`do-dbs`, `do-tables`) matches.
A level without any match lets no table pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dm.config.pattern import is_name, matcher
from dm.config.selection import BlockAllowList
from dm.ident import TableName


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A name or a pattern of a schema, or of a table in one."""

    schema: str
    table: str = ""  # "" for a schema as a whole

    @property
    def named(self) -> bool:
        """Whether it stands for itself only."""
        return is_name(self.schema) and is_name(self.table)

    def there(self, schemas: Iterable[str], tables: Iterable[TableName], *, case_sensitive: bool) -> bool:
        """Whether a source with these schemas and tables has anything of it."""
        schema = matcher(self.schema, case_sensitive=case_sensitive)
        if not self.table:
            return any(map(schema, schemas))
        table = matcher(self.table, case_sensitive=case_sensitive)
        return any(schema(name.schema) and table(name.table) for name in tables)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.table else self.schema


def entries_taken_in(lists: BlockAllowList) -> Iterator[tuple[str, ListEntry]]:
    """The entries of `do-dbs` and `do-tables`, each with its place in the list."""
    for number, schema in enumerate(lists.do_dbs):
        yield f"do-dbs[{number}]", ListEntry(schema)
    for number, table in enumerate(lists.do_tables):
        yield f"do-tables[{number}]", ListEntry(table.db_name, table.tbl_name)
