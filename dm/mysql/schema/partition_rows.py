"""Whether a partition's name means the same rows in two tables.

A statement that removes a partition's rows (DROP, TRUNCATE, EXCHANGE PARTITION) names no rows. If the target's table
holds the rows of several shards, the statement is executed once for all of them, and must remove from the target
exactly the rows that each shard lost. So every shard's partition has to be the target's.

In a merge this is proved, or the statement is refused. The rule that finds a row's partition must have the same text. A
RANGE partition begins where the one before it ends, and ends before its value; a LIST partition has its own values, and
DEFAULT has what all others leave; a HASH or KEY partition depends on their number. Values are equal if their texts are,
or if both are whole numbers and equal: a statement has `TO_DAYS('2026-01-01')`, and the server prints 740257 for it.
The target computes such values if the functions depend on nothing but their arguments. UNIX_TIMESTAMP depends on the
session's time zone.

A table that is not merged may have been made at the target by hand. There only values that are surely different make a
difference, not those that can't be compared: a rotation by UNIX_TIMESTAMP would never go on.

Whatever the values say, a server also places rows differently if it finds the partition by another method, has another
number of HASH or KEY partitions, or compares the column differently: KEY hashes the bytes of numbers, and texts by
their collation; RANGE COLUMNS and LIST COLUMNS order texts by it. Collations that stand for each other in the two
flavours hash differently; all other types were tried and are placed alike. A TiDB accepts LINEAR and places without it,
and it has a hash of its own for KEY (TiDB's manual, "How TiDB handles Linear Key partitions").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from dm.mysql.dialect import Dialect
from dm.mysql.schema.partition import Listed, Partitions
from dm.mysql.schema.table import Column, TableSchema, same_type
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Token, tokenize
from dm.text import is_decimal

Number = Callable[[str], int | None]
"""The whole number that the target computes of an expression without names; None if it is another value."""

_PLAIN: Final = SourceContext("mysql", 0, "")  # as the normal form is written
# Of those that a partition's value may have (Reference Manual, "Partitioning Limitations Relating to Functions").
_CONSTANT: Final = frozenset(
    {"ABS", "CEILING", "DATEDIFF", "DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DIV", "FLOOR", "HOUR", "MICROSECOND",
     "MINUTE", "MOD", "MONTH", "QUARTER", "SECOND", "TIME_TO_SEC", "TO_DAYS", "TO_SECONDS", "WEEKDAY", "YEAR"},
)  # fmt: skip

_WORDS: Final = ("MAXVALUE", "NULL", "DEFAULT")  # values that are no expressions


def differing_rows(own: TableSchema, target: TableSchema, names: Iterable[str], number: Number) -> str:
    """Why partitions of these names may have other rows in the target's table; empty where they have the same.

    One that the target does not have is no reason: the server refuses it, or it is gone already.
    """
    here, there = Partitions.of(own), Partitions.of(target)
    for name in names:
        if _place(there, name) is not None and (why := _Compared(here, there, number).differing(name)):
            return why
    return ""


def other_values(source: TableSchema, target: TableSchema, names: Iterable[str], number: Number) -> str:
    """Why partitions of a RANGE or LIST of these names surely have other rows in the target's table; else empty."""
    here, there = Partitions.of(source), Partitions.of(target)
    compared = _Compared(here, there, number)
    if not here.rule or not there.rule:
        return ""
    for name in names:
        mine, theirs = _place(here, name), _place(there, name)
        if mine is not None and theirs is not None and (why := compared.surely_differing(mine, theirs)):
            return why
    return ""


def _place(partitions: Partitions, name: str) -> int | None:
    names = [each.lower() for each in partitions.names]
    return names.index(name.lower()) if name.lower() in names else None


