"""What a person asks of tables that are aside: list them, put one aside, let it come back, give it up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import read_position_of
from dm.progress.joining.branches import ask_aside, branch_moves, drop, place_of, release
from dm.progress.joining.table_joining import Joining, find_all, read_current
from dm.progress.tables import SubtaskKey
from dm.task.join_requests import ListedTables
from dm.task.progress import key_of
from dm.unit import JSON


@dataclass(frozen=True, slots=True)
class Aside:
    """A branch of one source, and how far it and its stream are."""

    source: str
    branch: Joining
    place: Position | None
    main: Position | None

    def to_json(self) -> dict[str, JSON]:
        """As `table list` shows it."""
        return {
            "source": self.source,
            "tables": [each.sql for each in self.branch.names],
            "phase": self.branch.phase,
            "since": self.branch.since,
            "error": json.loads(self.branch.error) if self.branch.error else None,
            "place": "" if self.place is None else str(self.place),
            "behind": _behind(self.place, self.main),
        }


def _behind(place: Position | None, main: Position | None) -> str:
    """The binlog between a branch and its stream; its length where both are in one file."""
    if place is None or main is None:
        return ""
    if place.same_files(main) and place.file == main.file:
        return f"{max(0, main.offset - place.offset)} bytes of {main.file}"
    return f"from {place.file}:{place.offset} to {main.file}:{main.offset}"


def listed(configs: Mapping[str, SubtaskConfig]) -> list[Aside]:
    """All branches of a task; raises DMError."""
    found = list[Aside]()
    for source, config in configs.items():
        key = key_of(config)
        with closing(TargetConnection(config.target)) as connection:
            branches = [one for one in find_all(connection, key) if one.kind == "branch"]
            if branches:
                main = read_position_of(connection, key)
                found += [Aside(source, one, place_of(connection, key, one), main) for one in branches]
    return found


@dataclass(frozen=True, slots=True)
class Moved:
    """What was asked for: of a source, these tables."""

    source: str
    tables: tuple[TableName, ...]


def hold(configs: Mapping[str, SubtaskConfig], table: TableName, source: str | None) -> Moved:
    """Ask for a table to be put aside, with those that are merged with it; raises DMError."""
    some = next(iter(configs.values()))
    scattered = any(route.scatter for route in some.routes)
    ties = [
        *filter(None, [some.one_stream]),
        *(["a route with `scatter` sends its rows to tables of others"] if scattered else []),
    ]
    if ties:
        raise _refused(some, table, ties[0])
    found = [
        (name, config, listing)
        for name, config in configs.items()
        if source in (None, name) and table in (listing := ListedTables.of(config)).routes
    ]
    if not found:
        where = f"source {source}" if source else "any source of the task"
        raise _refused(some, table, f"{where} has no such table that the task wants")
    if len(found) > 1:
        names = ", ".join(name for name, _, _ in found)
        raise _refused(some, table, f"sources {names} have one of this name each: name one with `--source`")
    ((name, config, listing),) = found
    tables = tuple(sorted(each for each, to in listing.routes.items() if to == listing.routes[table]))
    key = key_of(config)
    with closing(TargetConnection(config.target)) as connection:
        for one in find_all(connection, key):
            if not {*one.names}.isdisjoint(tables) or one.kind == "add":
                raise _refused(config, table, f"it is not in the task's stream now ({one.kind}, {one.phase})")
        ask_aside(connection, key, tables)
    return Moved(name, tables)


def let_come(configs: Mapping[str, SubtaskConfig], table: TableName, source: str | None) -> Moved:
    """Let the branch of a table come back; raises DMError."""
    return _moved(configs, table, source, release)


def give_up(configs: Mapping[str, SubtaskConfig], table: TableName, source: str | None) -> Moved:
    """Migrate a table no longer; raises DMError."""
    return _moved(configs, table, source, drop)


def _moved(
    configs: Mapping[str, SubtaskConfig],
    table: TableName,
    source: str | None,
    move: Callable[[TargetConnection, SubtaskKey, Joining], bool],
) -> Moved:
    task = next(iter(configs.values())).task
    there = [one for one in listed(configs) if table in one.branch.names and source in (None, one.source)]
    if not there:
        raise DMError("branch-not-there", task=task, table=table.sql)
    if len(there) > 1:
        names = ", ".join(one.source for one in there)
        why = f"it is aside on sources {names}: name one with `--source`"
        raise _refused(next(iter(configs.values())), table, why)
    (one,) = there
    config = configs[one.source]
    key = key_of(config)
    with closing(TargetConnection(config.target)) as connection:
        if not move(connection, key, one.branch):
            raise branch_moves(key, one.branch, read_current(connection, key, one.branch))
    return Moved(one.source, one.branch.names)


def _refused(config: SubtaskConfig, table: TableName, why: str) -> DMError:
    return DMError("branch-refused", task=config.task, table=table.sql, why=why)


@dataclass(frozen=True, slots=True)
class BranchRequests:
    """All of it, for whoever is not to know databases."""

    listed: Callable[[Mapping[str, SubtaskConfig]], list[Aside]] = listed
    hold: Callable[[Mapping[str, SubtaskConfig], TableName, str | None], Moved] = hold
    let_come: Callable[[Mapping[str, SubtaskConfig], TableName, str | None], Moved] = let_come
    give_up: Callable[[Mapping[str, SubtaskConfig], TableName, str | None], Moved] = give_up
