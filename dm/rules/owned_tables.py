"""The rules of a subtask whose tables do not all belong to the stream that is read now (shard merge).

The rules of a task while a share of its tables is loaded beside its stream.

The task's own stream, main, leaves the share out (`BesideShare`). The stream of the share has nothing else: it has
`share` in its configuration, and `TableRules` heeds that.
"""

from __future__ import annotations

from collections.abc import Iterable

from dm.config.subtask import Share, SubtaskConfig
from dm.ident import TableName
from dm.rules.block_allow import TableSelection
from dm.rules.table_rules import TableRules, has_table


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


class BesideShare(TableRules):
    """Main's rules.

    Its reader keeps the rows of the share, since an XA transaction that is prepared now may be committed when the
    tables are main's. The dispatcher leaves them out (`owned`).
    """

    def __init__(self, subtask: SubtaskConfig, share: Share) -> None:
        super().__init__(subtask)
        self._share = share
        self._older = (
            None if share.older is None else TableSelection(share.older, case_sensitive=subtask.case_sensitive)
        )

    def owned(self, table: TableName) -> bool:
        """Whether the table's events are main's."""
        return not has_table(self._share, self._older, self.online.real(table))

    def followed(self, table: TableName) -> bool:
        """Whether the statements on a table count for main."""
        return super().followed(table) and self.owned(table)

    def keeps_schema(self, schema: str) -> bool:
        """Whether tables of the share may be in a schema that main has."""
        return any(name == schema for name, _ in self._share.tables) or self._share.older is not None
