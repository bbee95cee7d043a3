"""A task in DM's OpenAPI shape and as a task file: both directions, `.._as_file` and `.._as_shape`.

DM's shape has one list of rules where a task file has three: which tables take part (`block-allow-list`), where they go
(`routes`), what is left out of them (`filters`). A rule of a table becomes an entry of each, with the same patterns; on
the way back those with the same patterns become one rule. The names of filters stay where they can: a filter of a
task file has patterns of its own, so a filter that two rules share becomes two of equal content, which are one again on
the way back.

What can't be said is an error, never left out:

- JSON that would make another task than it looks like. Rules for whole schemas and for single tables of one source:
  a list with both (`do-dbs` and `do-tables`) lets only tables pass that are in both. Two filters of one rule, of which
  one makes exceptions (`none dml`): within a filter the first entry that fits decides, so they can't be put together.
- A task file with more than the shape has fields for. That isn't kept as a list of keys: what the shape says of a file
  is made a file again, and where a subtask of this one is another subtask, its key is named. So nothing is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import SecretStr

from dm.config import SourceConfig, TaskConfig, read_task
from dm.config.endpoint import Security as FileSecurity
from dm.config.task import Instance
from dm.config.units import LoaderConfig, SyncerConfig
from dm.config.written import as_yaml
from dm.errors import DMError
from dm.unit import JSON
from dm.worker.dm_openapi.source_shapes import DMSecurity
from dm.worker.dm_openapi.task_shapes import (
    BinlogFilterRule,
    DMTask,
    FullMigrateConf,
    IncrMigrateConf,
    RuleSource,
    RuleTarget,
    TableMigrateRule,
    TargetDatabase,
    TaskSourceConf,
    TaskSourceConfig,
)

_SECTION: Final = "openapi"  # the name of the sections that all sources share
_POSITION: Final = 4  # where a binlog file's first event begins


def invalid(problem: str, hint: str) -> DMError:
    """The error of a request that contradicts itself."""
    return DMError("openapi-request-invalid", problem=problem, hint=hint)


def normal(task: DMTask) -> DMTask:
    """The same task in the form that comes back from a task file; raises DMError for one that contradicts itself."""
    full, incremental = task.source_config.full_migrate_conf, task.source_config.incr_migrate_conf
    filters, rules = _normal_rules(task)
    loader, syncer = LoaderConfig(), SyncerConfig()
    full, incremental = full or FullMigrateConf(), incremental or IncrMigrateConf()
    said = full.on_duplicate_logical or task.on_duplicate
    return task.model_copy(
        update={
            "shard_mode": task.shard_mode or None,
            "strict_optimistic_shard_mode": task.strict_optimistic_shard_mode or None,
            "meta_schema": task.meta_schema or "dm_meta",
            "on_duplicate": "replace" if said == "overwrite" else said,
            "target_config": task.target_config.model_copy(
                update={
                    "password": task.target_config.password or "",
                    "security": _normal_security(task.target_config.security),
                }
            ),
            "binlog_filter_rule": filters or None,
            "table_migrate_rule": rules,
            "source_config": TaskSourceConfig(
                full_migrate_conf=FullMigrateConf(
                    export_threads=full.export_threads or 4,
                    import_threads=full.import_threads or loader.pool_size,
                    data_dir=full.data_dir or loader.dir,
                    consistency=None if full.consistency in ("", "auto") else full.consistency,
                ),
                incr_migrate_conf=IncrMigrateConf(
                    repl_threads=incremental.repl_threads or syncer.worker_count,
                    repl_batch=incremental.repl_batch or None,
                ),
                source_conf=[_normal_start(each) for each in task.source_config.source_conf],
            ),
            "status_list": None,
            "ignore_checking_items": task.ignore_checking_items or None,
            "keys_without_field": None,
        }
    )


def _normal_security(security: DMSecurity | None) -> DMSecurity | None:
    if security is None or not security.says_something:
        return None
    return security.model_copy(update={"cert_allowed_cn": security.cert_allowed_cn or None})


def _normal_start(source: TaskSourceConf) -> TaskSourceConf:
    name, gtid = source.binlog_name or None, source.binlog_gtid or None
    position = (source.binlog_pos or _POSITION) if name or gtid else source.binlog_pos
    return TaskSourceConf(
        source_name=source.source_name, binlog_name=name, binlog_pos=position or None, binlog_gtid=gtid
    )


def _normal_rules(task: DMTask) -> tuple[dict[str, BinlogFilterRule], list[TableMigrateRule]]:
    """Each rule with at most one filter, and filters of equal content with one name; in the order of the sources."""
    sources = [each.source_name for each in task.source_config.source_conf]
    for rule in task.table_migrate_rule:
        if rule.source.source_name not in sources:
            problem = f"a rule is for source {rule.source.source_name}, which is not in `source_conf`"
            raise invalid(problem, "add the source there, or leave the rule out")
    filters = dict[str, BinlogFilterRule]()
    rules = list[TableMigrateRule]()
    for source in sources:
        own = [rule for rule in task.table_migrate_rule if rule.source.source_name == source]
        _demand_one_meaning(source, own)
        for rule in own:
            named = _put_together(rule.binlog_filter_rule or [], task.binlog_filter_rule or {}, filters)
            target = rule.target
            goes = target is not None and (target.schema_ or target.table)
            there = None if target is None or not goes else RuleTarget(
                schema=target.schema_ or None, table=target.table or None
            )  # fmt: skip
            rules.append(TableMigrateRule(source=rule.source, target=there, binlog_filter_rule=named or None))
    return filters, rules


def _demand_one_meaning(source: str, rules: list[TableMigrateRule]) -> None:
    if len({bool(rule.source.table) for rule in rules}) > 1:
        problem = f"source {source} has rules for whole schemas and rules for single tables: together they would let"
        raise invalid(f"{problem} hardly a table pass", "give the rules for whole schemas the table `*`")
    seen = set[tuple[str, str]]()
    for rule in rules:
        pattern = (rule.source.schema_, rule.source.table)
        if pattern in seen:
            problem = f"two rules of source {source} are for schema {pattern[0]!r} and table {pattern[1]!r}"
            raise invalid(problem, "make one of them")
        seen.add(pattern)


def _put_together(
    names: list[str], known: Mapping[str, BinlogFilterRule], filters: dict[str, BinlogFilterRule]
) -> list[str]:
    """The name of one filter that leaves out what these leave out; it is put to the others."""
    for name in names:
        if name not in known:
            raise invalid(f"`binlog_filter_rule` has no rule {name}", f"there are: {', '.join(known) or 'none'}")
    found = list[BinlogFilterRule]()
    for name in names:
        found += [] if known[name] in found else [known[name]]
    if not found:
        return []
    events = [event for each in found for event in each.ignore_event or ()]
    if len(found) > 1 and any(event.lower().split()[:1] == ["none"] for event in events):
        problem = f"the filters {', '.join(names)} are of one rule, and have exceptions (`none ..`)"
        raise invalid(problem, "make one filter of them: its first event that fits decides")
    statements = [pattern for each in found for pattern in each.ignore_sql or ()]
    one = BinlogFilterRule(
        ignore_event=list(dict.fromkeys(events)) or None, ignore_sql=list(dict.fromkeys(statements)) or None
    )
    for name, there in filters.items():
        if there == one:
            return [name]
    name = names[0] if len(found) == 1 else _free("+".join(dict.fromkeys(names)), {*filters, *known})
    filters[name] = one
    return [name]


def _free(name: str, taken: Iterable[str]) -> str:
    taken, number, free = {*taken}, 2, name
    while free in taken:
        free, number = f"{name}.{number}", number + 1
    return free


def task_as_file(task: DMTask) -> str:
    """The task file of a task in the shape; raises DMError. What is wrong with it is found where it is read."""
    one = normal(task)
    full, incremental = one.source_config.full_migrate_conf, one.source_config.incr_migrate_conf
    assert full is not None
    assert incremental is not None
    lists, routes, filters, instances = _rules_as_file(one)
    target = one.target_config
    login: dict[str, JSON] = {
        "host": target.host, "port": target.port, "user": target.user, "password": target.password or "",
    }  # fmt: skip
    if target.security is not None:
        login["security"] = security_as_file(target.security)
    loader = {"pool-size": full.import_threads, "dir": full.data_dir, "on-duplicate-logical": one.on_duplicate}
    dumper = {"threads": full.export_threads}
    sections: dict[str, JSON] = {
        "name": one.name,
        "task-mode": one.task_mode,
        **({"shard-mode": one.shard_mode} if one.shard_mode else {}),
        **({"strict-optimistic-shard-mode": True} if one.strict_optimistic_shard_mode else {}),
        "meta-schema": one.meta_schema,
        "online-ddl": one.enhance_online_schema_change,
        **({"ignore-checking-items": [*one.ignore_checking_items]} if one.ignore_checking_items else {}),
        "target-database": login,
        "mysql-instances": instances,
        **{key: value for key, value in
           {"block-allow-list": lists, "routes": routes, "filters": filters}.items() if value},
        "mydumpers": {_SECTION: {**dumper, **({"extra-args": f"--consistency {full.consistency}"}
                                              if full.consistency else {})}},
        "loaders": {_SECTION: {**loader, **_physical_as_file(task)}},
        "syncers": {_SECTION: {"worker-count": incremental.repl_threads,
                               **({"batch": incremental.repl_batch} if incremental.repl_batch else {})}},
    }  # fmt: skip
    return as_yaml(sections)


def _physical_as_file(task: DMTask) -> dict[str, JSON]:
    """What asks for TiDB's physical import: the reader of the file says what of it is refused."""
    full = task.source_config.full_migrate_conf
    if full is None:
        return {}
    if full.security is not None and full.security.says_something:
        raise invalid("`security` of `full_migrate_conf` is for TiDB's physical import", "leave it out")
    named: dict[str, JSON] = {
        "import-mode": full.import_mode, "on-duplicate-physical": full.on_duplicate_physical,
        "sorting-dir": full.sorting_dir, "disk-quota": full.disk_quota, "checksum": full.checksum,
        "analyze": full.analyze, "range-concurrency": full.range_concurrency,
        "compress-kv-pairs": full.compress_kv_pairs, "pd-addr": full.pd_addr,
    }  # fmt: skip
    return {key: value for key, value in named.items() if value}


