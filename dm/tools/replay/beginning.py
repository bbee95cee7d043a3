"""Where a replay begins, and what has to hold for it: read once the older run is ended, so nothing changes then."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.checkpoint import Checkpoint
from dm.progress.joining import find_joining
from dm.progress.lane_rows import CONTROL, LaneClaim
from dm.progress.operators import read_operators
from dm.progress.ordered_tables import read_ordered
from dm.progress.replayed import StoredReplay, read_replay
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.progress.undone import has_undone
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.origin import Origin
from dm.tools.replay.tables import KnownTables


@dataclass(frozen=True, slots=True)
class ReplayStart:
    """What a replay starts with."""

    claim: LaneClaim
    checkpoint: Checkpoint  # its bound is all that an earlier run may have done
    stored: StoredReplay | None  # what it may go on with
    known: KnownTables
    again: bool  # earlier runs may have done any of what lies after the checkpoint, or the task file says so


def refuse_unsuited(subtask: SubtaskConfig, origin: Origin, target: TargetConnection) -> None:
    """Raise DMError where the task's settings leave nothing that is exact."""
    settings = subtask.syncer
    checks = subtask.foreign_key_checks and not origin.facts.logs_cascades
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


def find_beginning(subtask: SubtaskConfig, taken: Takeover, control: TargetConnection, origin: Origin) -> ReplayStart:
    """Read what is stored; raises DMError."""
    claim = taken.claims[CONTROL]
    key, checkpoint = claim.key, taken.checkpoint
    if checkpoint is None:
        raise DMError("replay-without-checkpoint", task=subtask.task, source=subtask.source_id)
    why = {
        "a DDL statement is under way": taken.intent is not None,
        "an event has an operator (`dmctl binlog`)": bool(read_operators(control, key)),
        "tables are loaded beside it (`reload-table`, `update-task`)": find_joining(control, key) is not None,
        "its last run has left changes undone; `resume-task` and `pause-task` settle that": (
            taken.bound() is not None and has_undone(control, key)
        ),
        "its source is another server since": checkpoint.position.server_uuid != origin.facts.server_uuid,
        "its checkpoint is in no file": not checkpoint.position.file,
    }
    for words, is_so in why.items():
        if is_so:
            raise DMError("replay-unsuited", task=subtask.task, why=words)
    origin.demand_same_file(checkpoint.position)
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
