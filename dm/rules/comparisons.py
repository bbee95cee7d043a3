"""Texts, dates and times in comparisons, with the server's result or none.

Bytes, and texts under a `_bin` collation, are compared here. Under other collations two printable ASCII texts are
equal, or alike, when they are the same letters in one case: that is so for every collation of `PLAIN_COLLATION`. All
that lies beyond (other characters, an order, other collations) only a server knows, so one is asked if the caller has
one: its answer for these two texts under this collation is the server's result by definition.

Dates, datetimes, timestamps and times are compared as texts of one form (or, a TIME, as microseconds), so a constant
must be written out: `2024-02-01`, `2024-02-01 10:00:00.5`, `-12:30:00`. Servers read many other forms, each by rules of
its version.

A TIMESTAMP is a moment, and a text is one only with a time zone: the offset at its end, else the task's `timezone`,
else the target's global zone. Without any the answer would depend on a session, so there is none.
"""

from __future__ import annotations

import operator as operator_module
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Literal, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dm.config.expression import Comparison
from dm.mysql.schema.table import Column
from dm.rules.node import Compiled, InexactError, Kind, Result

Question = Literal["=", "<=>", "<>", "<", "<=", ">", ">=", "like"]

UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
# Character sets whose bytes below 0x80 are ASCII's characters and nothing else.
ASCII_COMPATIBLE = UTF8 | {
    "ascii", "latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866",
    "greek", "hebrew", "koi8r", "koi8u", "macce", "macroman", "dec8", "geostd8", "armscii8", "keybcs2",
}  # fmt: skip
# Collations in which printable ASCII characters are equal exactly when they are the same letter in another case. Not so
# in others: Lithuanian ones take y for i, Roman ones j for i.
PLAIN_COLLATION = re.compile(
    r"utf8(mb3|mb4)?_(general|unicode|unicode_520|0900_ai|0900_as|uca1400_ai|uca1400_as)_(ci|cs)"
    r"|utf8(mb3|mb4)?_((general|unicode|unicode_520)_nopad|uca1400_nopad_(ai|as))_(ci|cs)"
    r"|latin1_(swedish_ci|swedish_nopad_ci|general_ci|general_cs)|ascii_general(_nopad)?_ci"
)
_NO_PAD = re.compile(r"_0900_|nopad")
_PRINTABLE = bytes(range(0x20, 0x7F))
_EQUALITIES = ("=", "<>", "<=>")
COMPARISONS: dict[Comparison, Callable[[Any, Any], bool]] = {
    "=": operator_module.eq,
    "<=>": operator_module.eq,
    "<>": operator_module.ne,
    "<": operator_module.lt,
    "<=": operator_module.le,
    ">": operator_module.gt,
    ">=": operator_module.ge,
}


Judge = Callable[[bytes, bytes], bool]


class TextOracle(Protocol):
    """A server's opinion on texts."""

    def holds(
        self, question: Question, text: bytes, charset: str, other: bytes, other_charset: str, collation: str
    ) -> bool | None:
        """Whether `text question other` is true under the collation; None where the server does not know it."""


def text_judge(operator: Comparison, left: Compiled, right: Compiled, oracle: TextOracle | None) -> Judge:
    """How the texts of two nodes are compared; `left` is a column, `right` a constant or a column of the same kind."""
    column, other = left.column, right.column
    if column is None:
        raise InexactError(f"{left.shown} compared with {right.shown}")
    if right.kind == "constant text":
        _demand_convertible(column, str(right.constant))
        return _judge(operator, column, "utf8mb4", oracle, str(right.constant).encode())
    if right.kind == "text" and other is not None and _kind(column) == _kind(other):
        return _judge(operator, column, _charset(column), oracle)
    raise InexactError(f"{left.shown} compared with {right.shown}")


def like_judge(operand: Compiled, pattern: str, oracle: TextOracle | None) -> Callable[[bytes], bool]:
    """How texts of a column are compared with a pattern of LIKE, which has no backslash."""
    column = operand.column
    if operand.kind != "text" or column is None or column.type.is_enum or column.charset in (None, "binary"):
        raise InexactError(f"{operand.shown} LIKE a text")
    collation, charset = column.collation or "", _charset(column)
    _demand_convertible(column, pattern)
    translated = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
    if collation.endswith("_bin") and charset in UTF8:
        exact = re.compile(translated, re.DOTALL).fullmatch
        return lambda text: exact(text.decode("utf-8", "surrogateescape")) is not None
    plain = charset in ASCII_COMPATIBLE and pattern.isascii() and _is_plain(collation)
    if oracle is None and not plain:
        raise InexactError(f"column `{column.name}` of collation {collation or 'unknown'} LIKE {pattern!r}")
    flags = re.DOTALL | (re.IGNORECASE if collation.endswith("_ci") else 0)
    match = re.compile(translated, flags).fullmatch

    def judge(text: bytes) -> bool:
        if plain and _printable(text):
            return match(text.decode("ascii")) is not None
        return _asked(oracle, "like", column, text, pattern.encode(), "utf8mb4")

    return judge


