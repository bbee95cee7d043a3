"""What a target makes of rows by itself: expressions, triggers, generated columns, foreign keys.

**Expressions** may depend on the session that writes a row. What the syncer and the load do about it stands in
`dm.changes.computing`.

**Triggers, and generated columns** that are not the source's. A trigger acts on each row that the load or the syncer
writes, and a generated column takes no value; so the target has other rows than the source, and no error tells. Both
may be wanted, so they are no failures. Servers of one flavour print equal expressions alike; those of different
flavours can't be compared.

**Foreign keys** change rows by themselves. What the source does not log, the target must do in the same way. MySQL from
9.6 on writes to its binlog what CASCADE and SET NULL do; older ones and MariaDB do not. Then the target's own foreign
keys have to act, which takes more than `foreign_key_checks: 1`: the same foreign keys there, parents that are migrated
too, and rows that start as the source's were at one moment. Where a dump's rows are of several moments, the changes
between them are applied twice, and a cascade can't be.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from dm.changes.computing import UTC, SourceSettings
from dm.downstream.connection import TargetConnection
from dm.downstream.source_session_settings import computing_at
from dm.downstream.target_schema import ACTING
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect.pair import same_server
from dm.mysql.schema.expressions import (
    UNTOLD,
    computes_otherwise,
    depends_on_zone,
    expressions_of,
    leaves_week_format,
    reads_backslashes,
    texts_of,
)
from dm.mysql.schema.parse import has_checks, parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import read_source_settings
from dm.task.precheck.context import Answers, CheckResult, Context, Server, some
from dm.text import is_decimal

# Words of the expressions whose meaning a server keeps with the open table, and the variable that decides it.
_WORDS: Final = {
    "lc_time_names": frozenset({"dayname", "monthname", "date_format", "format", "to_char", "str_to_date"}),
}
_PRINTED_CHECK: Final = re.compile(r"^ *CONSTRAINT .*? CHECK \((.*)\)", re.MULTILINE)


def session_values(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Failures and warnings of the tables whose computed values depend on settings."""
    tables = dict(_tables(context))
    if not tables:
        return
    settings = read_source_settings(context.source.connection)
    yield from _zone(context, answers, tables, settings)
    yield from _target_variables(context, answers, tables, settings)
    yield from _weeks(context, answers, tables, settings)
    if "NO_BACKSLASH_ESCAPES" in settings.modes and context.source.facts.dialect.rereads_expressions:
        yield from _backslashes(context, answers, tables)


def _backslashes(
    context: Context, answers: Answers, tables: dict[TableName, tuple[TableSchema, bool]]
) -> Iterator[CheckResult]:
    r"""Expressions that MySQL reads otherwise under NO_BACKSLASH_ESCAPES, which no session of dm has.

    It keeps them as text with escapes. The first session that opens the table reads the text by its own mode: under
    this one `'a\\_b'` has one backslash more, LIKE no escape, and `ESCAPE ''` is an error (seen with 9.7.4). A MariaDB
    reads them without the mode. It can't be followed as other modes are: all literals of dm have backslashes as
    escapes, and at the source the first session may be one of dm's.
    """
    read = [
        name
        for name, (table, _) in tables.items()
        if any(map(reads_backslashes, [*texts_of(table), *_PRINTED_CHECK.findall(context.structures[name])]))
    ]
    if read:
        yield answers.warning(
            "the source has NO_BACKSLASH_ESCAPES in its sql_mode. A MySQL then reads a backslash in the text of an"
            " expression as two, and LIKE knows no escape, unless a session without the mode has opened the table. The"
            f" target's sessions do not have the mode, so these tables compute other values there: {some(read)}",
            "take NO_BACKSLASH_ESCAPES out of the source's sql_mode; or write the expressions without backslashes, and"
            " an escape after each LIKE: `LIKE 'a|_b' ESCAPE '|'`",
        )


def _tables(context: Context) -> Iterator[tuple[TableName, tuple[TableSchema, bool]]]:
    """Those with expressions, and whether there are CHECKs whose words are not known."""
    for name, text in context.structures.items():
        where = context.source_context(name)
        try:
            table = parse_create_table(text, where)
        except DMError:
            continue  # the check of structures names it
        unread = where.dialect.skips_checks and has_checks(text, table, where)
        if unread or any(True for _ in expressions_of(table)):
            yield name, (table, unread)


