"""One seed of the test of shard merge: shards of several sources alter in drawn orders, and syncers die meanwhile.

Two to four sources (on two servers) have one to five shards each, all of one target table. All shards go through the
same drawn DDLs, each in its own time, with rows between them; shards are truncated, dropped and created. Syncers are
stopped, killed at drawn points, and started again. In the end the target has to be what a reference says: the shards as
they are, and what a truncated or dropped shard had, altered as the others were.

In some seeds one shard alters differently. Then the task has to pause with that reason. It may do so where a table is
created and DDLs before and behind it leave the same structure: nobody knows how many of them the table is beyond. In
the optimistic mode it may do so where a table is created with what a statement brings that all have to come to. If a
statement waits for such a table instead, it is unlocked, as docs/sharding.md says. Then all has to be equal, unless the
target refuses to drop an index that it never got, since that table is beyond it. There each shard comes to the DDLs in
an order of its own, as far as that says nothing, and a column may be dropped and added again while others have it yet:
then the task may pause with that reason.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.config.route import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import Origin, TablePair, compare
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.shard_locks import read_locks
from dm.task.progress import key_of
from dm.task.shard_locks import Decision, decide
from tests.testbed.shard_ddl import ShardDdl, ShardShape, Style, another_order, draw_sequence
from tests.testbed.shard_lives import SYNC_SECONDS, ShardLives, ShardResult, short_waits
from tests.testbed.sync import subtask_for

Mode = Literal["pessimistic", "optimistic"]
_CONFLICT = {"pessimistic": 36943, "optimistic": 36983}
_COMES_BACK = 36986
_REFUSED = 36910
_STILL_SECONDS = 30.0
# Each shard comes to each DDL, so many of them are drawn less often.
_SOURCES = (2, 2, 2, 3, 3, 4)
_SHARDS = (1, 1, 2, 2, 3, 3, 4, 5)


@dataclass
class _Shard:
    source: int
    name: str
    order: list[ShardDdl]
    shape: ShardShape
    passed: int = 0
    ids: list[int] = field(default_factory=list)  # of a table without a key, some of them twice
    left: bool = False
    odd: bool = False  # its last statement was not the others'


@dataclass
class _Remains:
    """Rows that a shard had when it was truncated or dropped: they stay at the target."""

    server: ThrowawayServer
    table: TableName
    missing: list[ShardDdl]  # of what the others come to


class ShardWorkload:
    """One seed on two source servers and a target; the schemas are made anew."""

    def __init__(
        self,
        upstreams: Sequence[ThrowawayServer],
        target: ThrowawayServer,
        directory: Path,
        *,
        seed: int,
        steps: int,
        mode: Mode = "pessimistic",
    ) -> None:
        self.result = ShardResult(seed, target.flavor)
        chance = self._chance = random.Random(seed)
        self._upstreams, self._target, self._mode = upstreams, target, mode
        self._name, self._directory, self._steps = f"shards_{seed}", directory, steps
        self._keyed = chance.random() < (0.6 if mode == "pessimistic" else 0.85)
        self._removes = True
        longest = 5 if mode == "pessimistic" else 7
        style = self._style() if mode == "optimistic" else None
        self._ddls = draw_sequence(chance, keyed=self._keyed, length=chance.randint(1, longest), style=style)
        self._sources = chance.choice(_SOURCES)
        self._shards = [
            self._shard(source, f"s{number}")
            for source in range(self._sources)
            for number in range(chance.choice(_SHARDS))
        ]
        self._conflict = chance.random() < 0.1
        self._remains = list[_Remains]()
        self._further_on = set[tuple[str, TableName]]()  # tables that were created so, and may never come to a DDL
        self._serial = 0
        self._subtasks = [self._subtask(source) for source in range(self._sources)]
        expected = {_COMES_BACK} if style is not None and style.again else set[int]()
        self._expected = expected
        self._lives = ShardLives(self._subtasks, directory, self.result, expected)
        self._sessions = dict[int, "Connection[Cursor]"]()  # at the sources, of what the workload writes
        self._log = (directory / f"{self._name}.sql").open("w", encoding="utf-8")

    def _style(self) -> Style:
        """Rows of a shard that is gone may be NULL where a column becomes NOT NULL: only one of the two is drawn."""
        self._removes = self._chance.random() < 0.6
        return Style(again=self._chance.random() < 0.2, not_null=not self._removes)

    def _shard(self, source: int, name: str) -> _Shard:
        order = list(self._ddls) if self._mode == "pessimistic" else another_order(self._chance, self._ddls)
        return _Shard(source, name, order, ShardShape(self._keyed))

    def run(self) -> ShardResult:
        """Play it; what goes wrong is the result's problem."""
        with short_waits():
            return self._played()

    def _played(self) -> ShardResult:
        try:
            self._create()
            for source in range(self._sources):
                self._lives.first_checkpoint(source)
            for _ in range(self._steps):
                self._step()
                if self.result.paused or self.result.problem:
                    break
            else:
                self._finish()
        except AssertionError as error:
            self.result.problem = self.result.problem or str(error)
        finally:
            self._lives.end()
            self._log.close()
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()
        return self.result

    def drop(self) -> None:
        """Take the schemas from the servers."""
        for server in {id(one): one for one in (*self._upstreams, self._target)}.values():
            for (schema,) in server.query("SELECT schema_name FROM information_schema.schemata"):
                if str(schema) in (self._name, f"meta_{self._name}") or str(schema).startswith(f"{self._name}_"):
                    server.execute(f"DROP DATABASE `{schema}`")

    # -- The scene

    def _server(self, source: int) -> ThrowawayServer:
        return self._upstreams[source % len(self._upstreams)]

    def _schema(self, source: int) -> str:
        return f"{self._name}_{source}"

    def _table(self, shard: _Shard) -> str:
        return f"{self._schema(shard.source)}.{shard.name}"

    def _subtask(self, source: int) -> SubtaskConfig:
        shards = RouteRule(
            schema_pattern=f"{self._name}_*", table_pattern="s*", target_schema=self._name, target_table="t"
        )
        other = RouteRule(
            schema_pattern=self._schema(source), table_pattern="u", target_schema=self._name, target_table=f"u{source}"
        )
        return subtask_for(
            self._server(source), self._target, self._schema(source), task=self._name, source_id=f"source-{source}",
            routes=(shards, other), workers=self._chance.choice((1, 4)),
        ).model_copy(
            update={
                "shard_mode": self._mode,
                "shard_sources": tuple(f"source-{number}" for number in range(self._sources)),
            }
        )  # fmt: skip

    def _create(self) -> None:
        self.drop()
        first = ShardShape(self._keyed)
        self._target.execute(f"CREATE DATABASE {self._name}", first.create(f"{self._name}.t"))
        for number in range(len(self._upstreams)):
            self._upstreams[number].execute(f"CREATE DATABASE {self._name}_r{number}")
        for source in range(self._sources):
            self._execute(source, f"CREATE DATABASE {self._schema(source)}")
            self._execute(source, f"CREATE TABLE {self._schema(source)}.u (id INT PRIMARY KEY)")
            self._target.execute(f"CREATE TABLE {self._name}.u{source} (id INT PRIMARY KEY)")
        for shard in self._shards:
            self._execute(shard.source, first.create(self._table(shard)))

    def _execute(self, source: int, *statements: str) -> None:
        for statement in statements:
            self._log.write(f"/* {source} */ {statement};\n")
        self._log.flush()
        session = self._sessions.get(source)
        if session is None:
            session = self._sessions[source] = self._server(source).connect()
        with session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    # -- Steps

    def _step(self) -> None:
        chance = self._chance
        shard = chance.choice([each for each in self._shards if not each.left])
        drawn = chance.random()
        if drawn < 0.25 and shard.passed < len(shard.order):
            self._alter(shard)
        elif drawn < 0.28 and not shard.odd and self._removes:
            self._remove(shard)
        elif drawn < 0.31 and not shard.odd:
            self._add_shard(shard)
        else:
            self._execute(shard.source, *self._rows(shard))
        self._lives.end_one_perhaps()
        time.sleep(self._lives.moment())
        self._lives.begin_some()

    def _alter(self, shard: _Shard) -> None:
        ddl, table = shard.order[shard.passed], self._table(shard)
        shard.passed += 1
        self.result.counts["DDL"] += 1
        if self._conflict and self._conflicts(shard):
            self._conflict, shard.odd = False, True
            self._expected.add(_CONFLICT["pessimistic" if not self._keyed else self._mode])
            self._removes = self._removes and self._mode == "pessimistic"
            self.result.counts["conflicting DDL"] += 1
            self._execute(shard.source, f"ALTER TABLE {table} ADD COLUMN {self._other_column}")
            return
        self._execute(shard.source, *ddl.on(table))
        ddl.apply(shard.shape)

    def _conflicts(self, shard: _Shard) -> bool:
        """Whether this is the statement that is another one in this shard: the last one."""
        return shard.passed == len(shard.order) and sum(not each.left for each in self._shards) > 1

    @property
    def _other_column(self) -> str:
        return "other INT" if self._mode == "pessimistic" else "the_last BIGINT DEFAULT 1"

    def _rows(self, shard: _Shard) -> list[str]:
        """A transaction of some changes."""
        shape, table, chance = shard.shape, self._table(shard), self._chance
        statements = list[str]()
        for _ in range(chance.randint(1, 4)):
            drawn = chance.random()
            if not shard.ids or drawn < 0.5:
                statements.append(self._insert(shard, shape, table))
            elif drawn < 0.75:
                statements.append(f"UPDATE {table} SET {self._assignment(shape)} WHERE id = {chance.choice(shard.ids)}")
            elif drawn < 0.85:
                statements.append(f"UPDATE {table} SET {self._assignment(shape)}")
            else:
                gone = chance.choice(shard.ids)
                shard.ids = [each for each in shard.ids if each != gone]
                statements.append(f"DELETE FROM {table} WHERE id = {gone}")
        if chance.random() < 0.3:
            self._serial += 1
            statements.append(f"INSERT INTO {self._schema(shard.source)}.u VALUES ({self._serial})")
        self.result.counts["row statements"] += len(statements)
        return ["BEGIN", *statements, "COMMIT"] if chance.random() < 0.5 else statements

    def _insert(self, shard: _Shard, shape: ShardShape, table: str) -> str:
        self._serial += 1
        number = self._serial if self._keyed else self._chance.randrange(4)
        shard.ids.append(number)
        written = [column for column in shape.columns if not column.default or self._chance.random() < 0.7]
        names = ["id", "v", *(column.name for column in written)]
        values = [str(number), str(self._chance.randrange(9)), *(column.draw(self._chance) for column in written)]
        return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})"

    def _assignment(self, shape: ShardShape) -> str:
        if shape.columns and self._chance.random() < 0.6:
            column = self._chance.choice(shape.columns)
            return f"{column.name} = {column.draw(self._chance)}"
        return self._chance.choice(("v = v + 1", "k = k + 1", "v = 5"))

    def _remove(self, shard: _Shard) -> None:
        """TRUNCATE or DROP; the rows stay at the target."""
        self._serial += 1
        number = shard.source % len(self._upstreams)
        kept = TableName(f"{self._name}_r{number}", f"r{self._serial}")
        drop = self._chance.random() < 0.4 and sum(not each.left for each in self._shards) > 1
        self._execute(
            shard.source,
            "SET SESSION sql_log_bin = 0",
            f"CREATE TABLE {kept.sql} LIKE {self._table(shard)}",
            f"INSERT INTO {kept.sql} SELECT * FROM {self._table(shard)}",
            "SET SESSION sql_log_bin = 1",
            f"{'DROP' if drop else 'TRUNCATE'} TABLE {self._table(shard)}",
        )
        self._remains.append(_Remains(self._server(shard.source), kept, shard.order[shard.passed :]))
        shard.ids.clear()
        shard.left = drop
        self.result.counts["dropped" if drop else "truncated"] += 1

    def _add_shard(self, like: _Shard) -> None:
        """A new table with the structure of another one of its source."""
        if len(self._shards) > 12:
            return
        # What was dropped behind a DDL and comes back as it was before it waits until a person gives it up, or pauses.
        gone = [
            each for each in self._shards if each.left and each.source == like.source and not self._before(like, each)
        ]
        name = gone[0].name if gone and self._chance.random() < 0.5 else f"s{len(self._shards) + 10}"
        self._shards = [each for each in self._shards if (each.source, each.name) != (like.source, name)]
        new = replace(like, name=name, shape=like.shape.copy(), ids=[])
        text = str(self._server(like.source).query(f"SHOW CREATE TABLE {self._table(like)}")[0][1])
        self._execute(like.source, text.replace(f"`{like.name}`", self._table(new), 1))
        if self._ahead(like):
            self._expected.add(_CONFLICT["pessimistic"])
            self._further_on.add((f"source-{new.source}", TableName(self._schema(new.source), new.name)))
        self._shards.append(new)
        self.result.counts["created"] += 1

    def _before(self, like: _Shard, other: _Shard) -> bool:
        """Whether one shard is before a numbered DDL that another one is beyond."""
        if not self._by_state:
            return like.passed < other.passed
        return any(ddl.gated and ddl not in like.order[: like.passed] for ddl in other.order[: other.passed])

    @property
    def _by_state(self) -> bool:
        """Whether a shard joins by its structure, and not by how many of the DDLs it is beyond."""
        return self._mode == "optimistic" and self._keyed

    def _ahead(self, like: _Shard) -> bool:
        """Whether a table that is made like this shard may come to a numbered DDL before others are where it begins."""
        if self._by_state:
            return any(ddl.gated for ddl in like.order[: like.passed])
        return self._structures.count(self._structures[like.passed]) > 1

    @cached_property
    def _structures(self) -> list[str]:
        """The shards' structures before the first DDL, behind it, behind the second one, and so on.

        Where two are alike nobody can tell which of them a new table has.
        """
        table, found = f"{self._name}_r0.stages", list[str]()
        with closing(self._upstreams[0].connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(ShardShape(self._keyed).create(table))
            for statements in ([], *([*ddl.on(table)] for ddl in self._ddls)):
                for statement in statements:
                    cursor.execute(statement)
                cursor.execute(f"SHOW CREATE TABLE {table}")
                found += [str(row[1]) for row in cursor.fetchall()]
        return found

    # -- The end

    def _finish(self) -> None:
        """All shards alter to the end, every syncer works undisturbed, and then all is compared."""
        for shard in self._shards:
            while not shard.left and shard.passed < len(shard.order):
                self._alter(shard)
                self._execute(shard.source, *self._rows(shard))
        self._lives.undisturbed()
        deadline = time.monotonic() + SYNC_SECONDS
        stood = ("", deadline)  # what stands at the target, and since when
        while not self._lives.all_synced():
            stood = self._unlock_perhaps(*stood)
            if self.result.paused or self.result.problem:
                return
            if time.monotonic() > deadline:
                self.result.problem = f"not synced within {SYNC_SECONDS:.0f} s: {self._standing()}"
                return
            time.sleep(0.1)
        if self.result.counts["conflicting DDL"]:
            self.result.problem = "a shard altered differently, and nobody noticed"
            return
        self._compare()

    def _unlock_perhaps(self, before: str, since: float) -> tuple[str, float]:
        """Go on without tables that never come to a DDL, once nothing moves any more."""
        if not self._further_on:
            return before, since
        standing, now = self._standing(), time.monotonic()
        if standing != before or now < since + _STILL_SECONDS:
            return standing, since if standing == before else now
        subtask = self._subtasks[0]
        with closing(TargetConnection(subtask.target)) as connection:
            found = read_locks(connection, key_of(subtask))
        for lock in found:
            missing = {(each.member.source_id, each.member.table) for each in lock.shards if not each.arrived}
            if missing and missing <= self._further_on:
                decide(subtask, Decision(lock.id))
                self._expected.add(_REFUSED)
                self.result.counts["unlocked"] += 1
        return standing, now

    def _standing(self) -> str:
        meta = f"meta_{self._name}.{self._name}_shard"
        return str(
            [
                self._target.query(f"SELECT * FROM {meta}_source"),
                self._target.query(f"SELECT * FROM {meta}_group"),
                self._target.query(f"SELECT id, s_schema, s_table, passed, ready FROM {meta}_table"),
                self._target.query(f"SELECT number, state, statements, owner FROM {meta}_ddl"),
                self._target.query(f"SELECT id, s_schema, s_table, binlog_name, binlog_pos FROM {meta}_held"),
            ]
        )

    def _compare(self) -> None:
        for left in self._remains:
            left.server.execute(*(text for ddl in left.missing for text in ddl.on(left.table.sql)))
        shards = [
            Origin(self._server(shard.source), TableName(self._schema(shard.source), shard.name))
            for shard in self._shards
            if not shard.left
        ]
        shards += [Origin(left.server, left.table) for left in self._remains]
        pairs = [TablePair(TableName(self._name, "t"), tuple(shards))]
        for source in range(self._sources):
            other = Origin(self._server(source), TableName(self._schema(source), "u"))
            pairs.append(TablePair(TableName(self._name, f"u{source}"), (other,)))
        report = compare(pairs, self._target)
        if self._mode == "optimistic":
            for table in report.tables:
                table.structure = [line for line in table.structure if not other_places(line)]
        if not report.identical:
            self.result.problem = str(report)


def other_places(line: str) -> bool:
    """Whether a difference is only that columns have other places: each shard gave them its own."""
    found = re.fullmatch("columns are (.*) at the source, (.*) at the target", line)
    return found is not None and sorted(found[1].split(", ")) == sorted(found[2].split(", "))
