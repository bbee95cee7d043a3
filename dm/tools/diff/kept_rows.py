"""Rows of the target that no compared source has, or that differ, and that are to stay all the same.

Nothing tells them from rows that are wrong. So tables or rows are left alone where there may be some:

    an expression filter, or an event filter of rows    the table is not compared
    an event filter of statements that remove rows      in all of the task's tables, rows that no source has: they may
                                                        be of a table that the source has no more
    rows of another task, or of a source of the task    in that table, rows that no source has
    that is not compared

`dmctl diff` writes a DELETE of such a row as a comment. `dmctl heal`, which executes what it finds, is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import dialect
from dm.progress.tables import SubtaskKey, existing_tables
from dm.rules import TableRules
from dm.rules.table_rules import RowEvent
from dm.sourcelog.upstream.facts import ServerFacts, list_tables, question_session, read_facts

_EVENTS: Final[tuple[RowEvent, ...]] = ("insert", "update", "delete")

_Folded = tuple[str, str]  # a table's schema and name, in lower case


def why_not_compared(rules: TableRules, table: TableName) -> str:
    """Why the rows of a source's table need not be those of the target; empty where they have to be."""
    if rules.filters_rows(table):
        return f"an expression filter leaves out rows of {table}"
    ignored = [event for event in _EVENTS if rules.row_event(table, event) == "ignore"]
    return f"an event filter leaves out changes of {table} ({', '.join(ignored)})" if ignored else ""


def kept_by_filters(rules: TableRules, facts: ServerFacts) -> str:
    """Why the target may have rows that a statement has removed at the source; empty where it has none."""
    kept = rules.keeps_rows(replaces=dialect(facts.flavor, facts.version).replaces_objects)
    return kept and f"{kept}: the target may have rows that no source has any more, and that are to stay there"


@dataclass(frozen=True, slots=True)
class OthersTable:
    """A table that is not compared, and has rows where tables that are compared have theirs."""

    owner: SubtaskConfig
    name: TableName
    target: TableName
    beside: str  # the first of the compared tables there, with its source

    def whose(self, task: str) -> str:
        """The source of the same task, or the other task, in words."""
        other, source = self.owner.task, self.owner.source_id
        return source if other == task else f"task {other} on {source}"


class ComparedOrigins:
    """The tables of the sources that are compared, and where their rows go."""

    def __init__(self, compared: Iterable[tuple[SubtaskConfig, Collection[TableName]]]) -> None:
        self._targets: dict[tuple[str, TableName], frozenset[_Folded]] = {}
        self._beside: dict[_Folded, str] = {}
        for subtask, tables in compared:
            rules = TableRules(subtask)
            for name in filter(rules.wanted, tables):
                to = [_folded(each) for each in rules.destinations(name)]
                self._targets[subtask.source_id, name] = frozenset(to)
                for each in to:
                    self._beside.setdefault(each, f"{name} of {subtask.source_id}")

    def tables_of(
        self, other: SubtaskConfig, compared: SubtaskConfig, target: TargetConnection
    ) -> Iterator[OthersTable]:
        """The tables of a subtask that has rows in the same tables of the target; raises DMError.

        Rows that another task has of the very tables that are compared are the same rows.
        """
        if other.task != compared.task and not _writes_there(other, compared, target):
            return
        rules = TableRules(other)
        with closing(question_session(other.source.endpoint)) as connection:
            there = [name for name in list_tables(connection) if rules.wanted(name)]
        for name, to in ((each, to) for each in there for to in rules.destinations(each)):
            same = _folded(to) in self._targets.get((other.source_id, name), ())
            if _folded(to) in self._beside and not same:
                yield OthersTable(other, name, to, self._beside[_folded(to)])


def _writes_there(other: SubtaskConfig, subtask: SubtaskConfig, target: TargetConnection) -> bool:
    """Whether another task has its rows at the same target, which may have several addresses."""
    if other.mode == "dump":
        return False
    there, here = other.target, subtask.target
    if (there.host.lower(), there.port) == (here.host.lower(), here.port):
        return True
    return bool(existing_tables(target, SubtaskKey(other.meta_schema, other.task, other.source_id)))


def _folded(table: TableName) -> _Folded:
    return table.schema.lower(), table.table.lower()


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Why rows that no source has may be meant to stay."""

    everywhere: tuple[str, ...] = ()  # in all tables
    tables: Mapping[_Folded, str] = field(default_factory=dict)

    def why(self, table: TableName) -> str:
        """In a table of the target; empty where such rows are too much."""
        here = self.tables.get(_folded(table), "")
        return "; ".join((*self.everywhere, here) if here else self.everywhere)


def read_kept_rows(subtasks: Sequence[SubtaskConfig], others: Sequence[SubtaskConfig]) -> KeptRows:
    """Those of a task; `others` are all subtasks that may write to its target. Raises DMError.

    Where the source of another task does not answer, nobody knows which tables have its rows.
    """
    everywhere, there = dict[str, None](), list[tuple[SubtaskConfig, Collection[TableName]]]()
    for subtask in subtasks:
        with closing(question_session(subtask.source.endpoint)) as session:
            if why := kept_by_filters(TableRules(subtask), read_facts(session)):
                everywhere[why] = None
            there.append((subtask, list_tables(session)))
    origins, tables = ComparedOrigins(there), dict[_Folded, str]()
    with closing(TargetConnection(subtasks[0].target)) as target:
        for other in others:
            try:
                for found in origins.tables_of(other, subtasks[0], target):
                    whose = found.whose(subtasks[0].task)
                    tables.setdefault(_folded(found.target), f"{found.name} of {whose} has rows there, too")
            except DMError as error:
                whose = f"task {other.task} on {other.source_id}"
                everywhere[f"nobody knows which tables have rows of {whose}: {error.message}"] = None
    return KeptRows(tuple(everywhere), tables)
