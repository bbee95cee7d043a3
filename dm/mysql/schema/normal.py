"""When two structures are the same, two DEFAULTs, two keys: differences in how servers print them do not count.

MariaDB prints `int(11)` where MySQL prints `int`; defaults are printed as strings or as numbers; names of foreign keys
are generated; each server prints expressions in its own form. An unknown character set (None) equals any.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from dm.errors import DMError
from dm.mysql.binlog.charset import max_bytes
from dm.mysql.schema.table import Column, ForeignKey, Index, TableSchema
from dm.mysql.schema.time_default import CURRENT_TIMESTAMP, digits_of
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Token, tokenize
from dm.mysql.types.temporal import INSTANT

_PLAIN: Final = SourceContext("mysql", 90700, "")
# The longest part of an index: InnoDB by row format, MyISAM, Aria (handler::max_key_part_length of both servers).
_PART_BYTES: Final = (3072, 767, 1000, 2000, 2300)
_EXPRESSION: Final = "(expression)"
_ODBC: Final = ("D", "T", "TS")
_OF_THE_MOMENT: Final = frozenset(
    {
        *CURRENT_TIMESTAMP, "SYSDATE", "CURDATE", "CURRENT_DATE", "CURTIME", "CURRENT_TIME", "UTC_DATE", "UTC_TIME",
        "UTC_TIMESTAMP", "UNIX_TIMESTAMP",
    }
)  # fmt: skip


def _tokens(text: str) -> list[Token]:
    try:
        tokens = list(tokenize(text, _PLAIN))
    except DMError:
        return []
    while len(tokens) > 2 and tokens[0].upper == "(" and tokens[-1].upper == ")":
        tokens = tokens[1:-1]  # servers drop or add parentheses around a literal
    if len(tokens) == 4 and tokens[0].text == "{" and tokens[1].upper in _ODBC:
        tokens = tokens[1:-1]  # {d '..'} is DATE '..'
    return tokens


def _now(tokens: list[Token]) -> str | None:
    digits = digits_of(tokens)
    return None if digits is None else f"current_timestamp({digits})"


def _bits(token: Token) -> int | None:
    text = token.text
    if token.kind == "literal":
        digits = text[2:-1]
        return int(digits or "0", 16 if text[0] in "xX" else 2)
    if token.kind == "number" and text[:2].lower() in ("0x", "0b"):
        return int(text, 0)
    return None


def _literal(tokens: list[Token]) -> str | None:
    """The text of a literal; None for an expression."""
    sign = ""
    if tokens and tokens[0].upper in ("-", "+"):
        sign = tokens[0].text.replace("+", "")
        tokens = tokens[1:]
    if len(tokens) == 2 and tokens[0].kind == "word" and tokens[1].kind != "symbol":
        tokens = tokens[1:]  # an introducer, or DATE '..'
    if tokens and all(token.kind == "string" for token in tokens):
        return sign + "".join(token.text for token in tokens)
    if len(tokens) == 2 and tokens[0].upper == ".":
        return f"{sign}.{tokens[1].text}"
    if len(tokens) != 1:
        return None
    token = tokens[0]
    if token.kind in ("number", "string"):
        return sign + token.text
    if token.kind == "literal":
        return token.text
    words = {"TRUE": "1", "FALSE": "0", "NULL": "NULL"}
    return words.get(token.upper)


def _default(column: Column) -> str | None:
    if column.default is None:
        return None
    tokens = _tokens(column.default)
    now = _now(tokens)
    if now is not None:
        return now
    literal = _literal(tokens)
    if literal is None:
        return _EXPRESSION
    bits = _bits(tokens[-1]) if len(tokens) in (1, 2) else None
    if bits is not None:
        if column.type.default_is_number:
            return str(bits)
        size = (bits.bit_length() + 7) // 8
        literal = bits.to_bytes(size, "big").decode("utf-8", "surrogateescape")
    return column.type.default_text(column, literal)


def constant_default(column: Column) -> str | None:
    """The column's DEFAULT where every server stores the same value for it at any time; None for any other, or none."""
    form = _default(column)
    if form is None or form in (_EXPRESSION, INSTANT) or form.startswith("current_timestamp("):
        return None
    return form


