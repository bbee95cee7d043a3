"""What stays behind: what is no table, and entries of lists and routes that lead to nothing.

DM migrates tables and their rows, nothing else. A server hides from an account what it has no privilege on, triggers
and events above all: an empty list may mean that there are none, or that the account does not see them. So which of
them it can see is asked first.

An entry of a list or route that leads to nothing is a slip of the pen: it leaves a table behind, and looks healthy. It
is looked for at all sources that use the list. One that matches nothing is a warning with the nearest name: its schema
or table may come later, and `query-status` names it until then. If no entry of `do-dbs`, or none of `do-tables`,
matches anything, no table passes: that is a failure. Patterns alone are a warning in any case, since a pattern may
stand for what is still to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from dm.config import TaskConfig
from dm.config.pattern import matcher
from dm.config.problem import did_you_mean
from dm.errors import grant
from dm.ident import Ident, TableName
from dm.rules.block_allow import ListEntry, entries_taken_in
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.facts import ServerFacts
from dm.sourcelog.upstream.privilege import Grants
from dm.task.precheck.context import Answers, CheckResult, Context, Server, some
from dm.text import counted
from dm.tools.objects.accounts.survey import lacking_accounts
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
    """Views, routines, triggers, events and accounts that are not at the target yet."""
    source, target = (
        StoredObjectReader(server.connection, server.role, server.facts) for server in (context.source, context.target)
    )
    names = [str(each) for each in lacking(source, target, context.rules)]
    names += [f"account {each}" for each in lacking_accounts(source, target, context.schemas)]
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


ITEM = "block_allow_list"


@dataclass(frozen=True, slots=True)
class SourceNames:
    """What a source shows to its account."""

    source: str
    case_sensitive: bool
    schemas: tuple[str, ...]
    tables: tuple[TableName, ...]
    goes_on: bool  # from a checkpoint: what the list names may have been there before

    def has(self, entry: ListEntry) -> bool:
        """Whether anything of an entry is there."""
        return entry.there(self.schemas, self.tables, case_sensitive=self.case_sensitive)


@dataclass(frozen=True, slots=True)
class _Placed:
    """An entry of the task file."""

    path: str
    level: str  # whose entries stand for each other; "" where one that matches nothing does no harm
    entry: ListEntry

    def told(self, sources: Sequence[SourceNames]) -> str:
        """That it matches nothing, with the nearest name."""
        schema, table = self.entry.schema, self.entry.table
        names = ", ".join(seen.source for seen in sources)
        if not table or not any(seen.has(ListEntry(schema)) for seen in sources):
            hint = did_you_mean(schema, {name for seen in sources for name in seen.schemas})
            return f"no schema {schema} is seen at {names}" + (f"; {hint}" if hint else "")
        hint = did_you_mean(table, {name.table for seen in sources for name in self._beside(seen)})
        return f"no table {schema}.{table} is seen at {names}" + (f"; {hint}" if hint else "")

    def _beside(self, seen: SourceNames) -> Iterator[TableName]:
        schema = matcher(self.entry.schema, case_sensitive=seen.case_sensitive)
        return (name for name in seen.tables if schema(name.schema))


def entries_without_tables(task: TaskConfig, seen: Sequence[SourceNames]) -> Iterator[CheckResult]:
    """What is to be said of each entry that no source has."""
    answers = Answers(ITEM, f"task {task.name}")
    results = [
        *_unmatched(task, seen, answers, lambda source: _lists_of(task, source)),
        *_unmatched(task, seen, answers, lambda source: _routes_of(task, source)),
    ]
    yield from results or [answers.success()]


def _unmatched(
    task: TaskConfig, seen: Sequence[SourceNames], answers: Answers, entries_of: Callable[[str], Iterable[_Placed]]
) -> Iterator[CheckResult]:
    asked: dict[_Placed, list[SourceNames]] = {}
    for one in seen:
        for placed in entries_of(one.source):
            asked.setdefault(placed, []).append(one)
    users = {source: set(entries_of(source)) for source in task.source_ids}
    for level, group in groupby(asked.items(), key=lambda item: item[0].level):
        level_asked = dict(group)
        without = [
            placed for placed, sources in level_asked.items() if not any(one.has(placed.entry) for one in sources)
        ]
        nothing = bool(level) and len(without) == len(level_asked) and any(each.entry.named for each in without)
        for placed in without:
            sources = level_asked[placed]
            all_asked = sum(placed in entries for entries in users.values()) == len(sources)
            surely = nothing and all_asked and not any(one.goes_on for one in sources)
            say = answers.failure if surely else answers.warning
            yield say(f"{task.place_of(placed.path)}: {placed.told(sources)}", _advice(level, fails=surely))


def _advice(level: str, *, fails: bool) -> str:
    if fails:
        return f"correct the name: no entry of `{level}` matches anything, so no table would be migrated"
    later = ", or create what it names: `query-status` names the entry until it is there" if level else ""
    return f"correct the name, or leave the entry out{later}"


def _lists_of(task: TaskConfig, source: str) -> Iterator[_Placed]:
    name = next(instance.block_allow_list for instance in task.mysql_instances if instance.source_id == source)
    lists = task.block_allow_list.get(name)
    if lists is None:
        return
    path = f"block-allow-list.{name}"
    for place, entry in entries_taken_in(lists):
        yield _Placed(f"{path}.{place}", f"{name}.{place.partition('[')[0]}", entry)
    for number, schema in enumerate(lists.ignore_dbs):
        yield _Placed(f"{path}.ignore-dbs[{number}]", "", ListEntry(schema))
    for number, table in enumerate(lists.ignore_tables):
        yield _Placed(f"{path}.ignore-tables[{number}]", "", ListEntry(table.db_name, table.tbl_name))


def _routes_of(task: TaskConfig, source: str) -> Iterator[_Placed]:
    names = next(instance.route_rules for instance in task.mysql_instances if instance.source_id == source)
    for name in names:
        rule = task.routes[name]
        yield _Placed(f"routes.{name}", "", ListEntry(rule.schema_pattern, rule.table_pattern))


def dump_and_lists(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure where the options leave out what the lists have, a warning where they have what the lists leave out.

    DM dumps the one and follows the other: the rows of a followed table that the dump leaves out are missing, and a
    dumped table that nobody follows stands still. Here the lists decide both, so nothing is lost; what is left is that
    the file asks for something else. What exists at the source tells, whatever the patterns are.
    """
    if not context.config.dumper.chooses or not (context.dumps and context.syncs):
        yield answers.success()
        return
    rules = context.rules
    chosen = frozenset(filter(rules.asked_of_dump, context.all_tables))
    left_out = [table for table in context.tables if table not in chosen]
    added = [table for table in context.all_tables if table in chosen and not rules.wanted(table)]
    if left_out:
        yield answers.failure(
            f"`extra-args` leave {counted(len(left_out), 'table')} out of the dump that the task follows: "
            f"{some(left_out)}",
            "exclude them by `block-allow-list` as well, or choose them in `extra-args`; to have them loaded and "
            "followed as the lists say: `ignore-checking-items: [dump_selection]`",
        )
    if added:
        yield answers.warning(
            f"`extra-args` choose {counted(len(added), 'table')} that the lists leave out: {some(added)}; the task "
            "neither loads nor follows them",
            "nothing; or add them to `block-allow-list`",
        )
    if not (left_out or added):
        yield answers.success()
