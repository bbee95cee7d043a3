"""A task on one source, with every name resolved: what a unit's process gets."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from dm.config.dumper import DumperConfig
from dm.config.endpoint import Endpoint
from dm.config.event_filter import FilterRule
from dm.config.expression import ExpressionFilter
from dm.config.loader import LoaderConfig
from dm.config.route import RouteRule
from dm.config.selection import BlockAllowList
from dm.config.source import SourceConfig
from dm.config.spark import SparkConfig
from dm.config.syncer import SyncerConfig
from dm.config.task import CheckingItem, Collation, ShardMode, StartPoint, TaskConfig, TaskMode
from dm.config.validator import ValidatorConfig
from dm.errors import DMError
from dm.unit import JSON


class SubtaskConfig(BaseModel):
    """Everything about one task on one source."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    task: str
    source: SourceConfig
    sole_source: bool = True  # the task has no other
    mode: TaskMode
    target: Endpoint
    meta_schema: str = "dm_meta"
    meta: StartPoint | None = None
    block_allow_list: BlockAllowList | None = None
    routes: tuple[RouteRule, ...] = ()
    filters: tuple[FilterRule, ...] = ()
    expression_filters: tuple[ExpressionFilter, ...] = ()
    dumper: DumperConfig = DumperConfig()
    loader: LoaderConfig = LoaderConfig()
    syncer: SyncerConfig = SyncerConfig(compact=True, multiple_rows=True)
    validator: ValidatorConfig = ValidatorConfig()
    spark: SparkConfig = SparkConfig()
    timezone: str = ""
    case_sensitive: bool = False
    clean_dump_file: bool = True
    online_ddl: bool = True
    shadow_table_rules: tuple[str, ...] = ()
    trash_table_rules: tuple[str, ...] = ()
    shard_mode: ShardMode = ""
    collation_compatible: Collation = "loose"
    ignore_checking_items: tuple[CheckingItem, ...] = ()
    foreign_key_checks: bool = False

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

    def to_wire(self) -> JSON:
        """Everything including passwords: for the pipe to the unit's process, and nothing else."""
        wire: JSON = self.model_dump(mode="json", context={"reveal": True})
        return wire

    @classmethod
    def from_wire(cls, wire: JSON) -> SubtaskConfig:
        """The inverse of `to_wire`."""
        return cls.model_validate(wire)


def resolve(task: TaskConfig, source_id: str, sources: Mapping[str, SourceConfig]) -> SubtaskConfig:
    """The subtask of a task on one of its sources; raises DMError when the task or `sources` does not have it."""
    instance = next((instance for instance in task.mysql_instances if instance.source_id == source_id), None)
    source = sources.get(source_id)
    if instance is None or source is None:
        raise DMError("config-source-unknown", value=repr(source_id))
    dumper, loader = task.dumper_of(instance), task.loader_of(instance)
    syncer = task.syncer_of(instance)
    if instance.mydumper_thread:
        dumper = dumper.model_copy(update={"threads": instance.mydumper_thread})
    if instance.loader_thread:
        loader = loader.model_copy(update={"pool_size": instance.loader_thread})
    if instance.syncer_thread:
        syncer = syncer.model_copy(update={"worker_count": instance.syncer_thread})
    open_keys = [key for key in ("compact", "multiple_rows") if getattr(syncer, key) is None]
    syncer = syncer.model_copy(update=dict.fromkeys(open_keys, not task.foreign_key_checks))
    case_sensitive = task.case_sensitive or source.case_sensitive is True
    return SubtaskConfig(
        task=task.name,
        source=source,
        sole_source=len(task.mysql_instances) == 1,
        mode=task.task_mode,
        target=task.target_database,
        meta_schema=task.meta_schema,
        meta=instance.meta,
        block_allow_list=task.block_allow_list.get(instance.block_allow_list),
        routes=tuple(task.routes[name].model_copy(update={"name": name}) for name in instance.route_rules),
        filters=_filters(task, instance.filter_rules, source),
        expression_filters=tuple(
            task.expression_filter[name].model_copy(update={"name": name}) for name in instance.expression_filters
        ),
        dumper=dumper,
        loader=loader,
        syncer=syncer,
        validator=task.validators.get(instance.validator_config_name) or ValidatorConfig(),
        spark=task.spark,
        timezone=task.timezone,
        case_sensitive=case_sensitive,
        clean_dump_file=task.clean_dump_file,
        online_ddl=task.online_ddl or bool(task.online_ddl_scheme),
        shadow_table_rules=task.shadow_table_rules,
        trash_table_rules=task.trash_table_rules,
        shard_mode=task.shard_mode,
        collation_compatible=task.collation_compatible,
        ignore_checking_items=task.ignore_checking_items,
        foreign_key_checks=task.foreign_key_checks,
    )


def _filters(task: TaskConfig, names: tuple[str, ...], source: SourceConfig) -> tuple[FilterRule, ...]:
    """The task's filters and the source's; each has its say."""
    rules = [task.filters[name].model_copy(update={"name": name}) for name in names]
    for number, rule in enumerate(source.filters):
        rules.append(rule.model_copy(update={"name": f"filters[{number}] of source {source.source_id}"}))
    return tuple(rules)
