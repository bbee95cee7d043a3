"""Tables whose expressions depend on the session that writes a row: what the target can't compute as the source does.

What the syncer and the load do about it stands in `dm.changes.computing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from dm.changes.computing import UTC, SourceSettings
from dm.downstream.connection import TargetConnection
from dm.downstream.source_computing import computing_at
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.expressions import depends_on_zone, expressions_of
from dm.mysql.schema.parse import has_checks, parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.sourcelog.upstream.connection import read_source_settings
from dm.task.precheck.context import Answers, CheckResult, Context, some
from dm.text import is_decimal

# Words of the expressions whose meaning a server keeps with the open table, and the variable that decides it.
_WORDS: Final = {
    "lc_time_names": frozenset({"dayname", "monthname", "date_format", "format", "to_char", "str_to_date"}),
    "default_week_format": frozenset({"week"}),
}


def session_values(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Failures and warnings of the tables whose computed values depend on settings."""
    tables = dict(_tables(context))
    if not tables:
        return
    settings = read_source_settings(context.source.connection)
    yield from _zone(context, answers, tables, settings)
    yield from _target_variables(context, answers, tables, settings)
    if "NO_BACKSLASH_ESCAPES" in settings.modes:
        likes = [name for name, (table, _) in tables.items() if any("like" in words for words in expressions_of(table))]
        if likes:
            yield answers.warning(
                f"the source has NO_BACKSLASH_ESCAPES in its sql_mode, under which LIKE knows no escape; the target's"
                f" sessions do not have it, and compute expressions with LIKE otherwise: {some(likes)}",
                "name the escape in the expression: `LIKE '..' ESCAPE ''`",
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
        texts = [column.expression or "" for column in table.columns]
        texts += [part.expression or "" for index in table.indexes for part in index.parts]
        for variable, value in settings.others.items():
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


def _literal(value: str) -> str:
    return value if is_decimal(value) else f"'{value}'"
