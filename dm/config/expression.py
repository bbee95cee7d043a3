"""The expression filter: which rows to skip, in SQL.

sqlglot reads the text; what comes out is a small tree of our own, holding only what can be computed here with exactly
the server's result. Everything else (functions, casts, `/`, `REGEXP`, backslashes in texts) is left to a server
(`dm.config.server_expression`), and what neither can do is refused by name when the file is read. What depends on
column types is decided when the table is known, in `dm.rules.row_filter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from dm.config.document import YamlMap
from dm.config.scalar import Text, checked, wrong
from dm.config.section import Issue, LoadContext, NamedRule
from dm.config.server_expression import ExpressionError, ServerExpression, one_expression, read_server_expression

if TYPE_CHECKING:
    from sqlglot.expressions import Expression

Comparison = Literal["=", "<=>", "<>", "<", "<=", ">", ">="]
Arithmetic = Literal["+", "-", "*", "%", "div"]
Logical = Literal["and", "or", "xor"]


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of the table."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: NULL, a number (exact, or a float where written with an exponent), or a text."""

    value: int | Decimal | float | str | None


@dataclass(frozen=True, slots=True)
class Not:
    """Logical negation."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Negative:
    """Arithmetic negation."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Connected:
    """AND, OR, XOR."""

    operator: Logical
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison."""

    operator: Comparison
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Computed:
    """An arithmetic operation."""

    operator: Arithmetic
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    """`x IS NULL`."""

    operand: Node


@dataclass(frozen=True, slots=True)
class IsTruth:
    """`x IS TRUE`, `x IS FALSE`."""

    operand: Node
    wanted: bool


@dataclass(frozen=True, slots=True)
class In:
    """`x IN (...)`."""

    operand: Node
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`x LIKE 'pattern'`; the pattern is a constant without backslashes."""

    operand: Node
    pattern: str


Node = ColumnRef | Constant | Not | Negative | Connected | Compared | Computed | IsNull | IsTruth | In | Like


