"""Which statements of a backlog are the syncer's: those that may be about tables of the task.

What is not about them is passed over, as the syncer passes over it: by the same rules, with the same question about
views.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from dm.binlog.query import Query
from dm.errors import DMError
from dm.ident import TableName
from dm.sql.context import SourceContext
from dm.sql.rows_before import effect_of
from dm.sql.statement import classify
from dm.syncer.ddl.changed_rows import changes_rows

_SHOWN: Final = 200  # characters of a statement


class Followed(Protocol):
    """What a task wants, by name."""

    def wanted(self, table: TableName) -> bool:
        """Whether rows of the table matter."""
        ...

    def followed(self, table: TableName) -> bool:
        """Whether statements on it do."""
        ...


def concerns(query: Query, context: SourceContext, rules: Followed, is_view: Callable[[TableName], bool]) -> bool:
    """Whether a statement may be about tables of the task."""
    if query.undecodable is not None or len(query.readings) > 1:
        return True
    with suppress(DMError):
        statement = classify(query.text, context)
        if statement.kind == "dml":
            return changes_rows(query, statement.tables, rules.wanted, is_view)
    effect = effect_of(query.text, context, rules.wanted)
    return effect.unknown or any(map(rules.followed, effect.named))


def shown(query: Query) -> str:
    """The statement for people, in one line."""
    text = " ".join(query.readable.split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
