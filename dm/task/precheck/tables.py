"""Checks of table structures, and the list of what is not migrated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dm.errors import DMError
from dm.ident import TableName
from dm.rules.folded_names import refuse_alike
from dm.task.precheck.computed import computed_values
from dm.task.precheck.context import Answers, Context, some
from dm.task.precheck.expressions import expression_filters
from dm.task.precheck.extraction import extracted_columns
from dm.task.precheck.foreign_keys import acting_foreign_keys
from dm.task.precheck.narrowing import narrower_columns
from dm.task.precheck.result import CheckResult
from dm.task.precheck.server import Server

_TRANSACTIONAL = {"innodb", "rocksdb", "tokudb", "ndbcluster", "ndb"}
_OWN_ACCOUNTS = ("mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys")  # every server has them


def structures(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Keys at the source, foreign keys whose effects are not logged, engines and columns of tables at the target."""
    results = [
        *_none(context, answers),
        *_keys(context, answers),
        *acting_foreign_keys(context, answers),
        *_engines(context, answers),
        *_columns(context, answers),
        *narrower_columns(context, answers),
        *computed_values(context, answers),
        *extracted_columns(context, answers),
        *_names_apart(context, answers),
        *expression_filters(context, answers),
    ]
    yield from results or [answers.success(f"{len(context.tables)} tables")]


