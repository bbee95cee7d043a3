"""The task file: what goes from which sources into which target, and how."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, ClassVar

from pydantic import Field, PrivateAttr

from dm.config.dumper import DumperConfig
from dm.config.endpoint import Endpoint
from dm.config.expression import ExpressionFilter
from dm.config.pace import PaceConfig
from dm.config.problem import Problem, TextPlace, did_you_mean
from dm.config.references import StartPoint
from dm.config.regex import RegexError, compile_regex
from dm.config.rules import BlockAllowList, CollationMap, EngineMap, FilterRule, RouteRule, charset_changes
from dm.config.scalar import (
    CheckingItem,
    Collation,
    Conversion,
    Flag,
    ShardMode,
    TaskMode,
    Text,
    checked,
    duration,
    matching,
    one_of,
    whole,
    wrong,
)
from dm.config.section import Issue, Section, Transferred
from dm.config.source import NAME_FORM, SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.config.units import (
    HOLD_SECONDS,
    CommitTimeOrder,
    LoaderConfig,
    MergeOrder,
    SilentSource,
    SparkConfig,
    SyncerConfig,
    ValidatorConfig,
)
from dm.errors import DMError

NAME_LIMIT = 38  # the longest name of a meta table is the task's name and 25 characters more, and 64 are possible

_ZONE_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_ZONE_EXPECTED = "an IANA name such as `Europe/Berlin`, or an offset from `-12:59` to `+14:00`"


@lru_cache(maxsize=1)
def _known_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _zone(text: str) -> None:
    if not text:
        return
    problem = wrong("config-time-zone", _ZONE_EXPECTED, value=repr(text[:60]))
    offset = _ZONE_OFFSET.fullmatch(text)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        if int(offset[3]) > 59 or minutes > (14 * 60 if offset[1] == "+" else 12 * 60 + 59):
            raise problem
        return
    # `Local` and `SYSTEM` mean another zone on every machine; a system without a zone database accepts any name's form.
    if text.lower() in ("local", "system") or not _ZONE_NAME.fullmatch(text):
        raise problem
    if _known_zones() and text not in _known_zones():
        raise wrong("config-time-zone", _ZONE_EXPECTED, did_you_mean(text, _known_zones()), value=repr(text[:60]))


TimeZoneText = Annotated[str, checked(_zone)]  # a zone of the IANA database or an offset

_TASK_NAME = re.compile(rf"[A-Za-z0-9_-][A-Za-z0-9_.-]{{0,{NAME_LIMIT - 1}}}")


def is_task_name(text: str) -> bool:
    """Whether a task can have this name; those that can't may not become names of files either."""
    return _TASK_NAME.fullmatch(text) is not None


def _task_name(text: str) -> None:
    if not text:
        raise wrong("config-task-name-empty", "a unique name of the task")
    if not is_task_name(text):
        raise wrong("config-bad-name", f"{NAME_FORM}, at most {NAME_LIMIT}", value=repr(text[:60]))


def _opposite(text: str) -> None:
    if text and not is_task_name(text):
        raise wrong("config-bad-name", f"the name of a task: {NAME_FORM}, at most {NAME_LIMIT}", value=repr(text[:60]))


def _online_rule(text: str) -> None:
    try:
        groups = compile_regex(text).groups
    except RegexError as error:
        raise wrong("config-online-regex", "Go's (RE2) syntax", why=str(error)) from None
    if groups != 1:
        raise wrong(
            "config-online-regex", "one capture group, for the real table's name", why=f"{groups} capture groups"
        )


SchemaName = Annotated[
    str, matching(r"[^/\\.%\0]{1,64}", "config-bad-name", "a schema name of at most 64 characters without %")
]
OnlineRules = tuple[Annotated[str, checked(_online_rule)], ...]
SHADOW_TABLES = (r"^_(.+)_(?:new|gho)$",)
TRASH_TABLES = (r"^_(.+)_(?:ghc|del|old)$",)


