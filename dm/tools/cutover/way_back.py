"""The files of the task that goes the way back, made from those of the task that is cut over.

The way back has the target as its source and the source as its target. Its lists and routes are those of the task seen
from the other end: for each table that there is, the name at the target becomes the name at the source. A schema at the
target goes back as a whole only where no later name in it can meet a table of the source that it does not fill: then
tables that applications make there later come to the source, too. From any other, only the task's tables go back, by
name. So it is where the schema has tables of its own, where the source's schema has tables that the task leaves out or
sends elsewhere, and where the source's name of a table is free there: what is made under it later would be that table.

A table that merges others goes back where the routes that merge them extract columns: what these hold tells each row's
table, and the new route says so (`scatter`). Then the schema goes back by its tables' names.

The names are inverted as the rules apply them, not as they are written. Then the new rules are applied to every table
of the target and have to give exactly the inverse, and to the source's names that are free there. What has none is
named: merged tables whose rows do not tell them apart, rows and statements that were left out.

Both tasks name each other as the opposite, so each leaves out what the other one has written (`dm.progress.opposite`).
Passwords and the contents of certificates are not written into the files: these name variables, whose values the daemon
keeps with a file as it does with those of a person. `_WrittenEndpoint` is the one place that divides the two.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from dm.config import Endpoint, SourceConfig, SubtaskConfig, TaskConfig, read_task
from dm.config.document import YamlList, YamlMap, parse
from dm.config.load import masked
from dm.config.pattern import is_name
from dm.config.problem import ProblemReport
from dm.config.task import NAME_LIMIT
from dm.config.units import SyncerConfig
from dm.config.written import as_yaml
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.block_allow import SYSTEM_SCHEMAS
from dm.rules.router import PresentNames
from dm.rules.table_rules import TableRules
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end, list_tables, read_facts
from dm.text import counted
from dm.tools.cutover.findings import Finding
from dm.unit import JSON
from dm.verbs.declaration import ConfigFile

_ID_LIMIT: Final = 32  # of a source's name
_RULES: Final = "way-back"  # how list and syncer are called in the file
# What says how changes are applied, and nothing about which ones.
_SYNCER_KEYS: Final = (
    "worker_count", "batch", "queue_size", "checkpoint_flush_interval", "compact", "multiple_rows", "narrower_columns",
    "row_format", "atomic_transactions", "memory_quota",
)  # fmt: skip
_WITHOUT: Final = "cut over with --no-way-back"


@dataclass(frozen=True, slots=True)
class TaskEnds:
    """What there is at both ends of a task."""

    at_source: Sequence[TableName]  # that the task wants
    at_target: Sequence[TableName]  # all that are no server's own
    folding: int = 0  # the target's lower_case_table_names
    start: Position | None = None  # where the target's binlog ends
    without_binlog: tuple[str, str] | None = None  # why it has none, with what to do
    left_out: Sequence[TableName] = ()  # at the source, that the task does not want

    @classmethod
    def of(cls, subtask: SubtaskConfig) -> TaskEnds:
        """As the servers have it now; raises DMError."""
        rules, own = TableRules(subtask), subtask.meta_schema.lower()
        with closing(connect(subtask.source.endpoint)) as source:
            all_there = list_tables(source)
        at_source = tuple(table for table in all_there if rules.wanted(table))
        left_out = tuple(table for table in all_there if not rules.wanted(table))
        with closing(connect(subtask.target, role="target")) as target:
            facts = read_facts(target)
            at_target = tuple(
                table
                for table in list_tables(target)
                if table.schema.lower() not in SYSTEM_SCHEMAS and table.schema.lower() != own
            )
            start, without = None, None
            if not facts.dialect.has_binlog:
                without = f"{facts.base_flavor} has no binlog: no task can follow the target", _WITHOUT
            elif not facts.log_bin:
                without = (
                    "the target writes no binlog",
                    f"log_bin in the target's file and a start of it, or {_WITHOUT}",
                )
            else:
                start = binlog_end(target, facts)
        return cls(at_source, at_target, facts.lower_case_table_names, start, without, left_out)


@dataclass(frozen=True, slots=True)
class WayBackFiles:
    """A source file and a task file."""

    task_name: str
    source_id: str
    source: ConfigFile
    task: ConfigFile
    remarks: tuple[str, ...] = ()

    def to_json(self) -> list[JSON]:
        """As they are shown, without secrets as `dmctl config` shows them."""
        return [{"name": file.name, "cfg": masked(file.text)} for file in (self.source, self.task)]


def name_of(subtask: SubtaskConfig) -> str:
    """The task that goes the way back: the opposite that the file names, or one that is made."""
    return subtask.opposite or _with_end(subtask.task, "-back", NAME_LIMIT)


def source_of(subtask: SubtaskConfig) -> str:
    """The name that the target gets as a source."""
    return _with_end(subtask.task, "-target", _ID_LIMIT)


def _with_end(name: str, end: str, limit: int) -> str:
    return name[: limit - len(end)] + end


def obstacles(config: TaskConfig, subtask: SubtaskConfig, ends: TaskEnds) -> list[Finding]:
    """Why there is no way back, each with what to do; empty where there is one."""
    return [Finding("way back", says, mend) for says, mend in _obstacles(config, subtask, ends)]


def _obstacles(config: TaskConfig, subtask: SubtaskConfig, ends: TaskEnds) -> Iterator[tuple[str, str]]:
    if ends.without_binlog is not None:
        yield ends.without_binlog
    if len(config.mysql_instances) > 1:
        says = f"the task has {counted(len(config.mysql_instances), 'source')}: the way back of several is not made"
        yield says, f"{_WITHOUT}, and write a task from the target to each source by hand"
    if config.merges:
        yield f"`shard-mode: {config.merges}` merges tables: a way back of that is not made", _WITHOUT
    rules, merged = TableRules(subtask), defaultdict[TableName, list[TableName]](list)
    for table in ends.at_source:
        merged[rules.route(table)].append(table)
    for target, tables in merged.items():
        if why := _not_told(rules, tables):
            yield f"{target} merges {', '.join(map(str, tables))}: {why}", _WITHOUT
        elif rules.extracted(tables[0]) and subtask.foreign_key_checks:
            says = f"{target} has columns that the source has not, and `foreign_key_checks` is 1"
            yield f"{says}: rows that go to several tables are not kept in the order of their keys", _WITHOUT
    for rule in subtask.filters:
        yield f"`filters` leave out events that the source keeps: {rule.name}", _WITHOUT
    for each in subtask.expression_filters:
        yield f"`expression-filter` leaves out rows that the source keeps: {each.name}", _WITHOUT


def _not_told(rules: TableRules, tables: Sequence[TableName]) -> str:
    """Why the rows of merged tables do not say which of them each one came from; empty if they do."""
    columns = {tuple(sorted(rules.filled(table))) for table in tables}
    if len(tables) > 1 and () in columns:
        return "no row says which table it came from"
    if len(columns) > 1:
        return "their rows have parts of names in different columns"
    told = defaultdict[tuple[str, ...], list[TableName]](list)
    for table in tables:
        # What CHAR cuts off tells no rows apart.
        told[tuple(value.rstrip(" ") for value in _values(rules, table).values())].append(table)
    alike = next((some for some in told.values() if len(some) > 1), [])
    return f"rows of {' and '.join(map(str, alike[:2]))} have the same parts of names" if alike else ""


def _values(rules: TableRules, table: TableName) -> dict[str, str]:
    """What rows of a table have at the target in columns that the source has not, by the columns in their order."""
    return {each.column: each.value for each in sorted(rules.extracted(table), key=lambda one: one.column.lower())}


def findings_of_kept(subtask: SubtaskConfig, ends: TaskEnds, back: SubtaskConfig, *, stops: bool) -> list[Finding]:
    """Tables that a way back, which is there already, does not lead to where they come from.

    They were made since: while applications used the other server, or after they had returned.
    """
    forward, home, present = TableRules(subtask), TableRules(back), PresentNames(ends.at_target, ends.folding)
    comes_from = defaultdict[TableName, dict[TableName, _Told]](dict)
    for source in ends.at_source:
        for table, told in _goes_to(forward, source).items():
            comes_from[present.spelled(table)][source] = told
    goes_to = {table: _goes_to(home, table) for table in {*comes_from, *ends.at_target} if home.wanted(table)}
    found = list[Finding]()
    for table in sorted({*comes_from, *goes_to}):
        sources, goal = comes_from.get(table, {}), goes_to.get(table, {})
        if goal == sources:
            continue
        comes = f"comes from {', '.join(map(str, sources))}" if sources else "comes from no table of the task"
        would = f"task {back.task} would take it to {', '.join(map(str, sorted(goal)))}"
        goes = f"task {back.task} does not take it"
        if goal:
            goes = f"{would}, by other values of its columns" if goal.keys() == sources.keys() else would
        mend = f"dmctl cut-over {subtask.task} --complete: the next cut-over makes the way back anew"
        if not stops:
            mend = f"`dmctl update-task` with other lists or routes, and `dmctl reload-table`, once {back.task} runs"
        found.append(Finding("way back", f"{table} {comes}, and {goes}", mend, stops=stops))
    return found


_Told = tuple[tuple[str, str], ...]  # columns of the merged table, in lower case, and what rows hold in them


def _goes_to(rules: TableRules, table: TableName) -> dict[TableName, _Told]:
    """The tables that rows of one go to, each with what tells these rows where they are merged."""
    scattering = rules.scattered(table)
    if scattering is None:
        return {rules.route(table): tuple((name.lower(), value) for name, value in _values(rules, table).items())}
    return {name: tuple(zip(scattering.columns, told, strict=True)) for told, name in scattering.tables.items()}


def files(
    config: TaskConfig, subtask: SubtaskConfig, file: ConfigFile, ends: TaskEnds, start: Position
) -> WayBackFiles:
    """Source and task file of the way back from a place of the target; raises DMError `way-back-impossible`.

    `file` is the task's own, whose directory the new ones get.
    """
    found = obstacles(config, subtask, ends)
    if found:
        raise DMError("way-back-impossible", task=config.name, why="; ".join(each.says for each in found))
    back, source_id = name_of(subtask), source_of(subtask)
    inverse = _Inverse.of(subtask, ends)
    from_target, to_source = (
        _WrittenEndpoint.of(subtask.target, "TARGET"),
        _WrittenEndpoint.of(subtask.source.endpoint, "SOURCE"),
    )
    source_text = as_yaml(_source_file(subtask, source_id, start, from_target))
    task_text = as_yaml(_task_file(config, subtask, (back, source_id), inverse, start, to_source))
    made = WayBackFiles(
        back, source_id,
        ConfigFile(f"{source_id}.yaml", source_text, file.directory, from_target.environment),
        ConfigFile(f"{back}.yaml", task_text, file.directory, to_source.environment),
        tuple(inverse.remarks),
    )  # fmt: skip
    _demand_inverse(made, inverse, ends)
    return made


@dataclass(slots=True)
class _Inverse:
    """For each table of the target that the task fills, the source's name, or those that its rows tell apart."""

    names: Mapping[TableName, TableName]
    scattered: Mapping[TableName, Mapping[TableName, Mapping[str, str]]]
    schemas: list[str] = field(default_factory=list)
    tables: list[dict[str, str]] = field(default_factory=list)
    routes: dict[str, dict[str, object]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, subtask: SubtaskConfig, ends: TaskEnds) -> _Inverse:
        rules, present = TableRules(subtask), PresentNames(ends.at_target, ends.folding)
        names, scattered = dict[TableName, TableName](), defaultdict[TableName, dict[TableName, dict[str, str]]](dict)
        for table in ends.at_source:
            target = present.spelled(rules.route(table))
            if told := _values(rules, table):
                scattered[target][table] = told
            else:
                names[target] = table
        found = cls(names, scattered)
        by_schema = defaultdict[str, list[TableName]](list)
        for target in (*names, *scattered):
            by_schema[target.schema].append(target)
        partial = {schema for schema in by_schema if not found._whole(schema, ends)}
        for schema, tables in by_schema.items():
            found._add(schema, tables, listed=bool(partial), whole=schema not in partial)
        return found

    def _whole(self, schema: str, ends: TaskEnds) -> bool:
        """Whether all of a schema goes back: then so does what is made there later."""
        own = {target: source for target, source in self.names.items() if target.schema == schema}
        into, filled = {source.schema for source in own.values()}, set(own.values())
        why = ""
        if merged := [table for table in self.scattered if table.schema == schema]:
            why = f"rows of {merged[0]} go back by what their columns hold"
        elif any(table.schema == schema and table not in own for table in ends.at_target):
            why = f"{schema} has tables that are not the task's"
        elif len(into) > 1:
            why = f"{schema} goes back to {', '.join(sorted(into))}"
        elif others := [
            table
            for table in (*ends.at_source, *ends.left_out)
            if table.schema.lower() in {each.lower() for each in into} and table not in filled
        ]:
            why = f"{', '.join(sorted(into))} of the source has tables that {schema} does not fill, as {others[0]}"
        elif free := [source for source in filled if TableName(schema, source.table) not in own]:
            why = f"{TableName(schema, min(free).table)} is free, and the source's name of another table"
        if why:
            self.remarks.append(f"{why}: of what is made there later, nothing goes back")
        return not why

    def _add(self, schema: str, tables: Sequence[TableName], *, listed: bool, whole: bool) -> None:
        self.schemas.append(_exactly(schema))
        if whole:
            (into,) = {self.names[table].schema for table in tables}
            if listed:
                self.tables.append({"db-name": _exactly(schema), "tbl-name": "*"})
            if into != schema:
                self._route({"schema-pattern": _exactly(schema), "target-schema": into})
        for table in tables:
            if not whole:
                self.tables.append({"db-name": _exactly(schema), "tbl-name": _exactly(table.table)})
            if table in self.scattered:
                self._route({
                    "schema-pattern": _exactly(schema), "table-pattern": _exactly(table.table), "target-schema": schema,
                    "scatter": [
                        {"target-schema": to.schema, "target-table": to.table, "columns": dict(told)}
                        for to, told in self.scattered[table].items()
                    ],
                })  # fmt: skip
                continue
            source = self.names[table]
            if source.table != table.table or (not whole and source.schema != schema):
                self._route({
                    "schema-pattern": _exactly(schema), "table-pattern": _exactly(table.table),
                    "target-schema": source.schema, "target-table": source.table,
                })  # fmt: skip

    def _route(self, rule: dict[str, object]) -> None:
        self.routes[f"{_RULES}-{len(self.routes) + 1}"] = rule

    def later_names(self, at_source: Iterable[TableName]) -> Iterator[TableName]:
        """Names of the source that are free in the schemas of the target that fill the same one."""
        fills = defaultdict[str, set[str]](set)
        for target, source in self.names.items():
            fills[source.schema].add(target.schema)
        for target, sources in self.scattered.items():
            for source in sources:
                fills[source.schema].add(target.schema)
        for table in at_source:
            for schema in fills.get(table.schema, ()):
                if not {TableName(schema, table.table)} & {*self.names, *self.scattered}:
                    yield TableName(schema, table.table)