def security_as_file(security: DMSecurity) -> JSON:
    """As a file has it."""
    parts = {"ssl-ca": security.ssl_ca_content, "ssl-cert": security.ssl_cert_content,
             "ssl-key": security.ssl_key_content}  # fmt: skip
    said: dict[str, JSON] = {f"{part}-bytes": text for part, text in parts.items() if text}
    return {**said, **({"cert-allowed-cn": [*security.cert_allowed_cn]} if security.cert_allowed_cn else {})}


def _rules_as_file(task: DMTask) -> tuple[dict[str, JSON], dict[str, JSON], dict[str, JSON], list[JSON]]:
    """Lists, routes and filters by name, and the instances that name them."""
    lists, routes, filters = dict[str, JSON](), dict[str, JSON](), dict[str, JSON]()
    instances = list[JSON]()
    known = task.binlog_filter_rule or {}
    for source in task.source_config.source_conf:
        own = [rule for rule in task.table_migrate_rule if rule.source.source_name == source.source_name]
        instance: dict[str, JSON] = {"source-id": source.source_name, **_start_as_file(source)}
        if own:
            lists[source.source_name] = _list_as_file(own)
            instance["block-allow-list"] = source.source_name
        goes, left_out = list[JSON](), list[JSON]()
        for rule in own:
            patterns: dict[str, JSON] = {"schema-pattern": rule.source.schema_}
            if rule.source.table:
                patterns["table-pattern"] = rule.source.table
            if rule.target is not None:
                name = f"{source.source_name}.{len(goes) + 1}"
                routes[name] = {**patterns, **_route_as_file(rule.target)}
                goes.append(name)
            for shared in rule.binlog_filter_rule or ():
                name = _free(shared, {*filters, *known}) if shared in filters else shared
                filters[name] = {**patterns, **_filter_as_file(known[shared])}
                left_out.append(name)
        named: dict[str, JSON] = {"route-rules": goes, "filter-rules": left_out}
        sections = ("mydumper-config-name", "loader-config-name", "syncer-config-name")
        instances.append({**instance, **{k: v for k, v in named.items() if v}, **dict.fromkeys(sections, _SECTION)})
    return lists, routes, filters, instances


