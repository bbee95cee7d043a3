"""Compiling an expression against a table: to a function of a row, with the server's result or none.

Each node gets a kind from the columns' types, and every operation is allowed only for the kinds where its result here
is the server's for every value: exact numbers with exact numbers, floats as doubles, moments with constants that are
written out, texts by their collation. Anything else raises, naming what it was: a filter never guesses.

A compiled node returns None for NULL, 0 or 1 for conditions (three-valued logic), else the value.

Arithmetic and logic with the server's result for every value, or none.

Integers and decimals are exact and leave their range with an error, as the server's do. Of floats there is what IEEE
754 defines to the last bit: DIV and % of floats differ between servers. % on decimals is left out, since -7 % 0.001 is
a negative zero that the servers compare inconsistently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import Final

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
    IsTruth,
    Like,
    Logical,
    Negative,
    Node,
    Not,
    columns_of,
)
from dm.mysql.binlog.value import Absent, Row
from dm.mysql.schema.table import Column
from dm.rules.comparisons import (
    COMPARISONS,
    TextOracle,
    full_datetime,
    like_judge,
    microseconds,
    temporal_constant,
    text_judge,
)
from dm.rules.node import NUMBERS, Compiled, Function, InexactError, Kind, Result, UnknownColumnError

_TEMPORAL: Final = ("date", "time", "datetime", "timestamp")
# What is made of a column's value, where that is not yet what is compared.
_MADE: Final[dict[str, Callable[[Result], Result]]] = {
    "decimal": lambda value: None if value is None else Decimal(str(value)),
    "datetime": full_datetime,
    "timestamp": full_datetime,
    "time": microseconds,
}
_YEARS = range(1901, 2156)  # what a YEAR holds besides 0; a smaller constant would be read as a year of two digits
_MIRRORED: dict[Comparison, Comparison] = {
    "=": "=",
    "<=>": "<=>",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def compile_condition(
    node: Node, columns: Sequence[Column], oracle: TextOracle | None = None, zone: str = ""
) -> Callable[[Row], bool]:
    """A function that tells whether the expression is true for a row: not 0 and not NULL.

    `oracle` answers for texts where only a server knows; `zone` is the time zone of constants that name none.
    """
    condition = truth(_Compiler(columns, oracle, zone).node(node))
    return lambda row: condition(row) == 1


class _Compiler:
    def __init__(self, columns: Sequence[Column], oracle: TextOracle | None, zone: str) -> None:
        self._columns = {column.name.lower(): (index, column) for index, column in enumerate(columns)}
        self._oracle = oracle
        self._zone = zone

    def node(self, node: Node) -> Compiled:
        match node:
            case ColumnRef(name):
                return self._column(name)
            case Constant(value):
                return constant(value)
            case Not(operand):
                return negated(self.node(operand))
            case Negative(operand):
                return computed("-", constant(0), self.node(operand), negation=True)
            case Connected(operator, left, right):
                return connected(operator, self.node(left), self.node(right))
            case Compared(operator, left, right):
                return self._compared(operator, self.node(left), self.node(right))
            case Computed(operator, left, right):
                return computed(operator, self.node(left), self.node(right))
            case IsNull(operand):
                function = self.node(operand).function
                return Compiled("integer", lambda row: int(function(row) is None))
            case IsTruth(operand, wanted):
                return is_truth(self.node(operand), wanted=wanted)
            case In(operand, items):
                fixed = not any(map(columns_of, items))
                return self._in(self.node(operand), [self.node(item) for item in items], fixed=fixed)
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

        of = column.type
        if of.operand == "text" and of.is_enum:
            members = ["", *column.members]

            def member(row: Row) -> Result:
                found = plain(row)
                return members[found].encode() if isinstance(found, int) else None

            return Compiled("text", member, column)
        made = _MADE.get(of.operand)
        function = plain if made is None else lambda row: made(plain(row))
        unsigned = of.operand == "integer" and (column.unsigned or of.is_bits)
        return Compiled(of.operand, function, column, unsigned=unsigned)

    def _compared(self, operator: Comparison, left: Compiled, right: Compiled) -> Compiled:
        if left.kind == "constant text" and right.kind not in ("constant text", "null"):
            return self._compared(_MIRRORED[operator], right, left)
        if left.kind == "text" and right.kind != "null":
            return self._texts_compared(operator, left, right)
        first, second = self._comparable(left, right)
        compare = COMPARISONS[operator]
        null_safe = operator == "<=>"

        def result(row: Row) -> Result:
            a, b = first(row), second(row)
            if a is None or b is None:
                return int(a is b) if null_safe else None
            return int(compare(a, b))

        return Compiled("integer", result)

    def _texts_compared(self, operator: Comparison, left: Compiled, right: Compiled) -> Compiled:
        judge = text_judge(operator, left, right, self._oracle)
        null_safe = operator == "<=>"

        def result(row: Row) -> Result:
            a, b = left.function(row), right.function(row)
            if a is None or b is None:
                return int(a is b) if null_safe else None
            return int(judge(_encoded(a), _encoded(b)))

        return Compiled("integer", result)

    def _comparable(self, left: Compiled, right: Compiled) -> tuple[Function, Function]:
        kinds = {left.kind, right.kind}
        if "null" in kinds or kinds <= {"integer", "decimal"}:
            return left.function, right.function
        if kinds <= set(NUMBERS):
            return as_float(left), as_float(right)
        if left.kind in _TEMPORAL and right.kind == "constant text":
            text = str(right.constant)
            value = temporal_constant(left.kind, text, self._zone)
            if left.kind == "date" and isinstance(value, str) and len(value) > 10:
                return (lambda row: full_datetime(left.function(row))), lambda row: value
            return left.function, lambda row: value
        if left.kind == right.kind and left.kind in (*_TEMPORAL, "year"):
            return left.function, right.function
        if kinds == {"year", "integer"}:
            number = right if left.kind == "year" else left
            if number.column is None and number.constant in _YEARS:
                return left.function, right.function
        raise InexactError(f"{left.shown} compared with {right.shown}")

    def _in(self, operand: Compiled, items: list[Compiled], *, fixed: bool) -> Compiled:
        kinds = {item.kind for item in items} - {"null"}
        if "float" in kinds | {operand.kind} and len(kinds | {operand.kind}) > 1:
            raise InexactError("IN over floats and exact numbers")
        if {"integer", "decimal"} <= kinds | {operand.kind} and any(each.unsigned for each in (operand, *items)):
            raise InexactError("IN over decimals and unsigned integers")  # to MySQL, 2^64-1 is IN (-1, 0.1)
        # Where the list has a column MySQL compares bits: -1 is IN (u, 1) where u is 2^64-1.
        if not fixed and len(items) > 1 and any(_bits_mislead(operand, item) for item in items):
            raise InexactError("IN over signed and unsigned integers")
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
        judge = like_judge(operand, pattern, self._oracle)
        function = operand.function

        def result(row: Row) -> Result:
            value = function(row)
            return None if value is None else int(judge(_encoded(value)))

        return Compiled("integer", result)


def _bits_mislead(one: Compiled, other: Compiled) -> bool:
    """Whether one may be a negative integer whose bits are those of the other, an unsigned one."""
    if {one.kind, other.kind} != {"integer"} or one.unsigned == other.unsigned:
        return False
    signed, unsigned = (other, one) if one.unsigned else (one, other)
    negative = not isinstance(signed.constant, int) or signed.constant < 0
    narrow = unsigned.column is not None and not unsigned.column.type.fills_64_bits
    return negative and not narrow


def _encoded(value: Result) -> bytes:
    """A text as bytes: a column's value is, a constant is not."""
    return value if isinstance(value, bytes) else str(value).encode()


