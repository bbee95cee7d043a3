"""What a person asks of tables that join a running task: reload one, add some, take it back.

What can't be exact is refused here, before anything is written: `joining-refused` says why and what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from dm.config.subtask import Share, SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.intent import read_online
from dm.progress.joining.branches import forget_branch
from dm.progress.joining.table_joining import (
    Joining,
    Phase,
    ask,
    ask_again,
    begin_emptying,
    find_all,
    find_joining,
    forget_joining,
    move,
)
from dm.progress.lane_rows import transaction
from dm.progress.tables import SubtaskKey, existing_tables
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.facts import list_tables, question_session
from dm.task.progress import key_of

_BOTH_WAYS = (
    "docs/two-directions.md#one-table-again-and-more-tables has the ways that need no load: statements of `dmctl diff"
    " --fix-sql` make a table equal, and a table that both sides have needs only a longer list"
)
_ANEW = "`dmctl stop-task {task}` and `dmctl start-task --remove-meta` load all of the task's tables"


@dataclass(frozen=True, slots=True)
class Reload:
    """The tables of one source that are loaded again, and where they go."""

    source: str
    tables: tuple[TableName, ...]
    target: TableName


@dataclass(frozen=True, slots=True)
class ListedTables:
    """The tables of a source that a task migrates, and where each goes."""

    config: SubtaskConfig
    routes: Mapping[TableName, TableName]

    @classmethod
    def of(cls, config: SubtaskConfig) -> ListedTables:
        rules = TableRules(config)
        with closing(question_session(config.source.endpoint)) as connection:
            return cls(config, {table: rules.route(table) for table in list_tables(connection) if rules.wanted(table)})


def reload(configs: Mapping[str, SubtaskConfig], table: TableName, source: str | None, *, anew: bool = False) -> Reload:
    """Ask for a table of a source to be loaded again, with those that are merged with it. Raises DMError.

    `configs` are the task's subtasks by source. `anew`: the target's table is made again, too.
    """
    some = next(iter(configs.values()))
    _demand_able(some, table)
    listed = {name: ListedTables.of(config) for name, config in configs.items()}
    found = [name for name, one in listed.items() if table in one.routes and source in (None, name)]
    if not found:
        where = f"source {source}" if source else "any source of the task"
        _refuse(some, table, f"{where} has no such table that the task wants", "`dmctl check-task` lists what it wants")
    if len(found) > 1 and len({listed[name].routes[table] for name in found}) > 1:
        _refuse(some, table, f"sources {', '.join(found)} have one of this name each", "name one with `--source`")
    chosen = found[0]
    target = listed[chosen].routes[table]
    others = sorted(name for name, one in listed.items() if name != chosen and target in one.routes.values())
    if others:
        why = f"rows of source {', '.join(others)} are in {target.sql}, too, and each source has a stream of its own"
        _refuse(some, table, why, _ANEW.format(task=some.task))
    tables = tuple(sorted(each for each, to in listed[chosen].routes.items() if to == target))
    config = configs[chosen]
    key = key_of(config)
    with closing(TargetConnection(config.target)) as connection:
        _demand_no_copy(connection, config, tables)
        if not _again(connection, config, tables, anew=anew):
            share = Share(tables=tuple((each.schema, each.table) for each in tables))
            out = _own_branch(connection, config, tables)
            instead = None if out is None else partial(forget_branch, key=key, branch=out)
            ask(connection, key, "reload", share, [target], anew=anew, instead=instead)
    return Reload(chosen, tables, target)


def _own_branch(connection: TargetConnection, config: SubtaskConfig, tables: Sequence[TableName]) -> Joining | None:
    """The branch that has these tables, if one has; raises DMError if it has others besides."""
    key = key_of(config)
    for one in find_all(connection, key):
        if one.kind == "branch" and not {*one.names}.isdisjoint(tables):
            if {*one.names} != {*tables}:
                together = ", ".join(each.sql for each in one.names)
                why = f"tables {together} are aside together"
                _refuse(config, tables[0], why, f"`dmctl table release {config.task}` lets them come back together")
            return one
    return None


@dataclass(frozen=True, slots=True)
class Added:
    """What a longer list of a source adds."""

    tables: tuple[TableName, ...]  # those that there are now
    missing: tuple[TableName, ...]  # tables of the target that the load will make
    filled: tuple[TableName, ...] = ()  # tables of the target that have rows already; these stay


@reads_answers
def added_tables(before: SubtaskConfig, after: SubtaskConfig, others: Mapping[str, SubtaskConfig]) -> Added:
    """What the list of a source has got; raises DMError where that can't be loaded beside the task.

    `others` are the other sources' subtasks, as they are to be.
    """
    old, new = ListedTables.of(before), ListedTables.of(after)
    way = "leave the file as it is for this table; or `dmctl stop-task`, and `dmctl start-task` with the file"
    for table, target in old.routes.items():
        if table not in new.routes:
            _refuse(after, table, "the file does not want it any more, and its rows would stay as they are", way)
        if new.routes[table] != target:
            why = f"by the file it goes into {new.routes[table].sql}, and its rows are in {target.sql}"
            _refuse(after, table, why, way)
    if before.block_allow_list == after.block_allow_list:
        return Added((), ())
    tables = tuple(table for table in new.routes if table not in old.routes)
    _demand_able(after, tables[0] if tables else TableName("", ""))
    taken = {to: table for table, to in new.routes.items() if table not in tables}
    for config in others.values():
        taken |= {to: table for table, to in ListedTables.of(config).routes.items()}
    for table in tables:
        there = taken.get(new.routes[table])
        if there is not None:
            why = f"it goes into {new.routes[table].sql}, as {there.sql} does, which the task has already"
            _refuse(after, table, why, _ANEW.format(task=after.task))
    targets = sorted({new.routes[table] for table in tables})
    with closing(TargetConnection(after.target)) as connection:
        missing = tuple(target for target in targets if not _exists(connection, target))
        present = (target for target in targets if target not in missing)
        filled = tuple(target for target in present if connection.query(f"SELECT 1 FROM {target.sql} LIMIT 1"))
    return Added(tables, missing, filled)


def _exists(connection: TargetConnection, table: TableName) -> bool:
    query = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    return bool(connection.query(query, (table.schema, table.table)))


def add(before: SubtaskConfig, added: Added) -> None:
    """Ask for what a list has got to be loaded; the subtask gets the list after this. Raises DMError."""
    key = key_of(before)
    with closing(TargetConnection(before.target)) as connection:
        found = find_joining(connection, key)
        asked = found is not None and (found.kind, found.phase) == ("add", "asked")
        if asked and found is not None and found.share.older == before.block_allow_list:
            return  # an earlier attempt was cut short before the list changed
        ask(connection, key, "add", Share(older=before.block_allow_list), added.missing)


def joining(configs: Mapping[str, SubtaskConfig]) -> dict[str, Joining]:
    """What is loaded beside a task's streams, by source; raises DMError."""
    found = dict[str, Joining]()
    for source, config in configs.items():
        with closing(TargetConnection(config.target)) as connection:
            one = find_joining(connection, key_of(config))
        if one is not None:
            found[source] = one
    return found