def _judge(
    operator: Comparison, column: Column, other_charset: str, oracle: TextOracle | None, constant: bytes = b""
) -> Judge:
    compare = COMPARISONS[operator]
    if column.charset is None or column.charset == "binary":
        return compare
    collation, charset = column.collation or "", _charset(column)
    pad = _NO_PAD.search(collation) is None
    if collation.endswith("_bin") and charset in ASCII_COMPATIBLE:
        if operator in _EQUALITIES:
            return (lambda text, other: compare(text.rstrip(b" "), other.rstrip(b" "))) if pad else compare
        if charset == column.charset or column.charset in UTF8:  # else labels are not in the order of their bytes here
            return (lambda text, other: compare(*_padded(text, other))) if pad else compare
    plain = operator in _EQUALITIES and charset in ASCII_COMPATIBLE and _is_plain(collation)
    if oracle is None and not (plain and _printable(constant)):
        raise InexactError(f"column `{column.name}` of collation {collation or 'unknown'} {operator} a text")
    fold = bytes if collation.endswith("_cs") else bytes.lower

    def judge(text: bytes, other: bytes) -> bool:
        if plain and _printable(text) and _printable(other):
            if pad:
                text, other = text.rstrip(b" "), other.rstrip(b" ")
            return compare(fold(text), fold(other))
        return _asked(oracle, operator, column, text, other, other_charset)

    return judge


def _asked(
    oracle: TextOracle | None, question: Question, column: Column, text: bytes, other: bytes, other_charset: str
) -> bool:
    collation = column.collation or ""
    if oracle is None or not collation:
        raise InexactError(f"a text beyond printable ASCII in column `{column.name}` under {collation or 'unknown'}")
    answer = oracle.holds(question, text, _charset(column), other, other_charset, collation)
    if answer is None:
        raise InexactError(f"the target does not know collation {collation} of column `{column.name}`")
    return answer


def _charset(column: Column) -> str:
    """The character set of a value as it is given here: labels of an ENUM are UTF-8."""
    return "utf8mb4" if column.type.is_enum else (column.charset or "")


def _kind(column: Column) -> tuple[object, ...]:
    return column.charset, column.collation, column.type.is_enum


def _demand_convertible(column: Column, text: str) -> None:
    if not text.isascii() and column.charset not in UTF8 | {None, "binary"}:
        raise InexactError(f"a text beyond ASCII with column `{column.name}` of {column.charset}")


def _is_plain(collation: str) -> bool:
    return PLAIN_COLLATION.fullmatch(collation) is not None


def _printable(text: bytes) -> bool:
    """Whether nothing in the text may be ignorable, or equal to another letter."""
    return not text.translate(None, _PRINTABLE)


def _padded(text: bytes, other: bytes) -> tuple[bytes, bytes]:
    length = max(len(text), len(other))
    return text.ljust(length), other.ljust(length)


_DATETIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?)?")
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
_TIME = re.compile(r"(-?)(\d{2,3}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?")
_ZERO = "0000-00-00"
_LONGEST_TIME = (838 * 3600 + 59 * 60 + 59) * 1_000_000


def full_datetime(value: Result) -> Result:
    """The one form in which dates and datetimes compare as texts: with all six decimals."""
    if value is None:
        return None
    text = str(value)
    if len(text) == 10:
        text += " 00:00:00"
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<6}"


def microseconds(value: Result) -> Result:
    """A TIME as a number."""
    return None if value is None else _microseconds(str(value))


def _microseconds(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise InexactError(f"a time compared with {text!r}, which is not in the form hh:mm:ss")
    seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4])
    number = seconds * 1_000_000 + int(f"{match[5] or '':0<6}")
    if number > _LONGEST_TIME or int(match[3]) > 59 or int(match[4]) > 59:
        raise InexactError(f"{text!r} is no time")
    return -number if match[1] else number


def temporal_constant(kind: Kind, text: str, zone: str) -> Result:
    """A constant in the form in which columns of this kind are compared."""
    if kind == "time":
        return _microseconds(text)
    if kind == "timestamp":
        return _moment(text, zone)
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise InexactError(f"a {kind} compared with a text that is not one, or not in the form YYYY-MM-DD hh:mm:ss")
    if match[1] != _ZERO:
        try:
            datetime.fromisoformat(_written(match))
        except ValueError:
            raise InexactError(f"{text!r} is no date") from None
    return text if kind == "date" and len(text) == len(_ZERO) else _written(match)


def _written(match: re.Match[str]) -> str:
    return str(full_datetime(match[1] + (f" {match[2]}" if match[2] else "") + (f".{match[3]}" if match[3] else "")))


def _moment(text: str, zone: str) -> str:
    offset = _OFFSET.fullmatch(text[-6:])
    match = _DATETIME.fullmatch(text[:-6] if offset else text)
    if match is None:
        raise InexactError(f"a timestamp compared with {text!r}, which is not in the form YYYY-MM-DD hh:mm:ss")
    if not (offset or zone):
        raise InexactError(f"{text!r} has no time zone: write it as '{text}+00:00', or set `timezone` in the task")
    where = _zone(offset or _OFFSET.fullmatch(zone), zone)
    try:
        local = datetime.fromisoformat(_written(match))
        moments = {local.replace(tzinfo=where, fold=fold).astimezone(UTC) for fold in (0, 1)}
    except (ValueError, OverflowError):
        raise InexactError(f"{text!r} is no moment") from None
    if len(moments) > 1:
        raise InexactError(
            f"{text!r} is in the hour that clocks repeat or leave out in {zone}: write it with its offset"
        )
    (moment,) = moments
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def _zone(offset: re.Match[str] | None, name: str) -> tzinfo:
    if offset is None:
        try:
            return ZoneInfo(name)
        except ZoneInfoNotFoundError:
            raise InexactError(f"this machine knows no time zone {name}: write the offset after the constant") from None
    difference = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    return timezone(-difference if offset[1] == "-" else difference)
