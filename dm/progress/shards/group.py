"""A group of shards at one moment, and the tables that store it: only a task with a `shard-mode` has them.

A group is the shards of one target table. `ShardGroup` says which DDL each member has reached, which shards are
missing, and so what a shard that has arrived at a DDL may do (`Standing`). `numbered_ddls.py` reads and changes groups
in these tables:

shard_source   the sources of the task, whether each has joined (2: a table has to join again), and the XA transactions
               that were undecided when its second pass began
shard_group    one row per target table: how many DDLs were executed, and the shards' structure after them. The row is
               the latch of everything about the table
shard_table    one row per shard: how many DDLs it has passed, the DDL at which it has arrived, and the last DDL at
               which it is waived
shard_ddl      one row per DDL that not all shards have passed, with the intent of the running piece
shard_held     the held shards, and the places in the binlog where their rows begin

The columns `revision`, `loose`, `target` (the target's table when a shard arrived at a DDL), `structure`,
`structure_after` and `kept` belong to the optimistic mode (`optimistic_structures.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.progress.tables import CHARSET, SubtaskKey
from dm.session.answers import reads_answers

_THERE_ALREADY: Final = 1060

_SOURCE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    joined TINYINT NOT NULL DEFAULT 0,
    undecided LONGTEXT,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""

_GROUP = """CREATE TABLE IF NOT EXISTS {table} (
    t_schema VARCHAR(128) NOT NULL,
    t_table VARCHAR(128) NOT NULL,
    executed INT UNSIGNED NOT NULL DEFAULT 0,
    structure LONGTEXT NULL,
    revision INT UNSIGNED NOT NULL DEFAULT 0,
    loose LONGTEXT,
    target LONGTEXT,
    PRIMARY KEY (t_schema, t_table)
) ENGINE=InnoDB {charset}"""

_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    s_schema VARCHAR(128) NOT NULL,
    s_table VARCHAR(128) NOT NULL,
    t_schema VARCHAR(128) NOT NULL,
    t_table VARCHAR(128) NOT NULL,
    passed INT UNSIGNED NOT NULL DEFAULT 0,
    ready INT UNSIGNED NOT NULL DEFAULT 0,
    early TINYINT NOT NULL DEFAULT 0,
    waived INT UNSIGNED NOT NULL DEFAULT 0,
    structure LONGTEXT,
    structure_after LONGTEXT,
    kept LONGTEXT,
    since TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (id, s_schema, s_table),
    KEY by_target (t_schema, t_table)
) ENGINE=InnoDB {charset}"""

_DDL = """CREATE TABLE IF NOT EXISTS {table} (
    t_schema VARCHAR(128) NOT NULL,
    t_table VARCHAR(128) NOT NULL,
    number INT UNSIGNED NOT NULL,
    form LONGTEXT NOT NULL,
    statements LONGTEXT NOT NULL,
    owner VARCHAR(255) NOT NULL,
    state VARCHAR(16) NOT NULL DEFAULT 'open',
    skipped BOOLEAN NOT NULL DEFAULT 0,
    piece INT UNSIGNED NOT NULL DEFAULT 0,
    statement LONGTEXT NOT NULL,
    connection_id BIGINT UNSIGNED NOT NULL DEFAULT 0,
    structure_before LONGTEXT NOT NULL,
    structure_after LONGTEXT NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (t_schema, t_table, number)
) ENGINE=InnoDB {charset}"""

_HELD = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    s_schema VARCHAR(128) NOT NULL,
    s_table VARCHAR(128) NOT NULL,
    server_uuid VARCHAR(64) NOT NULL,
    binlog_name VARCHAR(128) NOT NULL,
    binlog_pos BIGINT UNSIGNED NOT NULL,
    binlog_gtid MEDIUMTEXT NOT NULL,
    structure LONGTEXT NOT NULL,
    undecided LONGTEXT NOT NULL,
    PRIMARY KEY (id, s_schema, s_table)
) ENGINE=InnoDB {charset}"""


class DdlState(StrEnum):
    """How far a numbered DDL is at the target, as it is stored."""

    OPEN = "open"  # shards arrive at it; the target has nothing of it
    BEGUN = "begun"  # it waits for no shard any more; no piece is announced yet
    EXECUTING = "executing"  # a piece is announced, and may have been executed
    REFUSED = "refused"  # the target has refused the announced piece
    DONE = "done"


@dataclass(frozen=True, slots=True)
class ShardTables:
    """The names."""

    source: TableName
    group: TableName
    table: TableName
    ddl: TableName
    held: TableName

    @classmethod
    def of(cls, key: SubtaskKey) -> ShardTables:
        """Those of a task."""
        return cls(*(key.table(f"shard_{name}") for name in ("source", "group", "table", "ddl", "held")))


@reads_answers
def create_shard_tables(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create missing tables, and missing columns of an earlier build's tables; safe to repeat and to race."""
    tables = ShardTables.of(key)
    definitions = (
        (tables.source, _SOURCE),
        (tables.group, _GROUP),
        (tables.table, _TABLE),
        (tables.ddl, _DDL),
        (tables.held, _HELD),
    )
    connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(key.meta_schema).sql}")
    for table, definition in definitions:
        connection.execute(definition.format(table=table.sql, charset=CHARSET))
    there: dict[str, set[str]] = {}
    rows = connection.query(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s"
        f" AND table_name IN ({', '.join(['%s'] * len(definitions))})",
        (key.meta_schema, *(table.table for table, _ in definitions)),
    )
    for name, column in rows:
        there.setdefault(str(name).lower(), set()).add(str(column))
    for table, definition in definitions:
        for column, text in _columns(definition).items():
            if column not in there[table.table.lower()]:
                _add(connection, table, text)
    connection.commit()