@lru_cache(maxsize=1024)
def parse_expression(text: str) -> Node:
    """Read an expression that is computed here; raises ExpressionError."""
    if "\\" in text:
        raise ExpressionError("a backslash: its meaning depends on the session")
    try:
        return _node(one_expression(text))
    except RecursionError:
        raise ExpressionError("it is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class ParsedExpression:
    """An expression in both of its readings; at least one is there."""

    here: Node | None
    why_not_here: str
    server: ServerExpression | None
    why_not_server: str

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns that it surely refers to, in lower case."""
        if self.here is not None:
            return frozenset(name.lower() for name in columns_of(self.here))
        return self.server.columns if self.server is not None else frozenset()


@lru_cache(maxsize=1024)
def read_expression(text: str) -> ParsedExpression:
    """What is computed here, and what a server is asked; raises ExpressionError where it can be neither."""
    here: Node | None = None
    server: ServerExpression | None = None
    why_not_here = why_not_server = ""
    try:
        here = parse_expression(text)
    except ExpressionError as error:
        why_not_here = str(error)
    try:
        server = read_server_expression(text)
    except ExpressionError as error:
        why_not_server = str(error)
    if here is None and server is None:
        raise ExpressionError(why_not_server)
    return ParsedExpression(here, why_not_here, server, why_not_server)


# Everything of a tree must be understood: sqlglot keeps much in arguments (`negate` of LIKE, `symmetric` of BETWEEN).
_ARGUMENTS = {
    "Between": {"this", "low", "high"},
    "In": {"this", "expressions"},
    "Like": {"this", "expression", "negate"},
    "Literal": {"this", "is_string"},
    "Not": {"this"},
    "Neg": {"this"},
    "Paren": {"this"},
    "Column": {"this"},
    "Boolean": {"this"},
    "Null": set[str](),
}
_COMPARING = {"EQ", "NullSafeEQ", "NEQ", "LT", "LTE", "GT", "GTE", "Is", "In", "Between", "Like"}
_MIXED = {"Xor": {"And", "Or"}, "And": {"Xor"}, "Or": {"Xor"}}


def _node(tree: Expression) -> Node:
    from sqlglot import exp

    name = type(tree).__name__
    reader = _readers().get(name)
    if reader is None:
        raise ExpressionError(f"{tree.key.upper()} is not supported: {_shown(tree)}")
    given = {argument for argument, value in tree.args.items() if value not in (None, False, [])}
    if not given <= _ARGUMENTS.get(name, {"this", "expression"}):
        raise ExpressionError(f"this form of {tree.key.upper()} is not supported: {_shown(tree)}")
    # Operators of one rank bind in another order in sqlglot than in the server (`a = b IS NULL`): parentheses decide.
    for operand in (tree.args.get("this"), tree.args.get("expression")):
        kind = type(operand).__name__
        negated = isinstance(operand, exp.Not) and type(operand.this).__name__ in _COMPARING
        if (name in _COMPARING and (kind in _COMPARING or negated)) or kind in _MIXED.get(name, set()):
            raise ExpressionError(f"operators of one rank without parentheses: {_shown(tree)}")
    return reader(tree)


def _shown(tree: Expression) -> str:
    return tree.sql(dialect="mysql")[:60]


@lru_cache(maxsize=1)
def _readers() -> dict[str, Callable[[Any], Node]]:
    comparisons: dict[str, Comparison] = {
        "EQ": "=", "NullSafeEQ": "<=>", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=",
    }  # fmt: skip
    arithmetic: dict[str, Arithmetic] = {"Add": "+", "Sub": "-", "Mul": "*", "Mod": "%", "IntDiv": "div"}
    logical: dict[str, Logical] = {"And": "and", "Or": "or", "Xor": "xor"}
    readers: dict[str, Callable[[Any], Node]] = {
        "Paren": lambda tree: _node(tree.this),
        "Column": _column,
        "Literal": _literal,
        "Null": lambda tree: Constant(None),
        "Boolean": lambda tree: Constant(int(tree.this)),
        "Not": lambda tree: Not(_node(tree.this)),
        "Neg": lambda tree: Negative(_node(tree.this)),
        "Is": _is,
        "In": _in,
        "Between": _between,
        "Like": _like,
    }
    for name, comparison in comparisons.items():
        readers[name] = _binary(Compared, comparison)
    for name, operation in arithmetic.items():
        readers[name] = _binary(Computed, operation)
    for name, connective in logical.items():
        readers[name] = _binary(Connected, connective)
    return readers


def _binary(node: Callable[[Any, Node, Node], Node], operator: str) -> Callable[[Any], Node]:
    return lambda tree: node(operator, _node(tree.left), _node(tree.right))


def _column(tree: Any) -> Node:
    if tree.args.get("table") is not None or type(tree.this).__name__ != "Identifier":
        raise ExpressionError(f"a column is named without its table: {_shown(tree)}")
    return ColumnRef(tree.name)


def _literal(tree: Any) -> Node:
    if tree.is_string:
        return Constant(str(tree.this))
    text = str(tree.this)
    if "e" in text.lower():
        return Constant(float(text))
    return Constant(Decimal(text) if "." in text else int(text))


def _is(tree: Any) -> Node:
    kind = type(tree.expression).__name__
    if kind == "Boolean":
        return IsTruth(_node(tree.this), bool(tree.expression.this))
    if kind != "Null":
        raise ExpressionError(f"IS is supported with NULL, TRUE and FALSE only: {_shown(tree)}")
    return IsNull(_node(tree.this))


def _in(tree: Any) -> Node:
    if not tree.expressions:
        raise ExpressionError("IN is supported with a list of values only")
    return In(_node(tree.this), tuple(_node(item) for item in tree.expressions))


def _between(tree: Any) -> Node:
    operand = _node(tree.this)
    low, high = _node(tree.args["low"]), _node(tree.args["high"])
    return Connected("and", Compared(">=", operand, low), Compared("<=", operand, high))


def _like(tree: Any) -> Node:
    pattern = _node(tree.expression)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise ExpressionError("LIKE is supported with a constant text only")
    like = Like(_node(tree.this), pattern.value)
    return Not(like) if tree.args.get("negate") else like


def columns_of(node: Node) -> frozenset[str]:
    """Names of the columns an expression refers to."""
    return frozenset(_columns(node))


def _columns(node: Node) -> Iterator[str]:
    match node:
        case ColumnRef(name):
            yield name
        case Constant():
            return
        case Not(operand) | Negative(operand) | IsNull(operand) | IsTruth(operand, _) | Like(operand, _):
            yield from _columns(operand)
        case In(operand, items):
            yield from _columns(operand)
            for item in items:
                yield from _columns(item)
        case Connected(_, left, right) | Compared(_, left, right) | Computed(_, left, right):
            yield from _columns(left)
            yield from _columns(right)


def _check(text: str) -> None:
    if not text.strip():
        return
    try:
        read_expression(text)
    except ExpressionError as error:
        expected = "columns, constants, operators, and functions whose result the row and the event's time decide"
        raise wrong("config-expression-grammar", expected, why=str(error)) from None


ExpressionText = Annotated[str, checked(_check)]


class ExpressionFilter(NamedRule):
    """Rows of one table that are skipped: those for which an expression is true."""

    # `schema` is also the name of a method of pydantic's models, hence the field's other name.
    schema_name: Text = ""
    table: Text = ""
    insert_value_expr: ExpressionText = ""
    update_old_value_expr: ExpressionText = ""
    update_new_value_expr: ExpressionText = ""
    delete_value_expr: ExpressionText = ""
    places: dict[str, str] = Field(default_factory=dict)  # file and line of each expression; not a key of the file

    @classmethod
    def file_keys(cls) -> list[str]:
        """Without the places."""
        return [key for key in super().file_keys() if key != "places"]

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Keep where the expressions stand: the target may refuse one later."""
        file = context.report.file
        data["places"] = {key: f"{file}:{data.mark_of(key).line}" for key in data if key.endswith("-expr")}

    def place_of(self, key: str) -> str:
        """File and line of an expression."""
        return self.places.get(key, f"`{key}`")

    @property
    def expressions(self) -> tuple[tuple[str, str], ...]:
        """The expressions that are given, each after its key."""
        given = {
            "insert-value-expr": self.insert_value_expr,
            "delete-value-expr": self.delete_value_expr,
            "update-old-value-expr": self.update_old_value_expr,
            "update-new-value-expr": self.update_new_value_expr,
        }
        return tuple((key, text) for key, text in given.items() if text.strip())

    def check(self) -> Iterator[Issue]:
        """A table, and one kind of change."""
        for key, value in (("schema", self.schema_name), ("table", self.table)):
            if not value:
                yield Issue("config-expression-name", key, details={"key": key})
        update = self.update_old_value_expr or self.update_new_value_expr
        kinds = sum(bool(expression.strip()) for expression in (self.insert_value_expr, update, self.delete_value_expr))
        if kinds > 1:
            yield Issue("config-expression-kinds", "", suggestion="write one filter for each kind of change")
        elif not kinds:
            why = "no expression is given"
            expected = (
                "one of `insert-value-expr`, `update-old-value-expr`, `update-new-value-expr`, `delete-value-expr`"
            )
            yield Issue("config-expression-grammar", "", expected, details={"why": why})