def _start_as_file(source: TaskSourceConf) -> dict[str, JSON]:
    meta: dict[str, JSON] = {
        "binlog-name": source.binlog_name, "binlog-pos": source.binlog_pos, "binlog-gtid": source.binlog_gtid,
    }  # fmt: skip
    said: JSON = {key: value for key, value in meta.items() if value is not None}
    return {"meta": said} if said else {}


def _list_as_file(rules: list[TableMigrateRule]) -> JSON:
    if not rules[0].source.table:
        return {"do-dbs": [rule.source.schema_ for rule in rules]}
    return {"do-tables": [{"db-name": rule.source.schema_, "tbl-name": rule.source.table} for rule in rules]}


def _route_as_file(target: RuleTarget) -> dict[str, JSON]:
    return {
        **({"target-schema": target.schema_} if target.schema_ else {}),
        **({"target-table": target.table} if target.table else {}),
    }


def _filter_as_file(rule: BinlogFilterRule) -> dict[str, JSON]:
    return {
        **({"events": [*rule.ignore_event]} if rule.ignore_event else {}),
        **({"sql-pattern": [*rule.ignore_sql]} if rule.ignore_sql else {}),
        "action": "Ignore",
    }


@dataclass(frozen=True, slots=True)
class ShapedTask:
    """A task in the shape, its password in clear, and the keys of the file that the shape has no field for."""

    task: DMTask
    keys: tuple[str, ...]


