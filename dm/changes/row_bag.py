"""Nets the changes of a table without a key into rows to delete and rows to insert, each with a count.

Equal rows are interchangeable, so the rows of such a table are a bag: a run of changes takes some out and puts others
in. Applied one by one, a change finds its row if the bag has it at that moment: it was there before the run, or an
earlier change put it in and none took it out again. So the run finds all of its rows if and only if the table has each
row as often as the run takes it from the rows that were there: `gone`. What the run put in and did not take out is
`come`.

Two images are the same row here if they are written alike. The target may store two ways of writing as the same value.
Then a row that the run put in is taken from those that were there, which has the same effect or is reported as missing.
No wrong row is found.

Changes may move past those of other tables, but not past a change that fires triggers or has a foreign key checked. So
a run lies between such changes.

`hash_rules.py` says which tables' rows may be found this way, by a hash of their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from dm.changes.event_or_sql import arranged, moves
from dm.changes.keys import completed
from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange, decode_all, plans_of
from dm.changes.row_hash import RowHash
from dm.changes.statement import ApplyStatement, has_zero_enum
from dm.mysql.binlog.value import ABSENT, Row

# One reading that hashes every row takes as long as some thirty that find one each, whatever the table's size
# (`benchmarks.keyless_scan`).
MIN_SEARCHED: Final = 64


@dataclass(slots=True)
class Gone:
    """A row that has to go, and how many of it."""

    row: Row
    count: int = 0


@dataclass(frozen=True, slots=True)
class BagChange:
    """The changes of one table within a run."""

    plan: TablePlan
    hash: RowHash
    changes: tuple[RowChange, ...]
    gone: dict[bytes, Gone]  # by the row as it is written in an INSERT
    come: dict[bytes, int]


Planned = ApplyStatement | BagChange


def in_bags_or_arranged(changes: Sequence[RowChange], *, limit: int) -> Sequence[Planned]:
    """The changes as changes of bags where those help, else in few statements, none much longer than `limit` bytes."""
    wanted = [plan for plan in plans_of(changes) if plan.row_hash is not None and not plan.row_hash.refused]
    if not wanted or all(_searched(changes, plan) < MIN_SEARCHED for plan in wanted):
        return arranged(changes, limit=limit)
    result: list[Planned] = []
    for moved, run in groupby(changes, moves):
        left: Sequence[RowChange] = list(run)
        bags = []
        for plan in wanted if moved else ():
            bag = _bag_within(left, plan)
            if bag is not None:
                bags.append(bag)
                left = [change for change in left if change.plan is not plan]
        result += arranged(left, limit=limit) if left else ()
        result += bags
    return result


def _searched(changes: Iterable[RowChange], plan: TablePlan) -> int:
    """How many rows the target has to look for."""
    return sum([change.plan is plan and change.before is not None for change in changes])


def _bag_within(run: Sequence[RowChange], plan: TablePlan) -> BagChange | None:
    changes = [change for change in run if change.plan is plan]
    alone = all(change.plan is plan or change.plan.target != plan.target for change in run)
    if not alone or _searched(changes, plan) < MIN_SEARCHED:
        return None
    decode_all(changes)
    return bag_change(plan, changes)


def bag_change(plan: TablePlan, changes: Sequence[RowChange]) -> BagChange | None:
    """What the changes come to; None where they have to be done one by one."""
    assert plan.row_hash is not None
    written, drops = plan.values, plan.row_hash.drops
    gone: dict[bytes, Gone] = {}
    come: dict[bytes, int] = {}
    for change in changes:
        before, after = change.before, change.after
        if before is not None:
            if not _whole(plan, before):
                return None
            text = written(before)
            if come.get(text):
                if not drops:
                    return None
                come[text] -= 1
            else:
                gone.setdefault(text, Gone(before)).count += 1
        if after is not None:
            after = after if before is None else completed(after, before)
            if not _whole(plan, after):
                return None
            text = written(after)
            come[text] = come.get(text, 0) + 1
    return BagChange(plan, plan.row_hash, tuple(changes), gone, {text: count for text, count in come.items() if count})


def _whole(plan: TablePlan, row: Row) -> bool:
    """Whether the image has every column, and a strict target takes it."""
    return ABSENT not in row and not has_zero_enum(plan, row)
