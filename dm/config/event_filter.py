"""The binlog event filter's rule, and the vocabulary of events it is written in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator

from dm.config.document import Scalar, YamlList, YamlMap
from dm.config.pattern import FilterPattern, bad_regex
from dm.config.problem import did_you_mean
from dm.config.regex import RegexError, compile_regex
from dm.config.scalar import one_of, wrong, wrong_type
from dm.config.section import Issue, LoadContext, NamedRule

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