class Experimental(Section):
    """DM's experimental switches."""

    deprecated: ClassVar = {"async-checkpoint-flush": "leave it out: checkpoints never wait for workers"}


class MariaDb2TiDb(Section):
    """DM's conversion of MariaDB's structures into TiDB's."""

    without_effect: ClassVar = {"mode": "structures are translated for every target"}
    idle_values: ClassVar = {"mode": ("auto", "off")}

    mode: Annotated[Conversion, one_of(Conversion, fold=True)] = "auto"
    enabled_rules: tuple[Text, ...] = ()
    disabled_rules: tuple[Text, ...] = ()
    strict_mode: Flag = True


class Instance(Section):
    """What the task does with one source."""

    place: ClassVar = "under `mysql-instances`"
    unset_values: ClassVar = {"mydumper-thread": ("",), "loader-thread": ("",), "syncer-thread": ("",)}
    renamed: ClassVar = {
        "black-white-list": "block-allow-list",
        "continuous-validator-config-name": "validator-config-name",
    }
    refused: ClassVar = {"column-mapping-rules": "use routes, or change the rows at the source"}
    refused_kinds: ClassVar = {"column-mapping-rules": "config-column-mapping"}

    source_id: Text
    meta: StartPoint | None = None
    opposite: Annotated[str, checked(_opposite)] = ""
    opposite_meta_schema: SchemaName | None = None
    application_time_zone: TimeZoneText = ""
    route_rules: tuple[Text, ...] = ()
    filter_rules: tuple[Text, ...] = ()
    expression_filters: tuple[Text, ...] = ()
    block_allow_list: Text = ""
    mydumper_config_name: Text = ""
    mydumper: DumperConfig | None = None
    mydumper_thread: Annotated[int, whole(0, 1024)] = 0
    loader_config_name: Text = ""
    loader: LoaderConfig | None = None
    loader_thread: Annotated[int, whole(0, 1024)] = 0
    syncer_config_name: Text = ""
    syncer: SyncerConfig | None = None
    syncer_thread: Annotated[int, whole(0, 1024)] = 0
    validator_config_name: Text = ""

    def check(self) -> Iterator[Issue]:
        """A section is named or written here, not both."""
        if self.mydumper_config_name and self.mydumper:
            yield Issue("config-dumper-conflict", "mydumper")
        if self.loader_config_name and self.loader:
            yield Issue("config-loader-conflict", "loader")
        if self.syncer_config_name and self.syncer:
            yield Issue("config-syncer-conflict", "syncer")
        if self.opposite_meta_schema and not self.opposite:
            why = {"key": "opposite-meta-schema", "why": "`opposite` names no task"}
            yield Issue("config-no-effect", "opposite-meta-schema", warning=True, details=why)