def _exactly(name: str) -> str:
    """A pattern for this name alone."""
    return name if is_name(name) else f"~^{re.escape(name)}$"


def _source_file(subtask: SubtaskConfig, source_id: str, start: Position, login: _WrittenEndpoint) -> dict[str, object]:
    found: dict[str, object] = {"source-id": source_id}
    if start.gtid_set:
        found["enable-gtid"] = True
    if subtask.case_sensitive:
        found["case-sensitive"] = True
    return {**found, "from": login.section}


def _task_file(
    config: TaskConfig,
    subtask: SubtaskConfig,
    named: tuple[str, str],
    inverse: _Inverse,
    start: Position,
    login: _WrittenEndpoint,
) -> dict[str, object]:
    back, source_id = named
    target = dict(login.section)
    if subtask.foreign_key_checks:
        target["session"] = {"foreign_key_checks": "1"}
    meta: dict[str, object] = {"binlog-name": start.file, "binlog-pos": start.offset}
    if start.gtid_set:
        meta["binlog-gtid"] = str(start.gtid_set)
    instance: dict[str, object] = {
        "source-id": source_id, "opposite": subtask.task, "meta": meta, "block-allow-list": _RULES,
    }  # fmt: skip
    found: dict[str, object] = {"name": back, "task-mode": "incremental", "meta-schema": subtask.meta_schema}
    if subtask.timezone:
        found["timezone"] = subtask.timezone
    if config.case_sensitive:
        found["case-sensitive"] = True
    found |= {"target-database": target, "mysql-instances": [instance]}
    lists: dict[str, object] = {"do-dbs": inverse.schemas}
    if inverse.tables:
        lists["do-tables"] = inverse.tables
    found["block-allow-list"] = {_RULES: lists}
    if inverse.routes:
        instance["route-rules"] = [*inverse.routes]
        found["routes"] = inverse.routes
    syncer, usual = config.syncer_of(config.mysql_instances[0]), SyncerConfig()
    said = {key: (getattr(syncer, key), getattr(usual, key)) for key in _SYNCER_KEYS}
    settings = {key.replace("_", "-"): value for key, (value, default) in said.items() if value != default}
    if settings:
        instance["syncer-config-name"] = _RULES
        found["syncers"] = {_RULES: settings}
    return found