def _zone(
    context: Context, answers: Answers, tables: dict[TableName, tuple[TableSchema, bool]], settings: SourceSettings
) -> Iterator[CheckResult]:
    zoned = {name: table for name, (table, unread) in tables.items() if depends_on_zone(table, unread_checks=unread)}
    if not zoned:
        return
    with closing(TargetConnection(context.config.target)) as target:
        computing = computing_at(target, settings, context.config)
    if computing.unknown:
        error = DMError("expression-zone-unknown", table=next(iter(zoned)), zone=computing.unknown)
        yield answers.failure(f"{error.message}; these tables: {some(zoned)}", error.workaround)
        return
    stored = [name for name, table in zoned.items() if any(column.generated == "stored" for column in table.columns)]
    if stored:
        zone = "UTC" if settings.offsets == UTC else f"the time zone of the source's server ({settings.zone})"
        if context.config.application_zone:
            zone = f"`application-time-zone` ({context.config.application_zone})"
        yield answers.warning(
            f"the target computes columns from TIMESTAMPs in {zone}; what the source's sessions of another zone store"
            " is another value, at which a dump pauses (32927), and so does the syncer (36993; of a table without a key"
            f" it looks for such rows by a pass over the table, unless an index finds them): {some(stored)}",
            "where the applications of the source all set one time_zone (Django sets `+00:00`), write it as"
            " `application-time-zone` of the source under `mysql-instances`; else have the sessions that write these"
            " tables use the server's time_zone",
        )


def _target_variables(
    context: Context, answers: Answers, tables: dict[TableName, tuple[TableSchema, bool]], settings: SourceSettings
) -> Iterator[CheckResult]:
    """What sessions of others have the target keep of an open table."""
    there = context.target.variables
    differing: dict[str, list[TableName]] = {}
    for name, (table, _) in tables.items():
        words = frozenset[str]().union(*expressions_of(table))
        texts = list(texts_of(table))
        for variable, value in settings.others.items():
            if variable == "default_week_format":
                continue  # `_weeks`
            concerned = bool(words & _WORDS[variable]) if variable in _WORDS else any("/" in text for text in texts)
            if concerned and there.get(variable, value) != value:
                differing.setdefault(f"SET GLOBAL {variable} = {_literal(value)}", []).append(name)
        subtracts = any("-" in text for text in texts) and any(column.unsigned for column in table.columns)
        modes = there.get("sql_mode", "").upper().split(",")
        if subtracts and any(mode in settings.modes for mode in settings.value_modes if mode not in modes):
            statement = "SET GLOBAL sql_mode = CONCAT(@@GLOBAL.sql_mode, ',NO_UNSIGNED_SUBTRACTION')"
            differing.setdefault(statement, []).append(name)
    for statement, names in differing.items():
        yield answers.warning(
            "a server keeps how the first session that opens a table computes its expressions, and the target's global"
            f" settings are not the source's, on which these depend: {some(names)}",
            f"{statement}; FLUSH TABLES (at the target)",
        )


def _weeks(
    context: Context, answers: Answers, tables: dict[TableName, tuple[TableSchema, bool]], settings: SourceSettings
) -> Iterator[CheckResult]:
    """VIRTUAL columns that each reader computes by its own default_week_format."""
    variable = "default_week_format"
    value = settings.others.get(variable)
    if value is None or context.target.facts.dialect.keeps_week_format:
        return
    weeks = [name for name, (table, _) in tables.items() if any(map(leaves_week_format, texts_of(table)))]
    if weeks and context.target.variables.get(variable, value) != value:
        yield answers.warning(
            f"columns with WEEK(..) without a mode are computed in the session that reads them, by its {variable}; the"
            f" target's global one is not the source's, so that others read other values there: {some(weeks)}",
            f"SET GLOBAL {variable} = {value} (at the target)",
        )


def _literal(value: str) -> str:
    return value if is_decimal(value) else f"'{value}'"


