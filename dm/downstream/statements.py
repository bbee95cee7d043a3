"""Statements as a session sends them, and what the server reports of them.

Affected counts are the server's own (CLIENT_FOUND_ROWS is off): an UPDATE counts what it changed. What it *matched*
stands in the text of its answer ("Rows matched: 1  Changed: 0  Warnings: 0", translated by lc_messages, the numbers
always in this order), which is how a row that is missing is told from one that was so already.

A session that takes several statements in one packet gets its values by the literals of `dm.mysql.sql.literal`, like
the rows, and not by the driver's: there a literal that ended too early would be more than a wrong value, since what
follows it could be a statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymysql.constants import FLAG

from dm.mysql.sql.literal import quoted

_NUMBER: Final = re.compile(rb"\d+")
_DATA_COUNTS: Final = ("Records", "Deleted", "Skipped", "Warnings")  # in the words of some language, in this order


@dataclass(frozen=True, slots=True)
class StatementResult:
    """What the server reported of one statement."""

    affected: int
    told: int | None  # rows an UPDATE found, or that an INSERT of several has; None where the server says nothing
    warnings: int
    columns: tuple[str, ...] = ()  # names of those that an answer of rows has
    key: frozenset[str] = frozenset()  # of these, in lower case, those that are of their table's primary key

    @property
    def matched(self) -> int:
        """Rows an UPDATE found; for other statements the affected ones."""
        return self.affected if self.told is None else self.told


@dataclass(frozen=True, slots=True)
class DataOutcome:
    """What the server reported of the rows it was sent."""

    records: int
    deleted: int  # rows that had to go
    skipped: int  # rows that were not taken
    warnings: int


def outcome(result: Any) -> StatementResult:
    """The driver's result of a statement."""
    assert result is not None
    affected = int(result.affected_rows or 0)
    message = result.message
    told: int | None = None
    if message:
        text = message if isinstance(message, bytes) else message.encode()
        # The text's length stands before it, and 48 to 57 look like a digit.
        number = _NUMBER.search(text, int(text[0] == len(text) - 1))
        if number is not None:
            told = int(number[0])
    if not result.description:
        return StatementResult(affected, told, int(result.warning_count or 0))
    columns = tuple(str(column[0]) for column in result.description)
    key = frozenset(str(field.name).lower() for field in result.fields if field.flags & FLAG.PRI_KEY)
    return StatementResult(affected, told, int(result.warning_count or 0), columns, key)


def data_outcome(answer: Any) -> DataOutcome | None:
    """The driver's packet that ends a LOAD DATA; None where it has no counts."""
    # The last ones: the byte before the text is its length, which may look like a digit.
    numbers = [int(number) for number in _NUMBER.findall(answer.message or b"")][-len(_DATA_COUNTS) :]
    if len(numbers) < len(_DATA_COUNTS):
        return None
    records, deleted, skipped, _ = numbers
    return DataOutcome(records, deleted, skipped, int(answer.warning_count or 0))


_PLACE: Final = re.compile(rb"%[%s]")


def composed(sql: str, values: Sequence[object] | Mapping[str, object]) -> bytes:
    """The statement with each `%s` replaced by a value: a text, a number or NULL; raises ValueError or TypeError."""
    if isinstance(values, Mapping):
        raise TypeError("values with names have no places in a statement of ours")
    left = iter(values)

    def put(place: re.Match[bytes]) -> bytes:
        if place[0] == b"%%":
            return b"%"
        for value in left:
            return _literal(value)
        raise ValueError("a statement has more places than values")

    text = _PLACE.sub(put, sql.encode())
    if any(True for _ in left):
        raise ValueError("a statement has fewer places than values")
    return text


def _literal(value: object) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, int):
        return str(int(value)).encode()
    if isinstance(value, str):
        return quoted(value.encode("utf-8", "surrogateescape"))
    raise TypeError(f"a {type(value).__name__} has no literal in a statement of ours")
