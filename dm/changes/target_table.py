"""What must be known of a target table besides its structure before rows are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dm.ident import TableName
from dm.schema.table import TableSchema


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table of the target and its surroundings."""

    schema: TableSchema
    referenced: tuple[tuple[str, ...], ...] = ()  # its column lists that foreign keys of other tables refer to
    parents: Mapping[TableName, TableSchema] = field(default_factory=dict)  # the tables its own foreign keys refer to
    triggers: bool = False
    checks: bool = False  # a CHECK judges its rows, not only `Column.json_checked`; asked where row events pass over it
    null_is_now: bool = False  # NULL in a TIMESTAMP without NULL is the present moment
    # Only if foreign keys are checked: what joins the table to others, itself included, over any number of steps.
    linked: bool = False  # a foreign key begins or ends here
    acting: bool = False  # one of them changes rows itself (CASCADE, SET NULL, SET DEFAULT)
    keyless_kin: bool = False  # one of the tables has no key that finds its rows

    @property
    def judged(self) -> bool:
        """Whether a MariaDB's CHECKs judge rows that come as SQL."""
        return self.checks or any(column.json_checked for column in self.schema.columns)
