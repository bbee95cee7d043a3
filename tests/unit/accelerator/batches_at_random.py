"""Batches of changes at random: few rows, so that they meet, in tables of all kinds, and values that no table takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any, Final

from dm.changes.compacted import compacted
from dm.changes.grouped import grouped
from dm.changes.keys import keys_of
from dm.changes.plan import PlanOptions, TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_keys import TargetTable
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column, TableSchema
from tests.testbed.decoders import running
from tests.unit.changes.plans import TARGET, key, number, plan, text

_COLUMNS: Final = (
    number("a"), number("b", nullable=True), text("c", nullable=True),
    Column("e", "enum", nullable=True, members=("x", "y"), charset="utf8mb4"), Column("d", "longblob", nullable=True),
)  # fmt: skip
_ONE: Final = [key("PRIMARY", "a")]
_TWO: Final = [key("PRIMARY", "a"), key("b", "b")]
_WIDE: Final = [key("u", "a", "c"), key("b", "b", "a")]
_COMPACT: Final = PlanOptions("mysql", compact=True)
_PLANS: Final[tuple[Callable[[], TablePlan], ...]] = (
    lambda: plan(_COLUMNS, _ONE, options=_COMPACT),
    lambda: plan(_COLUMNS, _ONE, options=_COMPACT),
    lambda: plan(_COLUMNS, _TWO, options=_COMPACT),
    lambda: plan(_COLUMNS, _WIDE, options=PlanOptions("mariadb", compact=True)),
    lambda: plan(_COLUMNS, _TWO),
    lambda: replace(plan(_COLUMNS, _TWO, options=_COMPACT), statement_rows=3),
    lambda: plan(_COLUMNS, _ONE, options=PlanOptions("mysql", insert_mode="replace", compact=True)),
    lambda: plan(_COLUMNS, _TWO, options=PlanOptions("mysql", insert_mode="replace", compact=True)),
    lambda: plan(_COLUMNS, _ONE, options=PlanOptions("mysql", multiple_rows=False, compact=True)),
)
_RARE: Final[tuple[Callable[[], TablePlan], ...]] = (
    lambda: plan([*_COLUMNS, number("own")], _TWO, source=_COLUMNS, options=_COMPACT),
    lambda: plan(_COLUMNS, [key("b", "b")], options=_COMPACT),
    lambda: plan(_COLUMNS, [], options=_COMPACT),
    lambda: plan(_COLUMNS, _ONE, target=TargetTable(TableSchema(TARGET, ()), triggers=True), options=_COMPACT),
)


def _row(chance: random.Random, wild: float) -> list[Any]:
    values: list[Any] = [
        chance.randrange(6),
        chance.choice((None, 0, 1, 2, 3)),
        chance.choice((None, b"", b"x", b"it's", b"\xff", b"y" * 40)),
        chance.choice((None, 1, 2)),
        chance.choice((None, b"", chance.randbytes(chance.randrange(60)))),
    ]
    if chance.random() < wild:
        values[3] = 0
    if chance.random() < wild:
        values[chance.randrange(len(values))] = chance.choice((ABSENT, ABSENT, "1", 1 << 70, -0.0))
    return values


def _change(chance: random.Random, into: TablePlan, wild: float, *, safe: bool) -> RowChange:
    kind = chance.choice((ChangeKind.INSERT, ChangeKind.UPDATE, ChangeKind.UPDATE, ChangeKind.DELETE))
    before, after = _row(chance, wild), _row(chance, wild)
    if chance.random() < 0.8:  # an update that leaves its keys alone
        after[:3] = [*before[:2], chance.choice((before[2], after[2]))]
    one = None if kind is ChangeKind.INSERT else tuple(before)
    other = None if kind is ChangeKind.DELETE else tuple(after)
    return RowChange(into, kind, one, other, safe)


def any_batch(chance: random.Random) -> list[RowChange]:
    """Changes of some tables, in and out of safe mode."""
    tables = [chance.choice(_PLANS)() for _ in range(chance.choice((1, 1, 2)))]
    if chance.random() < 0.1:
        tables.append(chance.choice(_RARE)())
    wild = chance.choice((0, 0, 0.05))
    safe = chance.random() < 0.3
    batch = []
    for _ in range(chance.randrange(40)):
        safe ^= chance.random() < 0.03
        batch.append(_change(chance, chance.choice(tables), wild, safe=safe))
        if chance.random() < 0.5:
            keys_of(batch[-1])
    return batch


def made(native: ModuleType | None, batch: Sequence[RowChange], limit: int) -> object:
    """What one of the two makes of a batch: the changes that are left with their keys, and the statements."""
    with running(native):
        try:
            left = compacted(batch, limit=limit)
            kept = [(id(change.plan), *_shown(change), keys_of(change)) for change in left]
            statements = grouped(left, limit=limit)
        except (TypeError, OverflowError, DMError) as error:
            return type(error).__name__, str(error)
    return kept, [
        (statement.sql, statement.expected, [_shown(change) for change in statement.changes],
         len(statement.found), len(statement.not_found))
        for statement in statements
    ]  # fmt: skip


def _shown(change: RowChange) -> tuple[object, ...]:
    return change.kind, change.before, change.after, change.safe, change.unchecked


def copied(batch: Sequence[RowChange]) -> list[RowChange]:
    """The same changes as other objects: keys that are computed late are kept in them."""
    return [replace(change) for change in batch]
