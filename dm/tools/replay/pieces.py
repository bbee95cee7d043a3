"""A relay from a place to another, cut into pieces that tasks can read side by side.

A transaction never lies in two files of the source, and the relay's index notes the end of one about each MiB. So a
piece begins and ends between two transactions, and nobody has to read what lies before it. A stretch stays within the
files of one server: where the relay goes on with another, it ends.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE, Position
from dm.progress.replayed import RelayRange, StoredReplay
from dm.sourcelog.relaylog.index import FileIndex, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, file_number
from dm.sourcelog.relaylog.recovery import gtids_at
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.relaylog.scan import created_at, scan
from dm.sourcelog.relaylog.time_search import find_time
from dm.sourcelog.stream.file_births import FileBirth
from dm.sourcelog.stream.prepared import UnheldXa
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition, UntilTime
from dm.sourcelog.upstream.facts import ServerFacts
from dm.tools.replay.beginning import folded
from dm.tools.replay.decoding import Decoded

PIECE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class RelayStretch:
    """The relay's files that a stretch lies in."""

    sub: SubDirectory
    start: Position
    flavor: Flavor

    @classmethod
    def at(cls, relay: Path, start: Position, flavor: Flavor) -> RelayStretch:
        """The stretch after a checkpoint; raises DMError where the relay does not have its file."""
        for sub in reversed(RelayDirectory(relay).sub_directories()):
            if sub.server_uuid == start.server_uuid and start.file in sub.files():
                return cls(sub, start, flavor)
        raise DMError("replay-without-relay", place=start, server=start.server_uuid)

    def pieces(self, size: int = PIECE_BYTES, end: Position | None = None) -> list[RelayRange]:
        """The pieces, each of about `size` bytes, up to the relay's present end or to `end`, if that comes first."""
        found: list[RelayRange] = []
        for name in self._files():
            if end is not None and file_number(name) > end.file_number:
                break
            limit = end.offset if end is not None and name == end.file else None
            found += _cut(name, self._index(name), self._begin(name), size, limit)
        return found

    def _files(self) -> list[str]:
        return [name for name in self.sub.files() if file_number(name) >= self.start.file_number]

    def _begin(self, name: str) -> int:
        return max(self.start.offset, MAGIC_SIZE) if name == self.start.file else MAGIC_SIZE

    def _index(self, name: str) -> FileIndex:
        path, idx = self.sub.file(name), self.sub.idx(name)
        known = read_index(idx, path.stat().st_size)
        if known is not None and known.final:
            return known
        found = scan(path, idx, self.flavor)
        return FileIndex() if found is None else found.index

    def place(self, file: str, offset: int) -> Position:
        """A place of the stretch, with everything that was processed there; raises DMError."""
        gtids: GtidSet = self.start.gtid_set
        if gtids or file != self.start.file or self.start.offset <= MAGIC_SIZE:
            index = self._index(file)
            known = index.gtids if index.complete == offset else gtids_at(self.sub, file, offset, self.flavor)
            gtids |= known
        return Position(self.start.server_uuid, file, offset, gtids)

    def birth(self, file: str) -> FileBirth | None:
        """When the source began the file."""
        created = created_at(self.sub.file(file))
        return None if created is None else FileBirth(self.sub.server_uuid, file, created)


def _cut(name: str, index: FileIndex, begin: int, size: int, limit: int | None) -> Iterator[RelayRange]:
    end = index.complete if limit is None else min(limit, index.complete)
    if end <= begin:
        return
    at = begin
    for mark, _ in index.marks:
        if mark - at >= size and mark < end:
            yield RelayRange(name, at, mark)
            at = mark
    yield RelayRange(name, at, end)


def total_bytes(pieces: Sequence[RelayRange]) -> int:
    """How long they are."""
    return sum(piece.end - piece.begin for piece in pieces)


# The place in the relay's files that `dmctl replay --until` means; it cuts the binlog as `start-task --until` does.


def place_of_end(
    until: Until, relay: Path, facts: ServerFacts, start: Position, room: int, stop: threading.Event
) -> Position | None:
    """The place, at the end of a transaction; None where all that the relay has lies before it. Raises DMError."""
    until.demand_ahead(start, None)
    match until:
        case UntilTime(seconds, _):
            found = find_time(RelayDirectory(relay), facts.flavor, seconds)
            if found is not None and not found.position.same_files(start):
                server = found.position.server_uuid
                raise DMError("until-elsewhere", place=until, now=start.server_uuid, server=server)
            return None if found is None else found.position
        case UntilPosition() | UntilGtids():
            return _read_up_to(until, relay, facts, start, room, stop)
    raise DMError("internal-error", what=f"no place is known of {until}")


def _read_up_to(
    until: Until, relay: Path, facts: ServerFacts, start: Position, room: int, stop: threading.Event
) -> Position | None:
    """Only the relay's own events tell where transactions end, and which is the last of a set; no row is read."""
    events = RelayEventSource(relay, facts.flavor)
    log = SourceLog(events, lambda table: False, UnheldXa(), until, facts.gtid_ordered)
    there = start
    with tempfile.TemporaryDirectory(prefix="dm-replay-") as scratch:
        for transaction in log.follow(start, Space(room, Path(scratch)), stop):
            if transaction is None:
                return None
            there = transaction.end
    return None if stop.is_set() else there


# What a replay applies: the pieces up to the first that ends before its end, and the tables in them.


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
    pieces: list[RelayRange] = []
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