_SIGNED_LOW, _SIGNED_HIGH, _UNSIGNED_HIGH = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1


def constant(value: int | Decimal | float | str | None) -> Compiled:
    """A literal; an integer too large for BIGINT is unsigned, one too large for that too is a decimal."""
    kind: Kind
    unsigned = False
    if isinstance(value, int) and value > _UNSIGNED_HIGH:
        value = Decimal(value)
    match value:
        case None:
            kind = "null"
        case bool() | int():
            kind, unsigned = "integer", value > _SIGNED_HIGH
        case Decimal():
            kind = "decimal"
        case float():
            kind = "float"
        case str():
            kind = "constant text"
    return Compiled(kind, lambda row: value, constant=value, unsigned=unsigned)


def truth(operand: Compiled) -> Function:
    """The operand as a condition: 1, 0 or NULL."""
    if operand.kind not in ("null", *NUMBERS):
        raise InexactError(f"{operand.shown} as a condition")
    function = operand.function

    def result(row: Row) -> Result:
        value = function(row)
        return None if value is None else int(value != 0)

    return result


def negated(operand: Compiled) -> Compiled:
    """NOT."""
    condition = truth(operand)

    def result(row: Row) -> Result:
        value = condition(row)
        return None if value is None else int(value == 0)

    return Compiled("integer", result)


def is_truth(operand: Compiled, *, wanted: bool) -> Compiled:
    """IS TRUE or IS FALSE, which are never NULL."""
    condition = truth(operand)
    return Compiled("integer", lambda row: int(condition(row) == int(wanted)))


def connected(operator: Logical, left: Compiled, right: Compiled) -> Compiled:
    """AND, OR, XOR of three values."""
    first, second = truth(left), truth(right)

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


def computed(operator: Arithmetic, left: Compiled, right: Compiled, *, negation: bool = False) -> Compiled:
    """An arithmetic operation; `negation` is 0 - x, whose result is signed."""
    kinds = {left.kind, right.kind}
    if "null" in kinds and kinds <= {"null", *NUMBERS}:
        return constant(None)
    if not kinds <= set(NUMBERS):
        raise InexactError(f"{left.shown} {operator} {right.shown}")
    if "float" in kinds:
        if operator not in ("+", "-", "*"):
            raise InexactError(f"{operator.upper()} on floats")
        return Compiled("float", _operation(operator, as_float(left), as_float(right), integers=False, unsigned=False))
    if operator == "%" and "decimal" in kinds:
        raise InexactError("% on decimals")
    integers = kinds == {"integer"} or operator == "div"
    unsigned = not negation and kinds == {"integer"} and (left.unsigned or right.unsigned)
    function = _operation(operator, left.function, right.function, integers=integers, unsigned=unsigned)
    return Compiled("integer" if integers else "decimal", function, unsigned=unsigned)


def as_float(operand: Compiled) -> Function:
    """The operand's value as a double."""
    function = operand.function

    def result(row: Row) -> Result:
        value = function(row)
        return None if value is None else float(value)

    return result


def _operation(operator: Arithmetic, left: Function, right: Function, *, integers: bool, unsigned: bool) -> Function:
    def result(row: Row) -> Result:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        if operator in ("%", "div") and b == 0:
            return None
        value = _apply(operator, a, b)
        if integers and isinstance(value, int):
            low, high = (0, _UNSIGNED_HIGH) if unsigned else (_SIGNED_LOW, _SIGNED_HIGH)
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
