"""Rules about tables and names: block-allow-list, binlog event filter, routes, `collation-map` and `engine-map`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from dm.config.document import Scalar, YamlList, YamlMap
from dm.config.pattern import FilterPattern, ListedPattern, RoutePattern, bad_regex
from dm.config.problem import did_you_mean
from dm.config.regex import RegexError, compile_regex
from dm.config.scalar import Text, checked, matching, one_of, wrong, wrong_type
from dm.config.section import Issue, LoadContext, NamedRule, Section

# `collation-map` and `engine-map`: names that the target has instead of the source's.

Collation = Annotated[str, matching(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)+", "config-bad-value", "the name of a collation")]
Engine = Annotated[str, matching(r"[A-Za-z0-9_]+", "config-bad-value", "the name of a storage engine")]

CollationMap = dict[str, Collation]
EngineMap = dict[str, Engine]


def charset_changes(collations: Mapping[str, str]) -> Iterator[Issue]:
    """Pairs of collations that belong to different character sets: those would change what the bytes of a text mean."""
    for name, other in collations.items():
        if _charset(name) != _charset(other):
            value = {"value": f"`{name}: {other}`"}
            yield Issue("config-bad-value", "collation-map", "two collations of one character set", details=value)


def _charset(collation: str) -> str:
    charset = collation.lower().partition("_")[0]
    return "utf8mb3" if charset == "utf8" else charset


NAME_LIMIT = 64

Part = Literal["table", "schema", "source"]


def _extracting(text: str) -> None:
    if text.startswith("~"):
        raise wrong("config-route", suggestion=f"write `{text[1:]}`", why="here a regular expression has no `~`")
    try:
        groups = compile_regex(text).groups
    except RegexError as error:
        raise bad_regex("config-route", error) from None
    if not groups:
        why = f"`{text}` has no group in parentheses, so there is nothing to extract"
        raise wrong("config-route", suggestion="put what is wanted in parentheses: `t_(.*)`", why=why)


def _column(text: str) -> None:
    if not text:
        raise wrong("config-route", "the name of a column", why="`target-column` is empty")
    if len(text) > NAME_LIMIT:
        raise wrong("config-route", f"at most {NAME_LIMIT} characters", why="the name is too long")


ExtractingRegex = Annotated[str, checked(_extracting)]
ColumnName = Annotated[str, checked(_column)]


class TableExtraction(Section):
    """A column for what a regular expression finds in a table's name."""

    place: ClassVar = "under `extract-table` of a route"
    table_regexp: ExtractingRegex
    target_column: ColumnName


class SchemaExtraction(Section):
    """A column for what a regular expression finds in a schema's name."""

    place: ClassVar = "under `extract-schema` of a route"
    schema_regexp: ExtractingRegex
    target_column: ColumnName


class SourceExtraction(Section):
    """A column for what a regular expression finds in the source's id."""

    place: ClassVar = "under `extract-source` of a route"
    source_regexp: ExtractingRegex
    target_column: ColumnName


@dataclass(frozen=True, slots=True)
class Extraction:
    """One column of the target that holds a part of a name."""

    part: Part
    regexp: str
    column: str


class ScatterPlace(Section):
    """One table of the target, and what the columns of its rows hold at the source."""

    place: ClassVar = "under `scatter` of a route"
    target_schema: Text = ""  # empty: the route's
    target_table: Text
    columns: dict[ColumnName, Text]


