"""A relay from a place to another, cut into pieces that tasks can read side by side.

A transaction never lies in two files of the source, and the relay's index notes the end of one about each MiB. So a
piece begins and ends between two transactions, and nobody has to read what lies before it. A stretch stays within the
files of one server: where the relay goes on with another, or after a gap, it ends. No file of a stretch is missing, nor
the end of one: pieces are read side by side, so nobody else would see it.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE, Position
from dm.progress.checkpoint import Checkpoint
from dm.progress.healed import demand_healed
from dm.progress.joining.table_joining import find_all
from dm.progress.lane_rows import CONTROL, LaneClaim, read_ordered
from dm.progress.operators import read_operators
from dm.progress.replayed import RelayRange, StoredReplay, read_replay
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover, has_undone
from dm.rules.table_rules import TableRules
from dm.sourcelog.relaylog.checked_file import CheckedFile, report
from dm.sourcelog.relaylog.index import FileIndex, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, file_number
from dm.sourcelog.relaylog.recovery import continues, gtids_at
from dm.sourcelog.relaylog.relay_source import RelayEventSource, find_time
from dm.sourcelog.relaylog.scan import created_at, scan
from dm.sourcelog.stream.file_births import FileBirth
from dm.sourcelog.stream.prepared import UnheldXa
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.source_server import SourceServer
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition, UntilTime
from dm.sourcelog.upstream.facts import ServerFacts
from dm.tools.replay.decoding import Decoded
from dm.tools.replay.tables import KnownTables

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
        """The pieces, each of about `size` bytes, up to the relay's present end or to `end`, if that comes first.

        Raises DMError where a file is missing in between, or the end of one.
        """
        found: list[RelayRange] = []
        names = self._files()
        for name, after in zip_longest(names, names[1:]):
            if end is not None and file_number(name) > end.file_number:
                break
            limit = end.offset if end is not None and name == end.file else None
            following = after if limit is None else None
            # The proof comes first: what is cut afterwards has at least what was proven.
            whole = following is not None and self._continues(name, following)
            found += _cut(name, self._index(name, whole=whole), self._begin(name), size, limit)
            if following is not None and not whole:
                break
        return found

    def _continues(self, name: str, after: str) -> bool:
        """Whether nothing is missing between two files, as for every reader; False until the second has begun."""
        with CheckedFile(self.sub, name, self._begin(name)) as file:
            file.closed_at(max(file.size, self._begin(name)))
        return continues(self.sub, name, self.sub, after)

    def _files(self) -> list[str]:
        return [name for name in self.sub.files() if file_number(name) >= self.start.file_number]

    def _begin(self, name: str) -> int:
        return max(self.start.offset, MAGIC_SIZE) if name == self.start.file else MAGIC_SIZE

    def _index(self, name: str, *, whole: bool = False) -> FileIndex:
        """What the file has; of one that is `whole`, as the next one proves, all of it, with checksums or without."""
        path, idx = self.sub.file(name), self.sub.idx(name)
        known = read_index(idx, path.stat().st_size)
        if known is not None and known.final:
            return known
        found = scan(path, idx, self.flavor, trust=whole)
        if whole and (found is None or found.stopped < found.size):
            at, what = (0, "it has no beginning") if found is None else (found.stopped, found.what)
            report(self.sub, name, at, what)
            raise DMError("relay-file-corrupt", file=name, offset=at, what=what)
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


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """What a replay starts with."""

    claim: LaneClaim
    checkpoint: Checkpoint  # its bound is all that an earlier run may have done
    stored: StoredReplay | None  # what it may go on with
    known: KnownTables
    again: bool  # earlier runs may have done any of what lies after the checkpoint, or the task file says so


def refuse_unsuited(subtask: SubtaskConfig, server: SourceServer, target: TargetConnection) -> None:
    """Raise DMError where the task's settings leave nothing that is exact."""
    settings = subtask.syncer
    checks = subtask.foreign_key_checks and not server.facts.logs_cascades
    why = {
        "it merges shards (`shard-mode`)": bool(subtask.shard_mode),
        "it has several sources, whose changes have an order": bool(subtask.neighbours) or subtask.order is not None,
        "readers of its target see whole transactions (`atomic-transactions`)": settings.atomic_transactions,
        "its target checks foreign keys": checks,
        "it passes over what does not fit (`insert-mode: replace`)": settings.insert_mode != "insert",
        "it passes over missing rows (`missing-row: count`)": settings.missing_row != "pause",
        "its target is a TiDB": not target.dialect.takes_replays,
    }
    for words, is_so in why.items():
        if is_so:
            raise DMError("replay-unsuited", task=subtask.task, why=words)


def find_beginning(
    subtask: SubtaskConfig, taken: Takeover, control: TargetConnection, server: SourceServer
) -> ReplayStart:
    """Read what is stored; raises DMError."""
    claim = taken.claims[CONTROL]
    key, checkpoint = claim.key, taken.checkpoint
    demand_healed(key, taken.rows)
    if checkpoint is None:
        raise DMError("replay-without-checkpoint", task=subtask.task, source=subtask.source_id)
    why = {
        "a DDL statement is under way": taken.intent is not None,
        "an event has an operator (`dmctl binlog`)": bool(read_operators(control, key)),
        "tables are loaded beside it, or aside (`reload-table`, `update-task`, `table`)": bool(find_all(control, key)),
        "its last run has left changes undone; `resume-task` and `pause-task` settle that": (
            taken.bound() is not None and has_undone(control, key)
        ),
        "its source is another server since": checkpoint.position.server_uuid != server.facts.server_uuid,
        "its checkpoint is in no file": not checkpoint.position.file,
    }
    for words, is_so in why.items():
        if is_so:
            raise DMError("replay-unsuited", task=subtask.task, why=words)
    server.demand_same_file(checkpoint.position)
    stored = read_replay(control, key)
    epoch = max(row.epoch for row in taken.rows)
    here = checkpoint.position
    if stored is not None and not (stored.epoch == epoch and stored.start.same_files(here)):
        stored = None
    if stored is not None and stored.start.order != here.order:
        stored = None
    bound, settings = taken.bound(), subtask.syncer
    again = bound is not None or settings.safe_mode or bool(settings.safe_mode_duration)
    known = _known(subtask, checkpoint, control, key)
    return ReplayStart(claim, replace(checkpoint, bound=bound), stored, known, again)


def _known(subtask: SubtaskConfig, checkpoint: Checkpoint, control: TargetConnection, key: SubtaskKey) -> KnownTables:
    rules = TableRules(subtask)
    structures = {name: each.schema for name, each in checkpoint.tables.items() if each.schema is not None}
    wanted = [name for name in structures if rules.wanted(name)]
    sharing = Counter(folded(rules.route(name)) for name in wanted)
    ordered, points = read_ordered(control, key), checkpoint.points_ahead()
    return KnownTables(
        {name: structures[name] for name in wanted},
        frozenset(name for name, point in points.items() if not checkpoint.position.at_or_after(point)),
        frozenset([*ordered.tables, *ordered.left]),
        frozenset(name for name in wanted if sharing[folded(rules.route(name))] > 1),
    )


def folded(table: TableName) -> tuple[str, str]:
    """The name in lower case: two may mean one table at the target."""
    return table.schema.lower(), table.table.lower()
