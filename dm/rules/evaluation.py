"""Compiling an expression against a table: to a function of a row, with the server's result or none.

Each node gets a kind from the columns' types, and every operation is allowed only for the kinds where its result here
is the server's for every value: exact numbers with exact numbers, floats as doubles, dates and datetimes with
constants that are dates, texts by their collation. Texts of binary collations compare as bytes; under other collations
only equality and LIKE are possible, for ASCII texts as they are (letters without case), for others only with a `fold`
that the caller brings (the collation's keys come from a server). Anything else raises, naming what it was: a filter
never guesses.

A compiled node returns None for NULL, 0 or 1 for conditions (three-valued logic), else the value.
"""

from __future__ import annotations

import operator as operator_module
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, Literal

from dm.binlog.value import Absent, Row
from dm.config.expression import (
    Arithmetic,
    ColumnRef,
    Compared,
    Comparison,
    Computed,
    Connected,
    Constant,
    In,
    IsNull,
    Like,
    Logical,
    Negative,
    Node,
    Not,
)
from dm.schema.table import Column

Kind = Literal["null", "integer", "decimal", "float", "text", "constant text", "date", "datetime", "other"]
Result = None | int | float | Decimal | str | bytes
Fold = Callable[[bytes, Column], bytes]
Function = Callable[[Row], Result]

_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year"})
_TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})
# Character sets whose bytes below 0x80 are ASCII's characters and nothing else.
_ASCII_COMPATIBLE = _UTF8 | {
    "ascii", "latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866",
    "greek", "hebrew", "koi8r", "koi8u", "macce", "macroman", "dec8", "geostd8", "armscii8", "keybcs2",
}  # fmt: skip
_NO_PAD = re.compile(r"_0900_|nopad")
# Collations in which printable ASCII characters are equal exactly when they are the same letter in another case. Not so
# in others: Lithuanian ones take y for i, Roman ones j for i.
PLAIN_COLLATION = re.compile(
    r"utf8(mb3|mb4)?_(general|unicode|unicode_520|0900_ai|0900_as|uca1400_ai|uca1400_as)_(ci|cs)"
    r"|utf8(mb3|mb4)?_((general|unicode|unicode_520)_nopad|uca1400_nopad_(ai|as))_(ci|cs)"
    r"|latin1_(swedish_ci|swedish_nopad_ci|general_ci|general_cs)|ascii_general(_nopad)?_ci"
)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_DATETIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?)?")
_NUMBERS: tuple[Kind, ...] = ("integer", "decimal", "float")
_SIGNED_LOW, _SIGNED_HIGH = -(1 << 63), (1 << 63) - 1


class InexactError(ValueError):
    """Raised for what can't be evaluated with the server's exact result."""


class UnknownColumnError(ValueError):
    """Raised for a column that the table does not have."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A node with its kind; `column` for columns, `constant` for constants."""

    kind: Kind
    function: Function
    column: Column | None = None
    constant: Result = None
    unsigned: bool = False


def compile_condition(node: Node, columns: Sequence[Column], fold: Fold | None) -> Callable[[Row], bool]:
    """A function that tells whether the expression is true for a row: not 0 and not NULL."""
    truth = _truth(_Compiler(columns, fold).node(node))
    return lambda row: truth(row) == 1


def _truth(compiled: Compiled) -> Function:
    if compiled.kind not in ("null", *_NUMBERS):
        raise InexactError(f"a {compiled.kind} as a condition")
    function = compiled.function

    def truth(row: Row) -> Result:
        value = function(row)
        return None if value is None else int(value != 0)

    return truth