def _none(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Lists that lead to no table, which may be a slip of the pen; a task that follows the source may wait for one."""
    if not context.tables and (context.dumps or context.syncs):
        say = answers.failure if context.dumps and not context.syncs else answers.warning
        yield say("the source has no table that the lists want", "see the names in `block-allow-list`")


def _keys(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Rows of a table without a key are found by all their columns, one after the other: exact, but slow."""
    rows = context.source.of_schemas(
        "SELECT table_schema, table_name, index_name, MAX(nullable = 'YES') FROM information_schema.statistics"
        " WHERE non_unique = 0",
        "table_schema",
        context.schemas,
        " GROUP BY table_schema, table_name, index_name",
    )
    keyed = {TableName(str(row[0]), str(row[1])) for row in rows if not row[3]}
    without = [table for table in context.tables if table not in keyed]
    if without:
        yield answers.warning(
            f"without a primary key or a unique key that is NOT NULL: {some(without)}; they are copied by one task"
            " and followed by one ordered session",
            "ALTER TABLE .. ADD PRIMARY KEY (..)",
        )


def _engines(context: Context, answers: Answers) -> Iterator[CheckResult]:
    targets = {context.destination(table) for table in context.tables}
    rows = context.target.of_schemas(
        "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_type = 'BASE TABLE'",
        "table_schema",
        tuple({table.schema for table in targets}),
    )
    found = {TableName(str(row[0]), str(row[1])): str(row[2] or "").lower() for row in rows}
    bad = [f"{table} ({found[table]})" for table in sorted(targets) if found.get(table, "innodb") not in _TRANSACTIONAL]
    if bad:
        yield answers.failure(
            f"tables of the target can't roll back: {some(bad)}", "ALTER TABLE .. ENGINE = InnoDB (at the target)"
        )
    default = context.target.variables.get("default_storage_engine", "InnoDB")
    if default.lower() not in _TRANSACTIONAL:
        yield answers.failure(
            f"the target's default_storage_engine is {default}", "SET GLOBAL default_storage_engine = 'InnoDB'"
        )
    foreign = context.source.of_schemas(
        "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_type = 'BASE TABLE'",
        "table_schema",
        context.schemas,
    )
    wanted = set(context.tables)
    kept = [
        f"{row[0]}.{row[1]} ({row[2]})"
        for row in foreign
        if TableName(str(row[0]), str(row[1])) in wanted
        and context.destination(TableName(str(row[0]), str(row[1]))) not in found
        and str(row[2] or "").lower() not in _TRANSACTIONAL
    ]
    if kept and context.loads:
        yield answers.failure(
            f"tables of the source have an engine that would be taken over and can't roll back: {some(kept)}",
            "ALTER TABLE .. ENGINE = InnoDB (at the source), or create the table at the target beforehand",
        )


def _names_apart(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Tables that would be one at a target which does not tell upper from lower case."""
    if context.target.facts.lower_case_table_names and (context.loads or context.syncs):
        try:
            refuse_alike(context.tables, context.rules.route)
        except DMError as error:
            yield answers.failure(error.message, error.workaround)


def _columns(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Columns that the target's table lacks, where there is one: rows could not be written whole."""
    query = "SELECT table_schema, table_name, column_name FROM information_schema.columns WHERE 1 = 1"
    there = _by_table(
        context.target.of_schemas(
            query,
            "table_schema",
            tuple({context.destination(table).schema for table in context.tables}),
        )
    )
    here = _by_table(context.source.of_schemas(query, "table_schema", context.schemas))
    absent = [routed for routed in map(context.destination, context.tables) if routed not in there]
    if absent and not context.dumps:
        yield answers.warning(
            f"the target does not have {some(dict.fromkeys(absent))}; without a full load nothing creates them",
            "create them there, or start with `task-mode: all`",
        )
    for table in context.tables:
        routed = context.destination(table)
        if routed in there:
            missing = sorted(here.get(table, set()) - there[routed])
            if not missing:
                continue
            lacking = f"{routed} at the target lacks columns of {table}: {some(missing)}"
            if context.syncs and context.follows_from_checkpoint:
                yield answers.warning(
                    f"{lacking}; an ALTER behind the checkpoint may still bring them",
                    f"nothing; if the task then stops: ALTER TABLE {routed.sql} ADD COLUMN .. (at the target)",
                )
            else:
                yield answers.failure(lacking, f"ALTER TABLE {routed.sql} ADD COLUMN .. (at the target)")


def _by_table(rows: Sequence[Sequence[object]]) -> dict[TableName, set[str]]:
    tables: dict[TableName, set[str]] = {}
    for schema, table, column in rows:
        tables.setdefault(TableName(str(schema), str(table)), set()).add(str(column).lower())
    return tables


def not_migrated(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """What stays behind: DM migrates tables and their rows, nothing else."""
    source, schemas = context.source, context.schemas
    found = {
        "views": _names(
            source, "SELECT table_schema, table_name FROM information_schema.views", "table_schema", schemas
        ),
        "triggers": _names(
            source, "SELECT trigger_schema, trigger_name FROM information_schema.triggers", "trigger_schema", schemas
        ),
        "routines": _names(
            source, "SELECT routine_schema, routine_name FROM information_schema.routines", "routine_schema", schemas
        ),
        "events": _names(
            source, "SELECT event_schema, event_name FROM information_schema.events", "event_schema", schemas
        ),
        "users": [
            str(row[0])
            for row in source.query("SELECT DISTINCT grantee FROM information_schema.user_privileges")
            if str(row[0]).partition("@")[0].strip("'") not in _OWN_ACCOUNTS
        ],
    }
    listed = "; ".join(f"{len(names)} {kind}: {some(names)}" for kind, names in found.items() if names)
    unknown = _not_loaded(context)
    if unknown:
        yield answers.warning(
            f"unless it is started with --remove-meta the task goes on from its checkpoint, which does not know"
            f" {some(unknown)}: if the lists have left a table out so far, the rows that it has are not migrated; one"
            " that was created since then comes by the binlog",
            "dmctl start-task .. --remove-meta loads all tables anew; a task of its own loads the new ones alone",
        )
    yield answers.success(f"not migrated: {listed}" if listed else "nothing but tables there")


def _not_loaded(context: Context) -> list[TableName]:
    """Tables that are wanted now, of which the checkpoint of an earlier full load says nothing."""
    if not (context.loads and context.syncs):
        return []
    known = context.tables_of_checkpoint
    return [] if known is None else [table for table in context.tables if table not in known]


def _names(server: Server, query: str, column: str, schemas: Sequence[str]) -> list[str]:
    return [f"{row[0]}.{row[1]}" for row in server.of_schemas(f"{query} WHERE 1 = 1", column, schemas)]
