"""`syncers`: how the changes of the binlog are applied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict

from dm.config.scalar import Flag, duration, one_of, size, whole
from dm.config.section import Issue, Section

InsertMode = Literal["insert", "replace"]
MissingRow = Literal["pause", "count"]
NarrowerColumns = Literal["pause", "accept"]
RowFormat = Literal["auto", "sql"]


# Unless `batch` says something: DM's default, and where a target transaction gains nothing more from being larger.
BATCH: Final = 100
LARGEST_BATCH: Final = 1000


class SyncerConfig(Section):
    """One entry of `syncers`."""

    place: ClassVar = "under `syncers`"
    deprecated: ClassVar = {
        "meta-file": "leave it out",
        "max-retry": "leave it out: see `checker` of the source",
        "auto-fix-gtid": "leave it out",
        "disable-detect": "leave it out: conflicts are always detected",
        "enable-ansi-quotes": "leave it out: the source says it with each statement",
        "enable-gtid": "set `enable-gtid` in the source file",
    }
    refused: ClassVar = {
        "conflict-policy": "it is gone, leave it out: a change always follows the worker that has its keys"
    }

    unset_values: ClassVar = {
        **dict.fromkeys(("worker-count", "batch", "queue-size", "checkpoint-flush-interval"), ("0",)),
        "safe-mode-duration": ("",),
    }

    worker_count: Annotated[int, whole(1, 1024)] = 16
    batch: Annotated[int, whole(1, 100_000)] | None = None  # None: see `batches`
    queue_size: Annotated[int, whole(1, 10_000_000)] = 1024
    checkpoint_flush_interval: Annotated[int, whole(1, 86_400)] = 30  # seconds
    # None: on, unless foreign keys are checked; never None in a SubtaskConfig.
    compact: Flag | None = None
    multiple_rows: Flag | None = None
    safe_mode: Flag = False
    safe_mode_duration: Annotated[float, duration()] | None = None  # seconds, on top of what is needed
    insert_mode: Annotated[InsertMode, one_of(InsertMode)] = "insert"
    missing_row: Annotated[MissingRow, one_of(MissingRow)] = "pause"
    narrower_columns: Annotated[NarrowerColumns, one_of(NarrowerColumns)] = "pause"
    row_format: Annotated[RowFormat, one_of(RowFormat)] = "auto"
    atomic_transactions: Flag = False
    memory_quota: Annotated[int, size(low=1 << 20)] = 128 << 20  # bytes

    @property
    def reading_quota(self) -> int:
        """Bytes for what is read from the binlog: half of all."""
        return self.memory_quota // 2

    @property
    def batches(self) -> tuple[int, int]:
        """How many changes make a batch that is worth a target transaction, and how many it may have at most."""
        return (BATCH, LARGEST_BATCH) if self.batch is None else (self.batch, self.batch)

    def check(self) -> Iterator[Issue]:
        """Safe mode can't be on and last 0 s."""
        if self.safe_mode and self.safe_mode_duration == 0:
            yield Issue("config-safe-mode-duration", "safe-mode-duration", suggestion="leave one of the two out")


# In which order the changes of several sources reach the tables that they share.

MergeOrder = Literal["", "commit-time"]
SilentSource = Literal["pause", "continue"]

HOLD_SECONDS = 60.0


class CommitTimeOrder(BaseModel):
    """`merge-order: commit-time`, as a unit's process gets it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: tuple[str, ...]  # all sources of the task
    hold: float = HOLD_SECONDS  # seconds for which a silent source holds the others
    silent: SilentSource = "pause"
