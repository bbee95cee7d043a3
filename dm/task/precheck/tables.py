"""Checks of table structures: the source's, and those of the target's tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dm.changes.column_map import constant_columns, refuse_narrower
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.target_tables import TargetTables, misfit
from dm.mysql.schema.own_keys import lacking_indexes
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema, without_columns
from dm.mysql.sql.context import SourceContext
from dm.rules.router import refuse_alike, table_missing
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.facts import read_structure
from dm.task.precheck.computing import acting_foreign_keys, computed_values, session_values
from dm.task.precheck.context import Answers, CheckResult, Context, Server, some
from dm.task.precheck.expressions import expression_filters
from dm.task.precheck.takeable import untakeable_tables, untransactional
from dm.text import counted


def structures(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Keys at the source, foreign keys whose effects are not logged, engines and columns of tables at the target."""
    results = [
        *_none(context, answers),
        *keys(context, answers),
        *acting_foreign_keys(context, answers),
        *_engines(context, answers),
        *untakeable_tables(context, answers),
        *_columns(context, answers),
        *unfit_tables(context, answers),
        *narrower_columns(context, answers),
        *computed_values(context, answers),
        *session_values(context, answers),
        *own_keys(context, answers),
        *extracted_columns(context, answers),
        *_names_apart(context, answers),
        *expression_filters(context, answers),
    ]
    yield from results or [answers.success(counted(len(context.tables), "table"))]