def computed_default(column: Column) -> bool:
    """Whether the column's DEFAULT is an expression: no literal, and not CURRENT_TIMESTAMP alone."""
    return _default(column) == _EXPRESSION


def of_the_moment(column: Column) -> bool:
    """Whether the column's DEFAULT asks for the time."""
    return any(token.kind == "word" and token.upper in _OF_THE_MOMENT for token in _tokens(column.default or ""))


def same_default(one: Column, other: Column) -> bool:
    """Whether two columns have the same DEFAULT clause, or both have none."""
    return _default(one) == _default(other)


def _on_update(column: Column) -> str | None:
    return None if column.on_update is None else _now(_tokens(column.on_update))


def same_column(one: Column, other: Column) -> bool:
    """Whether two columns are the same."""
    return (
        one.name.lower() == other.name.lower()
        and one.type is other.type
        and (one.type.is_integer or one.length == other.length)
        and (one.decimals or 0) == (other.decimals or 0)
        and one.unsigned == other.unsigned
        and _same_if_known(one.charset, other.charset)
        and _same_if_known(one.collation, other.collation)
        and one.members == other.members
        and one.nullable == other.nullable
        and _default(one) == _default(other)
        and _on_update(one) == _on_update(other)
        and one.auto_increment == other.auto_increment
        and one.generated == other.generated
        and one.invisible == other.invisible
    )


def _same_if_known(one: str | None, other: str | None) -> bool:
    return one is None or other is None or one.lower() == other.lower()


def _longest(index: Index, column: Column, prefix: int | None) -> bool:
    """Whether the server shortened an index part to this length: in a plain index, excess length is no error."""
    if prefix is None:
        return False
    if column.type.whole_prefix(column, prefix):
        return True
    if index.kind != "index":
        return False
    return any(prefix == limit // max_bytes(column.charset) for limit in _PART_BYTES)


def _parts(index: Index, schema: TableSchema) -> tuple[tuple[str | None, int | None, bool], ...]:
    found = []
    for part in index.parts:
        prefix = part.prefix
        column = None if part.column is None else schema.column(part.column)
        if column is not None and (prefix == column.length or _longest(index, column, prefix)):
            prefix = None  # a prefix of the full length is no prefix
        found.append((None if part.column is None else part.column.lower(), prefix, part.descending))
    return tuple(found)


def index_form(index: Index, schema: TableSchema) -> tuple[object, ...]:
    """An index without its name."""
    return (index.kind, _parts(index, schema))


def key_form(key: ForeignKey) -> tuple[object, ...]:
    """A foreign key without its name; NO ACTION is RESTRICT in InnoDB."""
    actions = tuple(action.replace("no action", "restrict") for action in (key.on_delete, key.on_update))
    columns = tuple(column.lower() for column in key.columns)
    return (columns, key.parent, tuple(column.lower() for column in key.parent_columns), actions)


def _indexes(schema: TableSchema) -> dict[str, tuple[object, ...]]:
    """Indexes by name, without those that servers create and drop for foreign keys."""
    served = {tuple(column.lower() for column in key.columns) for key in schema.foreign_keys}
    return {
        index.name.lower(): index_form(index, schema)
        for index in schema.indexes
        if index.kind != "index" or tuple(column.lower() for column in index.columns) not in served
    }


def same_structure(one: TableSchema, other: TableSchema) -> bool:
    """Whether two structures are the same, however servers print them."""
    return (
        one.name == other.name
        and len(one.columns) == len(other.columns)
        and all(same_column(left, right) for left, right in zip(one.columns, other.columns, strict=True))
        and _indexes(one) == _indexes(other)
        and Counter(map(key_form, one.foreign_keys)) == Counter(map(key_form, other.foreign_keys))
        and {check.lower() for check in one.checks} == {check.lower() for check in other.checks}
        and [name.lower() for name in one.partitions] == [name.lower() for name in other.partitions]
        and _same_if_known(one.charset, other.charset)
        and _same_if_known(one.collation, other.collation)
        and _same_if_known(one.engine, other.engine)
    )