class _Compiler:
    def __init__(self, columns: Sequence[Column], fold: Fold | None) -> None:
        self._columns = {column.name.lower(): (index, column) for index, column in enumerate(columns)}
        self._fold = fold

    def node(self, node: Node) -> Compiled:
        match node:
            case ColumnRef(name):
                return self._column(name)
            case Constant(value):
                return _constant(value)
            case Not(operand):
                return _not(self.node(operand))
            case Negative(operand):
                return _computed("-", _constant(0), self.node(operand), negation=True)
            case Connected(operator, left, right):
                return _connected(operator, self.node(left), self.node(right))
            case Compared(operator, left, right):
                return self._compared(operator, self.node(left), self.node(right))
            case Computed(operator, left, right):
                return _computed(operator, self.node(left), self.node(right))
            case IsNull(operand):
                function = self.node(operand).function
                return Compiled("integer", lambda row: int(function(row) is None))
            case In(operand, items):
                return self._in(self.node(operand), [self.node(item) for item in items])
            case Like(operand, pattern):
                return self._like(self.node(operand), pattern)

    def _column(self, name: str) -> Compiled:
        if name.lower() not in self._columns:
            raise UnknownColumnError(name)
        index, column = self._columns[name.lower()]

        def plain(row: Row) -> Result:
            found = row[index]
            if isinstance(found, Absent):
                raise InexactError(f"the row image lacks column `{column.name}`")
            return found

        def decimal(row: Row) -> Result:
            found = plain(row)
            return None if found is None else Decimal(str(found))

        if column.base in _INTEGERS:
            return Compiled("integer", plain, column, unsigned=column.unsigned)
        if column.base == "decimal":
            return Compiled("decimal", decimal, column)
        if column.base in ("float", "double"):
            return Compiled("float", plain, column)
        if column.base == "date":
            return Compiled("date", plain, column)
        if column.base == "datetime":
            return Compiled("datetime", lambda row: _full_datetime(plain(row)), column)
        if column.base == "enum":
            members = ["", *column.members]

            def member(row: Row) -> Result:
                found = plain(row)
                return members[found].encode() if isinstance(found, int) else None

            return Compiled("text", member, column)
        if column.base in _TEXTS | _BYTES:
            return Compiled("text", plain, column)
        return Compiled("other", plain, column)

    def _compared(self, operator: Comparison, left: Compiled, right: Compiled) -> Compiled:
        if left.kind == "constant text" and right.kind not in ("constant text", "null"):
            return self._compared(_MIRRORED[operator], right, left)
        first, second = self._comparable(operator, left, right)
        compare = _COMPARISONS[operator]
        null_safe = operator == "<=>"

        def result(row: Row) -> Result:
            a, b = first(row), second(row)
            if a is None or b is None:
                return int(a is b) if null_safe else None
            return int(compare(a, b))

        return Compiled("integer", result)

    def _comparable(self, operator: Comparison, left: Compiled, right: Compiled) -> tuple[Function, Function]:
        kinds = {left.kind, right.kind}
        if "null" in kinds:
            return left.function, right.function
        if kinds <= {"integer", "decimal"}:
            return left.function, right.function
        if kinds <= set(_NUMBERS):
            return _as_float(left), _as_float(right)
        if left.kind == "text" and left.column is not None:
            if right.kind == "constant text":
                key = self._text_key(operator, left.column)
                constant = key(str(right.constant).encode())
                if not str(right.constant).isascii() and _charset(left.column) not in _UTF8 and left.column.charset:
                    raise InexactError(f"a text beyond ASCII with column `{left.column.name}` of {left.column.charset}")
                return _keyed(left.function, key), lambda row: constant
            if right.column is not None and right.kind == "text":
                a, b = left.column, right.column
                if (a.charset, a.collation, a.base == "enum") == (b.charset, b.collation, b.base == "enum"):
                    key = self._text_key(operator, a)
                    return _keyed(left.function, key), _keyed(right.function, key)
        if left.kind in ("date", "datetime") and right.kind == "constant text":
            text = _temporal_constant(left.kind, str(right.constant))
            if left.kind == "date" and len(text) > 10:
                return (lambda row: _full_datetime(left.function(row))), lambda row: text
            return left.function, lambda row: text
        if left.kind == right.kind and left.kind in ("date", "datetime"):
            return left.function, right.function
        raise InexactError(f"{_named(left)} compared with {_named(right)}")

    def _text_key(self, operator: Comparison, column: Column) -> Callable[[bytes], bytes]:
        """What stands for a text in a comparison under the column's collation."""
        if column.charset is None or column.charset == "binary":
            return bytes
        collation = column.collation or ""
        charset = _charset(column)
        if charset not in _ASCII_COMPATIBLE:
            raise InexactError(f"column `{column.name}` of character set {column.charset}")
        pad = _NO_PAD.search(collation) is None
        if collation.endswith("_bin"):
            if pad and operator not in ("=", "<>", "<=>"):
                raise InexactError(f"an order of texts under {collation}, which pads with blanks")
            return (lambda text: text.rstrip(b" ")) if pad else bytes
        if operator not in ("=", "<>", "<=>"):
            raise InexactError(f"an order of texts under {collation or 'an unknown collation'}")
        fold = self._fold
        if fold is not None:
            return lambda text: fold(text, column)
        if PLAIN_COLLATION.fullmatch(collation) is None:
            raise InexactError(f"column `{column.name}` of collation {collation or 'unknown'}")
        case_sensitive = collation.endswith("_cs")

        def key(text: bytes) -> bytes:
            # Printable ASCII differs from itself only by case in every _ci collation; control characters and
            # anything beyond may be ignorable or equal to a letter.
            if not text.isascii() or any(byte < 0x20 or byte == 0x7F for byte in text):
                raise InexactError(f"a text beyond printable ASCII in column `{column.name}` under {collation}")
            text = text.rstrip(b" ") if pad else text
            return text if case_sensitive else text.lower()

        return key

    def _in(self, operand: Compiled, items: list[Compiled]) -> Compiled:
        kinds = {item.kind for item in items} - {"null"}
        if "float" in kinds | {operand.kind} and len(kinds | {operand.kind}) > 1:
            raise InexactError("IN over floats and exact numbers")
        equals = [self._compared("=", operand, item).function for item in items]

        def result(row: Row) -> Result:
            unknown = False
            for equal in equals:
                value = equal(row)
                if value == 1:
                    return 1
                unknown = unknown or value is None
            return None if unknown else 0

        return Compiled("integer", result)

    def _like(self, operand: Compiled, pattern: str) -> Compiled:
        column = operand.column
        if operand.kind != "text" or column is None or column.base == "enum" or column.charset in (None, "binary"):
            raise InexactError(f"{_named(operand)} LIKE a text")
        collation = column.collation or ""
        binary = collation.endswith("_bin")
        if _charset(column) not in _ASCII_COMPATIBLE or not (binary or PLAIN_COLLATION.fullmatch(collation)):
            raise InexactError(f"column `{column.name}` of collation {collation or 'unknown'}")
        utf8 = _charset(column) in _UTF8
        if not pattern.isascii() and not (binary and utf8):
            raise InexactError(f"a pattern beyond ASCII under {collation}")
        translated = "".join({"%": ".*", "_": "."}.get(character, re.escape(character)) for character in pattern)
        flags = re.DOTALL | (re.IGNORECASE if collation.endswith("_ci") else 0)
        match = re.compile(translated, flags).fullmatch
        function = operand.function

        def result(row: Row) -> Result:
            value = function(row)
            if value is None:
                return None
            assert isinstance(value, bytes)
            if binary and utf8:
                return int(match(value.decode("utf-8", "surrogateescape")) is not None)
            if not value.isascii() or any(byte < 0x20 or byte == 0x7F for byte in value):
                raise InexactError(f"a text beyond printable ASCII in column `{column.name}` under {collation}")
            return int(match(value.decode("ascii")) is not None)

        return Compiled("integer", result)


