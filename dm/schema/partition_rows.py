"""Whether a name of a partition means the same rows in two tables.

A statement that takes a partition's rows away (DROP, TRUNCATE, EXCHANGE PARTITION) names no rows. Where the target's
table has those of several shards, one statement is executed for all, and it must take from the target the rows that
each shard lost by it: so every shard's partition has to be the target's.

That is a proof or a refusal. The rule that finds a row's partition must have the same text. Of a RANGE a partition ends
before its value and begins at the one of the partition before; a LIST's has its own values, and DEFAULT has what all
others leave; a HASH's or KEY's depends on their number. Values are one where their texts are, or where both are whole
numbers and equal: a statement has `TO_DAYS('2026-01-01')`, and the server prints 740257 of it. The target computes
that, of functions which depend on nothing but their arguments. UNIX_TIMESTAMP depends on the session's time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from dm.decimal_text import is_decimal
from dm.schema.partition import Listed, Partitions
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.sql.token import Token, tokenize

Number = Callable[[str], int | None]
"""The whole number that the target computes of an expression without names; None if it is another value."""

_PLAIN: Final = SourceContext("mysql", 0, "")  # as the normal form is written
# Of those that a partition's value may have (Reference Manual, "Partitioning Limitations Relating to Functions").
_CONSTANT: Final = frozenset(
    {"ABS", "CEILING", "DATEDIFF", "DAY", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DIV", "FLOOR", "HOUR", "MICROSECOND",
     "MINUTE", "MOD", "MONTH", "QUARTER", "SECOND", "TIME_TO_SEC", "TO_DAYS", "TO_SECONDS", "WEEKDAY", "YEAR"},
)  # fmt: skip


def differing_rows(own: TableSchema, target: TableSchema, names: Iterable[str], number: Number) -> str:
    """Why partitions of these names may have other rows in the target's table; empty where they have the same.

    One that the target does not have is no reason: the server refuses it, or it is gone already.
    """
    here, there = Partitions.of(own), Partitions.of(target)
    for name in names:
        if _place(there, name) is not None and (why := _Compared(here, there, number).differing(name)):
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
