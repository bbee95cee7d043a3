"""What a person asks of a comparison, a flashback, a replay or a heal, and what came of it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.ident import TableName
from dm.position import Position
from dm.unit import JSON


@dataclass(frozen=True, slots=True)
class FlashbackRequest:
    """The options of `dmctl flashback`; places as they were written."""

    begin: str
    end: str = ""  # empty: as far as the target is
    tables: tuple[str, ...] = ()  # of the target, `schema.table`; all when none is named
    directory: str = "."


@dataclass(frozen=True, slots=True)
class RelayedSubtask:
    """A subtask, and where the relay of its source is."""

    subtask: SubtaskConfig
    relay: Path


@dataclass(frozen=True, slots=True)
class DdlMet:
    """A statement in the stretch, which is not taken back."""

    place: str
    text: str


@dataclass
class FlashbackReport:
    """What was written for one source."""

    source: str
    begin: Position | None = None
    end: Position | None = None
    transactions: int = 0
    statements: Counter[str] = field(default_factory=Counter)  # by table of the target
    ddl: list[DdlMet] = field(default_factory=list)
    ddl_untold: int = 0
    file: str = ""

    def to_json(self) -> dict[str, JSON]:
        """For `--output json`."""
        return cast(
            "dict[str, JSON]",
            {
                "source": self.source, "from": place_of(self.begin), "to": place_of(self.end),
                "fromGtid": "" if self.begin is None else str(self.begin.gtid_set),
                "toGtid": "" if self.end is None else str(self.end.gtid_set),
                "transactions": self.transactions, "statements": self.statements.total(),
                "tables": dict(sorted(self.statements.items())),
                "ddl": [{"place": each.place, "statement": each.text} for each in self.ddl],
                "ddlNotShown": self.ddl_untold, "file": self.file,
            },
        )  # fmt: skip


def place_of(position: Position | None) -> str:
    """File and offset; the GTID set, where a person has given nothing else."""
    if position is None:
        return ""
    return str(position) if position.file else f"GTID set {position.gtid_set}"


@dataclass
class PhasedReport:
    """How far the work is, and how long each of its phases took."""

    phase: str = field(default="connecting", kw_only=True)
    over: bool = field(default=False, kw_only=True)
    seconds: dict[str, float] = field(default_factory=dict, kw_only=True)  # by phase

    @contextmanager
    def timed(self, phase: str, clock: Clock) -> Iterator[None]:
        """A phase, from its begin to its end."""
        self.enter(phase)
        began = clock.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] = clock.monotonic() - began

    def enter(self, phase: str) -> None:
        """A phase that is not timed."""
        self.phase = phase

    @property
    def rounded_seconds(self) -> dict[str, JSON]:
        """For programs."""
        return {phase: round(seconds, 2) for phase, seconds in self.seconds.items()}


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A subtask, its places on disk, and the options of `dmctl replay`."""

    subtask: SubtaskConfig
    relay: Path
    sync_directory: Path  # the syncer's: rows of undecided XA transactions are there
    directory: Path  # for what is between reading and applying; where a cluster's executors see it, too
    until: str = ""  # as a person wrote it; empty: the relay's present end
    cancel: bool = False  # nothing is replayed: the record of an earlier replay is removed


