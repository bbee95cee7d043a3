"""What a server was asked, and how its answer is read.

Each question expects a shape: a row, so many columns, a number and no NULL. A server that is not what it seems, a proxy
in between, or a table of ours that somebody has changed gives another one, and unpacking that raises whatever Python
has for it. So every function that takes an answer apart is marked (`reads_answers`, or `understood` around the lines
that do): such a failure is then one error, `server-answer-garbled`, which names the question and what came. A test
finds functions without the mark. Rows that `dm` has stored have a mark of their own, which names the table
(`dm.progress.tables.reads`).

Which question it was needs no argument: a thread asks one question at a time, and reads its answer before the next, so
the connection notes what its thread has asked last. Where nothing was asked inside, the failure is a defect of ours and
stays what it is.

Messages show no values, neither of the question nor of the answer: they may be rows of a user.
"""

from __future__ import annotations

import inspect
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from dm.errors import DMError
from dm.errors.without_values import without_literals

UNREADABLE: Final = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What reading a text as a number, a position, a GTID set or JSON raises, and looking for something in it."""

Row = tuple[Any, ...]
_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Asked(threading.local):
    """What a thread has asked."""

    count: int = 0
    sql: bytes = b""
    address: str = ""
    by: Callable[[], object] | None = None  # the connection, unless it is gone


_asked = _Asked()


def note_question(connection: object, address: str, sql: bytes | str) -> None:
    """The thread asks this from now on."""
    _asked.count += 1
    _asked.sql = sql[:_SCANNED].encode("utf-8", "replace") if isinstance(sql, str) else bytes(sql[:_SCANNED])
    _asked.address = address
    _asked.by = weakref.ref(connection)


@contextmanager
def understood() -> Iterator[None]:
    """Inside, answers are taken apart: one of another shape is `server-answer-garbled`."""
    before = _asked.count
    try:
        yield
    except UNREADABLE as error:
        if _asked.count == before:
            raise
        raise misread(error) from error


def reads_answers(read: Callable[_P, _R]) -> Callable[_P, _R]:
    """The same for all of a function, also for one that yields."""
    if inspect.isgeneratorfunction(read):

        @wraps(read)
        def yielding(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            with understood():
                return (yield from cast(Any, read(*args, **kwargs)))

        return cast(Callable[_P, _R], yielding)

    @wraps(read)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with understood():
            return read(*args, **kwargs)

    return wrapped


def misread(error: BaseException) -> DMError:
    """The error for the answer to what this thread has asked last."""
    what = f"{type(error).__name__} from the answer to {shape(_asked.sql)}{_came()}"
    return DMError("server-answer-garbled", address=_asked.address, what=what)


def _came() -> str:
    connection: Any = _asked.by() if _asked.by is not None else None
    result = getattr(connection, "_result", None)
    if result is None:  # its rows are read one by one
        return ""
    rows = result.rows
    if not rows:
        return ", which had no rows"
    kinds = ", ".join("NULL" if value is None else type(value).__name__ for value in rows[0][:_SHOWN])
    more = ", .." if len(rows[0]) > _SHOWN else ""
    return f", which had rows: {len(rows)}, columns: {len(rows[0])} ({kinds}{more})"


class AnswerRows(list[Row]):
    """The rows of an answer; a question that must have one is answered wrongly where there is none."""

    def __init__(self, rows: Iterable[Row]) -> None:
        super().__init__(rows)

    def __getitem__(self, at: Any) -> Any:
        try:
            return super().__getitem__(at)
        except IndexError as error:
            raise misread(error) from None


# A statement as messages may show it: its shape without the rows in it.

_LENGTH: Final = 200
_SCANNED: Final = 4096
_SHOWN: Final = 12  # columns of a row
_ROW: Final = r"\((?:\?|NULL)(?:, ?(?:\?|NULL))*\)"
_REPEATED: Final = re.compile(f"({_ROW})(?:, ?{_ROW})+")


def shape(sql: bytes) -> str:
    """The statement with every literal as `?`, cut to a readable length."""
    text = sql[:_SCANNED].decode("utf-8", "replace")
    text = without_literals(text)
    text = _REPEATED.sub(r"\1,...", text)
    return text if len(text) <= _LENGTH else text[: _LENGTH - 3] + "..."