def adding(configs: Mapping[str, SubtaskConfig]) -> list[str]:
    """The sources whose lists have got tables that have not joined yet; raises DMError."""
    return [source for source, one in joining(configs).items() if one.kind == "add"]


def cancel_add(config: SubtaskConfig) -> bool:
    """Have what was loaded removed; the subtask has its list of before again. False: it has joined. Raises DMError."""
    key = key_of(config)
    phases: list[Phase] = ["asked", "out", "emptying", "loading", "near", "until", "ready", "cancelled"]
    with closing(TargetConnection(config.target)) as connection:
        found = find_joining(connection, key)
        if found is None or found.kind != "add":
            return False
        with transaction(connection):
            return move(connection, key, found, phases, "cancelled")


def _demand_able(config: SubtaskConfig, table: TableName) -> None:
    """Raise DMError where the task can't have a second stream at all."""
    if config.one_stream:
        looks = config.syncer.conflicts != "ignore"
        _refuse(config, table, config.one_stream, _BOTH_WAYS if looks else _ANEW.format(task=config.task))


def _demand_no_copy(connection: TargetConnection, config: SubtaskConfig, tables: Sequence[TableName]) -> None:
    """Raise DMError while a tool of online DDL is at work on one of the tables."""
    rules, key = TableRules(config), key_of(config)
    if key.online not in existing_tables(connection, key):
        return
    for ghost in read_online(connection, key):
        real = rules.online.real(ghost)
        if real in tables:
            why = f"an online schema change of it is under way ({ghost.sql})"
            _refuse(config, real, why, "wait until its tool has ended")


def _again(connection: TargetConnection, config: SubtaskConfig, tables: Sequence[TableName], *, anew: bool) -> bool:
    """Whether the same tables are being loaded, and begin again, or are about to be; raises DMError."""
    key = key_of(config)
    found = find_joining(connection, key)
    if found is None or found.names != tuple(tables) or found.kind != "reload":
        return False
    if ask_again(connection, key, found, anew=anew):
        return True  # a verb that was cut short is given again
    before: list[Phase] = ["out", "undo", "emptying", "loading", "near", "until", "ready"]
    return begin_emptying(connection, key, found, before, anew=anew)


def cancel_reload(configs: Mapping[str, SubtaskConfig]) -> dict[str, Joining]:
    """Take back what was asked for and has not begun; by source. Raises DMError."""
    done = dict[str, Joining]()
    late = list[str]()
    for source, config in configs.items():
        key = key_of(config)
        with closing(TargetConnection(config.target)) as connection:
            found = find_joining(connection, key)
            if found is None or found.kind != "reload":
                continue
            if _taken_back(connection, key, found):
                done[source] = found
            else:
                late += [table.sql for table in found.names]
    if late:
        raise DMError("joining-too-late", task=next(iter(configs.values())).task, tables=", ".join(late))
    return done


def _taken_back(connection: TargetConnection, key: SubtaskKey, joining: Joining) -> bool:
    with transaction(connection):
        if move(connection, key, joining, ["asked"], "cancelled"):
            forget_joining(connection, key, joining)
            return True
        return move(connection, key, joining, ["out", "undo"], "undo")


def _refuse(config: SubtaskConfig, table: TableName, why: str, way: str) -> None:
    raise DMError("joining-refused", task=config.task, table=table.sql, why=why, way=way)


@dataclass(frozen=True, slots=True)
class JoinRequests:
    """All of it, for whoever is not to know databases."""

    reload: Callable[..., Reload] = reload
    cancel_reload: Callable[[Mapping[str, SubtaskConfig]], dict[str, Joining]] = cancel_reload
    added_tables: Callable[[SubtaskConfig, SubtaskConfig, Mapping[str, SubtaskConfig]], Added] = added_tables
    add: Callable[[SubtaskConfig, Added], None] = add
    adding: Callable[[Mapping[str, SubtaskConfig]], list[str]] = adding
    cancel_add: Callable[[SubtaskConfig], bool] = cancel_add
    joining: Callable[[Mapping[str, SubtaskConfig]], dict[str, Joining]] = joining
