"""What a heal finds before it compares a row: what it can't do exactly is refused, and each table gets its way.

    by rows      a keyed table: chunks that differ are mended while the source is written to
    at once      a table without a key: read in one snapshot, mended in one transaction
    whole        what can't be compared: it is loaded again beside the stream

Nothing is written here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.dumper.structures import Settled, TargetKeys
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.progress.checkpoint import read_checkpoint
from dm.progress.table_joining import find_all
from dm.progress.tables import SubtaskKey, existing_tables
from dm.rules.table_rules import TableRules
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import ServerFacts, list_tables, question_session
from dm.tools.diff.planner import DiffPlanner, PlannedTable, why_not_compared
from dm.tools.errands import DiffRequest, HealRequest

_ANEW: Final = "`dmctl stop-task {task}` and `dmctl start-task --remove-meta` load all of the task's tables"
_MERGED: Final = "several tables without a key are merged into it, so no place is exact for all of its rows"
_MISSING: Final = "the target has no such table"
_UNSETTLED: Final = "its structure was changed while the heal began"


@dataclass
class HealSurvey:
    """The tables of the target by their ways, and what the source's tables are at P0."""

    structures: dict[TableName, str]  # of the source's tables, by their names there
    schemas: dict[TableName, TableSchema]  # the same, in parts
    routes: dict[TableName, TableName]
    by_rows: list[TableName] = field(default_factory=list)
    at_once: list[TableName] = field(default_factory=list)
    whole: dict[TableName, str] = field(default_factory=dict)
    anew: bool = False  # what is loaded whole is also made again
    gone: list[TableName] = field(default_factory=list)  # tables that the checkpoint knows, and the source has no more

    def origins(self, target: TableName) -> list[TableName]:
        """The tables of the source that go into a table of the target."""
        return sorted(name for name, to in self.routes.items() if to == target)

    def load_whole(self, target: TableName, why: str, *, anew: bool = False) -> None:
        """It was found not to be comparable after all."""
        self.by_rows = [each for each in self.by_rows if each != target]
        self.at_once = [each for each in self.at_once if each != target]
        self.whole.setdefault(target, why)
        self.anew = self.anew or anew


def demand_suited(request: HealRequest, source: Connection, target: TargetConnection, key: SubtaskKey) -> None:
    """Raise DMError where the task's settings, or what is under way, leave nothing that is exact."""
    subtask = request.subtask
    rules = TableRules(subtask)
    anew = _ANEW.format(task=subtask.task)
    settings = (
        (bool(subtask.shard_mode), f"it has `shard-mode: {subtask.shard_mode}`: its shards alter a table together"),
        (subtask.order is not None, "it has `merge-order`: its sources take turns"),
        (
            bool(subtask.opposite) or subtask.syncer.conflicts != "ignore",
            "it has an opposite, which would take the rows that are mended for changes of applications",
        ),
    )  # fmt: skip
    for refused, why in settings:
        if refused:
            raise DMError("heal-unsuited", task=subtask.task, why=why, way=anew)
    there = list_tables(source)
    wanted = [name for name in there if rules.wanted(name)]
    for name in wanted:
        if why := why_not_compared(rules, name):
            raise DMError("heal-unsuited", task=subtask.task, why=why, way=anew)
    ghosts = [name for name in there if rules.online.kind(name) == "ghost" and rules.followed(name)]
    if ghosts:
        why = f"an online schema change is under way ({', '.join(map(str, ghosts))})"
        way = "wait until its tool has ended, or drop the table that it has left behind"
        raise DMError("heal-unsuited", task=subtask.task, why=why, way=way)
    shared = _shared(request, {_folded(rules.route(name)): name for name in wanted})
    if shared:
        raise DMError("heal-unsuited", task=subtask.task, why=shared, way=anew)
    for one in find_all(target, key):
        if (one.kind, one.phase) != ("reload", "asked"):
            tables = ", ".join(map(str, one.names)) or "those that its list has got"
            lost = "a heal would not leave them out" if one.phase == "dropped" else "their place is lost as well"
            why = f"tables are beside its stream ({tables}: {one.kind}, {one.phase}), and {lost}"
            raise DMError("heal-unsuited", task=subtask.task, why=why, way=anew)


