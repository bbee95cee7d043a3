"""The rows of both sides that are kept at a time, and how they differ."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from dm.mysql.equality.values import shown, text_of
from dm.tools.diff.fix import Fix, fix_of
from dm.tools.diff.table import TARGET, ComparedTable, TableAt

ROW_COST: Final = 1000  # bytes that a row takes here besides its values
_SEVERAL: Final = "several rows of the sources have the key of one, and the target can have only one of them"

Values = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that is not the same on both sides, in words; a side that lacks it is None."""

    identity: str  # of the row and both its versions: what it is at another look, too
    key: str
    source: dict[str, str] | None
    target: dict[str, str] | None
    columns: tuple[str, ...]  # with different values
    sources: int  # how many times it is there
    targets: int
    fix: Fix

    @property
    def worded(self) -> bool:
        """Whether it is told in words; of many rows only the first are."""
        return self.source is not None or self.target is not None

    @property
    def size(self) -> int:
        """Bytes that it takes, roughly: statements and words have all values of a row."""
        statements = {*self.fix.statements, *self.fix.kept}  # a row that is missing twice has one of them twice
        words = [word for side in (self.source, self.target) if side for pair in side.items() for word in pair]
        return ROW_COST + sum(map(len, statements)) + sum(map(len, words))


@dataclass(frozen=True, slots=True)
class _RowVersion:
    side: TableAt
    values: Values


class _SideRows:
    """Of one side, by their keys; a row is known by its text."""

    def __init__(self) -> None:
        self.by_key: dict[bytes, Counter[bytes]] = {}
        self.read: dict[bytes, _RowVersion] = {}


class Versions:
    """All of them."""

    def __init__(self, table: ComparedTable) -> None:
        self._table = table
        self._source, self._target = _SideRows(), _SideRows()
        self.size = 0  # bytes that they take, roughly

    @property
    def kept(self) -> int:
        """Rows that are kept: equal ones count once."""
        return len(self._source.read) + len(self._target.read)

    @property
    def equal(self) -> bool:
        """Whether both sides have the same rows."""
        return self._source.by_key == self._target.by_key

    @property
    def differing(self) -> frozenset[bytes]:
        """The keys of rows that are not the same on both sides."""
        ours, theirs = self._source.by_key, self._target.by_key
        return frozenset(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))

    def add(self, side: TableAt, values: Values, key: bytes) -> None:
        """A row that was read there."""
        rows = self._target if side.place == TARGET else self._source
        text = text_of(side.row, values)
        rows.by_key.setdefault(key, Counter())[text] += 1
        if text not in rows.read:
            rows.read[text] = _RowVersion(side, values)
            # Of a value that may be large, the text has only the hash.
            self.size += ROW_COST + len(text) + sum(len(value) for value in values if value)

    def differences(self, words: int, *, fixes: bool) -> Iterator[Difference]:
        """The rows that are not the same, in the order of their keys; so many in words, all with statements or none."""
        for key in sorted(self._source.by_key.keys() | self._target.by_key.keys()):
            ours, theirs = (rows.by_key.get(key, Counter()) for rows in (self._source, self._target))
            missing, extra = ours - theirs, theirs - ours
            if not missing and not extra:
                continue
            found = self._difference(key, missing, extra)
            if not fixes:
                found = replace(found, fix=Fix(impossible=found.fix.impossible))
            yield found if words > 0 else replace(found, key="", source=None, target=None, columns=())
            words -= 1

    def _difference(self, key: bytes, missing: Counter[bytes], extra: Counter[bytes]) -> Difference:
        table = self._table.target
        ours = self._source.read[next(iter(missing))] if missing else None
        theirs = self._target.read[next(iter(extra))] if extra else None
        row = ours or theirs
        assert row is not None
        # All that both sides have of it: of equal rows without a key, others may have come and gone between two looks.
        sides = (sorted(rows.by_key.get(key, Counter()).items()) for rows in (self._source, self._target))
        known = b"|".join([key, *(b"%s %d" % version for side in sides for version in (*side, (b"/", 0)))])
        at_source = None if ours is None else (ours.side, ours.values)
        if self._table.keyed and self._source.by_key.get(key, Counter()).total() > 1:
            fix = Fix(impossible=_SEVERAL)
        else:
            fix = fix_of(self._table, at_source, None if theirs is None else theirs.values, missing, extra)
        return Difference(
            hashlib.sha256(known).hexdigest(),
            ", ".join(f"{table.row[at].label}={shown(row.values[at])}" for at in table.key)
            if self._table.keyed
            else "",
            None if ours is None else _words(table, ours.values),
            None if theirs is None else _words(table, theirs.values),
            () if ours is None or theirs is None else _other_columns(table, ours, theirs),
            missing.total(),
            extra.total(),
            fix,
        )


def _other_columns(table: TableAt, *rows: _RowVersion) -> tuple[str, ...]:
    ours, theirs = (
        [part.canonical(value) for part, value in zip(row.side.row, row.values, strict=True)] for row in rows
    )
    return tuple(part.label for part, one, other in zip(table.row, ours, theirs, strict=True) if one != other)


def _words(table: TableAt, values: Values) -> dict[str, str]:
    return {part.label: shown(value) for part, value in zip(table.row, values, strict=True)}