def _none(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Lists that lead to no table, which may be a slip of the pen; a task that follows the source may wait for one."""
    if not context.tables and (context.dumps or context.syncs):
        say = answers.failure if context.dumps and not context.syncs else answers.warning
        yield say("the source has no table that the lists want", "see the names in `block-allow-list`")


def keys(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Rows of a table without a key are found by all their columns, one after the other: exact, but slow."""
    without = context.keyless
    if without:
        # A MySQL scans once for many rows where they go as row events, a MariaDB where the table has no index at all
        # and many rows change at once (`dm.changes.row_bag`); a TiDB scans for each row.
        dialect = context.target.facts.dialect
        scans = context.syncs and not dialect.scans_once_for_events
        unless = ", unless many change at once" if dialect.returns_deleted_rows else ""
        yield answers.warning(
            f"without a primary key or a unique key that is NOT NULL: {some(without)}; they are copied by one task"
            " and followed by one ordered session"
            + (f"; the target scans such a table for each row that is updated or deleted{unless}" if scans else ""),
            "ALTER TABLE .. ADD PRIMARY KEY (..)"
            + ("; or, at the target alone, ADD KEY (..) with a column of many values" if scans else ""),
        )


def _engines(context: Context, answers: Answers) -> Iterator[CheckResult]:
    targets = context.destinations
    rows = context.target.of_schemas(
        "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE table_type = 'BASE TABLE'",
        "table_schema",
        tuple({table.schema for table in targets}),
    )
    found = {TableName(str(row[0]), str(row[1])): str(row[2] or "").lower() for row in rows}
    bad = [f"{table} ({found[table]})" for table in sorted(targets) if untransactional(found.get(table))]
    if bad:
        yield answers.failure(
            f"tables of the target can't roll back: {some(bad, len(bad))}",
            "ALTER TABLE .. ENGINE = InnoDB (at the target)",
        )


def _names_apart(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Tables that would be one at a target which does not tell upper from lower case."""
    if context.target.facts.lower_case_table_names and (context.loads or context.syncs):
        try:
            refuse_alike(context.tables, context.rules.destinations)
        except DMError as error:
            yield answers.failure(error.message, error.workaround)


def _columns(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Columns that the target's table lacks, where there is one: rows could not be written whole."""
    query = "SELECT table_schema, table_name, column_name FROM information_schema.columns WHERE 1 = 1"
    there = _by_table(
        context.target.of_schemas(
            query,
            "table_schema",
            context.target_schemas,
        )
    )
    here = _by_table(context.source.of_schemas(query, "table_schema", context.schemas))
    absent = [routed for _, routed in context.pairs if routed not in there]
    if absent and not context.dumps:
        yield answers.warning(
            f"the target does not have {some(dict.fromkeys(absent))}; without a full load nothing creates them",
            "create them there, or start with `task-mode: all`",
        )
    for table, routed in context.pairs:
        if routed in there:
            missing = sorted(here.get(table, set()) - there[routed] - set(context.rules.scattered_columns(table)))
            if not missing:
                continue
            lacking = f"{routed} at the target lacks columns of {table}: {some(missing)}"
            if context.may_meet_alters:
                yield answers.warning(
                    f"{lacking}; an ALTER after the start may still bring them",
                    f"nothing; if the task then stops: ALTER TABLE {routed.sql} ADD COLUMN .. (at the target)",
                )
            else:
                yield answers.failure(lacking, f"ALTER TABLE {routed.sql} ADD COLUMN .. (at the target)")


def _by_table(rows: Sequence[Sequence[object]]) -> dict[TableName, set[str]]:
    tables: dict[TableName, set[str]] = {}
    for schema, table, column in rows:
        tables.setdefault(TableName(str(schema), str(table)), set()).add(str(column).lower())
    return tables


def extracted_columns(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure for each source table whose extracted columns the target can't take."""
    gathered = [(table, extracted) for table in context.tables if (extracted := context.rules.extracted(table))]
    if not gathered or not (context.loads or context.syncs):
        return
    here = _source_columns(context, {table.schema for table, _ in gathered})
    there: dict[TableName, TableSchema | None] = {}
    targets = TargetSchemas(lambda: TargetConnection(context.config.target))
    try:
        for table, extracted in gathered:
            target = context.destination(table)
            if target not in there:
                there[target] = targets.read(target)
            found = there[target]
            try:
                if found is None:
                    raise table_missing(table, target, extracted)
                constant_columns(table, here.get(table, ()), found, extracted)
            except DMError as error:
                yield answers.failure(error.message, error.workaround)
    finally:
        targets.close()


@reads_answers
def _source_columns(context: Context, schemas: set[str]) -> dict[TableName, list[str]]:
    columns: dict[TableName, list[str]] = {}
    for name in sorted(schemas):
        rows = context.source.query(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s", name
        )
        for table, column in rows:
            columns.setdefault(TableName(name, str(table)), []).append(str(column))
    return columns


# Columns of the target that may take values for others: the syncer would pause at the table's first row.

_TYPES: Final = (
    "SELECT table_schema, table_name, column_name, column_type, character_set_name, is_nullable, extra"
    " FROM information_schema.columns WHERE 1 = 1"
)
_Types = dict[str, tuple[object, ...]]


def narrower_columns(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A finding for each table whose values the target may change without an error."""
    if not context.syncs or context.config.syncer.narrower_columns == "accept":
        return
    here = _types(context.source, context.schemas)
    there = _types(context.target, context.target_schemas)
    targets = TargetSchemas(lambda: TargetConnection(context.config.target))
    try:
        for table, target in context.pairs:
            if not _differ(here.get(table, {}), there.get(target, {})):
                continue  # structures are read one by one
            try:
                _refuse(context, targets, table, target)
            except DMError as error:
                if error.retryable:
                    raise
                if context.may_meet_alters:
                    told = f"{error.message}; an ALTER after the start may still mend that"
                    yield answers.warning(told, f"nothing; if the task then stops: {error.workaround}")
                else:
                    yield answers.failure(error.message, error.workaround)
    finally:
        targets.close()


def _refuse(context: Context, targets: TargetSchemas, table: TableName, target: TableName) -> None:
    """Raise DMError where the syncer would, before it writes the first row of the table."""
    found = targets.read(target)
    if found is None:
        return
    columns = [
        (column, place)
        for column in _structure(context, table).columns
        if (place := found.column(column.name)) is not None
    ]
    refuse_narrower(table, target, columns, null_is_now=targets.null_is_now)


def _types(server: Server, schemas: tuple[str, ...]) -> dict[TableName, _Types]:
    tables: dict[TableName, _Types] = {}
    for schema, table, column, *told in server.of_schemas(_TYPES, "table_schema", schemas):
        tables.setdefault(TableName(str(schema), str(table)), {})[str(column).lower()] = tuple(told)
    return tables


def _differ(here: _Types, there: _Types) -> bool:
    return any(name in there and told != there[name] for name, told in here.items())


def _structure(context: Context, table: TableName) -> TableSchema:
    facts = context.source.facts
    text = read_structure(context.source.connection, table)
    return parse_create_table(text, SourceContext(facts.flavor, facts.version, table.schema))


def unfit_tables(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A finding for each table of the source whose rows the load would not write into the target's.

    The load itself judges whether rows of the source fit into a table (`dm.loader.target_tables.misfit`). Here the same
    question is asked of every table before anything is dumped. Columns that a table lacks are reported by `structures`.
    """
    if not (context.dumps and context.loads) or context.follows_from_checkpoint:
        return
    there = [table for table in context.tables if context.destination(table) in context.present]
    if not there:
        return
    with TargetConnection(context.config.target) as connection:
        targets = TargetTables.at(connection, wider=context.config.shard_mode == "optimistic")
        for table in there:
            try:
                _demand_fit(context, targets, table)
            except DMError as error:
                if error.retryable:
                    raise
                if error.name == "privilege-missing":
                    continue  # a finding of its own
                say = answers.warning if context.may_meet_alters else answers.failure
                yield say(f"the load would refuse it: {error.message}", error.workaround)


def _demand_fit(context: Context, targets: TargetTables, table: TableName) -> None:
    """Raise DMError as the load would."""
    text = context.structures.get(table)
    if text is None:
        return
    source = parse_create_table(text, context.source_context(table))
    place = context.destination(table)
    structure = targets.structure(place)
    if not structure.upper().startswith("CREATE TABLE"):
        raise DMError("load-table-unsuitable", table=place, source_table=table, why="it is a view")
    found = targets.parsed(place, structure)
    if _lacking(source, found):
        return
    extracted = {each.column.lower() for each in context.rules.extracted(table)}
    why = misfit(source, found, extracted, wider=targets.wider)
    if why is not None:
        raise DMError("load-table-differs", table=place, source_table=table, why=why)


def _lacking(source: TableSchema, target: TableSchema) -> bool:
    return any(target.column(column.name) is None for column in source.columns if column.generated is None)


# Unique keys that only the target has: what to the source are two rows may be one to them.

_UNIQUE: Final = (
    "SELECT table_schema, table_name, index_name, LOWER(column_name), sub_part FROM information_schema.statistics"
    " WHERE non_unique = 0"
)
_Uniques = dict[str, list[tuple[object, object]]]


def own_keys(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Warnings of unique keys that the source lacks."""
    if not (context.loads or context.syncs):
        return
    here, there = _uniques(context.source, context.schemas), _uniques(context.target, context.target_schemas)
    refused: list[str] = []
    only: list[str] = []
    targets = TargetSchemas(lambda: TargetConnection(context.config.target))
    try:
        for table, place in context.pairs:
            left_out = context.rules.scattered_columns(table)
            known = [[part for part in parts if part[0] not in left_out] for parts in here.get(table, {}).values()]
            if all(columns in known for columns in there.get(place, {}).values()):
                continue  # structures are read one by one
            text, target = context.structures.get(table), targets.read(place)
            if text is None or target is None:
                continue
            source = without_columns(parse_create_table(text, context.source_context(table)), left_out)
            lacking = list(lacking_indexes(source, target))
            refused += [f"{index.name} of {place}" for index in lacking]
            only += [f"{table}" for index in lacking[:1] if not source.has_key]
    finally:
        targets.close()
    if refused:
        finds = f"; rows of {some(only)} are found by such a key alone, and in safe mode the later replaces the other"
        yield answers.warning(
            f"unique keys that the target has and the source lacks: {some(refused)}. Two rows of the source that share"
            f" one pause the task (34935, 36913, 36924){finds if only and context.syncs else ''}",
            "if such rows are possible, make the index an ordinary one at the target (ALTER TABLE .. DROP INDEX .., ADD"
            " INDEX ..)" + ("; or give the source's table the key" if only else ""),
        )


@reads_answers
def _uniques(server: Server, schemas: tuple[str, ...]) -> dict[TableName, _Uniques]:
    tables: dict[TableName, _Uniques] = {}
    for schema, table, index, column, prefix in server.of_schemas(
        _UNIQUE, "table_schema", schemas, " ORDER BY table_schema, table_name, index_name, seq_in_index"
    ):
        keys = tables.setdefault(TableName(str(schema), str(table)), {})
        keys.setdefault(str(index), []).append((column, prefix))
    return tables
