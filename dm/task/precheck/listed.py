"""Entries of the lists and routes that lead to nothing: a slip of the pen leaves a table behind, and looks healthy.

A list may be used for several sources, of which each has some of its tables; so an entry is looked for at all of them.
A pattern may stand for what is still to come, a name is meant to be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dm.config import TaskConfig
from dm.config.pattern import is_name, matcher
from dm.config.problem import did_you_mean
from dm.config.selection import TablePattern
from dm.ident import TableName
from dm.task.precheck.context import Answers
from dm.task.precheck.result import CheckResult

ITEM = "block_allow_list"


@dataclass(frozen=True, slots=True)
class SourceNames:
    """What a source shows to its account."""

    source: str
    case_sensitive: bool
    schemas: tuple[str, ...]
    tables: tuple[TableName, ...]
    goes_on: bool  # from a checkpoint: what the list names may have been there before


@dataclass(frozen=True, slots=True)
class _Entry:
    path: str
    demanded: bool  # its tables are to be migrated, and it is a name
    schema: str
    table: str  # "" for a schema as a whole

    def there(self, seen: SourceNames) -> bool:
        schema = matcher(self.schema, case_sensitive=seen.case_sensitive)
        if not self.table:
            return any(map(schema, seen.schemas))
        table = matcher(self.table, case_sensitive=seen.case_sensitive)
        return any(schema(name.schema) and table(name.table) for name in seen.tables)

    def told(self, sources: Sequence[SourceNames]) -> str:
        names = ", ".join(seen.source for seen in sources)
        schema_is_there = any(_Entry(self.path, False, self.schema, "").there(seen) for seen in sources)
        if not self.table or not schema_is_there:
            hint = did_you_mean(self.schema, {name for seen in sources for name in seen.schemas})
            return f"no schema {self.schema} is seen at {names}" + (f"; {hint}" if hint else "")
        hint = did_you_mean(self.table, {name.table for seen in sources for name in self._beside(seen)})
        return f"no table {self.schema}.{self.table} is seen at {names}" + (f"; {hint}" if hint else "")

    def _beside(self, seen: SourceNames) -> Iterator[TableName]:
        schema = matcher(self.schema, case_sensitive=seen.case_sensitive)
        return (name for name in seen.tables if schema(name.schema))


def entries_without_tables(task: TaskConfig, seen: Sequence[SourceNames]) -> Iterator[CheckResult]:
    """A failure for each name that no source has, a warning for each pattern."""
    answers = Answers(ITEM, f"task {task.name}")
    results = [
        *_unmatched(task, seen, answers, lambda source: _lists_of(task, source)),
        *_unmatched(task, seen, answers, lambda source: _routes_of(task, source)),
    ]
    yield from results or [answers.success()]


def _unmatched(
    task: TaskConfig, seen: Sequence[SourceNames], answers: Answers, entries_of: Callable[[str], Iterable[_Entry]]
) -> Iterator[CheckResult]:
    asked: dict[_Entry, list[SourceNames]] = {}
    for one in seen:
        for entry in entries_of(one.source):
            asked.setdefault(entry, []).append(one)
    users = {source: set(entries_of(source)) for source in task.source_ids}
    for entry, sources in asked.items():
        if any(entry.there(one) for one in sources):
            continue
        all_asked = sum(entry in entries for entries in users.values()) == len(sources)
        surely = entry.demanded and all_asked and not any(one.goes_on for one in sources)
        say = answers.failure if surely else answers.warning
        yield say(
            f"{task.place_of(entry.path)}: {entry.told(sources)}",
            "correct the name, or leave the entry out"
            + ("; for what is still to come write a pattern (`name*`)" if entry.demanded else ""),
        )


def _lists_of(task: TaskConfig, source: str) -> Iterator[_Entry]:
    name = next(instance.block_allow_list for instance in task.mysql_instances if instance.source_id == source)
    lists = task.block_allow_list.get(name)
    if lists is None:
        return
    path = f"block-allow-list.{name}"
    for key, schemas, demanded in (("do-dbs", lists.do_dbs, True), ("ignore-dbs", lists.ignore_dbs, False)):
        for number, schema in enumerate(schemas):
            yield _Entry(f"{path}.{key}[{number}]", demanded and is_name(schema), schema, "")
    yield from _tables(f"{path}.do-tables", lists.do_tables, demanded=True)
    yield from _tables(f"{path}.ignore-tables", lists.ignore_tables, demanded=False)


def _tables(path: str, patterns: Sequence[TablePattern], *, demanded: bool) -> Iterator[_Entry]:
    for number, pattern in enumerate(patterns):
        names = is_name(pattern.db_name) and is_name(pattern.tbl_name)
        yield _Entry(f"{path}[{number}]", demanded and names, pattern.db_name, pattern.tbl_name)


def _routes_of(task: TaskConfig, source: str) -> Iterator[_Entry]:
    names = next(instance.route_rules for instance in task.mysql_instances if instance.source_id == source)
    for name in names:
        rule = task.routes[name]
        yield _Entry(f"routes.{name}", False, rule.schema_pattern, rule.table_pattern)
