"""The rules of a task while a share of its tables is loaded beside its stream.

The task's own stream, main, leaves the share out (`BesideShare`). The stream of the share has nothing else: it has
`share` in its configuration, and `TableRules` heeds that.
"""

from __future__ import annotations

from dm.config.share import Share
from dm.config.subtask import SubtaskConfig
from dm.ident import TableName
from dm.rules.block_allow import TableSelection
from dm.rules.table_rules import TableRules, has_table


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
