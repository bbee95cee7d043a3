"""The rules of a subtask whose tables do not all belong to the stream that is read now (shard merge)."""

from __future__ import annotations

from collections.abc import Iterable

from dm.config.subtask import SubtaskConfig
from dm.ident import TableName
from dm.rules.table_rules import TableRules


class OwnedTables(TableRules):
    """Main has all tables but those that are held; a second pass has just its own.

    Main's reader keeps the rows of held tables, since an XA transaction that was prepared while its table is held may
    be committed when it is not. The dispatcher leaves them out (`owned`). The tables of an online DDL tool belong to
    whoever has the real one.
    """

    def __init__(
        self, subtask: SubtaskConfig, *, held: Iterable[TableName] = (), only: Iterable[TableName] | None = None
    ) -> None:
        super().__init__(subtask)
        self._held = set(held)
        self._only = None if only is None else frozenset(map(self.online.real, only))

    def owned(self, table: TableName) -> bool:
        """Whether the table's events are this stream's."""
        real = self.online.real(table)
        return real not in self._held and (self._only is None or real in self._only)

    def wanted(self, table: TableName) -> bool:
        """Whether the rows of a table are to be read."""
        return super().wanted(table) and (self._only is None or table in self._only)

    def followed(self, table: TableName) -> bool:
        """Whether the statements on a table count here."""
        return super().followed(table) and self.owned(table)

    def elsewhere(self, table: TableName) -> bool:
        """Whether the statements on a table count in another reading."""
        return super().followed(table) and not self.owned(table)

    @property
    def second(self) -> bool:
        """Whether they are those of a second pass."""
        return self._only is not None

    def hold(self, table: TableName) -> None:
        """The table is held from here on."""
        self._held.add(table)

    @property
    def of_pass(self) -> frozenset[TableName]:
        """The tables that a second pass has yet."""
        return frozenset() if self._only is None else self._only - self._held

    @property
    def left(self) -> bool:
        """Whether there is a table yet: main always has one to come."""
        return self._only is None or bool(self.of_pass)