def _charset(column: Column) -> str:
    return "utf8mb4" if column.base == "enum" else (column.charset or "")


def _constant(value: int | Decimal | float | str | None) -> Compiled:
    kind: Kind
    match value:
        case None:
            kind = "null"
        case bool() | int():
            kind = "integer"
        case Decimal():
            kind = "decimal"
        case float():
            kind = "float"
        case str():
            kind = "constant text"
    return Compiled(kind, lambda row: value, constant=value)


def _not(operand: Compiled) -> Compiled:
    truth = _truth(operand)

    def result(row: Row) -> Result:
        value = truth(row)
        return None if value is None else int(value == 0)

    return Compiled("integer", result)


def _connected(operator: Logical, left: Compiled, right: Compiled) -> Compiled:
    first, second = _truth(left), _truth(right)

    def conjunction(row: Row) -> Result:
        a = first(row)
        if a == 0:
            return 0
        b = second(row)
        return 0 if b == 0 else (1 if a == 1 and b == 1 else None)

    def disjunction(row: Row) -> Result:
        a = first(row)
        if a == 1:
            return 1
        b = second(row)
        return 1 if b == 1 else (0 if a == 0 and b == 0 else None)

    def exclusive(row: Row) -> Result:
        a, b = first(row), second(row)
        return None if a is None or b is None else int(a != b)

    functions: dict[Logical, Function] = {"and": conjunction, "or": disjunction, "xor": exclusive}
    return Compiled("integer", functions[operator])


