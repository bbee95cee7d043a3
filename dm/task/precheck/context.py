"""What every check is given, and the forms of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, Protocol

from dm.config import Endpoint, SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import load_plan
from dm.errors import DMError, account_sql
from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.progress.checkpoint import has_checkpoint, read_checkpoint
from dm.progress.load_parts import begun_dump
from dm.rules.router import PresentNames
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, SqlRow, connect, fetch
from dm.sourcelog.upstream.facts import ServerFacts, list_tables, read_facts, read_structure
from dm.sourcelog.upstream.privilege import Grants, read_grants
from dm.task.payload import dump_storage
from dm.task.progress import key_of
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import JSON

State = Literal["success", "warning", "failure"]

_DM_STATE = {"success": "success", "warning": "warn", "failure": "fail"}  # as DM's check-task prints them


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One item checked on one server or table."""

    item: str  # DM's name of the checking item, as `ignore-checking-items` takes it
    subject: str  # which server, or which table of which server
    state: State
    message: str = ""
    instruction: str = ""  # what fixes it, a statement wherever there is one


def of_no_task(result: CheckResult) -> CheckResult:
    """A result of a task that is not there: ways out that end with going on are of one that rests on an error."""
    words = result.instruction.replace("`dmctl resume-task` resumes", "`dmctl start-task` starts")
    return replace(result, instruction=words.replace("`dmctl resume-task`", "`dmctl start-task`"))


def summary(results: Sequence[CheckResult]) -> dict[str, JSON]:
    """DM's results and counts."""
    counted = {state: sum(result.state == state for result in results) for state in ("success", "warning", "failure")}
    listed: list[JSON] = [
        {
            "id": number,
            "name": result.item,
            "extra": result.subject,
            "state": _DM_STATE[result.state],
            "errors": []
            if result.state == "success"
            else [{"severity": _DM_STATE[result.state], "short_error": result.message}],
            "desc": result.message if result.state == "success" else "",
            "instruction": result.instruction,
        }
        for number, result in enumerate(results)
    ]
    return {
        "results": listed,
        "summary": {
            "passed": counted["failure"] == 0,
            "total": len(results),
            "successful": counted["success"],
            "failed": counted["failure"],
            "warning": counted["warning"],
        },
    }


_NO_SUCH_TABLE: Final = 1146


class OfSource(Protocol):
    """What a check that asks the source alone is given."""

    @property
    def source(self) -> Server:
        """The server that is asked."""
        ...


@dataclass
class Context:
    """A subtask with both its servers."""

    config: SubtaskConfig
    source: Server
    target: Server
    anew: bool = False  # whatever progress there is will be forgotten
    at_time: bool = False  # the task starts at a time, not at its progress or at the place in its file
    work: Path | None = None  # the task's directory, in which a dump may have begun
    relay: Path | None = None  # of the source; None if the task will not read it

    @cached_property
    def rules(self) -> TableRules:
        """The subtask's lists, filters and routes."""
        return TableRules(self.config)

    @cached_property
    def all_tables(self) -> tuple[TableName, ...]:
        """The tables of the source that its account sees."""
        return list_tables(self.source.connection)

    @cached_property
    def tables(self) -> tuple[TableName, ...]:
        """The tables of the source that are migrated and exist now."""
        return tuple(table for table in self.all_tables if self.rules.wanted(table))

    @cached_property
    def keyless(self) -> tuple[TableName, ...]:
        """Those of them that have no primary key and no unique key that is NOT NULL."""
        rows = self.source.of_schemas(
            "SELECT table_schema, table_name, index_name, MAX(nullable = 'YES') FROM information_schema.statistics"
            " WHERE non_unique = 0",
            "table_schema",
            self.schemas,
            " GROUP BY table_schema, table_name, index_name",
        )
        keyed = {TableName(str(row[0]), str(row[1])) for row in rows if not row[3]}
        return tuple(table for table in self.tables if table not in keyed)

    @cached_property
    def structures(self) -> Mapping[TableName, str]:
        """The CREATE TABLE texts of these tables, but for those that the account can't read."""
        texts: dict[TableName, str] = {}
        for table in self.tables:
            try:
                texts[table] = read_structure(self.source.connection, table)
            except DMError as error:
                if error.server_errno != _NO_SUCH_TABLE and error.name != "privilege-missing":
                    raise
        return texts

    def source_context(self, table: TableName) -> SourceContext:
        """How the source writes its statements about a table."""
        return SourceContext(self.source.facts.flavor, self.source.facts.version, table.schema)

    @cached_property
    def target_context(self) -> SourceContext:
        """How the target reads a statement."""
        facts = self.target.facts
        return SourceContext(facts.flavor, facts.version, "")

    @cached_property
    def schemas(self) -> tuple[str, ...]:
        """The schemas of these tables."""
        return tuple(dict.fromkeys(table.schema for table in self.tables))

    def destination(self, table: TableName) -> TableName:
        """Where a table of the source goes, as the target spells its name."""
        return self.present.spelled(self.rules.route(table))

    @cached_property
    def pairs(self) -> tuple[tuple[TableName, TableName], ...]:
        """Each table of the source with each of those that its rows go to, as the target spells them."""
        spelled = self.present.spelled
        return tuple((table, spelled(name)) for table in self.tables for name in self.rules.destinations(table))

    @property
    def destinations(self) -> frozenset[TableName]:
        """All tables of the target that rows go to."""
        return frozenset(name for _, name in self.pairs)

    @property
    def target_schemas(self) -> tuple[str, ...]:
        """Their schemas."""
        return tuple(dict.fromkeys(name.schema for _, name in self.pairs))

    @cached_property
    def present(self) -> PresentNames:
        """What the target has, tables and views, in the schemas that the tables go to."""
        folding = self.target.facts.lower_case_table_names
        unseen = PresentNames((), folding)
        rows = self.target.of_schemas(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE 1 = 1",
            "table_schema",
            tuple({unseen.spelled(name).schema for table in self.tables for name in self.rules.destinations(table)}),
        )
        return PresentNames((TableName(str(schema), str(table)) for schema, table in rows), folding)

    @cached_property
    def to_be_made(self) -> tuple[TableName, ...]:
        """The tables that the load will create at the target, as the source names them."""
        if not (self.dumps and self.loads):
            return ()
        return tuple(
            table
            for table in self.tables
            if self.destination(table) not in self.present and not self.rules.extracted(table)
        )

    @cached_property
    def follows_from_checkpoint(self) -> bool:
        """Whether the subtask has followed the binlog before, and goes on from where it was."""
        if self.anew:
            return False
        with TargetConnection(self.config.target) as connection:
            return has_checkpoint(connection, key_of(self.config))

    @cached_property
    def tables_of_checkpoint(self) -> frozenset[TableName] | None:
        """The tables of the source that the checkpoint knows; None without a checkpoint."""
        if not self.follows_from_checkpoint:
            return None
        with TargetConnection(self.config.target) as connection:
            checkpoint = read_checkpoint(connection, key_of(self.config))
        known = {} if checkpoint is None else checkpoint.tables
        return frozenset(table for table, point in known.items() if point.schema is not None)

    @cached_property
    def copy_begun(self) -> bool:
        """Whether the subtask has begun its full copy before, and goes on with it."""
        if self.anew or not self.loads:
            return False
        with TargetConnection(self.config.target) as connection:
            if begun_dump(connection, key_of(self.config)):
                return True
        if not self.dumps or self.work is None:
            return False
        try:
            return load_plan(dump_storage(self.config, self.work)) is not None
        except DMError:
            return False  # what can't be read is a finding of its own

    @cached_property
    def may_meet_alters(self) -> bool:
        """Whether the task begins at a place that the source may have executed ALTERs after."""
        if not self.syncs:
            return False
        at_place = not self.dumps and (self.loads or self.config.meta is not None)  # a dump of others names its place
        return self.at_time or at_place or self.follows_from_checkpoint or self.copy_begun

    @property
    def dumps(self) -> bool:
        """Whether the task has a full dump."""
        return "Dump" in UNITS_OF_MODE[self.config.mode]

    @property
    def loads(self) -> bool:
        """Whether the task loads dump files."""
        return "Load" in UNITS_OF_MODE[self.config.mode]

    @property
    def syncs(self) -> bool:
        """Whether the task follows the binlog."""
        return "Sync" in UNITS_OF_MODE[self.config.mode]


