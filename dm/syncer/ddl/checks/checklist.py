"""All checks, in one list. Each tells for itself whether it has to do with a piece."""

from __future__ import annotations

from typing import Final

from dm.syncer.ddl.checks.checked_step import Check, CheckedStep
from dm.syncer.ddl.checks.copied_rows import refuse_other_copy
from dm.syncer.ddl.checks.dropped_schema import refuse_leaving_tables
from dm.syncer.ddl.checks.gathered import refuse_missing_target, refuse_renaming
from dm.syncer.ddl.checks.kept_columns import refuse_kept_columns
from dm.syncer.ddl.checks.names import refuse_folded, refuse_successor
from dm.syncer.ddl.checks.rows_in_place import refuse_other_values

CHECKS: Final[tuple[Check, ...]] = (
    refuse_renaming,
    refuse_missing_target,
    refuse_leaving_tables,
    refuse_folded,
    refuse_successor,
    refuse_kept_columns,
    refuse_other_copy,
    refuse_other_values,
)


def refuse(checked: CheckedStep) -> None:
    """Raise DMError of the first check that refuses the step."""
    for check in CHECKS:
        check(checked)