def _computed(operator: Arithmetic, left: Compiled, right: Compiled, *, negation: bool = False) -> Compiled:
    kinds = {left.kind, right.kind}
    if "null" in kinds and kinds <= {"null", *_NUMBERS}:
        return _constant(None)
    if not kinds <= set(_NUMBERS):
        raise InexactError(f"{_named(left)} {operator} {_named(right)}")
    if "float" in kinds:
        # Only what IEEE 754 defines to the last bit; DIV and % on floats differ between servers.
        if operator not in ("+", "-", "*"):
            raise InexactError(f"{operator.upper()} on floats")
        first, second = _as_float(left), _as_float(right)
        return Compiled("float", _arithmetic(operator, first, second, integers=False, unsigned=False))
    if operator == "%" and "decimal" in kinds:
        raise InexactError("% on decimals")  # -7 % 0.001 is a negative zero that the servers compare inconsistently
    integers = kinds == {"integer"} or operator == "div"
    unsigned = not negation and kinds == {"integer"} and (left.unsigned or right.unsigned)
    function = _arithmetic(operator, left.function, right.function, integers=integers, unsigned=unsigned)
    return Compiled("integer" if integers else "decimal", function, unsigned=unsigned)


def _arithmetic(operator: Arithmetic, left: Function, right: Function, *, integers: bool, unsigned: bool) -> Function:
    def result(row: Row) -> Result:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        if operator in ("%", "div") and b == 0:
            return None
        value = _apply(operator, a, b)
        if integers and isinstance(value, int):
            low, high = (0, (1 << 64) - 1) if unsigned else (_SIGNED_LOW, _SIGNED_HIGH)
            if not low <= value <= high:
                raise InexactError("a result outside of BIGINT")
        if isinstance(value, Decimal) and (len(value.as_tuple().digits) > 65 or -int(value.as_tuple().exponent) > 30):
            raise InexactError("a result outside of DECIMAL")
        if isinstance(value, float) and value - value != 0:
            raise InexactError("a result outside of DOUBLE")
        return value

    return result


def _apply(operator: Arithmetic, a: Result, b: Result) -> int | float | Decimal:
    if isinstance(a, float) and isinstance(b, float):
        return {"+": a + b, "-": a - b, "*": a * b}[operator]
    if isinstance(a, int) and isinstance(b, int):
        if operator in ("%", "div"):
            quotient, rest = divmod(abs(a), abs(b))
            if operator == "div":
                return quotient if (a < 0) == (b < 0) else -quotient
            return -rest if a < 0 else rest
        return {"+": a + b, "-": a - b, "*": a * b}[operator]
    assert isinstance(a, int | Decimal)
    assert isinstance(b, int | Decimal)
    with localcontext(prec=200):
        first, second = Decimal(a), Decimal(b)
        match operator:
            case "+":
                return first + second
            case "-":
                return first - second
            case "*":
                return first * second
            case "div":
                return int(first // second)
            case "%":
                raise InexactError("% on decimals")


def _as_float(compiled: Compiled) -> Function:
    function = compiled.function

    def result(row: Row) -> Result:
        value = function(row)
        return None if value is None else float(value)

    return result


def _keyed(function: Function, key: Callable[[bytes], bytes]) -> Function:
    def result(row: Row) -> Result:
        value = function(row)
        return key(value) if isinstance(value, bytes) else None

    return result


def _full_datetime(value: Result) -> Result:
    """The one form in which dates and datetimes compare as texts: with all six decimals."""
    if value is None:
        return None
    text = str(value)
    if len(text) == 10:
        text += " 00:00:00"
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction:0<6}"


def _temporal_constant(kind: Kind, text: str) -> str:
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise InexactError(f"a {kind} compared with a text that is not one, or not in the form YYYY-MM-DD hh:mm:ss")
    if kind == "date" and _DATE.fullmatch(text):
        return text
    return str(_full_datetime(match[1] + (f" {match[2]}" if match[2] else "") + (f".{match[3]}" if match[3] else "")))


def _named(compiled: Compiled) -> str:
    return f"column `{compiled.column.name}` ({compiled.column.base})" if compiled.column else f"a {compiled.kind}"


_MIRRORED: dict[Comparison, Comparison] = {
    "=": "=",
    "<=>": "<=>",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}
_COMPARISONS: dict[Comparison, Callable[[Any, Any], bool]] = {
    "=": operator_module.eq,
    "<=>": operator_module.eq,
    "<>": operator_module.ne,
    "<": operator_module.lt,
    "<=": operator_module.le,
    ">": operator_module.gt,
    ">=": operator_module.ge,
}
