"""Row changes made by the compiled loop, where there is one.

The loop takes tables without special needs: every image holds all columns, nothing is filtered, added or kept in order,
and every key can be read from the values alone. Tables that it declines, and all tables without the accelerator, take
the way of `dm.syncer.apply.row_placing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from dm.accelerator.native import shared
from dm.accelerator.switch import Twins
from dm.changes.keys import Key, KeyValue
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.mysql.binlog.reader import Rows, TableMap
from dm.mysql.binlog.row_events import RowsKind


@shared
class KeySource(NamedTuple):
    """What a key is read from."""

    token: str
    parts: tuple[KeyValue, ...]


@shared
class DirectTable(NamedTuple):
    """A table for the loop."""

    table_map: TableMap
    layouts: dict[bytes, object]  # its decoder's
    plan: TablePlan
    kinds: Mapping[RowsKind, ChangeKind | None]  # None: not wanted
    linked: bool  # whether checked foreign keys join it
    judged: bool  # whether rows that the source wrote without a look at CHECKs have a plan of their own
    keys: tuple[KeySource, ...]
    proofs: dict[bytes, Any] | None  # layouts that prove images and keep their bytes, while those are asked for


@shared
class MadeChanges(NamedTuple):
    """What the loop made of events."""

    changes: list[RowChange]
    cost: int  # the memory they take
    end: int  # the place of the first event that it declines
    ends: list[int]  # for each event taken, how many of the changes end with it


Part = tuple[int, list[RowChange]]
"""Changes for one worker, in order."""


RunPart = tuple[int, list[RowChange], bytes]
"""Changes for one worker, in order, and for each of them the number of its transaction, an unsigned int of C."""


@shared
class Room(NamedTuple):
    """How much workers take: see `dm.syncer.apply.lane`."""

    counts: list[int]  # the changes that each has
    costs: list[int]  # and their memory
    cost: int  # the memory of each further change
    batch: int  # how many changes make a batch
    full: int  # and how many one that has grown,
    share: int  # or how much memory
    most: int  # how many changes may be given


class CompiledLoop(Protocol):
    """The compiled loop."""

    def __call__(
        self, items: Sequence[tuple[TableMap, Rows]], at: int, tables: dict[int, DirectTable], safe: bool, /
    ) -> MadeChanges:
        """The changes of the events from a place on."""
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

    def spread_run(
        self,
        holder: dict[Key, int],
        changes: list[RowChange],
        at: int,
        free: int,
        limit: int,
        room: Room,
        ends: list[int],
        /,
    ) -> tuple[list[RunPart], int]:
        """The same for changes of several transactions; `ends`: how many changes end with each."""
        ...


def change_maker(factor: int, raw: int, each: int) -> CompiledLoop | None:
    """The loop, which counts memory by the bytes of an event (`raw` times them where those are kept) and by change.

    None without the accelerator.
    """
    return _TWINS()(factor, raw, each)


def _row_by_row(factor: int, raw: int, each: int) -> CompiledLoop | None:
    return None  # `dm.syncer.apply.row_placing` makes the changes of one event after the other


_TWINS: Final[Twins[Callable[[int, int, int], CompiledLoop | None]]] = Twins(
    _row_by_row, lambda native: native.ChangeMaker
)


def direct_table(
    table_map: TableMap,
    layouts: dict[bytes, object] | None,
    plan: TablePlan,
    kinds: Mapping[RowsKind, ChangeKind | None],
    proofs: dict[bytes, Any] | None = None,
    *,
    judged: bool = False,
) -> DirectTable | None:
    """The table as the loop takes it; None for one that it can't take."""
    if layouts is None or plan.ordered or plan.constants or plan.order_key is not None:
        return None
    keys = [KeySource(function.token, function.parts) for function in plan.key_functions if function.parts is not None]
    if len(keys) != len(plan.key_functions):
        return None
    return DirectTable(table_map, layouts, plan, kinds, plan.linked, judged, tuple(keys), proofs)