def task_as_shape(config: TaskConfig, sources: Mapping[str, SourceConfig]) -> ShapedTask:
    """What the shape can say of a task file."""
    task = _shape_of(config)
    return ShapedTask(task, tuple(_keys_without_field(config, task, sources)))


def _shape_of(config: TaskConfig) -> DMTask:
    first = config.mysql_instances[0]
    dumper, loader, syncer = config.dumper_of(first), config.loader_of(first), config.syncer_of(first)
    filters = dict[str, BinlogFilterRule]()
    target = config.target_database
    mode: Any = config.task_mode if config.task_mode != "load&sync" else "load"  # the comparison names the key then
    return DMTask(
        name=config.name,
        task_mode=mode,
        shard_mode=config.merges or None,
        strict_optimistic_shard_mode=config.strict_optimistic_shard_mode or None,
        meta_schema=config.meta_schema,
        enhance_online_schema_change=config.online_ddl or bool(config.online_ddl_scheme),
        on_duplicate=loader.on_duplicate_logical,
        target_config=TargetDatabase(
            host=target.host, port=target.port, user=target.user, password=target.password.get_secret_value(),
            security=security_as_shape(target.security),
        ),
        table_migrate_rule=[rule for each in config.mysql_instances for rule in _rules_as_shape(config, each, filters)],
        binlog_filter_rule=filters or None,
        source_config=TaskSourceConfig(
            full_migrate_conf=FullMigrateConf(
                export_threads=first.mydumper_thread or dumper.threads,
                import_threads=first.loader_thread or loader.pool_size,
                data_dir=loader.dir,
                consistency=None if dumper.consistency == "auto" else dumper.consistency,
            ),
            incr_migrate_conf=IncrMigrateConf(
                repl_threads=first.syncer_thread or syncer.worker_count, repl_batch=syncer.batch
            ),
            source_conf=[_instance_as_shape(each) for each in config.mysql_instances],
        ),
        ignore_checking_items=[*config.ignore_checking_items] or None,
    )  # fmt: skip