class RouteRule(NamedRule):
    """One rule; without a table pattern it is for the whole schema."""

    schema_pattern: RoutePattern
    table_pattern: RoutePattern = ""
    target_schema: Text
    target_table: Text = ""
    extract_table: TableExtraction | None = None
    extract_schema: SchemaExtraction | None = None
    extract_source: SourceExtraction | None = None
    scatter: tuple[ScatterPlace, ...] = ()  # one of these tables for each row, in place of `target-table`

    @property
    def extractions(self) -> tuple[Extraction, ...]:
        """The columns that the rule adds, in DM's order."""
        found: list[Extraction] = []
        if self.extract_table is not None:
            found.append(Extraction("table", self.extract_table.table_regexp, self.extract_table.target_column))
        if self.extract_schema is not None:
            found.append(Extraction("schema", self.extract_schema.schema_regexp, self.extract_schema.target_column))
        if self.extract_source is not None:
            found.append(Extraction("source", self.extract_source.source_regexp, self.extract_source.target_column))
        return tuple(found)

    def check(self) -> Iterator[Issue]:
        """Both schemas are mandatory; a target name has a length; no column holds two parts."""
        if not self.schema_pattern:
            yield Issue("config-route", "schema-pattern", details={"why": "`schema-pattern` is empty"})
        if not self.target_schema:
            yield Issue("config-route", "target-schema", details={"why": "`target-schema` is empty"})
        for key, name in (("target-schema", self.target_schema), ("target-table", self.target_table)):
            if len(name) > NAME_LIMIT:
                expected = f"at most {NAME_LIMIT} characters"
                yield Issue("config-route", key, expected, details={"why": "the name is too long"})
        seen: set[str] = set()
        for extraction in self.extractions:
            if extraction.column.lower() in seen:
                why = f"two parts of names go into column `{extraction.column}`"
                yield Issue("config-route", f"extract-{extraction.part}", details={"why": why})
            seen.add(extraction.column.lower())
        if self.scatter:
            yield from (Issue("config-route", "scatter", details={"why": why}) for why in self._misplaced())

    def _misplaced(self) -> Iterator[str]:
        """Why it would not be clear which table a row goes to; what fills up a CHAR or BINARY tells none apart."""
        if not self.table_pattern or self.target_table or self.extractions:
            yield "it needs a `table-pattern`, and neither a `target-table` of the route nor what it extracts"
        columns = {frozenset(column.lower() for column in one.columns) for one in self.scatter}
        if len(columns) > 1 or not all(one.columns for one in self.scatter):
            yield "every table needs a value for each of the same `columns`"
        values = Counter(
            tuple(sorted((column.lower(), value.rstrip(" \0")) for column, value in one.columns.items()))
            for one in self.scatter
        )
        tables = Counter((one.target_schema or self.target_schema, one.target_table) for one in self.scatter)
        if max(values.values()) > 1 or max(tables.values()) > 1:
            yield "two tables have the same values, or one table is there twice"
        names = [name for one in self.scatter for name in (one.target_schema, one.target_table)]
        if any(len(name) > NAME_LIMIT for name in names) or not all(one.target_table for one in self.scatter):
            yield f"the name of a table has 1 to {NAME_LIMIT} characters"


# The binlog event filter's rule, and the vocabulary of events it is written in.

Action = Literal["Do", "Ignore", "Error"]

DML_EVENTS = frozenset({"insert", "update", "delete"})
DDL_EVENTS = frozenset(
    {
        "create database", "alter database", "create table", "create index", "create view", "drop view", "alter table",
        "add table partition",
    }
)  # fmt: skip
INCOMPATIBLE_DDL_EVENTS = frozenset(
    {
        "value range decrease", "precision decrease", "modify column", "rename column", "rename index", "drop column",
        "drop primary key", "drop unique key", "modify default value", "modify constraint", "modify columns order",
        "modify charset", "modify collation", "remove auto increment", "modify storage engine",
        "reorganize table partition", "rebuild table partition", "coalesce table partition", "split table partition",
        "exchange table partition", "add foreign key", "drop foreign key", "drop database", "drop table", "drop index",
        "rename table", "truncate table", "drop table partition", "truncate table partition",
        "modify schema charset and collate", "modify table charset and collate", "modify table comment",
        "recover table", "alter table partitioning", "remove table partitioning", "add column", "set default value",
        "rebase auto id", "add primary key", "alter index visibility", "alter ttl info", "alter ttl remove",
        "multi schema change",
    }
)  # fmt: skip
CLASSES = frozenset({"all", "all dml", "all ddl", "none", "none dml", "none ddl", "incompatible ddl changes"})
ALIASES = {
    "create schema": "create database",
    "drop schema": "drop database",
    "alter schema": "alter database",
    "incompatible ddl": "incompatible ddl changes",
}
EVENT_NAMES = DML_EVENTS | DDL_EVENTS | INCOMPATIBLE_DDL_EVENTS | CLASSES | ALIASES.keys()


