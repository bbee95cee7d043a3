"""What a heal finds before it compares a row: what it can't do exactly is refused, and each table gets its way.

    by rows      a keyed table: chunks that differ are mended while the source is written to
    at once      a table without a key: read in one snapshot, mended in one transaction
    whole        what can't be compared: it is loaded again beside the stream

A table of the target that several sources have rows in is compared with all of them at once. Only the first way is open
to it: a snapshot is of one source, and so is a stream beside the task's. What needs another way is refused by name.

Nothing is written here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dm.changes.computing import SourceSettings
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumper.structures import StructuresAtPoint, TargetKeys
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.progress.checkpoint import read_checkpoint
from dm.progress.joining.table_joining import find_all
from dm.progress.tables import SubtaskKey, existing_tables
from dm.rules.router import PresentNames
from dm.rules.table_rules import TableRules
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import ServerFacts, list_tables
from dm.tools.diff.kept_rows import ComparedOrigins, kept_by_filters, why_not_compared
from dm.tools.diff.planner import DiffPlanner, PlannedTable
from dm.tools.errands import DiffRequest, HealRequest

_ANEW: Final = "`dmctl stop-task {task}` and `dmctl start-task --remove-meta` load all of the task's tables"
_MERGED: Final = "several tables without a key are merged into it, so no place is exact for all of its rows"
_REPLACED: Final = (
    "several tables are merged into it, and it has unique keys besides its key: a row that is written for one of them"
    " may take the place of another's"
)
_MISSING: Final = "the target has no such table"


@dataclass
class HealSurvey:
    """The target's tables of one source by their ways, and what the source's tables are at P0."""

    structures: dict[TableName, str]  # of the source's tables, by their names there
    schemas: dict[TableName, TableSchema]  # the same, in parts
    routes: dict[TableName, TableName]
    by_rows: list[TableName] = field(default_factory=list)
    at_once: list[TableName] = field(default_factory=list)
    whole: dict[TableName, str] = field(default_factory=dict)
    anew: bool = False  # what is loaded whole is also made again
    shared: frozenset[TableName] = frozenset()  # tables of the target that others of these sources have rows in, too
    # Tables that the checkpoint knows, and the source has no more; with the names that they would have at the target.
    gone: dict[TableName, TableName] = field(default_factory=dict)

    def origins(self, target: TableName) -> list[TableName]:
        """The tables of the source that go into a table of the target."""
        return sorted(name for name, to in self.routes.items() if to == target)

    def load_whole(self, target: TableName, why: str, *, anew: bool = False) -> None:
        """It was found not to be comparable after all."""
        self.by_rows = [each for each in self.by_rows if each != target]
        self.at_once = [each for each in self.at_once if each != target]
        self.whole.setdefault(target, why)
        self.anew = self.anew or anew


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A source of which P0 is taken."""

    subtask: SubtaskConfig
    settled: StructuresAtPoint
    facts: ServerFacts
    settings: SourceSettings
    control: TargetConnection
    key: SubtaskKey


def demand_suited(
    subtask: SubtaskConfig, source: Connection, facts: ServerFacts, target: TargetConnection, key: SubtaskKey
) -> None:
    """Raise DMError where the task's settings, or what is under way, leave nothing that is exact."""
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
    if why := kept_by_filters(rules, facts):
        raise DMError("heal-unsuited", task=subtask.task, why=why, way=anew)
    ghosts = [name for name in there if rules.online.kind(name) == "ghost" and rules.followed(name)]
    if ghosts:
        why = f"an online schema change is under way ({', '.join(map(str, ghosts))})"
        way = "wait until its tool has ended, or drop the table that it has left behind"
        raise DMError("heal-unsuited", task=subtask.task, why=why, way=way)
    for one in find_all(target, key):
        if (one.kind, one.phase) != ("reload", "asked"):
            tables = ", ".join(map(str, one.names)) or "those that its list has got"
            lost = "a heal would not leave them out" if one.phase == "dropped" else "their place is lost as well"
            why = f"tables are beside its stream ({tables}: {one.kind}, {one.phase}), and {lost}"
            raise DMError("heal-unsuited", task=subtask.task, why=why, way=anew)


def demand_unshared(
    request: HealRequest, healed: Sequence[tuple[SubtaskConfig, Connection]], target: TargetConnection
) -> None:
    """Raise DMError where a table of the target has rows of a source or of a task that is not healed, too.

    No source that is healed has these rows, so a heal would delete them.
    """
    own, task = ComparedOrigins((each, list_tables(source)) for each, source in healed), healed[0][0].task
    for other in request.others:
        for found in own.tables_of(other, healed[0][0], target):
            source = other.source_id
            way = (
                f"`dmctl heal {task}` without `--source` heals all sources that the task is on; if it is not on"
                f" {source} any more, `dmctl start-task <file> -s {source}` first, and `dmctl pause-task {task}`"
            )
            if other.task != task:
                way = f"have one task migrate all that goes into the table; or: {_ANEW.format(task=task)}"
            why = (
                f"{found.target} has rows of {found.whose(task)}, too ({found.name}): nothing tells which are those of"
                f" {found.beside}"
            )
            raise DMError("heal-unsuited", task=task, why=why, way=way)


