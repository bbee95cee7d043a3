"""Whether the rows of a source table have an identity at the target: what decides how the table is read.

A keyed table may be read while it changes (`dm.changes.identity`). Where the target's table exists already, it may have
other keys than the source's, or none. Where it does not, it is expected to be made like the source's; the load looks
again, since in a merge another table may make it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dm.changes.identity import is_keyed
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import TableSchema
from dm.rules import TableRules


class TargetKeys:
    """Answers for the tables of one subtask; connects to the target when first asked, unless nothing is loaded."""

    def __init__(self, subtask: SubtaskConfig, rules: TableRules) -> None:
        self._rules = rules
        self._loads = subtask.mode != "dump"
        self._connect: Callable[[], TargetConnection] = lambda: TargetConnection(subtask.target)
        self._schemas = TargetSchemas(self._connect)
        self._names: frozenset[tuple[str, str]] | None = None

    def keyless(self, source: TableSchema, flavor: Flavor) -> bool:
        """Whether rows of the table can not be told apart at the target."""
        name = self._rules.route(source.name)
        present = self._schemas.read(name) if self._loads and self._may_exist(name) else None
        if present is None:
            return not is_keyed(source, replace(source, name=name), flavor)
        return not is_keyed(source, present, flavor, self._rules.extracted(source.name))

    def _may_exist(self, name: TableName) -> bool:
        """Whether it is worth asking: most targets are empty, and a source may have very many tables."""
        if self._names is None:
            connection = self._connect()
            try:
                rows = connection.query("SELECT table_schema, table_name FROM information_schema.tables")
            finally:
                connection.close()
            # Without case: how names compare is the target's own affair, and it is asked then.
            self._names = frozenset((str(schema).lower(), str(table).lower()) for schema, table in rows)
        return (name.schema.lower(), name.table.lower()) in self._names

    def close(self) -> None:
        """End the session."""
        self._schemas.close()