class TaskConfig(Section, Transferred):
    """One task."""

    place: ClassVar = "at the top of a task file"
    deprecated: ClassVar = {
        "ansi-quotes": "leave it out: the source says it with each statement",
        "enable-ansi-quotes": "leave it out: the source says it with each statement",
        "remove-meta": "use `dmctl start-task --remove-meta`",
        "enable-heartbeat": "leave it out: lag is measured without it",
        "heartbeat-update-interval": "leave it out",
        "heartbeat-report-interval": "leave it out",
        "tidb": "leave it out: rows are loaded as `import-mode` of `loaders` says",
    }
    renamed: ClassVar = {"black-white-list": "block-allow-list"}
    refused: ClassVar = {"column-mappings": "use routes, or change the rows at the source"}
    refused_kinds: ClassVar = {"column-mappings": "config-column-mapping"}
    unset_values: ClassVar = {"collation_compatible": ("",), "meta-schema": ("",)}

    name: Annotated[str, checked(_task_name)]
    task_mode: Annotated[TaskMode, one_of(TaskMode, "config-task-mode")]
    is_sharding: Flag = False
    shard_mode: Annotated[ShardMode, one_of(ShardMode, "config-shard-mode")] = ""
    strict_optimistic_shard_mode: Flag = False
    merge_order: Annotated[MergeOrder, one_of(MergeOrder)] = ""
    merge_order_hold: Annotated[float, duration(1)] = HOLD_SECONDS
    merge_order_silent: Annotated[SilentSource, one_of(SilentSource)] = "pause"
    meta_schema: SchemaName = "dm_meta"
    timezone: TimeZoneText = ""
    case_sensitive: Flag = False
    ignore_checking_items: tuple[Annotated[CheckingItem, one_of(CheckingItem, "config-checking-item")], ...] = ()
    clean_dump_file: Flag = True
    online_ddl: Flag = True
    online_ddl_scheme: Text = ""
    shadow_table_rules: OnlineRules = SHADOW_TABLES
    trash_table_rules: OnlineRules = TRASH_TABLES
    collation_compatible: Annotated[Collation, one_of(Collation, "config-collation")] = "loose"
    collation_map: CollationMap = Field(default_factory=dict)
    engine_map: EngineMap = Field(default_factory=dict)
    mariadb2tidb: MariaDb2TiDb = MariaDb2TiDb()
    experimental: Experimental = Experimental()
    target_database: Endpoint
    mysql_instances: tuple[Instance, ...]
    routes: dict[str, RouteRule] = Field(default_factory=dict)
    filters: dict[str, FilterRule] = Field(default_factory=dict)
    expression_filter: dict[str, ExpressionFilter] = Field(default_factory=dict)
    block_allow_list: dict[str, BlockAllowList] = Field(default_factory=dict)
    mydumpers: dict[str, DumperConfig] = Field(default_factory=dict)
    loaders: dict[str, LoaderConfig] = Field(default_factory=dict)
    syncers: dict[str, SyncerConfig] = Field(default_factory=dict)
    validators: dict[str, ValidatorConfig] = Field(default_factory=dict)
    spark: SparkConfig = SparkConfig()
    pace: PaceConfig = PaceConfig()

    _warnings: tuple[Problem, ...] = PrivateAttr(default=())
    _marks: Mapping[str, TextPlace] = PrivateAttr(default_factory=dict)
    _sources: Mapping[str, SourceConfig] = PrivateAttr(default_factory=dict)

    def check(self) -> Iterator[Issue]:
        """What DM refuses between sections, and what this program does not do yet."""
        yield from self._check_sharding()
        yield from charset_changes(self.collation_map)
        if self.spark.dump_files == "none":
            yield from self._check_streaming()
        if self.online_ddl_scheme:
            if self.online_ddl_scheme not in ("gh-ost", "pt"):
                value = {"value": repr(self.online_ddl_scheme[:60])}
                yield Issue("config-online-scheme", "online-ddl-scheme", "`gh-ost` or `pt`", details=value)
            hint = "use `online-ddl: true`"
            yield Issue("config-deprecated-key", "online-ddl-scheme", "", hint, True, {"key": "online-ddl-scheme"})
        for instance in self.mysql_instances:
            yield from self._check_conflicts(instance)
            yield from self._check_scattered(instance)
            yield from self._check_quarantine(instance)
        if self.foreign_key_checks:
            for instance in self.mysql_instances:
                syncer = self.syncer_of(instance)
                for key, asked in (("compact", syncer.compact), ("multiple-rows", syncer.multiple_rows)):
                    if asked:
                        yield Issue("config-foreign-keys", "target-database", "`false`", details={"key": key})

    def _check_conflicts(self, instance: Instance) -> Iterator[Issue]:
        """Where one side wins, what a rule leaves out of one direction would differ without an end."""
        syncer = self.syncer_of(instance)
        if not syncer.one_side_wins:
            return
        value = f"`conflicts: {syncer.conflicts}`"
        wanted = {
            "`opposite` under `mysql-instances`, the task in the other direction": bool(instance.opposite),
            "no `validator-config-name`": not instance.validator_config_name,
            "no `filter-rules` and no `expression-filters`": not (instance.filter_rules or instance.expression_filters),
        }
        for expected, there in wanted.items():
            if not there:
                hint = "both sides can end equal only if each change of one side comes to the other one"
                yield Issue(
                    "config-refused-value", "mysql-instances", f"{expected} beside it", hint, details={"value": value}
                )

    def _scatters(self, instance: Instance) -> bool:
        return any(self.routes[name].scatter for name in instance.route_rules if name in self.routes)

    def _check_scattered(self, instance: Instance) -> Iterator[Issue]:
        """Only a syncer that follows one source sends each row to the table that its columns name."""
        if not self._scatters(instance):
            return
        syncer = self.syncer_of(instance)
        wanted = {
            "`task-mode: incremental`": self.task_mode == "incremental",
            "one source": len(self.mysql_instances) == 1,
            "no `shard-mode`": not self.merges,
            "no `foreign_key_checks: 1`": not self.foreign_key_checks,
            "no `expression-filters`": not instance.expression_filters,
            "no `validator-config-name`": not instance.validator_config_name,
            f"no `conflicts: {syncer.conflicts}`": not syncer.one_side_wins,
        }
        for expected, there in wanted.items():
            if not there:
                value = {"value": "a route with `scatter`"}
                hint = "the table of a row depends on the row there, which only the syncer of one source looks at"
                yield Issue("config-refused-value", "mysql-instances", f"{expected} beside it", hint, details=value)

    def _check_quarantine(self, instance: Instance) -> Iterator[Issue]:
        """A table can be put aside alone only where nothing ties it to the others."""
        setting = self.syncer_of(instance).parts_with_tables
        if not setting:
            return
        ties = {
            "no `shard-mode`": not self.merges,
            "no `merge-order`": not self.merge_order,
            "no `foreign_key_checks` in the target's `session`": not self.foreign_key_checks,
            "no `validator-config-name`": not instance.validator_config_name,
            "no route with `scatter`": not self._scatters(instance),
        }
        for expected, there in ties.items():
            if not there:
                key = setting.partition(":")[0]
                hint = f"tables that are tied to others can't stay behind alone: leave `{key}` out"
                value = {"value": f"`{setting}`"}
                yield Issue("config-refused-value", "mysql-instances", f"{expected} beside it", hint, details=value)

    def _check_sharding(self) -> Iterator[Issue]:
        if self.strict_optimistic_shard_mode and self.shard_mode != "optimistic":
            yield Issue("config-strict-optimistic", "strict-optimistic-shard-mode")
        if self.is_sharding:
            yield Issue(
                "config-deprecated-key", "is-sharding", "", "use `shard-mode`", True, details={"key": "is-sharding"}
            )
        if self.merges:
            for instance in self.mysql_instances:
                if self.syncer_of(instance).atomic_transactions:
                    yield Issue("config-shard-mode-with", "shard-mode", details={"key": "atomic-transactions: true"})
            if self.foreign_key_checks:
                yield Issue("config-shard-mode-with", "shard-mode", details={"key": "foreign_key_checks: 1"})
            if self.merge_order:
                yield Issue("config-merge-order-with", "merge-order", details={"key": f"shard-mode: {self.merges}"})

    def _check_streaming(self) -> Iterator[Issue]:
        """A snapshot ends with its session, and nobody could go on in the middle of it without files."""
        value = {"value": "`dump-files: none`"}
        if self.task_mode not in ("full", "all"):
            yield Issue(
                "config-refused-value", "spark", "`dump-files: all`", "it is for `full` and `all`", details=value
            )
            return
        for instance in self.mysql_instances:
            on_duplicate = self.loader_of(instance).on_duplicate_logical
            if on_duplicate == "error":
                hint = "use another `on-duplicate-logical` in `loaders`: a row that moves may come twice"
                yield Issue("config-refused-value", "spark", "`dump-files: all`", hint, details=value)
            elif self.dumper_of(instance).of_one_moment(self.task_mode, on_duplicate):
                hint = "use `--consistency none` in `extra-args` of `mydumpers`"
                yield Issue("config-refused-value", "spark", "`dump-files: all`", hint, details=value)

    @property
    def ordered(self) -> CommitTimeOrder | None:
        """The order among the task's sources; a task that has one source now may get others."""
        if not self.merge_order:
            return None
        return CommitTimeOrder(sources=self.source_ids, hold=self.merge_order_hold, silent=self.merge_order_silent)

    @property
    def merges(self) -> ShardMode:
        """How shards are merged; DM's old key `is-sharding` means pessimistically."""
        return self.shard_mode or ("pessimistic" if self.is_sharding else "")

    @property
    def foreign_key_checks(self) -> bool:
        """Whether the target's sessions check foreign keys."""
        return self.target_database.session.get("foreign_key_checks", "0").lower() in ("1", "on", "true")

    def dumper_of(self, instance: Instance) -> DumperConfig:
        """The dumper section that an instance uses, `mydumper-thread` not applied."""
        return instance.mydumper or self.mydumpers.get(instance.mydumper_config_name) or DumperConfig()

    def loader_of(self, instance: Instance) -> LoaderConfig:
        """The loader section that an instance uses, `loader-thread` not applied."""
        return instance.loader or self.loaders.get(instance.loader_config_name) or LoaderConfig()

    def syncer_of(self, instance: Instance) -> SyncerConfig:
        """The syncer section that an instance uses, `syncer-thread` not applied."""
        return instance.syncer or self.syncers.get(instance.syncer_config_name) or SyncerConfig()

    def subtask(self, source_id: str, sources: Mapping[str, SourceConfig] | None = None) -> SubtaskConfig:
        """The task on one of its sources, resolved; the sources are those of the load when none are given."""
        return resolve(self, source_id, self._sources if sources is None else sources)

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What the reader of the file noticed without refusing it."""
        return self._warnings

    def place_of(self, path: str) -> str:
        """How a message names a value of the file: its line, where the task was read from one, and its path."""
        mark = self._marks.get(path)
        return path if mark is None else f"line {mark.line}, {path}"

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The sources of the task, in the order of the file."""
        return tuple(instance.source_id for instance in self.mysql_instances)


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
        neighbours=tuple(other for other in task.source_ids if other != source_id),
        mode=task.task_mode,
        target=task.target_database,
        meta_schema=task.meta_schema,
        meta=instance.meta,
        opposite=instance.opposite,
        opposite_meta_schema=instance.opposite_meta_schema or task.meta_schema,
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
        pace=task.pace,
        timezone=task.timezone,
        application_zone=instance.application_time_zone,
        case_sensitive=case_sensitive,
        clean_dump_file=task.clean_dump_file,
        online_ddl=task.online_ddl or bool(task.online_ddl_scheme),
        shadow_table_rules=task.shadow_table_rules or SHADOW_TABLES,
        trash_table_rules=task.trash_table_rules or TRASH_TABLES,
        shard_mode=task.merges,
        strict_optimistic=task.strict_optimistic_shard_mode,
        shard_sources=task.source_ids if task.merges else (),
        order=task.ordered,
        collation_compatible=task.collation_compatible,
        collation_map=task.collation_map,
        engine_map=task.engine_map,
        ignore_checking_items=task.ignore_checking_items,
        foreign_key_checks=task.foreign_key_checks,
    )


def _filters(task: TaskConfig, names: tuple[str, ...], source: SourceConfig) -> tuple[FilterRule, ...]:
    """The task's filters and the source's; each has its say."""
    rules = [task.filters[name].model_copy(update={"name": name}) for name in names]
    for number, rule in enumerate(source.filters):
        rules.append(rule.model_copy(update={"name": f"filters[{number}] of source {source.source_id}"}))
    return tuple(rules)
