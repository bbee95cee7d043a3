"""`loaders`, `syncers`, `validators`: how the load writes, how changes are applied, and how they are validated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict

from dm.config.document import Scalar, YamlMap
from dm.config.object_storage import ObjectStorage, is_object_storage, read_object_storage
from dm.config.scalar import Flag, Text, duration, one_of, size, whole
from dm.config.section import Issue, LoadContext, Section

ValidationMode = Literal["none", "fast", "full"]


class ValidatorConfig(Section):
    """One entry of `validators`."""

    place: ClassVar = "under `validators`"
    unset_values: ClassVar = {
        "mode": ("",),
        **dict.fromkeys(("worker-count", "batch-query-size", "max-pending-row-count"), ("0",)),
        **dict.fromkeys(("validate-interval", "check-interval", "row-error-delay", "meta-flush-interval"), ("0s", "0")),
        "max-pending-row-size": ("",),
    }

    mode: Annotated[ValidationMode, one_of(ValidationMode, "config-validation-mode")] = "none"
    worker_count: Annotated[int, whole(1, 1024)] = 4
    validate_interval: Annotated[float, duration(1e-9)] = 10.0  # seconds
    check_interval: Annotated[float, duration(1e-9)] = 5.0
    row_error_delay: Annotated[float, duration()] = 1800.0
    meta_flush_interval: Annotated[float, duration(1e-9)] = 300.0
    batch_query_size: Annotated[int, whole(1)] = 100
    max_pending_row_size: Annotated[int, size()] = 500 << 20  # bytes
    max_pending_row_count: Annotated[int, whole(1)] = (1 << 31) - 1


ImportMode = Literal["logical", "sql", "loader", "physical", "import-into"]
OnDuplicate = Literal["replace", "ignore", "error"]

# Keys of TiDB's physical import, and the values that `dmctl config` of DM prints where a file has none.
_PHYSICAL_KEYS: dict[str, tuple[str, ...]] = {
    "on-duplicate-physical": ("none",),
    "sorting-dir-physical": (),
    "sorting-dir": (),
    "disk-quota-physical": ("0",),
    "disk-quota": ("0",),
    "checksum-physical": ("required",),
    "checksum": ("required",),
    "analyze": ("optional",),
    "range-concurrency": ("0",),
    "compress-kv-pairs": (),
    "pd-addr": (),
}
# DM's own value: `dir`, the task's name and this; or, where `dir` is in object storage, this and the task's name.
_SORTING_DIRECTORY, _SORTING_HERE = ".sorting", "./sorting."
_LOGICAL = "use `logical`; TiDB Lightning imports a dump of `task-mode: dump` with `spark: {dump-format: sql}`"
PHYSICAL = "leave it out: it is for TiDB's physical import; rows are loaded with `import-mode: logical`"


class LoaderConfig(Section):
    """One entry of `loaders`."""

    place: ClassVar = "under `loaders`"
    deprecated: ClassVar = {"on-duplicate": "use `on-duplicate-logical`"}
    refused: ClassVar = dict.fromkeys(_PHYSICAL_KEYS, PHYSICAL)
    idle_values: ClassVar = _PHYSICAL_KEYS
    unset_values: ClassVar = {"pool-size": ("0",), "import-mode": ("",), "on-duplicate-logical": ("",), "dir": ("",)}

    pool_size: Annotated[int, whole(1, 1024)] = 16  # parts that are written at a time, at most 256
    dir: Text = "./dumped_data"  # the task's name is appended, as in DM; of object storage bucket and prefix
    storage: ObjectStorage | None = None  # what `dir` says of object storage
    import_mode: Annotated[ImportMode, one_of(ImportMode, "config-import-mode", fold=True)] = "logical"
    on_duplicate_logical: Annotated[OnDuplicate, one_of(OnDuplicate, "config-on-duplicate", fold=True)] = "replace"

    @classmethod
    def file_keys(cls) -> list[str]:
        """Without what `dir` says."""
        return [key for key in super().file_keys() if key != "storage"]

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Part a place in object storage from its keys."""
        named = data.get("dir")
        if isinstance(named, Scalar) and is_object_storage(named.text):
            storage = read_object_storage(named, context)
            del data["dir"]
            if storage is not None:
                data["dir"], data["storage"] = replace(named, text=storage.address), storage

    @classmethod
    def _idle(cls, key: str, value: object) -> bool:
        """Also DM's own directory for sorting, whose name the task's is part of."""
        written = value.text if isinstance(value, Scalar) and key.startswith("sorting-dir") else ""
        own = written.endswith(_SORTING_DIRECTORY) or written.startswith(_SORTING_HERE)
        return own or super()._idle(key, value)

    def check(self) -> Iterator[Issue]:
        """Physical import is TiDB's own; of object storage there is S3."""
        if self.import_mode in ("physical", "import-into"):
            value = repr(self.import_mode)
            yield Issue("config-import-mode", "import-mode", suggestion=_LOGICAL, details={"value": value})
        elif self.import_mode in ("sql", "loader"):
            yield Issue(
                "config-deprecated-key",
                "import-mode",
                suggestion="use `logical`",
                warning=True,
                details={"key": self.import_mode},
            )
        if "://" in self.dir and self.storage is None:
            yield Issue(
                "config-refused-value",
                "dir",
                expected="a directory, or `s3://bucket/prefix?endpoint=..`",
                details={"value": repr(self.dir.split("://", 1)[0] + "://")},
            )


InsertMode = Literal["insert", "replace"]
MissingRow = Literal["pause", "count"]
NarrowerColumns = Literal["pause", "accept"]
RowFormat = Literal["auto", "sql"]
Conflicts = Literal["ignore", "pause"]
Statements = Literal["apply", "pause"]


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
    conflicts: Annotated[Conflicts, one_of(Conflicts)] = "ignore"
    ddl: Annotated[Statements, one_of(Statements)] = "apply"
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
        """Safe mode can't be on and last 0 s; what lets changes pass over other rows looks for no conflicts."""
        if self.safe_mode and self.safe_mode_duration == 0:
            yield Issue("config-safe-mode-duration", "safe-mode-duration", suggestion="leave one of the two out")
        if self.conflicts == "ignore":
            return
        wanted = {
            "`atomic-transactions: true`": self.atomic_transactions,
            "no `safe-mode`": not (self.safe_mode or self.safe_mode_duration),
            "no `insert-mode: replace`": self.insert_mode == "insert",
            "no `missing-row: count`": self.missing_row == "pause",
        }
        for expected, there in wanted.items():
            if not there:
                hint = "a change that passes over another row, or is applied again, can't tell a conflict"
                value = {"value": f"`conflicts: {self.conflicts}`"}
                yield Issue("config-refused-value", "conflicts", f"{expected} beside it", hint, details=value)


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
