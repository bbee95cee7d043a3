"""Row changes made by the compiled loop, where there is one.

It takes the tables that ask for nothing special: every image holds all columns, nothing is filtered, added or kept in
order, and every key can be read from the values alone. What it declines, and everything without the accelerator, goes
the way of `dm.syncer.apply.row_placing`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from dm import accelerator
from dm.binlog.reader import Rows, TableMap
from dm.binlog.rows import RowsKind
from dm.changes.keys import Key
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange

DirectTable = tuple[
    TableMap, dict[bytes, object], TablePlan, Mapping[RowsKind, ChangeKind | None], bool, tuple[tuple[str, object], ...]
]
"""A table for the loop: its decoder's layouts, its plan, kinds of events (None: not wanted), whether checked foreign
keys join it, and what its keys are read from."""


Part = tuple[int, list[RowChange]]
"""Changes for one worker, in order."""

Room = tuple[list[int], list[int], int, int, int, int, int]
"""What workers have (changes, and their memory), the memory of each further change, how many changes make a batch that
has grown and how many that takes, or memory, and how many may be given at most: see `dm.syncer.apply.placement`."""


class ChangeMaker(Protocol):
    """The compiled loop."""

    def __call__(
        self, items: Sequence[tuple[TableMap, Rows]], at: int, tables: dict[int, DirectTable], safe: bool, /
    ) -> tuple[list[RowChange], int, int]:
        """The changes of the events from a place on, the memory they take, and the place of the first it declines."""
        ...

    def spread(
        self,
        holder: dict[Key, int],
        changes: list[RowChange],
        at: int,
        free: int,
        limit: int,
        room: Room,
        /,
    ) -> tuple[list[Part], int]:
        """The changes from a place on, by worker, recorded as theirs, and the place of the first that was not given."""
        ...


def change_maker(factor: int, each: int) -> ChangeMaker | None:
    """The loop, which counts memory by the bytes of an event and by change; None without the accelerator."""
    if accelerator.native is None:
        return None
    made: ChangeMaker = accelerator.native.ChangeMaker(RowChange, factor, each)
    return made


def direct_table(
    table_map: TableMap,
    layouts: dict[bytes, object] | None,
    plan: TablePlan,
    kinds: Mapping[RowsKind, ChangeKind | None],
) -> DirectTable | None:
    """The table as the loop takes it; None for one that it can't take."""
    if layouts is None or plan.ordered or plan.constants or plan.order_key is not None:
        return None
    keys = [(function.token, function.parts) for function in plan.key_functions if function.parts is not None]
    if len(keys) != len(plan.key_functions):
        return None
    return table_map, layouts, plan, kinds, plan.linked, tuple(keys)