def _shared(request: HealRequest, targets: Mapping[tuple[str, str], TableName]) -> str:
    """Which table of the target has rows of another source, too; empty where there is none."""
    for other in request.others:
        rules = TableRules(other)
        with closing(question_session(other.source.endpoint)) as connection:
            for name in list_tables(connection):
                ours = targets.get(_folded(rules.route(name))) if rules.wanted(name) else None
                if ours is not None:
                    return (
                        f"{rules.route(name)} has rows of {other.source_id}, too ({name}): nothing tells which are"
                        f" those of {ours} of {request.subtask.source_id}"
                    )
    return ""


def _folded(table: TableName) -> tuple[str, str]:
    return table.schema.lower(), table.table.lower()


def survey(
    request: HealRequest, settled: Settled, facts: ServerFacts, target: TargetConnection, key: SubtaskKey
) -> HealSurvey:
    """Each table's way; raises DMError where a structure keeps the heal from beginning."""
    subtask = request.subtask
    rules = TableRules(subtask)
    keys = TargetKeys(subtask, rules)
    structures = {name: text for name, text in settled.structures.items() if text is not None}
    schemas = {
        name: parse_create_table(text, SourceContext(facts.flavor, facts.version, name.schema))
        for name, text in structures.items()
    }
    planned = DiffPlanner([subtask], DiffRequest(), threading.Event()).plan(cut=False)
    spelled = {_folded(each.name): each.name for each in planned}
    routes = {name: spelled.get(_folded(rules.route(name)), rules.route(name)) for name in structures}
    found = HealSurvey(structures, schemas, routes)
    try:
        for each in planned:
            origins = found.origins(each.name)
            if not origins:
                continue  # made since P0: the stream makes it
            keyless = [name for name in origins if keys.keyless(schemas[name], facts.flavor)]
            _place(found, each, origins, keyless=bool(keyless))
    finally:
        keys.close()
    for name in settled.moving:
        if rules.wanted(name):
            found.load_whole(spelled.get(_folded(rules.route(name)), rules.route(name)), _UNSETTLED, anew=True)
    _demand_structures(request, found)
    if key.checkpoint in existing_tables(target, key):
        stored = read_checkpoint(target, key)
        known = {} if stored is None else stored.tables
        absent = {name for name, point in known.items() if point.schema is not None and rules.wanted(name)}
        found.gone = sorted(absent - structures.keys() - settled.moving)
    return found


def _place(found: HealSurvey, planned: PlannedTable, origins: list[TableName], *, keyless: bool) -> None:
    if planned.structure == [_MISSING]:
        found.whole[planned.name] = _MISSING
    elif planned.structure:
        found.whole[planned.name] = f"it is not made like the source's: {planned.structure[0]}"
        found.anew = True
    elif planned.skipped or planned.compared is None:
        found.whole[planned.name] = planned.skipped
    elif not keyless and planned.compared.keyed:
        found.by_rows.append(planned.name)
    elif len(origins) > 1:
        found.whole[planned.name] = _MERGED
    else:
        found.at_once.append(planned.name)


def _demand_structures(request: HealRequest, found: HealSurvey) -> None:
    """Raise DMError where a person has to decide about a table, or where none can be loaded beside the stream."""
    if found.anew and not request.recreate:
        words = "; ".join(f"{table}: {why}" for table, why in sorted(found.whole.items()) if why != _MISSING)
        raise DMError("heal-structures", task=request.subtask.task, tables=words)
    demand_loadable(request, found)


def demand_loadable(request: HealRequest, found: HealSurvey) -> None:
    """Raise DMError where tables would have to be loaded whole, and none of the task can be."""
    if found.whole and request.subtask.one_stream:
        tables = "; ".join(f"{table}: {why}" for table, why in sorted(found.whole.items()))
        why = f"{tables} would have to be loaded whole; but {request.subtask.one_stream}"
        raise DMError("heal-unsuited", task=request.subtask.task, why=why, way=_ANEW.format(task=request.subtask.task))
