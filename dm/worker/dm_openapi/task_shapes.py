"""DM's objects of tasks, by the names of its OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, BaseModel, Field, model_validator

from dm.worker.dm_openapi.source_shapes import DMSecurity, documented_below
from dm.worker.request_body import RequestBody

# DM's document names Stopped, Running and Finished; its servers answer with the others as well.
TaskStage = Literal["New", "Running", "Paused", "Stopped", "Finished", "Pausing", "Resuming", "Stopping"]


class LoadStatus(RequestBody):
    """How far a load is."""

    finished_bytes: int
    total_bytes: int
    progress: str
    meta_binlog: str
    meta_binlog_gtid: str


class DumpStatus(RequestBody):
    """How far a dump is."""

    total_tables: int
    completed_tables: float
    finished_bytes: float
    finished_rows: float
    estimate_total_rows: float


class ShardingGroup(RequestBody):
    """Shards that wait for each other."""

    target: str
    ddl_list: list[str]
    first_location: str
    synced: list[str]
    unsynced: list[str]


class DMSyncStatus(RequestBody):
    """How far a stream is."""

    total_events: int
    total_tps: int
    recent_tps: int
    master_binlog: str
    master_binlog_gtid: str
    syncer_binlog: str
    syncer_binlog_gtid: str
    blocking_ddls: list[str]
    unresolved_groups: list[ShardingGroup]
    synced: bool
    binlog_type: str
    seconds_behind_master: int = Field(description="-1 where nobody knows, as while the source does not answer")


class SubTaskStatus(RequestBody):
    """A task on one source."""

    name: str
    source_name: str
    worker_name: str
    stage: TaskStage
    unit: str
    unresolved_ddl_lock_id: str | None = None
    load_status: LoadStatus | None = None
    sync_status: DMSyncStatus | None = None
    dump_status: DumpStatus | None = None
    error_msg: str | None = None


class TargetDatabase(RequestBody):
    """The server that a task migrates into."""

    host: str
    port: int
    user: str
    password: str | None = Field(
        default=None, description="in answers `******`; an update with that, or without, keeps it"
    )
    security: DMSecurity | None = None


class BinlogFilterRule(RequestBody):
    """Events and statements that are left out."""

    ignore_event: list[str] | None = None
    ignore_sql: list[str] | None = None


class RuleSource(RequestBody):
    """The tables of a rule; without a table all of the schema."""

    source_name: str
    schema_: str = Field(alias="schema")
    table: str = ""


class RuleTarget(RequestBody):
    """Where they go."""

    schema_: str | None = Field(default=None, alias="schema")
    table: str | None = None


class TableMigrateRule(RequestBody):
    """Tables that are migrated, where they go, and what is left out of them."""

    source: RuleSource
    target: RuleTarget | None = None
    binlog_filter_rule: list[str] | None = None


class FullMigrateConf(RequestBody):
    """Dump and load. Those after `consistency` are of TiDB's physical import, which dm does not do."""

    export_threads: int | None = None
    import_threads: int | None = None
    data_dir: str | None = None
    consistency: str | None = None
    import_mode: str | None = None
    on_duplicate_logical: str | None = None
    on_duplicate_physical: str | None = None
    sorting_dir: str | None = None
    disk_quota: str | None = None
    checksum: str | None = None
    analyze: str | None = None
    range_concurrency: int | None = None
    compress_kv_pairs: str | None = Field(
        default=None, validation_alias=AliasChoices("compress_kv_pairs", "compress-kv-pairs")
    )
    pd_addr: str | None = None
    security: DMSecurity | None = None


class IncrMigrateConf(RequestBody):
    """The stream."""

    repl_threads: int | None = None
    repl_batch: int | None = None


class TaskSourceConf(RequestBody):
    """A source of a task, and where it begins."""

    source_name: str
    binlog_name: str | None = None
    binlog_pos: int | None = None
    binlog_gtid: str | None = None


class TaskSourceConfig(RequestBody):
    """The sources of a task."""

    full_migrate_conf: FullMigrateConf | None = None
    incr_migrate_conf: IncrMigrateConf | None = None
    source_conf: list[TaskSourceConf]


class DMTask(RequestBody):
    """A task."""

    name: str
    task_mode: Literal["full", "incremental", "all", "dump", "load"]
    shard_mode: Literal["pessimistic", "optimistic"] | None = None
    strict_optimistic_shard_mode: bool | None = None
    meta_schema: str | None = None
    enhance_online_schema_change: bool
    on_duplicate: Literal["replace", "error", "ignore", "overwrite"] = Field(
        description="`overwrite` is an older name of `replace`; `on_duplicate_logical` goes before it"
    )
    target_config: TargetDatabase
    binlog_filter_rule: dict[str, BinlogFilterRule] | None = None
    table_migrate_rule: list[TableMigrateRule]
    source_config: TaskSourceConfig
    status_list: list[SubTaskStatus] | None = None
    ignore_checking_items: list[str] | None = None
    keys_without_field: list[str] | None = Field(
        default=None, description="ours: keys of the task file for which DM's OpenAPI has no field"
    )


class TaskRequest(RequestBody):
    """A task as it is to be."""

    task: DMTask

    @model_validator(mode="before")
    @classmethod
    def _documented(cls, said: object) -> object:
        return documented_below("task", said)


class TaskAndCheck(DMTask):
    """A task that was created or updated: DM's documentation shows its fields, its servers answer with `task`."""

    task: DMTask
    check_result: str


class TaskList(BaseModel):
    """Tasks."""

    total: int
    data: list[DMTask]
    not_understood: list[str] | None = Field(
        default=None, description="ours: tasks that are not in the list, since their files can't be understood any more"
    )


class TaskStatusList(BaseModel):
    """A task by source."""

    total: int
    data: list[SubTaskStatus]


class StartTaskRequest(RequestBody):
    """How a task starts."""

    remove_meta: bool | None = None
    start_time: str | None = None
    safe_mode_time_duration: str | None = None
    source_name_list: list[str] | None = None

    @property
    def changes(self) -> bool:
        """Whether progress goes or is replaced."""
        return bool(self.remove_meta or self.start_time)


class StopTaskRequest(RequestBody):
    """What of a task stops."""

    timeout_duration: str | None = None
    source_name_list: list[str] | None = None


class TaskMigrateTarget(BaseModel):
    """A table and where it goes."""

    source_schema: str
    source_table: str
    target_schema: str
    target_table: str


class TaskMigrateTargets(BaseModel):
    """Tables and where they go."""

    total: int
    data: list[TaskMigrateTarget]


class DMTableStructure(BaseModel):
    """The structure by which a table's rows are read."""

    schema_name: str
    table_name: str
    schema_create_sql: str


class TableStructureRequest(RequestBody):
    """The structure as it is to be."""

    sql_content: str
    flush: bool | None = None
    sync: bool | None = None


class ConverterRequest(RequestBody):
    """A task in one of the two forms."""

    task: DMTask | None = None
    task_config_file: str | None = None


class ConverterResponse(BaseModel):
    """A task in both forms."""

    task: DMTask
    task_config_file: str


class TemplateImportRequest(RequestBody):
    """Whether templates of the same name are replaced."""

    overwrite: bool = False


class FailedTemplate(BaseModel):
    """A task that did not become a template."""

    task_name: str
    error_msg: str


class TemplateImport(BaseModel):
    """Which tasks became templates."""

    success_task_list: list[str]
    failed_task_list: list[FailedTemplate]
