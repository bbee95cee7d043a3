"""What a replay applies: the pieces up to the first that ends before its end, and the tables in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.replayed import Piece, StoredReplay
from dm.replay.beginning import folded
from dm.replay.decoding import Decoded
from dm.replay.pieces import RelayStretch


def plan_of(
    replay: StoredReplay,
    found: Sequence[Decoded],
    stretch: RelayStretch,
    task: str,
    bound: Position | None,
    route: Callable[[TableName], TableName],
) -> StoredReplay:
    """The plan with what the pieces have in them; raises DMError where nothing is left, or nothing exact."""
    by_begin = {(one.piece.file, one.piece.begin): one for one in found}
    pieces: list[Piece] = []
    replayed: dict[TableName, TableName] = {}
    left: dict[TableName, str] = {}
    ends_before, removals = "", False
    for planned in replay.pieces:
        one = by_begin[planned.file, planned.begin]
        if one.piece.end > one.piece.begin:
            pieces.append(one.piece)
            replayed.update(one.taken)
            left.update(one.left)
            removals = removals or bool(one.first)
        if one.barrier:
            ends_before = one.barrier
            break
    if not pieces:
        raise DMError("replay-nothing", task=task, why=f"the first transaction is not replayed: {ends_before}")
    if left and not replayed:
        ((table, why), *_) = sorted(left.items())
        raise DMError("replay-nothing", task=task, why=f"all of it is the syncer's ({table}: {why})")
    if changed := sorted(set(replayed) & set(left)):
        raise DMError("replay-target-changed", table=changed[0])
    _demand_apart(replayed, left, route, task)
    end = stretch.place(pieces[-1].file, pieces[-1].end)
    if bound is not None:
        demand_covered(end, bound, task)
    return replace(
        replay, end=end, pieces=tuple(pieces), ends_before=ends_before, replayed=replayed, left=left, removals=removals
    )


def _demand_apart(
    replayed: dict[TableName, TableName], left: dict[TableName, str], route: Callable[[TableName], TableName], task: str
) -> None:
    """Raise DMError where the syncer would change rows of L in a table of the target that is at the end already."""
    targets = {folded(target): source for source, target in replayed.items()}
    for table, why in sorted(left.items()):
        other = targets.get(folded(route(table)))
        if other is not None:
            shared = f"{other} and {table} share a table of the target, and {table} is left to the syncer: {why}"
            raise DMError("replay-unsuited", task=task, why=shared)


def demand_planned(replay: StoredReplay, again: Decoded) -> None:
    """Raise DMError where a piece whose file was lost comes to something else than the plan says."""
    if again.barrier:
        raise DMError("replay-target-changed", table=again.barrier)
    changed = {source for source, _ in again.taken} - set(replay.replayed or {})
    changed |= {source for source, _ in again.left} - set(replay.left or {})
    changed |= set() if replay.removals else set(again.first)
    if changed:
        raise DMError("replay-target-changed", table=min(changed))


def demand_covered(end: Position, bound: Position, task: str) -> None:
    """Raise DMError where a replay would end before what the last run may have done."""
    if not end.covers(bound):
        why = f"it would end at {end}, and the last run may have got to {bound}"
        raise DMError("replay-unsuited", task=task, why=why)