@dataclass(frozen=True, slots=True)
class _WrittenEndpoint:
    """One server in a file, and the values of the variables that it names there."""

    section: Mapping[str, object]
    environment: Mapping[str, str]

    @classmethod
    def of(cls, endpoint: Endpoint, server: str) -> _WrittenEndpoint:
        section: dict[str, object] = {"host": endpoint.host, "port": endpoint.port, "user": endpoint.user}
        environment = {f"{server}_PASSWORD": endpoint.password.get_secret_value()}
        if endpoint.password.get_secret_value():
            section["password"] = f"${{{server}_PASSWORD}}"
        if endpoint.security is not None:
            told = endpoint.security.model_dump(mode="json", exclude_defaults=True)
            for name in told:
                value = getattr(endpoint.security, name)
                if isinstance(value, SecretStr):
                    variable = f"{server}_{name.upper()}"
                    environment[variable], told[name] = value.get_secret_value(), f"${{{variable}}}"
            section["security"] = {key.replace("_", "-"): value for key, value in told.items()}
        return cls(section, environment)


def _demand_inverse(made: WayBackFiles, inverse: _Inverse, ends: TaskEnds) -> None:
    """Raise DMError unless the files, read as any others, lead each table back to where it came from."""
    source = SourceConfig.model_validate({"source_id": made.source_id, "endpoint": Endpoint(host="-")})
    read = read_task(
        made.task.text, file=made.task.name, directory=Path(made.task.directory), environ=made.task.environment
    )
    rules = TableRules(read.subtask(made.source_id, {made.source_id: source}))
    back = {table: _goes_to(rules, table) for table in ends.at_target if rules.wanted(table)}
    there = set(ends.at_target)
    wanted: dict[TableName, dict[TableName, _Told]] = {
        table: {name: ()} for table, name in inverse.names.items() if table in there
    }
    for table, sources in inverse.scattered.items():
        lowered = {name: tuple((column.lower(), told[column]) for column in told) for name, told in sources.items()}
        wanted |= {table: lowered} if table in there else {}
    for table in {*back, *wanted}:
        goes, comes = back.get(table, {}), wanted.get(table, {})
        if goes != comes:
            listed = [", ".join(map(str, sorted(each))) or "nowhere" for each in (goes, comes)]
            why = f"{table} would go to {listed[0]}, and comes from {listed[1]}"
            raise DMError("way-back-impossible", task=made.task_name, why=why)
    at_source = {*ends.at_source, *ends.left_out}
    for table in inverse.later_names(at_source):
        if rules.wanted(table) and rules.route(table) in at_source:
            why = f"{table}, if it is made later, would go to {rules.route(table)}, and does not come from it"
            raise DMError("way-back-impossible", task=made.task_name, why=why)