def survey(request: HealRequest, sources: Sequence[Surveyed]) -> list[HealSurvey]:
    """The way of each table, by source; raises DMError where a structure keeps the heal from beginning."""
    for each in sources:
        if each.settled.moving:  # nothing is known of these, so not even what would be loaded again
            tables = ", ".join(map(str, sorted(each.settled.moving)))
            why = f"{tables} of {each.subtask.source_id} changed in structure, came or went while the heal began"
            raise DMError("heal-unsuited", task=each.subtask.task, why=why, way="give the command again")
    planner = DiffPlanner([each.subtask for each in sources], DiffRequest(), threading.Event())
    planned = planner.plan(cut=False)
    shared = [each for each in planned if len(each.places) > 1]
    surveys = [_survey(place, source, planned, planner.present) for place, source in enumerate(sources)]
    _demand_comparable(sources, surveys, shared)
    for source, found in zip(sources, surveys, strict=True):
        if found.anew and not request.recreate:
            words = "; ".join(f"{table}: {why}" for table, why in sorted(found.whole.items()) if why != _MISSING)
            raise DMError("heal-structures", task=source.subtask.task, tables=words)
        demand_loadable(source.subtask, found)
    return surveys


def _survey(place: int, source: Surveyed, planned: Sequence[PlannedTable], present: PresentNames) -> HealSurvey:
    subtask, settled, facts, key = source.subtask, source.settled, source.facts, source.key
    rules = TableRules(subtask)
    keys = TargetKeys(subtask, rules)
    structures = {name: text for name, text in settled.structures.items() if text is not None}
    schemas = {
        name: parse_create_table(text, SourceContext(facts.flavor, facts.version, name.schema))
        for name, text in structures.items()
    }
    own = [each for each in planned if place in each.places]
    routes = {name: present.spelled(rules.route(name)) for name in structures}  # as they are planned
    several = frozenset(each.name for each in own if len(each.places) > 1)
    found = HealSurvey(structures, schemas, routes, shared=several)
    try:
        for each in own:
            origins = found.origins(each.name)
            if not origins:
                continue  # made since P0: the stream makes it
            keyless = [name for name in origins if keys.keyless(schemas[name], facts.flavor)]
            _place(found, each, origins, keyless=bool(keyless))
    finally:
        keys.close()
    if key.checkpoint in existing_tables(source.control, key):
        stored = read_checkpoint(source.control, key)
        known = {} if stored is None else stored.tables
        absent = {name for name, point in known.items() if point.schema is not None and rules.wanted(name)}
        found.gone = {name: present.spelled(rules.route(name)) for name in sorted(absent - structures.keys())}
    return found


def _demand_comparable(
    sources: Sequence[Surveyed], surveys: Sequence[HealSurvey], shared: Sequence[PlannedTable]
) -> None:
    """Raise DMError, which names them all, where tables of several sources can't be compared by their rows."""
    words, task = [], sources[0].subtask.task
    for table in shared:
        names = ", ".join(sources[place].subtask.source_id for place in sorted(table.places))
        own = [surveys[place] for place in sorted(table.places)]
        why = next((each.whole[table.name] for each in own if table.name in each.whole), "")
        if not why and any(table.name in each.at_once for each in own):
            why = _MERGED
        computing = {
            (tuple(sorted(sources[place].settings.variables.items())), sources[place].settings.value_modes)
            for place in table.places
        }
        if not why and len(computing) > 1:
            why = "their sessions compute with other settings (sql_mode, div_precision_increment or the like)"
        if why:
            words.append(f"{table.name} has rows of {names}, and {why}")
    if words:
        way = (
            f"make the table at the target like the sources', empty where it is missing; or: {_ANEW.format(task=task)}"
        )
        raise DMError("heal-unsuited", task=task, why="; ".join(words), way=way)


def _place(found: HealSurvey, planned: PlannedTable, origins: list[TableName], *, keyless: bool) -> None:
    if planned.structure == [_MISSING]:
        found.whole[planned.name] = _MISSING
    elif planned.structure:
        found.whole[planned.name] = f"it is not made like the source's: {planned.structure[0]}"
        found.anew = True
    elif planned.skipped or planned.compared is None:
        found.whole[planned.name] = planned.skipped
    elif not keyless and planned.compared.keyed and planned.compared.replaces and len(planned.compared.origins) > 1:
        found.whole[planned.name] = _REPLACED
    elif not keyless and planned.compared.keyed:
        found.by_rows.append(planned.name)
    elif len(origins) > 1:
        found.whole[planned.name] = _MERGED
    else:
        found.at_once.append(planned.name)


def demand_loadable(subtask: SubtaskConfig, found: HealSurvey) -> None:
    """Raise DMError where tables would have to be loaded whole, and none of the task can be."""
    task = subtask.task
    shared = found.shared.intersection(found.whole)
    if shared:
        tables = "; ".join(f"{table}: {found.whole[table]}" for table in sorted(shared))
        why = f"{tables}; but it has rows of several sources, of which none has a stream of its own for it"
        way = f"give the command again, once the sources' rows or structures allow it; or: {_ANEW.format(task=task)}"
        raise DMError("heal-unsuited", task=task, why=why, way=way)
    if found.whole and subtask.one_stream:
        tables = "; ".join(f"{table}: {why}" for table, why in sorted(found.whole.items()))
        why = f"{tables} would have to be loaded whole; but {subtask.one_stream}"
        raise DMError("heal-unsuited", task=task, why=why, way=_ANEW.format(task=task))
