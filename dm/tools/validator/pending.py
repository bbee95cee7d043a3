"""Rows that wait until they are found equal, within a quota of memory.

A row is known by its target table and the literals of its key. A later change of a row takes the place of the earlier
one: what must be at the target is what the last change that was read has left.

The reader adds, the rounds of looks take out. Whoever looks holds no lock meanwhile, so a row may have been replaced
when the look is over: then its result counts for nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema, schema_from_json, schema_to_json
from dm.position import Position
from dm.progress.validator import StoredRow

Kind = Literal["insert", "update", "delete"]

_ROW_COST: Final = 600  # the memory of a row besides its values


@dataclass(eq=False)
class Shape:
    """What rows of one source table that were read with one structure have in common."""

    source: TableName
    target: TableName
    columns: tuple[Column, ...]  # of the target, in the order of the rows' literals
    key: tuple[str, ...]  # names of those that find a row
    compared: frozenset[str]  # names of those that count; a DDL takes names out
    shared: bool = False  # other tables of sources may have rows in the target's
    version: int = 0  # grows with each change; a look at an older one tells nothing of what is wrong

    def to_json(self) -> dict[str, object]:
        """As stored with each row."""
        schema = TableSchema(self.target, self.columns)
        return {
            "source": list(self.source), "target": schema_to_json(schema), "key": list(self.key),
            "compared": sorted(self.compared), "shared": self.shared,
        }  # fmt: skip

    @classmethod
    def from_json(cls, stored: Mapping[str, object]) -> Shape:
        """The inverse."""
        schema = schema_from_json(str(stored["target"]))
        source, key, compared = (_texts(stored[name]) for name in ("source", "key", "compared"))
        return cls(
            TableName(*source), schema.name, schema.columns, key, frozenset(compared), shared=bool(stored["shared"])
        )


def _texts(stored: object) -> tuple[str, ...]:
    assert isinstance(stored, list)
    return tuple(str(each) for each in stored)


@dataclass(eq=False)
class PendingRow:
    """One row that was changed at the source."""

    shape: Shape
    kind: Kind
    key: bytes  # literals
    values: bytes  # literals of all columns; of a deleted row as it was
    failed_at: float | None = None  # wall clock: when it was first found different
    fence: Position | None = None  # the source's end after a look that found it different

    @property
    def size(self) -> int:
        """The memory it takes, about."""
        return len(self.key) + len(self.values) + _ROW_COST

    @property
    def row_pk(self) -> str:
        """What the row is stored under."""
        return hashlib.sha256(self.key).hexdigest()

    def stored(self, shapes: dict[Shape, int]) -> StoredRow:
        """As it is stored; the first row of a shape has the shape with it."""
        data: dict[str, object] = {
            "kind": self.kind, "key": _text(self.key), "values": _text(self.values), "failed": self.failed_at,
        }  # fmt: skip
        known = shapes.get(self.shape)
        if known is None:
            known = shapes[self.shape] = len(shapes)
            data["new"] = self.shape.to_json()
        data["shape"] = known
        return StoredRow(self.shape.source, self.row_pk, json.dumps(data))


def _text(literals: bytes) -> str:
    return base64.b64encode(literals).decode()


def restored(rows: Iterable[StoredRow]) -> list[PendingRow]:
    """The rows of `PendingRow.stored`, in their order."""
    shapes: dict[int, Shape] = {}
    found = []
    for row in rows:
        data = json.loads(row.data)
        kind, failed = data["kind"], data["failed"]
        if kind not in get_args(Kind) or not isinstance(failed, float | int | None):
            raise ValueError("it is no pending row")
        if "new" in data:
            shapes[data["shape"]] = Shape.from_json(data["new"])
        key, values = base64.b64decode(data["key"]), base64.b64decode(data["values"])
        found.append(PendingRow(shapes[data["shape"]], kind, key, values, failed))
    return found


@dataclass
class PendingRows:
    """All of them; any thread may call."""

    most_rows: int
    most_bytes: int
    _rows: dict[tuple[TableName, bytes], PendingRow] = field(default_factory=dict)
    _bytes: int = 0
    _counts: Counter[Kind] = field(default_factory=Counter)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: bool = False

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def used(self) -> int:
        """The memory they take, about."""
        return self._bytes

    @property
    def full(self) -> bool:
        """Whether nothing more may be read."""
        return len(self._rows) >= self.most_rows or self._bytes >= self.most_bytes

    def counts(self) -> dict[Kind, int]:
        """How many there are of each kind."""
        with self._changed:
            kinds: tuple[Kind, ...] = ("insert", "update", "delete")
            return {kind: self._counts[kind] for kind in kinds}

    def put(self, row: PendingRow) -> None:
        """Wait for a row; an earlier change of it is forgotten."""
        with self._changed:
            self._drop((row.shape.target, row.key))
            self._rows[row.shape.target, row.key] = row
            self._bytes += row.size
            self._counts[row.kind] += 1

    def wait_for_room(self) -> bool:
        """Wait until more may be read; False when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or not self.full)
            return not self._closed

    def close(self) -> None:
        """Let nobody wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def all(self) -> list[PendingRow]:
        """All rows, in the order in which they came."""
        with self._changed:
            return list(self._rows.values())

    def done(self, row: PendingRow) -> bool:
        """The row is equal, or is stored as an error; False where another change has taken its place."""
        with self._changed:
            place = (row.shape.target, row.key)
            if self._rows.get(place) is not row:
                return False
            self._drop(place)
            self._changed.notify_all()
            return True

    def current(self, row: PendingRow) -> bool:
        """Whether no later change has taken its place."""
        with self._changed:
            return self._rows.get((row.shape.target, row.key)) is row

    def forget(self, of: Callable[[Shape], bool]) -> int:
        """Drop the rows of these shapes; gives how many."""
        with self._changed:
            places = [place for place, row in self._rows.items() if of(row.shape)]
            for place in places:
                self._drop(place)
            self._changed.notify_all()
            return len(places)

    def rename(self, names: Mapping[TableName, tuple[TableName, TableName]]) -> None:
        """Tables of the source have other names: for each the new one, and the target's."""
        with self._changed:
            moved = [(place, row) for place, row in self._rows.items() if row.shape.source in names]
            shapes = {row.shape for _, row in moved}
            for place, _ in moved:
                del self._rows[place]
            for shape in shapes:
                shape.source, shape.target = names[shape.source]
                shape.version += 1
            for (_, key), row in moved:
                self._drop((row.shape.target, key))
                self._rows[row.shape.target, key] = row

    def _drop(self, place: tuple[TableName, bytes]) -> None:
        row = self._rows.pop(place, None)
        if row is not None:
            self._bytes -= row.size
            self._counts[row.kind] -= 1