@dataclass
class ReplayReport(PhasedReport):
    """For `query-status` and `dmctl replay`."""

    source: str
    goes_on: bool = False  # with what an earlier one has left
    begin: Position | None = None
    end: Position | None = None
    ends_before: str = ""
    pieces: int = 0
    done_pieces: int = 0
    bytes: int = 0
    done_bytes: int = 0
    buckets: int = 0  # of the present job
    done_buckets: int = 0
    changes: int = 0  # that were read
    applied: int = 0
    as_events: int = 0
    replayed: Mapping[TableName, TableName] = field(default_factory=dict)
    left: Mapping[TableName, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, JSON]:
        """The fields."""
        return {
            "source": self.source, "phase": self.phase, "over": self.over, "goesOn": self.goes_on,
            "from": "" if self.begin is None else str(self.begin), "to": "" if self.end is None else str(self.end),
            "toGtid": "" if self.end is None else str(self.end.gtid_set), "endsBefore": self.ends_before,
            "pieces": self.pieces, "donePieces": self.done_pieces, "bytes": self.bytes, "doneBytes": self.done_bytes,
            "buckets": self.buckets, "doneBuckets": self.done_buckets, "changes": self.changes,
            "applied": self.applied, "asEvents": self.as_events,
            "seconds": self.rounded_seconds,
            "tables": [str(target) for target in sorted(set(self.replayed.values()))],
            "left": {str(table): why for table, why in sorted(self.left.items())},
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class HealedSubtask:
    """A subtask that is healed, and its places on disk."""

    subtask: SubtaskConfig
    relay: Path | None  # where its source's relay is
    sync_directory: Path  # the syncer's: rows of undecided XA transactions are there


@dataclass(frozen=True, slots=True)
class HealRequest:
    """Subtasks that are healed together, all others that may write to their target, and the options of `dmctl heal`."""

    healed: tuple[HealedSubtask, ...]
    others: tuple[SubtaskConfig, ...]  # of the same task, and of all other tasks
    dry_run: bool = False  # tell what would be done
    recreate: bool = False  # tables that are not made like the source's are made again, and loaded whole
    rows: int = 100_000  # of a chunk
    threads: int = 4


@dataclass
class HealReport(PhasedReport):
    """For `query-status` and `dmctl heal`."""

    sources: tuple[str, ...]
    dry_run: bool
    begin: dict[str, Position] = field(default_factory=dict)  # P0 of each source
    end: dict[str, Position] = field(default_factory=dict)  # P1
    chunks: int = 0  # a table without a key is one
    differing_chunks: int = 0
    rows: Counter[str] = field(default_factory=Counter)  # written, or to be written, by table of the target
    whole: dict[str, str] = field(default_factory=dict)  # tables of the target that are loaded again, and why
    gone: list[str] = field(default_factory=list)  # tables that the sources have no more
    gone_from: dict[str, str] = field(default_factory=dict)  # of these: the target's table, where others go into it

    def to_json(self) -> dict[str, JSON]:
        """The fields."""
        return {
            "sources": [
                {"source": each, "from": place_of(self.begin.get(each)), "to": place_of(self.end.get(each))}
                for each in self.sources
            ],
            "dryRun": self.dry_run, "phase": self.phase, "over": self.over, "chunks": self.chunks,
            "differingChunks": self.differing_chunks,
            "writtenRows": self.rows.total(), "tables": dict(sorted(self.rows.items())),
            "whole": dict(sorted(self.whole.items())), "gone": [*self.gone],
            "goneFrom": dict(sorted(self.gone_from.items())),
            "seconds": self.rounded_seconds,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """What a person asks of a comparison: the options of `dmctl diff`."""

    tables: tuple[str, ...] = ()  # of the target, `schema.table`; all when none is named
    where: str = ""  # a condition on the rows of both sides
    ignore_columns: tuple[str, ...] = ()
    fix_sql: str = ""  # a directory for statements that make the target equal; "" for none
    rows: int = 100_000  # of a chunk
    threads: int = 4
    max_load: int = 0  # threads that may run at a server before a chunk waits; 0 for any number
    shown: int = 20  # rows that are shown of each table
    kept_bytes: int = 64 << 20  # of differing rows that a thread keeps at a time, roughly, and that wait to be told
    resume: bool = False  # whether chunks that an unfinished comparison found equal are left out
    snapshots: tuple[str, ...] = ()  # `MOMENT`, `target=MOMENT`, `SOURCE=MOMENT`
    follows: tuple[str, ...] = ()  # sources whose changes a syncer applies meanwhile
    recent: bool = False  # only what was written since a table was found equal, where that can be known
    sample: bool = False  # only some chunks, for how long all of them take; nothing is recorded
    spark_from: int = 500_000  # rows: fewer are compared before Spark would have begun

    @property
    def asked(self) -> str:
        """A name for which rows are compared in which chunks: what a comparison that goes on must be asked, too."""
        what = [sorted(self.tables), self.where, sorted(self.ignore_columns), self.rows, sorted(self.snapshots)]
        if self.recent:
            what.append("recent")
        if self.sample:
            what.append("sample")
        return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]

    @property
    def part(self) -> tuple[str, str]:
        """Which part of a table is compared: a name for it and words, both empty for all of it."""
        words = []
        if self.where:
            words.append(f"where {self.where}")
        if self.ignore_columns:
            words.append(f"without {', '.join(sorted(self.ignore_columns))}")
        said = "; ".join(words)
        return (hashlib.sha256(said.encode()).hexdigest()[:16] if said else "", said)
