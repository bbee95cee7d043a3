"""One seed of the test of shard merge: shards of several sources alter in drawn orders, and syncers die meanwhile.

Two to four sources (on two servers) have one to five shards each, all of one target table. All shards go through the
same drawn DDLs, each in its own time, with rows between them; shards are truncated, dropped and created. Syncers are
stopped, killed at drawn points, and started again. Some shards are altered by a tool that copies the table, some get
other names, some are made like a shard of another source. A person may go on without shards that have not come to a
DDL, where the target takes their rows nevertheless. In the end the target has to be what a reference says: the shards
as they are, and what a truncated or dropped shard had, altered as the others were.

In some seeds one shard alters differently. Then the task has to pause with that reason. It may do so where a table is
created and DDLs before and after it leave the same structure: nobody knows how many of them the table is beyond. In
the optimistic mode it may do so where a table is created with what a statement brings that all have to come to. If a
statement waits for such a table instead, it is unlocked, as docs/sharding.md says. Then all has to be equal, unless the
target refuses to drop an index that it never got, since that table is beyond it. There each shard comes to the DDLs in
an order of its own, as far as that says nothing, and a column may be dropped and added again while others have it yet:
then the task may pause with that reason. So it may where a shard whose rows wait gets another name: what it waits for
may come after that in its own source. And so it may where rows have no key and a table is created like one of a source
whose stream has not come to the statements that made that one: a new start goes on when it has. It may pause as well
where a column got another default after an unlock, and a shard that lacked the column adds it.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import TablePair, UpstreamTable, compare
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from tests.testbed.online_ddl_tools import SHADOW, TOOLS, TRASH, OnlineChange
from tests.testbed.shard_ddl import ShardShape, Style, another_order, draw_sequence
from tests.testbed.shard_lives import SYNC_SECONDS, ShardLives, ShardResult, short_waits
from tests.testbed.shard_scene import Joining, Remains, Shard, may_be_taken_for_another
from tests.testbed.shard_unlocks import ShardUnlocks, Stillness
from tests.testbed.sync import subtask_for

Mode = Literal["pessimistic", "optimistic"]
_CONFLICT = {"pessimistic": 36943, "optimistic": 36983}
_COMES_BACK = 36986
_REFUSED = 36910
_OTHER_NAME = 36945
# Each shard comes to each DDL, so many of them are drawn less often.
_SOURCES = (2, 2, 2, 3, 3, 4)
_SHARDS = (1, 1, 2, 2, 3, 3, 4, 5)


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
        self._remains = list[Remains]()
        self._further_on = set[tuple[str, TableName]]()  # tables that were created so, and may never come to a DDL
        self._serial = 0
        self._subtasks = [self._subtask(source) for source in range(self._sources)]
        expected = {_COMES_BACK} if style is not None and style.again else set[int]()
        self._expected = expected
        self._lives = ShardLives(self._subtasks, directory, self.result, expected, passing={_OTHER_NAME})
        self._joining = Joining(by_state=mode == "optimistic" and self._keyed)
        self._unlocks = ShardUnlocks(self._subtasks[0], target)
        self._without = False  # a person has gone on without some, or tried to
        self._names_again = False  # a table has the name of one that is gone: which of the two is known, no lock says
        self._sessions = dict[int, "Connection[Cursor]"]()  # at the sources, of what the workload writes
        self._log = (directory / f"{self._name}.sql").open("w", encoding="utf-8")

    def _style(self) -> Style:
        """Rows of a shard that is gone may be NULL where a column becomes NOT NULL: only one of the two is drawn."""
        self._removes = self._chance.random() < 0.6
        return Style(again=self._chance.random() < 0.2, not_null=not self._removes)

    def _shard(self, source: int, name: str) -> Shard:
        order = list(self._ddls) if self._mode == "pessimistic" else another_order(self._chance, self._ddls)
        return Shard(source, name, order, ShardShape(self._keyed))

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
            if self.result.problem:
                self._keep_progress()
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

    def _keep_progress(self) -> None:
        """What the syncers have stored, for who looks for the fault: after the statements."""
        meta = f"meta_{self._name}"
        tables = self._target.query("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (meta,))
        for table in sorted(str(name) for (name,) in tables):
            for row in self._target.query(f"SELECT * FROM `{meta}`.`{table}`"):
                self._log.write(f"-- {table}: {row}\n")

    # -- The scene

    def _server(self, source: int) -> ThrowawayServer:
        return self._upstreams[source % len(self._upstreams)]

    def _schema(self, source: int) -> str:
        return f"{self._name}_{source}"

    def _table(self, shard: Shard) -> str:
        return f"{self._schema(shard.source)}.{shard.name}"

    def _member(self, shard: Shard) -> tuple[str, TableName]:
        return f"source-{shard.source}", TableName(self._schema(shard.source), shard.name)

    def _subtask(self, source: int) -> SubtaskConfig:
        shards = RouteRule(
            schema_pattern=f"{self._name}_*", table_pattern="s*", target_schema=self._name, target_table="t"
        )
        other = RouteRule(
            schema_pattern=self._schema(source), table_pattern="u", target_schema=self._name, target_table=f"u{source}"
        )
        made = subtask_for(
            self._server(source), self._target, self._schema(source), task=self._name, source_id=f"source-{source}",
            routes=(shards, other), workers=self._chance.choice((1, 4)),
        )  # fmt: skip
        by_gtid = {"enable_gtid": self._chance.random() < 0.5}
        return made.model_copy(
            update={
                "source": made.source.model_copy(update=by_gtid),
                "shadow_table_rules": SHADOW,
                "trash_table_rules": TRASH,
                "shard_mode": self._mode,
                "shard_sources": tuple(f"source-{number}" for number in range(self._sources)),
            }
        )

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
        elif drawn < 0.33 and not shard.odd:
            self._rename(shard)
        elif drawn < 0.37:
            self._unlock()
        else:
            self._execute(shard.source, *self._rows(shard))
        self._lives.end_one_perhaps()
        time.sleep(self._lives.moment())
        self._lives.begin_some()

    def _alter(self, shard: Shard) -> None:
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
        before = shard.shape.copy()
        ddl.apply(shard.shape)
        copied = self._keyed and ddl.alteration and not (before.wide_key or shard.shape.wide_key)
        if copied and self._chance.random() < 0.12:  # the tools know a row by its id alone
            self._alter_with_a_tool(shard, ddl.alteration, before)
        else:
            self._execute(shard.source, *ddl.on(table))

    def _alter_with_a_tool(self, shard: Shard, alteration: str, before: ShardShape) -> None:
        """The table is copied, the copy altered, and given the table's name; rows come meanwhile."""
        tool = self._chance.choice(TOOLS)
        table = TableName(self._schema(shard.source), shard.name)
        stays = {column.name for column in shard.shape.columns}
        columns = ["id", "v", "k", *(column.name for column in before.columns if column.name in stays)]
        change = OnlineChange(tool, self._server(shard.source), table, columns)
        self._log.write(f"/* {shard.source} */ -- {tool} on {table.sql}, from here on: {alteration}\n")
        change.create()
        change.alter(alteration)
        change.copy()
        after, shard.shape = shard.shape, before
        self._execute(shard.source, *self._rows(shard))
        shard.shape = after
        change.cut_over()
        change.clean()
        self._log.write(f"/* {shard.source} */ -- {tool} on {table.sql} is done\n")
        self.result.counts["with a tool"] += 1

    def _conflicts(self, shard: Shard) -> bool:
        """Whether this is the statement that is another one in this shard: the last one."""
        return shard.passed == len(shard.order) and sum(not each.left for each in self._shards) > 1

    @property
    def _other_column(self) -> str:
        return "other INT" if self._mode == "pessimistic" else "the_last BIGINT DEFAULT 1"

    def _rows(self, shard: Shard) -> list[str]:
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

    def _insert(self, shard: Shard, shape: ShardShape, table: str) -> str:
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

    def _remove(self, shard: Shard) -> None:
        """TRUNCATE or DROP; the rows stay at the target."""
        self._serial += 1
        number = shard.source % len(self._upstreams)
        kept = TableName(f"{self._name}_r{number}", f"r{self._serial}")
        # Somebody stays, beside the one that alters differently: alone it would be right.
        stay = sum(not each.left and not each.odd for each in self._shards) > 1
        drop = self._chance.random() < 0.4 and stay
        self._execute(
            shard.source,
            "SET SESSION sql_log_bin = 0",
            f"CREATE TABLE {kept.sql} LIKE {self._table(shard)}",
            f"INSERT INTO {kept.sql} SELECT * FROM {self._table(shard)}",
            "SET SESSION sql_log_bin = 1",
            f"{'DROP' if drop else 'TRUNCATE'} TABLE {self._table(shard)}",
        )
        self._remains.append(Remains(self._server(shard.source), kept, shard.order[shard.passed :]))
        shard.ids.clear()
        shard.left = drop
        self.result.counts["dropped" if drop else "truncated"] += 1

    def _add_shard(self, like: Shard) -> None:
        """A new table with the structure of another one, of its source or of another one."""
        source = self._chance.choice((like.source, like.source, self._chance.randrange(self._sources)))
        there = [each for each in self._shards if not each.left]
        if source != like.source:
            beside = [each for each in there if each.source == source]
            source = source if self._joining.may_be_made_beside(like, beside) else like.source
        if len(self._shards) > 12 or (self._without and any(self._joining.before(like, each) for each in there)):
            return
        # What was dropped after a DDL and comes back as it was before it waits until a person gives it up, or pauses.
        gone = [
            each
            for each in self._shards
            if each.left and each.source == source and not self._joining.before(like, each)
        ]
        again = bool(gone) and self._chance.random() < 0.5
        name = gone[0].name if again else f"s{len(self._shards) + 10}"
        self._names_again |= again
        self._shards = [each for each in self._shards if (each.source, each.name) != (source, name)]
        new = replace(like, source=source, name=name, shape=like.shape.copy(), ids=[])
        text = str(self._server(like.source).query(f"SHOW CREATE TABLE {self._table(like)}")[0][1])
        self._execute(source, text.replace(f"`{like.name}`", self._table(new), 1))
        if self._ahead(like):
            self._expected.add(_CONFLICT["pessimistic"])
            self._further_on.add(self._member(new))
        if self._mode == "optimistic" and source != like.source and not self._joining.by_state:
            self._lives.passing.add(_CONFLICT[self._mode])  # what it is beyond may not have come to any source's stream
        self._shards.append(new)
        self.result.counts["created" if source == like.source else "created like one of another source"] += 1

    def _rename(self, shard: Shard) -> None:
        """Another name in its group: where its rows wait, the task pauses, and goes on when they have come."""
        others = [each for each in self._shards if each is not shard and not each.left]
        if self._joining.waits(shard, others):
            if self._chance.random() < 0.9:
                return
            self._expected.add(_OTHER_NAME)  # what it waits for may come after it in its own source
        gone = [
            each
            for each in self._shards
            if each.left and each.source == shard.source and not self._joining.waits(each, [*others, shard])
        ]
        self._serial += 1
        again = bool(gone) and self._chance.random() < 0.5
        name = gone[0].name if again else f"s{100 + self._serial}"
        self._names_again |= again
        self._shards = [each for each in self._shards if (each.source, each.name) != (shard.source, name)]
        new = f"{self._schema(shard.source)}.{name}"
        words = self._chance.choice(("RENAME TABLE {} TO {}", "ALTER TABLE {} RENAME {}"))
        self._execute(shard.source, words.format(self._table(shard), new))
        member = self._member(shard)
        if member in self._further_on:
            self._further_on ^= {member, (member[0], TableName(member[1].schema, name))}
        shard.name = name
        self.result.counts["renamed"] += 1

    def _unlock(self) -> None:
        """A person goes on without who is missing, once, where their rows are right nevertheless."""
        if not self._keyed or self._names_again or self.result.counts["unlocked"]:
            return
        if any(each.odd for each in self._shards):
            return
        self._without, self._conflict = True, False
        shards = {self._member(each) for each in self._shards if not each.left}
        unlocked = self._unlocks.go_on(self._ddls, by_state=self._joining.by_state, shards=shards)
        self.result.counts["unlocked"] += unlocked
        if unlocked and self._joining.by_state and any(ddl.gated and ddl.redefines for ddl in self._ddls):
            self._expected.add(_COMES_BACK)  # rows of a shard that lacks the column have the default of before

    def _ahead(self, like: Shard) -> bool:
        """Whether a table that is made like this shard may come to a numbered DDL before others are where it begins."""
        if self._joining.by_state:
            return any(ddl.gated for ddl in like.order[: like.passed])
        by_columns = self._mode == "optimistic"
        return may_be_taken_for_another(self._structures, like.passed, by_columns=by_columns)

    @cached_property
    def _structures(self) -> list[str]:
        """The shards' structures before the first DDL, after it, after the second one, and so on.

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
        still = Stillness(self._unlocks.standing)
        while not self._lives.all_synced():
            self._unlock_perhaps(still)
            if self.result.paused or self.result.problem:
                return
            if time.monotonic() > deadline:
                self.result.problem = f"not synced within {SYNC_SECONDS:.0f} s: {self._unlocks.standing()}"
                return
            time.sleep(0.1)
        if self.result.counts["conflicting DDL"]:
            self.result.problem = "a shard altered differently, and nobody noticed"
            return
        self._compare()

    def _unlock_perhaps(self, still: Stillness) -> None:
        """Go on without tables that never come to a DDL, once nothing moves any more."""
        if self._further_on and still.lasts() and (unlocked := self._unlocks.go_on_without(self._further_on)):
            self._expected.add(_REFUSED)
            self.result.counts["unlocked in the end"] += unlocked

    def _compare(self) -> None:
        for left in self._remains:
            left.server.execute(*(text for ddl in left.missing for text in ddl.on(left.table.sql)))
        shards = [
            UpstreamTable(self._server(shard.source), TableName(self._schema(shard.source), shard.name))
            for shard in self._shards
            if not shard.left
        ]
        shards += [UpstreamTable(left.server, left.table) for left in self._remains]
        pairs = [TablePair(TableName(self._name, "t"), tuple(shards))]
        for source in range(self._sources):
            other = UpstreamTable(self._server(source), TableName(self._schema(source), "u"))
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
