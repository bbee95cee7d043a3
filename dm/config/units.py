"""How the units work: `spark`, `loaders`, `syncers`, `validators`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializationInfo, field_serializer

from dm.config.document import Scalar, YamlMap
from dm.config.object_storage import ObjectStorage, is_object_storage, read_object_storage
from dm.config.scalar import Flag, Text, duration, flag_or, matching, one_of, size, whole
from dm.config.secret import MASK
from dm.config.section import Issue, LoadContext, Section

# `spark`: the session in which the full dump and load run; a section of ours.

DumpFormat = Literal["parquet", "sql"]
DumpFiles = Literal["all", "auto", "none"]
JsonTypes = Literal["exact", "text"]

_SIZE_EXAMPLE = "a size such as `512m` or `2g`"
# Spark, "Submitting Applications", master URLs.
_MASTER = r"|local(\[(\*|[1-9][0-9]*)(\s*,\s*[0-9]+)?\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+"
_MASTER_EXAMPLE = "a master URL of Spark such as `local[4]`, `spark://host:7077`, `yarn` or `k8s://host:443`"
# Of Spark's settings those that would break what a dump or load rests on: setting -> (values that do, what to use).
_REFUSED = {
    "spark.master": ("", "use `master`"),
    "spark.submit.deployMode": ("cluster", "leave it out: the driver is part of the task's process"),
    "spark.authenticate": ("false", "use `true`: else whoever reaches the driver's ports is given passwords"),
    "spark.speculation": ("true", "leave it out: a chunk that is read twice at a time doubles the source's load"),
}
_SECRET_KEY = re.compile(r"secret|password|token|credential|access\.?key", re.IGNORECASE)


class SparkConfig(Section):
    """Where Spark runs and with what."""

    place: ClassVar = "under `spark`"
    master: Annotated[str, matching(_MASTER, "config-bad-value", _MASTER_EXAMPLE)] = ""  # empty: see `master_for`
    conf: dict[str, Text] = Field(default_factory=dict)
    packages: tuple[Text, ...] = ()  # Maven coordinates
    archives: tuple[Text, ...] = ()  # unpacked beside each executor
    python: Text = ""  # of the executors; empty: the path of the one that runs dm
    num_executors: Annotated[int, whole(1, 100_000)] | None = None
    executor_cores: Annotated[int, whole(1, 1024)] | None = None
    executor_memory: Annotated[str, matching(r"([1-9][0-9]*[kmgt])?", "config-bad-value", _SIZE_EXAMPLE)] = ""
    driver_memory: Annotated[str, matching(r"[1-9][0-9]*[kmgt]", "config-bad-value", _SIZE_EXAMPLE)] = "512m"
    java_home: Text = ""  # empty: JAVA_HOME, then java of the path, then the one installed with dm
    json_types: Annotated[JsonTypes, one_of(JsonTypes)] = "exact"  # of MySQL's documents; text: what the text says
    dump_files: Annotated[DumpFiles, one_of(DumpFiles)] = (
        "all"  # none: keyed tables are copied without; auto: those that can be taken back
    )
    # Of tables that the load makes: secondary ones and foreign keys come after the rows. auto: of large tables, if the
    # task has one source.
    defer_indexes: Annotated[bool | Literal["auto"], flag_or("auto")] = "auto"
    dump_format: Annotated[DumpFormat, one_of(DumpFormat)] = "parquet"

    @property
    def settings(self) -> dict[str, str]:
        """All of it under Spark's own names; what `conf` says wins."""
        named = {
            "spark.jars.packages": ",".join(self.packages),
            "spark.archives": ",".join(self.archives),
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": str(self.executor_cores or ""),
            "spark.executor.instances": str(self.num_executors or ""),
        }
        if self.num_executors and self.executor_cores and self.master.startswith("spark://"):
            named["spark.cores.max"] = str(self.num_executors * self.executor_cores)  # standalone counts cores only
        return {name: value for name, value in named.items() if value} | self.conf

    def master_for(self, threads: int) -> str:
        """The master; where the task names none, this machine with room for so many sessions of a server.

        Who reads or writes waits for a server much of the time, so few cores get up to twice as many workers as they
        are; not more, since each is a process of some 100 MB.
        """
        cores = len(os.sched_getaffinity(0))
        return self.master or (f"local[{min(threads, 2 * cores)}]" if cores < threads else "local[*]")

    def check(self) -> Iterator[Issue]:
        """What can not be as it is written."""
        for name, (value, hint) in _REFUSED.items():
            found = self.conf.get(name)
            if found is not None and found.lower().startswith(value):
                yield Issue("config-refused-value", "conf", "", hint, details={"value": f"`{name}: {found}`"})
        if self.num_executors and not self.executor_cores and self.master.startswith("spark://"):
            hint = "set `executor-cores` too: a standalone cluster is asked for cores"
            details = {"value": str(self.num_executors)}
            yield Issue("config-refused-value", "num-executors", "", hint, details=details)

    @field_serializer("conf")
    def _masked(self, value: dict[str, str], info: SerializationInfo) -> dict[str, str]:
        if isinstance(info.context, dict) and info.context.get("reveal") is True:
            return value
        return {key: MASK if _SECRET_KEY.search(key) else setting for key, setting in value.items()}


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
Conflicts = Literal["ignore", "pause", "source-wins", "target-wins"]
ConflictRows = Literal["keep", "omit"]
Statements = Literal["apply", "pause"]
OnError = Literal["task", "table"]


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
    conflict_rows: Annotated[ConflictRows, one_of(ConflictRows)] = "keep"
    ddl: Annotated[Statements, one_of(Statements)] = "apply"
    memory_quota: Annotated[int, size(low=1 << 20)] = 128 << 20  # bytes
    on_error: Annotated[OnError, one_of(OnError)] = "task"  # what an error of one table stops
    aside_tables: Annotated[int, whole(1, 1000)] = 10  # with `on-error: table`, before the task pauses
    # Of a table with more rows, statements that take long are executed beside the stream; None: of no table.
    ddl_beside_rows: Annotated[int, whole(0, 1_000_000_000_000)] | None = None

    @property
    def parts_with_tables(self) -> str:
        """The setting by which tables may leave the stream; empty if none may."""
        if self.on_error == "table":
            return "on-error: table"
        return "" if self.ddl_beside_rows is None else "ddl-beside-rows"

    @property
    def reading_quota(self) -> int:
        """Bytes for what is read from the binlog: half of all."""
        return self.memory_quota // 2

    @property
    def batches(self) -> tuple[int, int]:
        """How many changes make a batch that is worth a target transaction, and how many it may have at most."""
        return (BATCH, LARGEST_BATCH) if self.batch is None else (self.batch, self.batch)

    @property
    def one_side_wins(self) -> bool:
        """Whether conflicts are resolved, by whatever side."""
        return self.conflicts in ("source-wins", "target-wins")

    def check(self) -> Iterator[Issue]:
        """Safe mode can't be on and last 0 s; what lets changes pass over other rows looks for no conflicts."""
        if self.safe_mode and self.safe_mode_duration == 0:
            yield Issue("config-safe-mode-duration", "safe-mode-duration", suggestion="leave one of the two out")
        if self.parts_with_tables and self.atomic_transactions:
            hint = "a table that is put aside has transactions of its own, so those of the source are cut"
            alone = "no `atomic-transactions: true` beside it"
            setting = self.parts_with_tables
            details = {"value": f"`{setting}`"}
            yield Issue("config-refused-value", setting.partition(":")[0], alone, hint, details=details)
        if self.conflicts == "ignore":
            return
        wanted = {
            "`atomic-transactions: true`": self.atomic_transactions,
            "no `safe-mode`": not (self.safe_mode or self.safe_mode_duration),
            "no `insert-mode: replace`": self.insert_mode == "insert",
            "no `missing-row: count`": self.missing_row == "pause",
        }
        if self.conflicts == "target-wins":
            wanted["`ddl: pause`"] = self.ddl == "pause"
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
