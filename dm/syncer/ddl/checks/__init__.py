"""Refusals: what a DDL statement would do to the target that it did not do to the source.

All checks, in one list. Each tells for itself whether it has to do with a piece.
"""

from __future__ import annotations

from typing import Final

from dm.syncer.ddl.checks.names import (
    refuse_folded,
    refuse_leaving_tables,
    refuse_missing_target,
    refuse_renaming,
    refuse_successor,
)
from dm.syncer.ddl.checks.rows_in_place import (
    refuse_kept_columns,
    refuse_other_copy,
    refuse_other_partitions,
    refuse_other_values,
)
from dm.syncer.ddl.step import Check

CHECKS: Final[tuple[Check, ...]] = (
    refuse_renaming,
    refuse_missing_target,
    refuse_leaving_tables,
    refuse_folded,
    refuse_successor,
    refuse_kept_columns,
    refuse_other_copy,
    refuse_other_values,
    refuse_other_partitions,
)
