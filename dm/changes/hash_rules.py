"""Which tables' rows may be found by a hash of their values: every rule, each with its reason in words.

Rows that are found this way are deleted and inserted with their new values (`row_bag.py`), so nothing may tell that
from an UPDATE: no column that the source does not fill, no trigger, no checked foreign key. A table that a rule holds
back loses only speed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dm.changes.computing import PLAIN
from dm.changes.event_rules import RoutedTable, differing, extracted, json_checks, settings, types, unseen_triggers
from dm.changes.row_hash import RowHash, hashable

Rule = Callable[[RoutedTable], str]
"""Why the table's rows are found one by one; empty where this is no reason."""


def _server(pair: RoutedTable) -> str:
    """Only DELETE .. RETURNING says which of the hashes were found, and how often."""
    return "" if pair.options.dialect.returns_deleted_rows else "the target's DELETE does not tell which rows it found"


def _index(pair: RoutedTable) -> str:
    """By an index each row is found without reading the others."""
    return "the target's table has an index" if pair.target.schema.indexes else ""


def _grouping(pair: RoutedTable) -> str:
    """What triggers and checked foreign keys forbid, or a person."""
    alone = pair.plan.statement_rows == 1 or not pair.plan.groupable
    return "rows share no statements" if alone else ""


def _others(pair: RoutedTable) -> str:
    """Rows of other sources may have columns that these do not know yet."""
    return pair.options.others_alter


def _settings(pair: RoutedTable) -> str:
    """Texts of TIMESTAMPs, which the hash is made of, are those of the session's zone."""
    return "" if pair.plan.settings == PLAIN else "the target's table is written in the source's time zone or mode"


def _columns(pair: RoutedTable) -> str:
    for column in pair.target.schema.columns:
        if column.generated is not None:
            return f"the target computes column {column.name}"
        if not hashable(column):
            return f"column {column.name} is of type {column.base}"
    return ""


RULES: Final[tuple[Rule, ...]] = (
    _server,
    _index,
    _grouping,
    _others,
    unseen_triggers,
    settings,
    extracted,
    differing,
    types,
    _settings,
    _columns,
)
"""In the order in which they are asked: each may rely on those before it."""


def row_hash(pair: RoutedTable) -> RowHash | None:
    """How the table's rows are found together; None where a rule says that they are not."""
    if any(rule(pair) for rule in RULES):
        return None
    schema = pair.target.schema
    # Nobody judges a row that comes and goes, nor could the target have refused it.
    judged = bool(pair.target.checks or json_checks(pair) or schema.checks or schema.partitions)
    return RowHash(pair.plan.columns, drops=pair.options.compact and not judged)
