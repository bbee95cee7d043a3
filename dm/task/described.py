"""What the servers of a subtask are and how its tables look, for people who see neither; no value of a row.

A person who gets this has to understand a task without its data. So structures come without the literals in them
(dm/errors/without_values.py). The questions must not hold anybody up: they wait at most `_LOCK_SECONDS` for a table
that is being altered, and what has not been answered in time stays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Final

from dm.config import Endpoint, SubtaskConfig
from dm.errors import DMError
from dm.errors.without_values import structure_without_values, told
from dm.ident import TableName
from dm.rules.table_rules import TableRules
from dm.sourcelog.upstream.connection import Connection, connect, set_variables
from dm.sourcelog.upstream.facts import list_tables, read_facts, read_structure
from dm.unit import JSON

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 10.0
_LOCK_SECONDS: Final = 2
MOST_TABLES: Final = 300  # of a subtask


def described(config: SubtaskConfig, in_time: Callable[[], bool]) -> dict[str, JSON]:
    """Both servers, and the structures of the migrated tables at both; `in_time` says whether there is time left."""
    rules = TableRules(config)
    names: list[TableName] = []

    def migrated(connection: Connection) -> Iterable[TableName]:
        names.extend(table for table in list_tables(connection) if rules.wanted(table))
        return names[:MOST_TABLES]

    source = _server(config.source.endpoint, "source", migrated, in_time)
    targets = dict.fromkeys(name for table in names[:MOST_TABLES] for name in rules.destinations(table))
    target = _server(config.target, "target", lambda _: targets, in_time)
    routes: dict[str, JSON] = {
        str(table): ", ".join(map(str, rules.destinations(table))) for table in names[:MOST_TABLES]
    }
    return {"source": source, "target": target, "tables": len(names), "routes": routes}


def _server(
    endpoint: Endpoint, role: str, tables: Callable[[Connection], Iterable[TableName]], in_time: Callable[[], bool]
) -> dict[str, JSON]:
    found: dict[str, JSON] = {"address": endpoint.address}
    try:
        with closing(_session(endpoint, role)) as connection:
            facts = asdict(read_facts(connection)).items()
            found["facts"] = {name: value if isinstance(value, bool | int) else str(value) for name, value in facts}
            found["structures"] = dict(_structures(connection, tables(connection), in_time))
    except DMError as error:
        found["problem"] = told(error)
    return found


def _session(endpoint: Endpoint, role: str) -> Connection:
    connection = connect(endpoint, role=role, connect_timeout=_CONNECT_SECONDS, read_timeout=_ANSWER_SECONDS)
    try:
        set_variables(connection, {"lock_wait_timeout": _LOCK_SECONDS}, role=role)
    except DMError:
        connection.close()
        raise
    return connection


def _structures(
    connection: Connection, tables: Iterable[TableName], in_time: Callable[[], bool]
) -> Iterator[tuple[str, JSON]]:
    for table in tables:
        if not in_time():
            yield str(table), "there was no time left to ask"
            return
        try:
            yield str(table), structure_without_values(read_structure(connection, table))
        except DMError as error:
            yield str(table), told(error)
            if error.name in ("connection-lost", "connection-failed"):
                return