def computed_values(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Warnings of triggers and generated columns by which the target's rows become other ones."""
    if context.loads or context.syncs:
        yield from _zone_text(context, answers)
        yield from _triggers(context, answers)
        yield from _generated(context, answers)


@reads_answers
def _zone_text(context: Context, answers: Answers) -> Iterator[CheckResult]:
    zone = context.config.timezone
    if zone and context.target.query("SELECT CONVERT_TZ('2020-01-01 00:00:00', '+00:00', %s)", zone)[0][0] is None:
        yield answers.warning(
            f"the target does not know `timezone: {zone}`; the task pauses at a table of the target with a column of"
            " its own that is filled with the local time",
            "`mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql -u root mysql` there, or an offset such as `+08:00`",
        )


def _triggers(context: Context, answers: Answers) -> Iterator[CheckResult]:
    targets = context.destinations
    rows = context.target.of_schemas(
        "SELECT event_object_schema, event_object_table, trigger_schema, trigger_name, action_timing,"
        " event_manipulation FROM information_schema.triggers WHERE 1 = 1",
        "event_object_schema",
        context.target_schemas,
    )
    found = [
        (TableName(schema, name), Ident(place).sql + "." + Ident(trigger).sql, f"{timing} {event}")
        for schema, name, place, trigger, timing, event in (map(str, row) for row in rows)
        if TableName(schema, name) in targets
    ]
    if found:
        listed = some(f"{trigger} ({when} ON {table})" for table, trigger, when in sorted(found))
        yield answers.warning(
            f"triggers of the target act on every row that the task writes, and what they change the source does not"
            f" have: {listed}",
            "; ".join(f"DROP TRIGGER {trigger}" for _, trigger, _ in sorted(found)),
        )


def _generated(context: Context, answers: Answers) -> Iterator[CheckResult]:
    here = _expressions(context.source, context.schemas)
    there = _expressions(context.target, context.target_schemas)
    facts = context.target.facts
    # A TiDB prints an expression in words of its own.
    comparable = same_server(context.source.facts.flavor, facts.flavor)
    others: list[str] = []
    for table, target in context.pairs:
        own = here.get(table, {})
        for column, expression in there.get(target, {}).items():
            of = own.get(column)
            if of is not None and computes_otherwise(of, expression, comparable=comparable):
                others.append(f"{target}.{column} is {expression}, and {of or 'stored'} at the source")
    if others:
        yield answers.warning(
            f"the target computes columns otherwise than the source: {some(others)}",
            "ALTER TABLE .. DROP COLUMN .., ADD COLUMN .. as the source defines it (at the target)",
        )


def _expressions(server: Server, schemas: tuple[str, ...]) -> dict[TableName, dict[str, str]]:
    """By table and column; empty for a column that is not generated."""
    told = server.facts.dialect.tells_generation_expressions
    expression = "generation_expression" if told else f"IF(extra IN ('VIRTUAL', 'PERSISTENT'), '{UNTOLD}', '')"
    query = f"SELECT table_schema, table_name, column_name, {expression} FROM information_schema.columns WHERE 1 = 1"
    tables: dict[TableName, dict[str, str]] = {}
    for schema, table, column, expression in server.of_schemas(query, "table_schema", schemas):
        tables.setdefault(TableName(str(schema), str(table)), {})[str(column).lower()] = str(expression or "")
    return tables


@dataclass(frozen=True, slots=True)
class _ForeignKey:
    name: str
    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    on_delete: str
    on_update: str

    @property
    def acts(self) -> bool:
        return bool(ACTING & {self.on_delete, self.on_update})

    def __str__(self) -> str:
        return f"{self.child} ({self.name})"

    def routable(self, context: Context) -> bool:
        """Whether the rows of its tables go to one table each."""
        return not any(context.rules.scattered(table) for table in (self.child, self.parent))

    def routed(self, context: Context) -> _Form:
        """What the target's foreign key must be like."""
        return _form(context.destination(self.child), context.destination(self.parent), self)


_Form = tuple[TableName, TableName, frozenset[tuple[str, str]], str, str]


def _form(child: TableName, parent: TableName, key: _ForeignKey) -> _Form:
    pairs = zip(key.columns, key.parent_columns, strict=True)
    return child, parent, frozenset((own.lower(), there.lower()) for own, there in pairs), key.on_delete, key.on_update


def acting_foreign_keys(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Foreign keys whose effects nobody would bring to the target, or bring there twice."""
    facts = context.source.facts
    if not context.syncs or facts.logs_cascades:
        return
    wanted = set(context.tables)
    keys = [key for key in _read(context.source, context.schemas) if key.acts and key.child in wanted]
    if not keys and not context.config.foreign_key_checks:
        return
    if not context.config.foreign_key_checks:
        yield answers.failure(
            f"foreign keys that change rows by themselves (CASCADE, SET NULL): {some(keys)}; {facts.base_flavor}"
            f" {facts.version_text} does not write these changes to its binlog",
            "have the target act in the same way: `session: {foreign_key_checks: 1}` under `target-database`",
        )
    orphans = [key for key in keys if key.parent not in wanted]
    if orphans:
        yield answers.failure(
            f"foreign keys change rows when rows of tables change that are not migrated: {some(orphans)}",
            f"add {some(dict.fromkeys(key.parent for key in orphans))} to `block-allow-list`",
        )
    if keys and context.dumps and not context.config.dump_of_one_moment:
        yield answers.failure(
            f"foreign keys that change rows by themselves ({some(keys)}) and a dump whose rows are of several moments:"
            " what they did while it ran can't be done again",
            'copy the rows of one moment: `mydumpers: {global: {extra-args: "--consistency flush"}}`, and'
            " `mydumper-config-name: global` under `mysql-instances`",
        )
    yield from _at_target(context, answers, [key for key in keys if key.parent in wanted and key.routable(context)])


def _at_target(context: Context, answers: Answers, keys: Sequence[_ForeignKey]) -> Iterator[CheckResult]:
    """The foreign keys of the tables that the target has already."""
    routed = context.destinations
    schemas = tuple({table.schema for table in routed})
    there = {table for table in _tables_of(context.target, schemas) if table in routed}
    forms = {_form(key.child, key.parent, key): key for key in _read(context.target, schemas)}
    missing = [key for key in keys if context.destination(key.child) in there and key.routed(context) not in forms]
    if missing:
        yield answers.failure(
            f"the target's tables lack foreign keys that change rows by themselves: {some(missing)}",
            "; ".join(dict.fromkeys(_added(key, context) for key in missing)),
        )
    wanted = {key.routed(context) for key in keys}
    extra = [key for form, key in forms.items() if key.acts and key.child in there and form not in wanted]
    if extra:
        yield answers.failure(
            f"foreign keys of the target change rows by themselves that the source's do not: {some(extra)}",
            "; ".join(f"ALTER TABLE {key.child.sql} DROP FOREIGN KEY {Ident(key.name).sql}" for key in extra),
        )


def _added(key: _ForeignKey, context: Context) -> str:
    child, parent = context.destination(key.child), context.destination(key.parent)
    return (
        f"ALTER TABLE {child.sql} ADD FOREIGN KEY ({_list(key.columns)}) REFERENCES {parent.sql}"
        f" ({_list(key.parent_columns)}) ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
    )


def _list(columns: Iterable[str]) -> str:
    return ", ".join(Ident(column).sql for column in columns)


def _tables_of(server: Server, schemas: Sequence[str]) -> list[TableName]:
    query = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
    return [TableName(str(schema), str(table)) for schema, table in server.of_schemas(query, "table_schema", schemas)]


def _read(server: Server, schemas: Sequence[str]) -> Iterator[_ForeignKey]:
    rules = server.of_schemas(
        "SELECT constraint_schema, table_name, constraint_name, delete_rule, update_rule"
        " FROM information_schema.referential_constraints WHERE 1 = 1",
        "constraint_schema",
        schemas,
    )
    columns: dict[tuple[str, str, str], list[tuple[str, str, str, str]]] = {}
    for schema, table, name, *rest in server.of_schemas(
        "SELECT table_schema, table_name, constraint_name, column_name, referenced_table_schema,"
        " referenced_table_name, referenced_column_name FROM information_schema.key_column_usage"
        " WHERE referenced_table_name IS NOT NULL",
        "table_schema",
        schemas,
        " ORDER BY table_schema, table_name, constraint_name, ordinal_position",
    ):
        own, parent_schema, parent, there = (str(each) for each in rest)
        columns.setdefault((str(schema), str(table), str(name)), []).append((own, parent_schema, parent, there))
    for schema, table, name, on_delete, on_update in rules:
        parts = columns.get((str(schema), str(table), str(name)))
        if parts:
            yield _ForeignKey(
                str(name),
                TableName(str(schema), str(table)),
                tuple(part[0] for part in parts),
                TableName(parts[0][1], parts[0][2]),
                tuple(part[3] for part in parts),
                _rule(on_delete),
                _rule(on_update),
            )


def _rule(text: object) -> str:
    return "RESTRICT" if str(text) == "NO ACTION" else str(text)