def with_opposite(
    file: ConfigFile, config: TaskConfig, opposite: str, read: Callable[[ConfigFile], TaskConfig]
) -> ConfigFile:
    """A task's file that names its opposite, otherwise as a person wrote it; raises DMError `way-back-impossible`."""
    tree = parse(file.text, ProblemReport(file.name))
    instances = None if tree is None else tree.get("mysql-instances")
    wanted = tuple(one.model_copy(update={"opposite": opposite}) for one in config.mysql_instances)
    if wanted == config.mysql_instances:
        return file
    instance = instances[0] if isinstance(instances, YamlList) and instances else None
    why = "they come from elsewhere"
    if isinstance(instance, YamlMap):
        place = instance.mark_of("source-id")
        end = ", " if instance.in_braces else f"\n{' ' * (place.column - 1)}"
        at = sum(map(len, file.text.splitlines(keepends=True)[: place.line - 1])) + place.column - 1
        named = replace(file, text=f"{file.text[:at]}opposite: {opposite}{end}{file.text[at:]}")
        try:
            if read(named).mysql_instances == wanted:
                return named
        except DMError as error:
            why = error.message
    why = f"`opposite: {opposite}` can't be put below `mysql-instances` of {file.name} ({why}): write it, start it anew"
    raise DMError("way-back-impossible", task=config.name, why=why)
