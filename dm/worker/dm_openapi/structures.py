"""DM's OpenAPI: the tables of a task, where they go, and the structures by which their rows are read."""

from __future__ import annotations

from typing import Any, cast

from dm.config import SubtaskConfig
from dm.config.pattern import Match, PatternError, matcher
from dm.config.regex import RegexError
from dm.errors import DMError
from dm.ident import TableName
from dm.rules.table_rules import TableRules
from dm.verbs.binlog import DeleteStructure, ListStructure, TableStructure, UpdateStructure
from dm.verbs.declaration import CHANGES, READS
from dm.worker.dm_openapi import task_shapes as shapes
from dm.worker.dm_openapi.operation import OpenAPIRequests, operation
from dm.worker.dm_openapi.task_file import invalid

_TABLE = "tasks/{task_name}/sources/{source_name}/schemas/{schema_name}/{table_name}"


class StructureRequests(OpenAPIRequests):
    """Tables of tasks."""

    tag = "task"

    @operation("GET tasks/{task_name}/sources/{source_name}/migrate_targets", READS, shapes.TaskMigrateTargets)
    def get_task_migrate_targets(
        self, task_name: str, source_name: str, schema_pattern: str = "", table_pattern: str = ""
    ) -> shapes.TaskMigrateTargets:
        """List the tables of a source that a task migrates, and where they go."""
        config = self._subtask(task_name, source_name)
        rules = TableRules(config)
        schema, table = _match(config, schema_pattern), _match(config, table_pattern)
        data = [
            shapes.TaskMigrateTarget(
                source_schema=name.schema, source_table=name.table, target_schema=there.schema, target_table=there.table
            )
            for name in self._tables(config, rules)
            if schema(name.schema) and table(name.table)
            for there in rules.destinations(name)
        ]
        return shapes.TaskMigrateTargets(total=len(data), data=data)

    @operation("GET tasks/{task_name}/sources/{source_name}/schemas", READS, list[str])
    def get_schema_list_by_task_and_source(self, task_name: str, source_name: str) -> list[str]:
        """List the schemas of a source that a task migrates."""
        config = self._subtask(task_name, source_name)
        return [*dict.fromkeys(name.schema for name in self._tables(config, TableRules(config)))]

    @operation("GET tasks/{task_name}/sources/{source_name}/schemas/{schema_name}", READS, list[str])
    def get_table_list_by_task_and_source(self, task_name: str, source_name: str, schema_name: str) -> list[str]:
        """List the tables of a schema that a task migrates."""
        config = self._subtask(task_name, source_name)
        return [name.table for name in self._tables(config, TableRules(config)) if name.schema == schema_name]

    @operation(f"GET {_TABLE}", READS, shapes.DMTableStructure)
    def get_table_structure(
        self, task_name: str, source_name: str, schema_name: str, table_name: str
    ) -> shapes.DMTableStructure:
        """Show the structure by which a table's rows are read; the task is stopped."""
        said = self._operate(
            ListStructure(task=task_name, sources=(source_name,), database=schema_name, table=table_name)
        )
        return shapes.DMTableStructure(schema_name=schema_name, table_name=table_name, schema_create_sql=said)

    @operation(f"PUT {_TABLE}", CHANGES)
    def operate_table_structure(
        self, task_name: str, source_name: str, schema_name: str, table_name: str, body: shapes.TableStructureRequest
    ) -> None:
        """Replace the structure by which a table's rows are read; the task is stopped."""
        if body.flush is False:
            raise invalid("`flush` is false, and a structure that is not stored would be lost", "leave `flush` out")
        self._operate(
            UpdateStructure(
                task=task_name, sources=(source_name,), database=schema_name, table=table_name, origin="file",
                text=body.sql_content, sync=body.sync is not False,
            )
        )  # fmt: skip

    @operation(f"DELETE {_TABLE}", CHANGES, status=204)
    def delete_table_structure(self, task_name: str, source_name: str, schema_name: str, table_name: str) -> None:
        """Forget the structure by which a table's rows are read; the task is stopped."""
        self._operate(DeleteStructure(task=task_name, sources=(source_name,), database=schema_name, table=table_name))

    def _operate(self, verb: TableStructure) -> str:
        """What the verb says of the one source."""
        lines = cast("list[dict[str, Any]]", self._do(verb)["sources"])
        return str(lines[0]["msg"])

    def _subtask(self, task: str, source: str) -> SubtaskConfig:
        """A task on one of its sources, started or not; raises DMError."""
        prepared = self._registry.prepared_tasks().get(task)
        sources = self._sources()
        known = self._loop.call(lambda: self._supervisor.tasks.get(task))
        if known is None and self._stored(task):
            prepared = self._registry.tasks()[task]
        if known is None and prepared is None:
            raise DMError("task-unknown", task=task)
        config = known.config if known is not None else self._read.task(cast("Any", prepared), sources)[0]
        if isinstance(config, DMError):
            raise config
        if source not in config.source_ids:
            raise DMError("task-not-on-source", task=task, source=source, sources=", ".join(config.source_ids))
        return config.subtask(source, sources)

    def _tables(self, config: SubtaskConfig, rules: TableRules) -> list[TableName]:
        return [name for name in self._means.servers.listing.tables(config.source) if rules.wanted(name)]


def _match(config: SubtaskConfig, pattern: str) -> Match:
    """What names fit a pattern; without one all."""
    try:
        return matcher(pattern or "*", case_sensitive=config.case_sensitive)
    except (PatternError, RegexError) as error:
        raise invalid(f"{pattern!r} is no pattern: {error}", "a name, `db*`, `db?` or `~` with an expression") from None
