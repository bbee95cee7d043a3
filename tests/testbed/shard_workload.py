"""One seed of the test of shard merge: shards of several sources alter in drawn orders, and syncers die meanwhile.

Two to four sources (on two servers) have one to five shards each, all of one target table. All shards go through the
same drawn DDLs, each in its own time, with rows between them; shards are truncated, dropped and created. Syncers are
stopped, killed at drawn points, and started again. In the end the target has to be what a reference says: the shards as
they are, and what a truncated or dropped shard had, altered as the others were.

In some seeds one shard alters differently. Then the task has to pause with that reason.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dm.config.route import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import Origin, TablePair, compare
from dm.demo.servers import ThrowawayServer
from dm.errors.catalogue import CATALOGUE
from dm.faults import POINTS
from dm.ident import TableName
from tests.testbed.shard_ddl import ShardShape, draw_sequence
from tests.testbed.sync import RunningSync, SyncProcess, subtask_for

SHARD_POINTS = tuple(sorted(point for point in POINTS if point.startswith("shard.")))
_POINTS = (*SHARD_POINTS, "syncer.after_lane_row", "syncer.before_commit", "syncer.before_ddl", "syncer.after_ddl")
CONFLICT = 36943
SYNC_SECONDS = 240.0
_CODE = re.compile(r"\[code=(\d+):")
_RETRYABLE = {kind.code for kind in CATALOGUE.values() if kind.retryable}


@dataclass
class ShardResult:
    """What happened in a seed; `problem` is empty where all was as it must be."""

    seed: int
    flavor: str
    counts: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    paused: int = 0  # the code, where the task had to pause
    problem: str = ""


@dataclass
class _Shard:
    source: int
    name: str
    passed: int = 0
    ids: list[int] = field(default_factory=list)  # of a table without a key, some of them twice
    left: bool = False
    odd: bool = False  # its last statement was not the others'


@dataclass
class _Remains:
    """Rows that a shard had when it was truncated or dropped: they stay at the target."""

    server: ThrowawayServer
    table: TableName
    passed: int


@dataclass
class _Life:
    """A syncer in a thread, or in a process that is to die at a fault point."""

    running: RunningSync | None = None
    process: SyncProcess | None = None
    point: str = ""

    def end(self) -> None:
        """Stop it."""
        if self.running is not None:
            self.running.stop()
        if self.process is not None:
            self.process.close()


class ShardWorkload:
    """One seed on two source servers and a target; the schemas are made anew."""

    def __init__(
        self, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, directory: Path, *, seed: int, steps: int
    ) -> None:
        self.result = ShardResult(seed, target.flavor)
        chance = self._chance = random.Random(seed)
        self._disorder = random.Random(seed ^ 0x5EED)  # of lives, so that the workload depends on nothing else
        self._upstreams, self._target = upstreams, target
        self._name, self._directory, self._steps = f"shards_{seed}", directory, steps
        self._keyed = chance.random() < 0.6
        self._ddls, self._shapes = draw_sequence(chance, keyed=self._keyed, length=chance.randint(1, 5))
        self._sources = chance.randint(2, 4)
        self._shards = [
            _Shard(source, f"s{number}") for source in range(self._sources) for number in range(chance.randint(1, 5))
        ]
        self._conflict = chance.random() < 0.1
        self._remains = list[_Remains]()
        self._serial = 0
        self._subtasks = [self._subtask(source) for source in range(self._sources)]
        self._lives = list[_Life | None]([None] * self._sources)
        self._log = (directory / f"{self._name}.sql").open("w", encoding="utf-8")

    def run(self) -> ShardResult:
        """Play it; what goes wrong is the result's problem."""
        try:
            self._create()
            for source in range(self._sources):
                self._first_checkpoint(source)
            for _ in range(self._steps):
                self._step()
                if self.result.paused or self.result.problem:
                    break
            else:
                self._finish()
        except AssertionError as error:
            self.result.problem = self.result.problem or str(error)
        finally:
            for life in self._lives:
                if life is not None:
                    life.end()
            self._log.close()
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
                "shard_mode": "pessimistic",
                "shard_sources": tuple(f"source-{number}" for number in range(self._sources)),
            }
        )  # fmt: skip

    def _create(self) -> None:
        self.drop()
        first = self._shapes[0]
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
        self._server(source).execute(*statements)

    # -- Steps

    def _step(self) -> None:
        chance = self._chance
        shard = chance.choice([each for each in self._shards if not each.left])
        drawn = chance.random()
        if drawn < 0.25 and shard.passed < len(self._ddls):
            self._alter(shard)
        elif drawn < 0.28 and not shard.odd:
            self._remove(shard)
        elif drawn < 0.31 and not shard.odd:
            self._add_shard(shard)
        else:
            self._execute(shard.source, *self._rows(shard))
        disorder = self._disorder
        if disorder.random() < 0.3:
            self._end_a_life(disorder.randrange(self._sources))
        if disorder.random() < 0.5:
            time.sleep(disorder.random() * 0.2)
        for source in range(self._sources):
            self._look(source)
            if self._lives[source] is None and disorder.random() < 0.5:
                self._begin(source)

    def _alter(self, shard: _Shard) -> None:
        statement = self._ddls[shard.passed]
        if self._conflict and shard.passed == len(self._ddls) - 1:
            statement, self._conflict, shard.odd = "ALTER TABLE {t} ADD COLUMN other INT", False, True
            self.result.counts["conflicting DDL"] += 1
        shard.passed += 1
        self.result.counts["DDL"] += 1
        self._execute(shard.source, statement.format(t=self._table(shard)))

    def _rows(self, shard: _Shard) -> list[str]:
        """A transaction of some changes."""
        shape, table, chance = self._shapes[shard.passed - shard.odd], self._table(shard), self._chance
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
        self._remains.append(_Remains(self._server(shard.source), kept, shard.passed))
        shard.ids.clear()
        shard.left = drop
        self.result.counts["dropped" if drop else "truncated"] += 1

    def _add_shard(self, like: _Shard) -> None:
        """A new table with the structure of another one of its source."""
        if len(self._shards) > 12:
            return
        gone = [each for each in self._shards if each.left and each.source == like.source]
        name = gone[0].name if gone and self._chance.random() < 0.5 else f"s{len(self._shards) + 10}"
        self._shards = [each for each in self._shards if (each.source, each.name) != (like.source, name)]
        new = _Shard(like.source, name, like.passed)
        text = str(self._server(like.source).query(f"SHOW CREATE TABLE {self._table(like)}")[0][1])
        self._execute(like.source, text.replace(f"`{like.name}`", self._table(new), 1))
        self._shards.append(new)
        self.result.counts["created"] += 1

    # -- Lives of syncers

    def _first_checkpoint(self, source: int) -> None:
        """A task begins where its source is when it starts: before the first row."""
        running = RunningSync(self._subtasks[source], None, self._work(source))
        try:
            running.wait_synced(SYNC_SECONDS)
        finally:
            running.stop()

    def _work(self, source: int) -> Path:
        return self._directory / f"{self._name}_{source}"

    def _begin(self, source: int) -> None:
        subtask, work = self._subtasks[source], self._work(source)
        if self._disorder.random() < 0.4:
            point, passages = self._disorder.choice(_POINTS), self._disorder.choice((1, 1, 1, 2, 3))
            process = SyncProcess(subtask, work_directory=work, faults=f"{point}=kill@{passages}")
            self._lives[source] = _Life(process=process, point=point)
            self.result.counts["processes"] += 1
        else:
            self._lives[source] = _Life(RunningSync(subtask, None, work))
            self.result.counts["threads"] += 1

    def _end_a_life(self, source: int) -> None:
        life, self._lives[source] = self._lives[source], None
        if life is None:
            return
        if life.process is not None and self._disorder.random() < 0.7:
            life.process.process.kill()
            self.result.counts["killed at any time"] += 1
        life.end()
        self.result.counts["ended"] += 1
        self._judge(life)

    def _look(self, source: int) -> None:
        """Whether the source's syncer is still there."""
        life = self._lives[source]
        if life is None:
            return
        thread_ended = life.running is not None and life.running.error is not None
        if thread_ended or (life.process is not None and life.process.ended):
            self._lives[source] = None
            life.end()
            self._judge(life)

    def _judge(self, life: _Life) -> None:
        """Why it has ended."""
        if life.running is not None:
            text = "" if life.running.error is None else str(life.running.error)
        else:
            assert life.process is not None
            code = life.process.process.returncode
            if code == -signal.SIGKILL:
                self.result.fired[life.point] += 1
            text = "" if code in (0, -signal.SIGKILL) else life.process.errors()[-3000:]
        if not text:
            return
        codes = [int(found) for found in _CODE.findall(text)]
        if codes and codes[-1] == CONFLICT and self.result.counts["conflicting DDL"]:
            self.result.paused = CONFLICT
        elif codes and codes[-1] in _RETRYABLE:
            self.result.counts[f"tried again after {codes[-1]}"] += 1
        else:
            self.result.problem = f"a syncer ended by itself: {text}"

    # -- The end

    def _finish(self) -> None:
        """All shards alter to the end, every syncer works undisturbed, and then all is compared."""
        for shard in self._shards:
            while not shard.left and shard.passed < len(self._ddls):
                self._alter(shard)
                self._execute(shard.source, *self._rows(shard))
        for source in range(self._sources):
            if (life := self._lives[source]) is not None and life.process is not None:
                self._end_a_life(source)
        deadline = time.monotonic() + SYNC_SECONDS
        while not self._all_synced():
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

    def _all_synced(self) -> bool:
        synced = True
        for source in range(self._sources):
            self._look(source)
            life = self._lives[source]
            if life is None:
                self._lives[source] = _Life(RunningSync(self._subtasks[source], None, self._work(source)))
                synced = False
            elif life.running is not None:
                life.running.unit.refresh(5)
                synced = synced and life.running.unit.status()["synced"] is True
        return synced

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
            left.server.execute(*(text.format(t=left.table.sql) for text in self._ddls[left.passed :]))
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
        if not report.identical:
            self.result.problem = str(report)
