"""Counts of rows in DM's form."""

from __future__ import annotations

from collections.abc import Mapping

from dm.progress.validator_errors import ErrorState


def rows_status(inserts: int, updates: int, deletes: int) -> str:
    """Counts in DM's form."""
    return f"insert/update/delete: {inserts}/{updates}/{deletes}"


def errors_status(counts: Mapping[ErrorState, int]) -> str:
    """Counts in DM's form."""
    return f"new/ignored/resolved: {counts.get('new', 0)}/{counts.get('ignored', 0)}/{counts.get('resolved', 0)}"
