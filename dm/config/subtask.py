"""A task on one source, with every name resolved: what a unit's process gets."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from dm.config.dumper import DumperConfig
from dm.config.endpoint import Endpoint
from dm.config.expression import ExpressionFilter
from dm.config.pace import PaceConfig
from dm.config.references import StartPoint
from dm.config.rules import BlockAllowList, FilterRule, RouteRule
from dm.config.scalar import CheckingItem, Collation, ShardMode, TaskMode
from dm.config.section import Transferred
from dm.config.source import SourceConfig
from dm.config.units import CommitTimeOrder, LoaderConfig, SparkConfig, SyncerConfig, ValidatorConfig


class Share(BaseModel):
    """The part of a task's tables that is loaded beside its stream (`dm.progress.joining.table_joining`).

    It is certain tables of the source, or all that an older list of the task did not want.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tables: tuple[tuple[str, str], ...] = ()
    older: BlockAllowList | None = None
    """The list of before; where it is given, it decides, and no tables are named."""


class RunBy(BaseModel):
    """Who runs a subtask: stored at the target with the epoch of the run (`dm.progress.owner`).

    No file has it. A newer dm may store more of itself there, and this one still has to see by whom it was fenced.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    host: str = ""  # empty: nobody said
    home: str = ""
    member: str = ""  # of a cluster
    cluster: str = ""

    def __str__(self) -> str:
        """As messages call it."""
        where = f"host {self.host} ({self.home})"
        return f"member {self.member} on {where}" if self.member else f"dm-worker on {where}"


NOBODY: Final = RunBy()


class SubtaskConfig(Transferred):
    """Everything about one task on one source."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    task: str
    source: SourceConfig
    sole_source: bool = True  # the task has no other
    neighbours: tuple[str, ...] = ()  # the task's other sources
    mode: TaskMode
    target: Endpoint
    meta_schema: str = "dm_meta"
    meta: StartPoint | None = None
    opposite: str = ""  # the task in the other direction, whose transactions are left out
    opposite_meta_schema: str = ""  # at the source
    block_allow_list: BlockAllowList | None = None
    share: Share | None = None  # of the tables that the list wants, these alone
    routes: tuple[RouteRule, ...] = ()
    filters: tuple[FilterRule, ...] = ()
    expression_filters: tuple[ExpressionFilter, ...] = ()
    dumper: DumperConfig = DumperConfig()
    loader: LoaderConfig = LoaderConfig()
    syncer: SyncerConfig = SyncerConfig(compact=True, multiple_rows=True)
    validator: ValidatorConfig = ValidatorConfig()
    spark: SparkConfig = SparkConfig()
    pace: PaceConfig = PaceConfig()
    timezone: str = ""
    application_zone: str = ""  # that the sessions of the source's applications set; empty: its server's
    case_sensitive: bool = False
    clean_dump_file: bool = True
    online_ddl: bool = True
    shadow_table_rules: tuple[str, ...] = ()
    trash_table_rules: tuple[str, ...] = ()
    shard_mode: ShardMode = ""
    strict_optimistic: bool = False  # no shard waits for others
    shard_sources: tuple[str, ...] = ()  # all sources of the task, where it merges shards
    order: CommitTimeOrder | None = None  # among all sources of the task
    collation_compatible: Collation = "loose"
    collation_map: dict[str, str] = {}
    engine_map: dict[str, str] = {}
    ignore_checking_items: tuple[CheckingItem, ...] = ()
    foreign_key_checks: bool = False
    run_by: RunBy = NOBODY  # which no file says

    @property
    def source_id(self) -> str:
        """The source's name."""
        return self.source.source_id

    @property
    def name(self) -> str:
        """How logs and messages name the subtask."""
        return f"{self.task}/{self.source.source_id}"

    @property
    def dump_of_one_moment(self) -> bool:
        """Whether all rows dumped must be of one moment."""
        return self.dumper.of_one_moment(self.mode, self.loader.on_duplicate_logical)

    @property
    def one_stream(self) -> str:
        """Why no table of it can have a stream of its own; empty where one can."""
        reasons = (
            (
                bool(self.shard_mode),
                f"the task has `shard-mode: {self.shard_mode}`, so its shards alter a table together",
            ),
            (
                self.syncer.atomic_transactions,
                "the task has `atomic-transactions`, and a table that is loaded beside it has transactions of its own",
            ),
            (self.order is not None, "the task has `merge-order`, and its sources take turns with all of their tables"),
            (
                self.foreign_key_checks,
                "the target checks foreign keys, and a table that is loaded beside its parent has other moments",
            ),
        )
        return next((why for refused, why in reasons if refused), "")

    @property
    def copies(self) -> bool:
        """Whether rows may go from source to target without files."""
        files = self.spark.dump_files
        if files != "auto":
            return files == "none"  # which a task file says only where it can be
        # Where tables join a stream, the target's are not of this load.
        return self.mode in ("full", "all") and not self.dump_of_one_moment and self.share is None
