"""Reading progress rows, which somebody may have written to since.

A progress table is a table of the target. A restored backup, a person's UPDATE or a target that lies may leave values
in it that no run has stored. What reads rows back says so by name, with the table, and never ends as a defect of dm or
goes on with a part of them. `reads` is what makes a reader so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.tables import SubtaskKey

P = ParamSpec("P")
R = TypeVar("R")
Reader = Callable[Concatenate[TargetConnection, SubtaskKey, P], R]

# What reading a text as a number, a position, a GTID set or JSON raises, and looking for something in it.
_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


def reads(table: Callable[[SubtaskKey], TableName]) -> Callable[[Reader[P, R]], Reader[P, R]]:
    """For a function that reads rows of this table: it raises DMError for those that can't be read."""

    def wrapping(read: Reader[P, R]) -> Reader[P, R]:
        @wraps(read)
        def wrapped(connection: TargetConnection, key: SubtaskKey, /, *args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return read(connection, key, *args, **kwargs)
            except _UNREADABLE as error:
                raise DMError("checkpoint-damaged", table=table(key), source=key.source_id) from error

        return wrapped

    return wrapping
