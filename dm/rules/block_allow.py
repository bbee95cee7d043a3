"""The block-allow-list at work: which tables take part, and which of its entries match nothing that a source has.

There are two levels, and a table must pass both. Schema: with `do-dbs` the schema must be in it (then `ignore-dbs` does
not count), else it must not be in `ignore-dbs`. Table: in `do-tables` it is kept; else in `ignore-tables` it is
dropped; else it is kept exactly when there are no `do-tables`. Server schemas never take part. (DM's rules, which are
those of MySQL's replication filters.)

A list may be used for several sources, of which each has some of its tables, and name what is still to come. So an
entry without a match is said and stops nothing, as long as another one of its level (`do-dbs`, `do-tables`) matches.
A level without any match lets no table pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dm.config.pattern import Match, is_name, matcher
from dm.config.rules import BlockAllowList, TablePattern
from dm.ident import TableName

SYSTEM_SCHEMAS = frozenset(
    {
        "mysql",
        "sys",
        "information_schema",
        "performance_schema",
        "metrics_schema",
        "inspection_schema",
        "dm_heartbeat",
    }
)


class TableSelection:
    """Decides which schemas and tables of a source take part."""

    def __init__(self, lists: BlockAllowList | None, *, case_sensitive: bool) -> None:
        lists = lists or BlockAllowList()
        self._do_schemas = _schemas(lists.do_dbs, case_sensitive=case_sensitive)
        self._ignore_schemas = _schemas(lists.ignore_dbs, case_sensitive=case_sensitive)
        self._do_tables = _tables(lists.do_tables, case_sensitive=case_sensitive)
        self._ignore_tables = _tables(lists.ignore_tables, case_sensitive=case_sensitive)

    def wanted(self, name: TableName) -> bool:
        """Whether a table (or a schema, when the table is empty) takes part."""
        schema, table = name
        if schema.lower() in SYSTEM_SCHEMAS:
            return False
        if self._do_schemas:
            if not any(match(schema) for match in self._do_schemas):
                return False
        elif any(match(schema) for match in self._ignore_schemas):
            return False
        if not table or _any(self._do_tables, schema, table):
            return True
        return not self._do_tables and not _any(self._ignore_tables, schema, table)


def _schemas(patterns: Iterable[str], *, case_sensitive: bool) -> list[Match]:
    return [matcher(pattern, case_sensitive=case_sensitive) for pattern in patterns]


def _tables(patterns: Iterable[TablePattern], *, case_sensitive: bool) -> list[tuple[Match, Match]]:
    return [
        (
            matcher(pattern.db_name, case_sensitive=case_sensitive),
            matcher(pattern.tbl_name, case_sensitive=case_sensitive),
        )
        for pattern in patterns
    ]


def _any(patterns: Iterable[tuple[Match, Match]], schema: str, table: str) -> bool:
    return any(match_schema(schema) and match_table(table) for match_schema, match_table in patterns)


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