def _instance_as_shape(instance: Instance) -> TaskSourceConf:
    meta = instance.meta
    if meta is None:
        return TaskSourceConf(source_name=instance.source_id)
    return TaskSourceConf(
        source_name=instance.source_id, binlog_name=meta.binlog_name or None, binlog_pos=meta.binlog_pos,
        binlog_gtid=meta.binlog_gtid or None,
    )  # fmt: skip


def security_as_shape(security: FileSecurity | None) -> DMSecurity | None:
    """As the shape has it; of certificates that are files nothing, since an answer would show them."""
    if security is None:
        return None

    def text(content: SecretStr | None) -> str:
        return "" if content is None else content.get_secret_value()

    told = DMSecurity(
        ssl_ca_content=text(security.ssl_ca_bytes),
        ssl_cert_content=text(security.ssl_cert_bytes),
        ssl_key_content=text(security.ssl_key_bytes),
        cert_allowed_cn=[*security.cert_allowed_cn] or None,
    )
    return told if told.says_something else None


def _rules_as_shape(
    config: TaskConfig, instance: Instance, filters: dict[str, BinlogFilterRule]
) -> Iterator[TableMigrateRule]:
    lists = config.block_allow_list.get(instance.block_allow_list)
    if lists is None:
        return
    # Of a list with both the schemas are left out, of a pattern that stands twice one: the comparison names the key.
    patterns = [(each.db_name, each.tbl_name) for each in lists.do_tables] or [(one, "") for one in lists.do_dbs]
    routes = [config.routes[name] for name in instance.route_rules]
    for schema, table in dict.fromkeys(patterns):
        goes = [each for each in routes if (each.schema_pattern, each.table_pattern) == (schema, table)]
        left_out = [
            name for name in instance.filter_rules
            if (config.filters[name].schema_pattern, config.filters[name].table_pattern) == (schema, table)
        ]  # fmt: skip
        yield TableMigrateRule(
            source=RuleSource(source_name=instance.source_id, schema=schema, table=table),
            target=RuleTarget(schema=goes[0].target_schema, table=goes[0].target_table or None) if goes else None,
            binlog_filter_rule=[_filter_as_shape(config, name, filters) for name in left_out] or None,
        )


def _filter_as_shape(config: TaskConfig, name: str, filters: dict[str, BinlogFilterRule]) -> str:
    """The name of a filter of this content; it is put to the others."""
    rule = config.filters[name]
    one = BinlogFilterRule(ignore_event=[*rule.events] or None, ignore_sql=[*rule.sql_pattern] or None)
    for there, known in filters.items():
        if known == one:
            return there
    filters[name] = one
    return name


_NOT_COMPARED: Final[dict[str, Any]] = {
    "source": True,
    "routes": {"__all__": {"name"}},
    "filters": {"__all__": {"name"}},
    "target": {"password", "session_places"},
}
_FILE_KEYS: Final = {
    "target": "target-database", "mode": "task-mode", "dumper": "mydumpers", "loader": "loaders",
    "syncer": "syncers", "validator": "validators", "expression_filters": "expression-filter", "order": "merge-order",
    "application_zone": "application-time-zone", "strict_optimistic": "strict-optimistic-shard-mode",
}  # fmt: skip
"""Keys of a task file that a subtask has under another name."""


def _keys_without_field(config: TaskConfig, task: DMTask, sources: Mapping[str, SourceConfig]) -> list[str]:
    shown = task.target_config.model_copy(update={"password": ""})
    try:
        again = read_task(task_as_file(task.model_copy(update={"target_config": shown})), sources, environ={})
    except DMError as error:
        return [f"some (what is left is no task: {error.message})"]
    found = set[str]()
    for source in config.source_ids:
        before, after = (
            each.subtask(source, sources).model_dump(exclude=_NOT_COMPARED, context={"reveal": True})
            for each in (config, again)
        )
        found |= {key for key in before if before[key] != after[key]}
    return sorted(_FILE_KEYS.get(key, key.replace("_", "-")) for key in found)
