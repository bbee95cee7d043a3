"""The block-allow-list at work.

Two levels, and a table must pass both. Schema: with `do-dbs` the schema must be in it (then `ignore-dbs` does not
count), else it must not be in `ignore-dbs`. Table: in `do-tables` it is kept; else in `ignore-tables` it is dropped;
else it is kept exactly when there are no `do-tables`. Server schemas never take part. (DM's rules, which are those of
MySQL's replication filters.)
"""

from __future__ import annotations

from collections.abc import Iterable

from dm.config.pattern import Match, matcher
from dm.config.selection import BlockAllowList, TablePattern
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
