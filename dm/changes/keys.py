"""The keys of a change: what it may collide with at the target.

Two changes may be applied in either order, or at the same time, if they have no key in common. So a change has one key
for every unique index of the target and every image (before and after): there it removes a row, or puts one. A NULL in
an index collides with nothing. If foreign keys are checked, a child has its parents' keys as well.

If a part of a key can't be computed (a function, a generated column, a collation that no server can weigh), it counts
as one value for all rows. If a part is *unknown* in this change only, because the source logs partial row images, the
key is `WILD`. It collides with everything, because no other change knows of the gap.

A token (table and columns) precedes the values: equal values of different indexes are different keys.

**Merged tables** share what their keys leave out. If one of the tables can't promise how a part of a key folds, that
part counts as one value for all its rows, and then for the rows of every merged table: `t(u)` with a value and `t(u)`
without one are two keys, so the order of a row that leaves and another that replaces it would be lost. For the same
reason all of them leave out a part whose column one table lacks. And if one of them has no key that finds its rows, and
so uses the ordered lane, all of them use it.

Each plan adds what it lacks and avoids what others lack. Plans made before an addition are out of date: `size` shows
it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from dm.accelerator.native import shared
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.types.family import Fold, itself

Key = tuple[Hashable, ...]


@shared
class KeyValue(NamedTuple):
    """A column's place in the row, and how its value folds."""

    at: int
    fold: Fold | Literal[True] | None  # a function, unchanged (True), or one value for all rows (None)


@dataclass(frozen=True, slots=True)
class KeyFunction:
    """How one key is read from a row image; `parts` does the same for a complete image."""

    read: Callable[[Row], Key | None]
    token: str
    parts: tuple[KeyValue, ...] | None  # None: unknown in advance


WILD: Final[Key] = ("*",)
"""The key that collides with every other."""


class KeyPart:
    """One column of a key: the place of its value in the row, and its fold."""

    __slots__ = ("at", "column", "fold", "prefix")

    def __init__(self, column: str, at: int | None, fold: Fold | None, prefix: int | None = None) -> None:
        self.column = column.lower()
        self.at = at  # None: not in the row
        self.fold = fold  # None: all values count as one
        self.prefix = prefix

    @property
    def label(self) -> str:
        """The part's name in the token."""
        return self.column if self.prefix is None else f"{self.column}({self.prefix})"


def table_key(table: TableName) -> Key:
    """The key that all changes of one table share if their order must be kept."""
    return (sys.intern(str(table)),)


def key_function(table: TableName, parts: Sequence[KeyPart]) -> KeyFunction:
    """How the key over these columns of the target table is read from a row image."""
    ordered = sorted(parts, key=lambda part: part.label)
    token = sys.intern(f"{table}({','.join(part.label for part in ordered)})")
    known = [(part.at, part.fold) for part in ordered if part.at is not None]
    parts_told = tuple([KeyValue(at, True if fold is itself else fold) for at, fold in known])
    if len(known) == len(ordered) == 1:
        at, fold = known[0]
        if fold is not None:
            return KeyFunction(_single(token, at, fold), token, parts_told)
    return KeyFunction(_several(token, known), token, parts_told)


def _single(token: str, at: int, fold: Fold) -> Callable[[Row], Key | None]:
    if fold is itself:

        def plain(row: Row) -> Key | None:
            value = row[at]
            if value is None:
                return None
            return WILD if value is ABSENT else (token, value)

        return plain

    def key(row: Row) -> Key | None:
        value = row[at]
        if value is None:
            return None
        if value is ABSENT:
            return WILD
        return (token, fold(value))

    return key


def _several(token: str, known: Sequence[tuple[int, Fold | None]]) -> Callable[[Row], Key | None]:
    def key(row: Row) -> Key | None:
        parts: list[Hashable] = [token]
        wild = False
        for at, fold in known:
            value = row[at]
            if value is None:
                return None
            if value is ABSENT:
                wild = True
            elif fold is not None:
                parts.append(fold(value))
            else:
                parts.append(None)
        return WILD if wild else tuple(parts)

    return key


class Keyed(Protocol):
    """How the changes of a table are keyed: its plan."""

    @property
    def order_key(self) -> Key | None:
        """The key that all its changes share; None if they need no order."""
        ...

    @property
    def key_functions(self) -> Sequence[KeyFunction]:
        """How the other keys are read."""
        ...


class KeyedChange(Protocol):
    """The source of keys: a `RowChange`."""

    keys: tuple[Key, ...] | None

    @property
    def plan(self) -> Keyed:
        """The plan of its table."""
        ...

    @property
    def before(self) -> Row | None:
        """The row as it was."""
        ...

    @property
    def after(self) -> Row | None:
        """The row as it is."""
        ...


wild_key: Final = KeyFunction(lambda row: WILD, "*", None)
"""Of a reference whose two sides can't be compared."""


def keys_of(change: KeyedChange) -> tuple[Key, ...]:
    """Everything the change may collide with; computed once per change."""
    if change.keys is not None:
        return change.keys
    before, after, plan = change.before, change.after, change.plan
    keys: list[Key] = [] if plan.order_key is None else [plan.order_key]
    for function in plan.key_functions:
        read = function.read
        first = None if before is None else read(before)
        second = None if after is None else read(after)
        if second is WILD and before is not None and after is not None:
            second = read(completed(after, before))
        if first is not None:
            keys.append(first)
        if second is not None and second != first:
            keys.append(second)
    change.keys = tuple(keys)
    return change.keys


def completed(after: Row, before: Row) -> Row:
    """The after image, completed from the before image."""
    return tuple(_known(new, old) for new, old in zip(after, before, strict=True))


def _known(new: Value, old: Value) -> Value:
    return old if new is ABSENT else new


class SharedKeys:
    """What the plans of all source tables of one target table avoid."""

    __slots__ = ("_lacking", "_unfolded", "keyless", "plans")

    def __init__(self, *, keyless: bool = False) -> None:
        self._unfolded: set[str] = set()
        self._lacking: set[str] = set()
        self.keyless = keyless  # no key finds the rows of a source table
        self.plans = 0  # how many plans have been made

    @property
    def size(self) -> int:
        """The number of additions; it only grows."""
        return len(self._unfolded) + len(self._lacking) + self.keyless

    def part(self, own: KeyPart) -> KeyPart:
        """The part of a key as all tables can read it."""
        if own.at is None:
            self._lacking.add(own.label)
        elif own.fold is None:
            self._unfolded.add(own.label)
        if own.label in self._lacking:
            return KeyPart(own.column, None, None, own.prefix)
        if own.label in self._unfolded:
            return KeyPart(own.column, own.at, None, own.prefix)
        return own
