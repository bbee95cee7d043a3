"""A schema of the target to try statements in, which leaves nothing behind.

It is a schema with real tables. Temporary tables would vanish by themselves, but a server refuses them foreign keys,
partitions and full-text indexes that it takes in a table, and they need a privilege that nothing else of a task needs.
In the schemas of the task a table would be seen by whoever uses them. So the schema has a name of its own, made of the
meta schema's and the session's number, and is dropped when the check ends.

A check that is killed can't drop it. While the check runs its session holds a lock of that number, which the server
takes back with the session. The next check on this target drops every schema of such a name whose lock is free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.ident import Ident
from dm.rules.table_rules import SCRATCH
from dm.session.answers import reads_answers

_LONGEST_BEGINNING: Final = 64 - len(SCRATCH) - 20  # digits of a session's number
_LOCK_SECONDS: Final = 60


def scratch_beginning(meta_schema: str) -> str:
    """How the names of these schemas begin."""
    return meta_schema[:_LONGEST_BEGINNING] + SCRATCH


@contextmanager
def scratch_schema(connection: TargetConnection, meta_schema: str) -> Iterator[str]:
    """The name of an empty schema that this session alone uses; raises DMError."""
    beginning = scratch_beginning(meta_schema)
    _drop_left_behind(connection, beginning)
    number = connection.connection_id
    # A session of the same number, of before the server's restart, may have left one; who drops it has the lock.
    connection.query("SELECT GET_LOCK(%s, %s)", (_lock(number), _LOCK_SECONDS))
    name = f"{beginning}{number}"
    connection.execute(f"DROP DATABASE IF EXISTS {Ident(name).sql}")
    connection.execute(f"CREATE DATABASE {Ident(name).sql}")
    try:
        yield name
    finally:
        if connection.alive:
            connection.execute(f"DROP DATABASE IF EXISTS {Ident(name).sql}")
            connection.query("SELECT RELEASE_LOCK(%s)", (_lock(number),))


@reads_answers
def _drop_left_behind(connection: TargetConnection, beginning: str) -> None:
    form = re.compile(re.escape(beginning) + r"(\d+)", re.IGNORECASE)
    for (schema,) in connection.query("SELECT schema_name FROM information_schema.schemata"):
        match = form.fullmatch(str(schema))
        if match is None:
            continue
        lock = _lock(int(match[1]))
        if connection.query("SELECT GET_LOCK(%s, 0)", (lock,))[0][0] == 1:
            connection.execute(f"DROP DATABASE IF EXISTS {Ident(str(schema)).sql}")
            connection.query("SELECT RELEASE_LOCK(%s)", (lock,))


def _lock(number: int) -> str:
    return f"dm:check:{number}"
