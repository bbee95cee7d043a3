"""Arithmetic and logic with the server's result for every value, or none.

Integers and decimals are exact and leave their range with an error, as the server's do. Of floats there is what IEEE
754 defines to the last bit: DIV and % of floats differ between servers. % on decimals is left out, since -7 % 0.001 is
a negative zero that the servers compare inconsistently.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

from dm.config.expression import Arithmetic, Logical
from dm.mysql.binlog.value import Row
from dm.rules.compiled import NUMBERS, Compiled, Function, InexactError, Kind, Result

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
