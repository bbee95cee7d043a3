"""Tables with keys of all sorts, and the row changes that the compiled loop and Python make of the same events."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import cast

from dm.changes.keys import KeyFunction, KeyPart, key_function, keys_of
from dm.changes.native_changes import change_maker, direct_table
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.value import Value
from dm.mysql.types.family import Fold, itself
from dm.sourcelog.stream.transaction import RowsItem
from dm.syncer.apply.source_table import KINDS, SourceTable
from tests.testbed.decoders import running
from tests.unit.accelerator.rows_at_random import Sample, sample

FACTOR, EACH = 9, 400


@dataclass
class Plan:
    """What of a plan the changes of a row depend on."""

    key_functions: tuple[KeyFunction, ...]
    linked: bool
    ordered: bool = False
    order_key: None = None
    constants: tuple[()] = ()
    unconstrained: bool = False


def _text(value: Value) -> Hashable:
    return str(value).lower()


def _keys(chance: random.Random, columns: int) -> tuple[KeyFunction, ...]:
    folds: list[Fold | None] = [itself, itself, _text, None]
    name = TableName("s", "t")
    found = []
    for number in range(chance.randrange(4)):
        places = [chance.choice([at, at, at, None]) for at in chance.sample(range(columns), min(columns, 2))]
        parts = [KeyPart(f"c{number}{at}", at, chance.choice(folds)) for at in places[: chance.randrange(1, 3)]]
        found.append(key_function(name, parts))
    return tuple(found)


def events(seed: int, *, damage: bool) -> tuple[Sample, list[RowsItem]]:
    """A table and some of its events, for which the source checked foreign keys and CHECKs, or did not."""
    found = sample(seed, damage=damage)
    chance = random.Random(seed)
    rows = [replace_flags(found, chance.choice([0, 1, 2, 3, 0x80, 0x83])) for _ in range(chance.randrange(1, 4))]
    return found, rows


def replace_flags(found: Sample, flags: int) -> RowsItem:
    """The event with these flags."""
    return RowsItem(found.table_map, found.rows._replace(flags=flags))


def told(changes: Sequence[RowChange]) -> list[str]:
    """Everything of the changes; of their values the types, too, since 1 and True are equal."""
    return [
        f"{replace(change, plan=None)!r} {keys_of(change)!r} {type(change.safe)} {change.plan.unconstrained}"  # type: ignore[arg-type]  # the plan's text says nothing
        for change in changes
    ]


def python_changes(table: SourceTable, items: list[RowsItem], *, safe: bool) -> tuple[list[RowChange], int, str]:
    """As `RowPlacing` makes them one by one: the changes, their memory, and the error that ended them."""
    changes: list[RowChange] = []
    cost = 0
    for item in items:
        if not table.wanted_kinds[item.rows.kind]:
            continue
        try:
            pairs = table.decoder.decode(item.rows)
        except DMError as error:
            return changes, cost, error.name
        unchecked = table.unchecked(item, safe=safe)
        made = [RowChange(table.plan_of(item), KINDS[item.rows.kind], *pair, safe, unchecked) for pair in pairs]
        changes += made
        cost += (FACTOR * len(item.rows.data) // (len(made) or 1) + EACH) * len(made)
    return changes, cost, ""


def compare(native: ModuleType, seed: int, *, damage: bool) -> int:
    """Both ways of one table's events; gives how many changes the compiled loop has made."""
    found, items = events(seed, damage=damage)
    chance = random.Random(seed)
    free = Plan(_keys(chance, len(found.columns)), chance.random() < 0.5)
    plan = cast(TablePlan, free)
    apart = cast(TablePlan, replace(free, unconstrained=True)) if chance.random() < 0.5 else None
    wanted = {kind: chance.random() < 0.9 for kind in KINDS}
    safe = chance.random() < 0.3
    tables = {}
    for extension in (native, None):
        with running(extension):
            decoder = RowDecoder(found.table_map, found.columns)
            tables[extension] = SourceTable(found.table_map, (), decoder, plan, wanted, None, None, unconstrained=apart)
    expected, memory, error = python_changes(tables[None], items, safe=safe)
    kinds: dict[str, ChangeKind | None] = {kind: KINDS[kind] if wanted[kind] else None for kind in KINDS}
    with running(native):
        maker = change_maker(FACTOR, 2, EACH)
        assert maker is not None
        layouts, judged = tables[native].decoder.layouts, apart is not None
        direct = direct_table(found.table_map, layouts, plan, kinds, judged=judged)  # type: ignore[arg-type]  # kinds of rows events
        assert direct is not None
        known = {id(found.table_map): direct}
        changes, cost, at, ends = maker(items, 0, known, safe)
        compiled = len(changes)
        assert len(ends) == at
        for number, end in enumerate(ends):
            assert maker(items[: number + 1], 0, known, safe).changes == changes[:end]
        while at < len(items):  # what it declines, Python takes; then it goes on
            more, memory_of_more, failed = python_changes(tables[native], items[at : at + 1], safe=safe)
            changes, cost = changes + more, cost + memory_of_more
            if failed:
                assert failed == error
                break
            more, memory_of_more, at, _ = maker(items, at + 1, known, safe)
            compiled += len(more)
            changes, cost = changes + more, cost + memory_of_more
        else:
            assert not error
    assert told(changes) == told(expected), seed
    assert cost == memory, seed
    return compiled
