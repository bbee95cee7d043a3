"""Reading progress rows, which somebody may have written to since.

A progress table is a table of the target. A restored backup, a person's UPDATE or a target that lies may leave values
in it that no run has stored. What reads rows back says so by name, with the table, and never ends as a defect of dm or
goes on with a part of them, nor if a row has too few columns. `reads` is what makes a reader so, `reads_own` a method
and `reads_of_run` a function of a run, and `texts` reads a list of texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.tables import SubtaskKey


class Storing(Protocol):
    """What stores for a source, or one run of that, in tables of the task."""

    @property
    def key(self) -> SubtaskKey:
        """Whose."""


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=Storing)
Reader = Callable[Concatenate[TargetConnection, SubtaskKey, P], R]
Method = Callable[Concatenate[S, TargetConnection, P], R]
OfRun = Callable[Concatenate[TargetConnection, S, P], R]

# What reading a text as a number, a position, a GTID set or JSON raises, and looking for something in it.
_UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


@contextmanager
def reading(table: TableName, source_id: str) -> Iterator[None]:
    """Inside, rows of the table are read: what can't be is a DMError."""
    try:
        yield
    except _UNREADABLE as error:
        raise DMError("checkpoint-damaged", table=table, source=source_id) from error


def reads(table: Callable[[SubtaskKey], TableName]) -> Callable[[Reader[P, R]], Reader[P, R]]:
    """For a function that reads rows of this table: it raises DMError for those that can't be read."""

    def wrapping(read: Reader[P, R]) -> Reader[P, R]:
        @wraps(read)
        def wrapped(connection: TargetConnection, key: SubtaskKey, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with reading(table(key), key.source_id):
                return read(connection, key, *args, **kwargs)

        return wrapped

    return wrapping


def reads_own(table: Callable[[SubtaskKey], TableName]) -> Callable[[Method[S, P, R]], Method[S, P, R]]:
    """The same for a method of what a source stores."""

    def wrapping(read: Method[S, P, R]) -> Method[S, P, R]:
        @wraps(read)
        def wrapped(storing: S, connection: TargetConnection, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with reading(table(storing.key), storing.key.source_id):
                return read(storing, connection, *args, **kwargs)

        return wrapped

    return wrapping


def reads_of_run(table: Callable[[SubtaskKey], TableName]) -> Callable[[OfRun[S, P, R]], OfRun[S, P, R]]:
    """The same for a function that gets a run of the subtask."""

    def wrapping(read: OfRun[S, P, R]) -> OfRun[S, P, R]:
        @wraps(read)
        def wrapped(connection: TargetConnection, run: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            with reading(table(run.key), run.key.source_id):
                return read(connection, run, *args, **kwargs)

        return wrapped

    return wrapping


def texts(stored: object) -> tuple[str, ...]:
    """The texts that a column has as JSON; raises ValueError for anything else."""
    found = json.loads(str(stored))
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("it is no list of texts")
    return tuple(found)