class _Compared:
    def __init__(self, own: Partitions, target: Partitions, number: Number) -> None:
        self._own = own
        self._target = target
        self._number = number

    def differing(self, name: str) -> str:
        own, target = self._own, self._target
        mine, theirs = _place(own, name), _place(target, name)
        assert theirs is not None
        if mine is None:
            return f"the shard is not known to have partition {name}"
        if not own.rule or not target.rule:
            return f"what partition {name} has is not known"
        if own.rule != target.rule or "system_time" in own.rule.split(" "):
            return f"partitions by {own.rule} in the shard, by {target.rule} at the target"
        kinds = {values[:1] for _, values in (*own.listed, *target.listed)}
        whole = kinds == {()} or any(values == ("in", "default") for _, values in target.listed)
        pairs = [(own.listed[mine], target.listed[theirs])]
        if whole:
            if len(own.listed) != len(target.listed):
                return f"{len(own.listed)} partitions in the shard, {len(target.listed)} at the target"
            pairs = list(zip(own.listed, target.listed, strict=True))
        elif kinds == {("<",)} and not self._same(_bound(own, mine), _bound(target, theirs)):
            begins = f"{_shown(own, mine)} in the shard, {_shown(target, theirs)} at the target"
            return f"partition {name} begins at {begins}"
        for one, other in pairs:
            if one[0].lower() != other[0].lower() or not self._same(one[1], other[1]):
                return f"{_text(one)} in the shard, {_text(other)} at the target"
        return ""

    def surely_differing(self, mine: int, theirs: int) -> str:
        """Why two partitions of the same method have other rows for certain."""
        own, target = self._own, self._target
        one, other = own.listed[mine], target.listed[theirs]
        if self._others(one[1], other[1]):
            return f"{_text(one)} at the source, {_text(other)} at the target"
        if one[1][:1] == ("<",) and self._others(_bound(own, mine), _bound(target, theirs)):
            begins = f"{_shown(own, mine)} at the source, {_shown(target, theirs)} at the target"
            return f"partition {one[0]} begins at {begins}"
        return ""

    def _others(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Whether values are others, and each of both is known."""
        ours, theirs = ([self._told(text) for text in each[1:]] for each in (one, other))
        if None in ours or None in theirs:
            return False
        return {*ours} != {*theirs} if one[:1] == ("in",) else ours != theirs

    def _told(self, text: str) -> int | str | None:
        """What tells one value from another; None where it can't be told. A moment may be written in several ways."""
        value = self._value(text)
        if isinstance(value, int) or text.upper() in _WORDS:
            return value
        if [token.kind for token in _tokens(text)] != ["string"]:
            return None
        seconds = self._number(f"TO_SECONDS({text})")
        return text if seconds is None else f"second {seconds}"

    def _same(self, one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        if one == other:
            return True
        if one[:1] != other[:1]:
            return False
        if one[:1] == ("in",):
            return {*map(self._value, one[1:])} == {*map(self._value, other[1:])}
        return [*map(self._value, one[1:])] == [*map(self._value, other[1:])]

    def _value(self, text: str) -> int | str:
        """The number that a text surely is, else the text."""
        if is_decimal(text):
            return int(text)
        if not all(token.upper in _CONSTANT or token.kind in ("number", "string", "symbol") for token in _tokens(text)):
            return text
        if all(token.kind == "string" for token in _tokens(text)):
            return text
        found = self._number(text)
        return text if found is None else found


def _tokens(text: str) -> tuple[Token, ...]:
    return tokenize(text, _PLAIN)


def _bound(partitions: Partitions, place: int) -> tuple[str, ...]:
    """Where a RANGE's partition begins."""
    return partitions.listed[place - 1][1] if place else ()


def _shown(partitions: Partitions, place: int) -> str:
    return ", ".join(_bound(partitions, place)[1:]) or "the smallest value"


def _text(listed: Listed) -> str:
    name, values = listed
    words = {"<": "VALUES LESS THAN", "in": "VALUES IN"}
    return f"PARTITION {name} {words[values[0]]} ({', '.join(values[1:])})" if values else f"PARTITION {name}"


def placed_otherwise(source: TableSchema | None, target: TableSchema, *, other: bool, server: Dialect) -> str:
    """Why the two tables may place rows otherwise, apart from values of a RANGE or LIST; empty if they do not.

    `source` is None where its table is not known; `other`: the target is of the other flavour.
    """
    rule = "" if source is None else Partitions.of(source).rule
    method = _method(Partitions.of(target).rule)
    hashed = "hash" in method or "key" in method
    if server.hashes_keys_otherwise and "key" in method:
        return "a TiDB has a hash of its own for PARTITION BY KEY"
    if source is None or not rule:
        unknown = (server.hashes_keys_otherwise and hashed) or (other and any(map(_by_others_rules, _columns(target))))
        return "the source's are not known" if unknown else ""
    if _method(rule) != method:
        return f"by {_method(rule).upper()} at the source, by {method.upper()} at the target"
    if hashed and len(source.partitions) != len(target.partitions):
        return f"{len(source.partitions)} at the source, {len(target.partitions)} at the target"
    for there in _columns(target):
        column = source.column(there.name)
        alike = column is not None and _alike(column, there, whole="key" in method)
        if not alike or (other and there.generated is not None):
            return f"column {there.name} is not the same at the target"
    return ""


def _columns(table: TableSchema) -> list[Column]:
    """The columns by which rows are placed: for a KEY without any, those of the primary key."""
    words = Partitions.of(table).rule.partition("(")[2]
    primary = next((index for index in table.indexes if index.kind == "primary"), None)
    if words == ")" and primary is not None:
        words = " ".join(primary.columns).lower()
    return [each for each in table.columns if re.search(rf"(?<!\w){re.escape(each.name.lower())}(?!\w)", words)]


def _method(rule: str) -> str:
    """The words before the expression: `linear key`, `range columns`."""
    return rule.partition("(")[0].strip().replace(" algorithm = 2", "")


def _by_others_rules(column: Column) -> bool:
    return column.collation is not None or column.generated is not None


def _alike(one: Column, other: Column, *, whole: bool) -> bool:
    """Whether values of both are placed alike; `whole`: by their bytes, not only by their order."""
    same = one.collation == other.collation and one.members == other.members
    return same and (same_type(one, other) or not whole)