def _columns(definition: str) -> dict[str, str]:
    """The columns of a CREATE TABLE above, each with its definition."""
    found = re.findall(r"^    (([a-z_]+) .*?),?$", definition, re.MULTILINE)
    return {name: text for text, name in found}


def _add(connection: TargetConnection, table: TableName, column: str) -> None:
    try:
        connection.execute(f"ALTER TABLE {table.sql} ADD COLUMN {column}")
    except DMError as error:
        if error.server_errno != _THERE_ALREADY:  # another source came first
            raise


def lock_id(task: str, target: TableName) -> str:
    """What DM calls the agreement on a target table's next DDL."""
    return f"{task}-{target.sql}"


class Standing(Enum):
    """What a shard may do at a DDL."""

    EXECUTED = "the target has it"
    COMPLETE = "all have arrived"
    OTHERS_MISSING = "all of this source have arrived"
    OWN_MISSING = "shards of this source have not arrived"
    AGAIN = "it is held, and its event is read again: what it waited for won't come"


# Why a table waits at its CREATE TABLE.
EARLY: Final = 1  # other shards have to execute a DDL first
WITH_ITS_MODEL: Final = 2  # it copies the structure of a held shard, and waits for what that shard waits for
WITH_THE_HELD: Final = 3  # statements of its source's held shards are not at the target yet
ANEW: Final = 4  # what it waited for won't come
GOES_ON: Final = (Standing.EXECUTED, Standing.COMPLETE)
READ_AGAIN: Final = (*GOES_ON, Standing.AGAIN)  # by a second pass


@dataclass(frozen=True, slots=True)
class Shard:
    """A source table and its target table."""

    table: TableName
    target: TableName


@dataclass(frozen=True, slots=True)
class GroupDdl:
    """A DDL in one shard's binlog."""

    shard: Shard
    form: str  # equal for equal statements
    statements: tuple[str, ...]  # for people


@dataclass(frozen=True, slots=True)
class Member:
    """A shard of a group, as stored."""

    source_id: str
    table: TableName
    passed: int
    ready: int
    early: bool = False  # it waits at its CREATE TABLE until others have executed a DDL
    anew: bool = False  # it is held, and has not arrived at any DDL
    waived: int = 0  # up to this DDL, nobody waits for it
    known: bool = False  # its structure is (optimistic mode)
    beyond: bool = False  # its structure is what the open DDL makes of a shard (optimistic mode)


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """A target table's shards at one moment."""

    executed: int
    members: tuple[Member, ...]
    joined: bool  # every source of the task
    begun: bool = False  # the next DDL is being executed, and waits for no shard any more
    opened: bool = False  # a shard has arrived at the next DDL

    def standing(self, source_id: str, table: TableName, number: int) -> Standing:
        """What a shard that has arrived at this DDL may do."""
        if self.executed >= number:
            return Standing.EXECUTED
        if self.begun and number == self.executed + 1:
            return Standing.COMPLETE
        if any(self._is(each, source_id, table) and each.ready < number for each in self.members):
            # Held before anything could be decided.
            return Standing.COMPLETE if self.decidable else Standing.OTHERS_MISSING
        missing = self.missing(number)
        if self.joined and not missing:
            return Standing.COMPLETE
        own = any(each.source_id == source_id and each.table != table for each in missing)
        return Standing.OWN_MISSING if own else Standing.OTHERS_MISSING

    @property
    def decidable(self) -> bool:
        """Whether the optimistic mode can decide anything (`dm.progress.shards.optimistic_structures`, O6)."""
        return self.joined and all(each.known for each in self.members)

    def missing(self, number: int) -> list[Member]:
        """The shards that a DDL waits for."""
        return [
            each
            for each in self.members
            if max(each.ready, each.waived) < number and not (each.beyond and number == self.executed + 1)
        ]

    def waits_for_nobody(self, source_id: str, table: TableName) -> bool:
        """Whether a new table waits in vain: no DDL is open, and no other shard is there that could bring one.

        The first table that is let in defines the group's structure, so all waiting tables are compared with it again.
        """
        others = (each for each in self.members if not self._is(each, source_id, table))
        # An early table that is past the DDL it waited for is a shard like the others.
        return self.joined and not self.opened and all(each.early and each.ready > self.executed for each in others)

    def own(self, source_id: str, table: TableName) -> Member | None:
        """This shard of the source, if the group has it."""
        return next((each for each in self.members if self._is(each, source_id, table)), None)

    @staticmethod
    def _is(member: Member, source_id: str, table: TableName) -> bool:
        return member.source_id == source_id and member.table == table
