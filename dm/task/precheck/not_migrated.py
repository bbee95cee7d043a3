"""What stays behind: DM migrates tables and their rows, nothing else.

A server hides from an account what it has no privilege on, triggers and events above all: an empty list may mean that
there are none, or that the account does not see them. So which of them it can see is asked first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dm.errors import grant
from dm.ident import Ident, TableName
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.facts import ServerFacts
from dm.sourcelog.upstream.privilege import Grants
from dm.task.precheck.context import Answers, CheckResult, Context, Server, some
from dm.text import counted
from dm.tools.objects.reading import StoredObjectReader
from dm.tools.objects.survey import lacking

_OWN_ACCOUNTS = ("mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys")  # every server has them
_OF_SCHEMAS = {
    "views": ("SELECT table_schema, table_name FROM information_schema.views", "table_schema"),
    "sequences": (
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'SEQUENCE'",
        "table_schema",
    ),
    "triggers": ("SELECT trigger_schema, trigger_name FROM information_schema.triggers", "trigger_schema"),
    "routines": ("SELECT routine_schema, routine_name FROM information_schema.routines", "routine_schema"),
    "events": ("SELECT event_schema, event_name FROM information_schema.events", "event_schema"),
}
_USERS = "SELECT DISTINCT grantee FROM information_schema.user_privileges"
# Each shows the routines of a schema, or of all of them (Reference Manual of both, "SHOW CREATE PROCEDURE").
_OF_ROUTINES = ("EXECUTE", "ALTER ROUTINE", "CREATE ROUTINE", "SHOW CREATE ROUTINE")
_PROC = TableName("mysql", "proc")


@reads_answers
def not_migrated(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A list of it, of what can't be seen, and of tables that an earlier start has left out."""
    yield from _not_loaded(context, answers)
    yield from _hidden(context, answers)
    yield from _lacking(context, answers)
    source = context.source
    found = {kind: _names(source, query, column, context.schemas) for kind, (query, column) in _OF_SCHEMAS.items()}
    accounts = [str(row[0]) for row in source.query(_USERS)]
    found["users"] = [name for name in accounts if name.partition("@")[0].strip("'") not in _OWN_ACCOUNTS]
    listed = "; ".join(
        f"{counted(len(names), kind.removesuffix('s'))}: {some(names)}" for kind, names in found.items() if names
    )
    yield answers.success(f"not migrated: {listed}" if listed else "nothing but tables there")


def _lacking(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Views, routines, triggers and events that are not at the target yet."""
    source, target = (
        StoredObjectReader(server.connection, server.role, server.facts) for server in (context.source, context.target)
    )
    names = lacking(source, target, context.rules)
    if names:
        yield answers.warning(
            f"the target lacks, or hides from {context.target.account}, {some(names)}",
            f"dmctl objects {context.config.task} shows them, and creates them with --apply: triggers and events at the"
            " cut-over",
        )


def _hidden(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """What of the schemas the account can't see."""
    source = context.source
    lacking = {kind: _unseen(context, kind) for kind in ("triggers", "events", "routines")}
    lacking = {kind: schemas for kind, schemas in lacking.items() if schemas}
    if not lacking:
        return
    listed = "; ".join(f"{kind} of {some(schemas)}" for kind, schemas in lacking.items())
    statements = [
        _on_schema(kind.removesuffix("s").upper(), schema, source)
        for kind in ("triggers", "events")
        for schema in lacking.get(kind, ())
    ]
    if "routines" in lacking:
        privilege, on = seeing_routines(source.facts)
        statements.append(grant((privilege,), on, source.account))
    yield answers.warning(
        f"{source.account} can't see whether there are {listed}; they are not migrated", "; ".join(statements)
    )


def seeing_routines(facts: ServerFacts) -> tuple[str, str]:
    """The privilege that shows all routines, and on what; MySQL has no mysql.proc since 8.0."""
    if not facts.dialect.shows_routines:
        return "SELECT", _PROC.sql
    return ("SHOW_ROUTINE" if facts.dialect.has_show_routine else "SELECT"), "*.*"


def sees_all_routines(facts: ServerFacts, grants: Grants) -> bool:
    """Whether an account with these privileges sees the routines of all schemas."""
    if seeing_routines(facts)[1] == _PROC.sql:
        return grants.on_table("SELECT", _PROC)
    return grants.globally("SHOW_ROUTINE") or grants.globally("SELECT")


def _unseen(context: Context, kind: str) -> list[str]:
    grants = context.source.grants
    if kind == "routines":
        every = sees_all_routines(context.source.facts, grants)
        return [
            schema
            for schema in context.schemas
            if not (every or any(grants.on_schema(privilege, schema) for privilege in _OF_ROUTINES))
        ]
    privilege = kind.removesuffix("s").upper()
    return [schema for schema in context.schemas if not grants.on_schema(privilege, schema)]


def _on_schema(privilege: str, schema: str, source: Server) -> str:
    # A narrower pattern than the account's own would take away what that gives.
    patterns = source.grants.patterns(schema)
    return "; ".join(grant((privilege,), f"{Ident(pattern).sql}.*", source.account) for pattern in patterns)


def _not_loaded(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Tables that are wanted now, of which the checkpoint of an earlier full load says nothing."""
    known = context.tables_of_checkpoint if context.loads and context.syncs else None
    unknown = [] if known is None else [table for table in context.tables if table not in known]
    if unknown:
        yield answers.warning(
            f"unless it is started with --remove-meta the task goes on from its checkpoint, which does not know"
            f" {some(unknown)}: if the lists have left a table out so far, the rows that it has are not migrated; one"
            " that was created since then comes by the binlog",
            "dmctl start-task .. --remove-meta loads all tables anew; a task of its own loads the new ones alone",
        )


def _names(server: Server, query: str, column: str, schemas: Sequence[str]) -> list[str]:
    condition = "" if " WHERE " in query else " WHERE 1 = 1"
    return [f"{row[0]}.{row[1]}" for row in server.of_schemas(query + condition, column, schemas)]