@dataclass(frozen=True, slots=True)
class Answers:
    """Makes the results of one item on one subject."""

    item: str
    subject: str

    def success(self, message: str = "") -> CheckResult:
        """All is well."""
        return CheckResult(self.item, self.subject, "success", message)

    def warning(self, message: str, instruction: str = "") -> CheckResult:
        """The task can run, but a person should know."""
        return CheckResult(self.item, self.subject, "warning", message, instruction)

    def failure(self, message: str, instruction: str) -> CheckResult:
        """The task can't run until this is put right."""
        return CheckResult(self.item, self.subject, "failure", message, instruction)


Check = Callable[[Context, Answers], Iterable[CheckResult]]


def some(names: Iterable[object], limit: int = 5) -> str:
    """A list of names that stays short."""
    listed = [str(name) for name in names]
    shown = ", ".join(listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit} more"


_BATCH: Final = 50  # schemas of one question: names of schemas are short, statements may be long


@dataclass
class Server:
    """One open connection with what was asked through it."""

    connection: Connection
    endpoint: Endpoint
    role: str  # how findings call it: "source one", "target"

    @cached_property
    def facts(self) -> ServerFacts:
        """Version, flavour and the binlog's settings."""
        return read_facts(self.connection)

    @cached_property
    @reads_answers
    def variables(self) -> dict[str, str]:
        """All global variables, names in lower case."""
        return {str(name).lower(): str(value) for name, value in self.query("SHOW GLOBAL VARIABLES")}

    @cached_property
    @reads_answers
    def account(self) -> str:
        """Our account as a GRANT statement names it."""
        return account_sql(str(self.query("SELECT CURRENT_USER()")[0][0]))

    @cached_property
    def grants(self) -> Grants:
        """Our privileges, those of our active roles included."""
        return read_grants(self.connection, self.facts, role=self.role)

    def query(self, sql: str, *parameters: object) -> tuple[SqlRow, ...]:
        """The rows of a statement; errors come as DMError."""
        return fetch(self.connection, sql, parameters or None, role=self.role)

    @reads_answers
    def of_schemas(self, sql: str, column: str, schemas: Sequence[str], ending: str = "") -> list[SqlRow]:
        """The rows of a SELECT with a WHERE, of these schemas only."""
        rows: list[SqlRow] = []
        for at in range(0, len(schemas), _BATCH):
            batch = schemas[at : at + _BATCH]
            places = ", ".join(["%s"] * len(batch))
            rows += self.query(f"{sql} AND {column} IN ({places}){ending}", *batch)
        return rows


@contextmanager
def open_server(endpoint: Endpoint, role: str) -> Iterator[Server]:
    """Connect for the time of the checks."""
    connection = connect(endpoint, role=role)
    try:
        yield Server(connection, endpoint, role)
    finally:
        connection.close()