def _name_of(text: str) -> str:
    return " ".join(text.lower().split())


def _event(value: object) -> object:
    if not isinstance(value, Scalar | str):
        raise wrong_type(value, "the name of an event")
    name = _name_of(value.text if isinstance(value, Scalar) else value)
    if name not in EVENT_NAMES:
        suggestion = did_you_mean(name, EVENT_NAMES)
        raise wrong(
            "config-event-filter",
            "the name of an event or of a class of events",
            suggestion,
            why=f"unknown event {name!r}",
        )
    return ALIASES.get(name, name)


def _sql_pattern(value: object) -> object:
    if not isinstance(value, Scalar):
        return value
    try:
        compile_regex(value.text, ignore_case=True)
    except RegexError as error:
        raise bad_regex("config-event-filter", error) from None
    return value.text


EventName = Annotated[str, BeforeValidator(_event)]
SqlPattern = Annotated[str, BeforeValidator(_sql_pattern)]


class FilterRule(NamedRule):
    """One rule: which tables, which events or statements, and what to do with them."""

    schema_pattern: FilterPattern
    table_pattern: FilterPattern = ""
    events: tuple[EventName, ...] = ()
    sql_pattern: tuple[SqlPattern, ...] = ()
    action: Annotated[Action, one_of(Action)]

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Leave out names of no event, with a warning; DM starts such a task, and only logs that the rule is wrong."""
        events, action = data.get("events"), data.get("action")
        if not isinstance(events, YamlList):
            return
        known = [event for event in events if not isinstance(event, Scalar) or _name_of(event.text) in EVENT_NAMES]
        passes_all = isinstance(action, Scalar) and action.text == "Ignore"
        if len(known) == len(events) or not (known or passes_all):
            return  # a rule that would let nothing pass is an error
        for event in events:
            if event not in known:
                name = _name_of(event.text)
                context.report.add(
                    "config-unknown-event",
                    event.mark,
                    event.path,
                    name=repr(name[:60]),
                    suggestion=did_you_mean(name, EVENT_NAMES),
                    warning=True,
                )
        kept = YamlList(events.mark, events.path)
        kept.extend(known or [Scalar("none", True, events.mark, events.path)])
        data["events"] = kept

    def check(self) -> Iterator[Issue]:
        """A rule must say for what it is."""
        if not self.schema_pattern:
            yield Issue("config-event-filter", "schema-pattern", details={"why": "`schema-pattern` is empty"})
        if not self.events and not self.sql_pattern:
            yield Issue(
                "config-event-filter",
                "events",
                details={"why": "neither `events` nor `sql-pattern` says what it is for"},
            )
        elif not self.events and self.action == "Do":
            why = "`action: Do` passes only what `events` lists; without `events` nothing would pass"
            yield Issue("config-event-filter", "events", suggestion="add `events: [all]`", details={"why": why})


# The block-allow-list: which schemas and tables of a source take part.

Names = tuple[ListedPattern, ...]


class TablePattern(Section):
    """A pattern for a schema and one for a table in it."""

    db_name: ListedPattern
    tbl_name: ListedPattern

    def check(self) -> Iterator[Issue]:
        """Both must be there, as in DM."""
        for key, value in (("db-name", self.db_name), ("tbl-name", self.tbl_name)):
            if not value:
                yield Issue("config-list", key, details={"why": f"`{key}` is empty"})


class BlockAllowList(Section):
    """What to replicate and what to leave out; both levels must let a table pass."""

    place: ClassVar = "under `block-allow-list`"
    do_dbs: Names = ()
    do_tables: tuple[TablePattern, ...] = ()
    ignore_dbs: Names = ()
    ignore_tables: tuple[TablePattern, ...] = ()

    def check(self) -> Iterator[Issue]:
        """An empty name in a list of schemas is refused, as in DM."""
        for key, names in (("do-dbs", self.do_dbs), ("ignore-dbs", self.ignore_dbs)):
            if "" in names:
                yield Issue("config-list", key, details={"why": "an empty name"})
