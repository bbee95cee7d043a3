"""Traps of DM's users, as runs of two sources with merged shards: `tests/live/syncer/shards/test_shard_traps.py`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from dm.config.rules import RouteRule
from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import ComparedServer, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from tests.testbed.shard_workload import other_places
from tests.testbed.sync import RunningSync, running_sync, subtask_for, wait_until

_COLUMNS = "id INT PRIMARY KEY, v INT"
_GROUPS = {"s": "t", "r": "q"}  # tables s1, s2 of each source become t, and r1, r2 become q
_BOTH = frozenset({0, 1})


@dataclass(frozen=True, slots=True)
class Run:
    """The sources that run, and what is written meanwhile: the source's number, a space, a statement."""

    statements: tuple[str, ...]
    sources: frozenset[int] = _BOTH
    waits: str = ""  # in the pessimistic mode: a column of which t is as before, since some shard has not come to it
    has: bool = False  # whether t has that column


@dataclass(frozen=True, slots=True)
class Trap:
    """Runs one after the other, each begun anew; the last ones pause with the error, if there is one."""

    runs: tuple[Run, ...]
    error: str = ""
    pauses: int = 1  # how many of the last runs meet the error


ADD_W, _ADD_X = "ADD COLUMN w INT NOT NULL DEFAULT 7", "ADD COLUMN x INT"
ROW_BETWEEN = Trap(
    (
        Run((f"0 ALTER s1 {ADD_W}", "0 INSERT s1 (id, v, w) VALUES (1, 1, 1)", "0 INSERT s2 (id, v) VALUES (2, 1)")),
        Run((f"0 ALTER s1 {_ADD_X}", f"0 ALTER s2 {ADD_W}", "0 INSERT s2 (id, v, w) VALUES (3, 1, 1)"), waits="w"),
        Run((f"0 ALTER s2 {_ADD_X}", "1 INSERT s1 (id, v) VALUES (11, 1)"), waits="w"),
        # The first source is not there: what it holds has come to the first DDL, and not to the second one.
        Run(
            tuple(f"1 ALTER {shard} {ddl}" for ddl in (ADD_W, _ADD_X) for shard in ("s1", "s2")),
            frozenset({1}),
            waits="x",
        ),
        Run(("0 UPDATE s1 SET x = 5", "1 UPDATE s1 SET x = 5")),
    )
)
TWICE = Trap(
    (
        Run((f"0 ALTER s1 {ADD_W}", "0 INSERT s1 VALUES (1, 1, 1)", "0 ALTER s1 DROP COLUMN w")),
        Run((f"0 ALTER s2 {ADD_W}", "0 INSERT s2 VALUES (2, 1, 1)", f"1 ALTER s1 {ADD_W}", "1 ALTER s1 DROP COLUMN w")),
        Run(("0 ALTER s2 DROP COLUMN w", f"1 ALTER s2 {ADD_W}", "1 INSERT s2 VALUES (12, 1, 1)"), frozenset({1})),
        Run(("1 ALTER s2 DROP COLUMN w",), frozenset({1}), waits="w", has=True),
        Run(()),
        Run((f"0 ALTER s1 {ADD_W}", "0 INSERT s1 VALUES (3, 3, 3)", f"1 ALTER s2 {ADD_W}")),
        Run((f"0 ALTER s2 {ADD_W}", f"1 ALTER s1 {ADD_W}", "1 INSERT s1 VALUES (13, 3, 3)")),
    )
)
ON_ITS_WAY = Trap(
    (
        Run((f"0 ALTER s1 {ADD_W}", f"0 ALTER s2 {ADD_W}", "0 INSERT s2 VALUES (1, 1, 1)")),
        Run((f"1 ALTER s1 {ADD_W}", "1 INSERT s1 VALUES (11, 1, 1)"), frozenset({1})),
        Run((f"0 ALTER s1 {_ADD_X}", "0 INSERT s1 VALUES (2, 1, 1, 1)"), frozenset({0}), waits="w"),
        Run((f"1 ALTER s2 {ADD_W}", f"1 ALTER s2 {_ADD_X}", "1 INSERT s2 VALUES (12, 1, 1, 1)")),
        Run((f"1 ALTER s1 {_ADD_X}", f"0 ALTER s2 {_ADD_X}")),
    )
)
TABLES_COME_AND_GO = Trap(
    (
        Run((f"0 ALTER s1 {ADD_W}", "1 INSERT s1 VALUES (11, 1)")),
        Run(
            (
                "0 CREATE TABLE {}.s3 (id INT PRIMARY KEY, v INT)",
                "0 INSERT s3 VALUES (3, 3)",
                f"0 ALTER s2 {ADD_W}",
                f"0 ALTER s3 {ADD_W}",
                "0 CREATE TABLE {}.s4 (id INT PRIMARY KEY, v INT)",
                "0 DROP TABLE {}.s4",
            ),
            frozenset({0}),
            waits="w",
        ),
        Run(("1 DELETE s1", "1 DROP TABLE {}.s1", "1 INSERT s2 VALUES (12, 1)", f"1 ALTER s2 {ADD_W}"), frozenset({1})),
        Run(("0 UPDATE s3 SET w = 1", "1 DELETE s2 WHERE id = 12", "1 INSERT s2 VALUES (13, 1, 1)")),
    )
)
CROSSED = Trap(
    (
        Run(
            tuple(f"0 ALTER {group}{number} {ADD_W}" for group in "sr" for number in (1, 2))
            + tuple(f"1 ALTER {group}{number} {ADD_W}" for group in "rs" for number in (1, 2))
            + tuple(f"{source} INSERT {group}1 VALUES ({source}1, 1, 1)" for source in (0, 1) for group in "sr"),
        ),
    )
)
OTHER_ORDER = Trap(
    (
        Run((f"0 ALTER s1 {ADD_W}", f"0 ALTER s1 {_ADD_X}", "0 INSERT s1 VALUES (1, 1, 1, 1)")),
        Run((f"1 ALTER s1 {_ADD_X}", f"1 ALTER s1 {ADD_W}", "1 INSERT s1 (id, x) VALUES (11, 1)")),
        Run(tuple(f"{source} ALTER s2 {ddl}" for source in (0, 1) for ddl in (_ADD_X, ADD_W))),
    )
)
FORGOTTEN = Trap(
    (Run((f"0 ALTER s1 {ADD_W}",)), Run(("1 ALTER s1 ADD COLUMN w BIGINT",)), Run(()), Run(())),
    "shard-ddl-conflict",
    3,
)
COMES_BACK = Trap(
    (
        Run(("0 INSERT s1 VALUES (1, 1)", "0 ALTER s1 DROP COLUMN v", "1 INSERT s1 VALUES (11, 1)")),
        Run(("0 ALTER s1 ADD COLUMN v INT",)),
        Run(("1 ALTER s1 DROP COLUMN v",), frozenset({0})),
    ),
    "shard-column-kept",
    2,
)
_ADD_N, _NAME = "ADD COLUMN n INT NOT NULL", "CHANGE COLUMN v renamed INT"
_FIRST, _LAST = "ADD COLUMN p INT FIRST", "ADD COLUMN p INT"
REFUSED_BY_DM = Trap(
    (
        Run(
            (
                "0 INSERT s1 VALUES (1, 1)",
                f"0 ALTER s1 {_ADD_N}",
                f"0 ALTER s1 {_NAME}",
                "0 INSERT s1 (id, renamed, n) VALUES (2, 2, 2)",
                f"0 ALTER s1 {_FIRST}",
                "0 UPDATE s1 SET p = 3, n = 3",
                "0 INSERT s2 VALUES (3, 3)",
                "1 INSERT s1 VALUES (11, 1)",
            )
        ),
        Run((f"0 ALTER s2 {_ADD_N}", f"0 ALTER s2 {_NAME}", "0 UPDATE s2 SET renamed = 5", f"0 ALTER s2 {_FIRST}")),
        Run(
            tuple(f"1 ALTER {shard} {ddl}" for ddl in (_ADD_N, _NAME, _LAST) for shard in ("s1", "s2"))
            + ("1 INSERT s2 VALUES (12, 2, 3, 4)",)
        ),
    )
)
_ADD_NOW = "ADD COLUMN m DATETIME DEFAULT CURRENT_TIMESTAMP"
NOW = Trap(
    (
        Run(
            ("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {_ADD_NOW}", f"0 ALTER s2 {_ADD_NOW}", f"1 ALTER s1 {_ADD_NOW}")
        ),
        Run((f"1 ALTER s2 {_ADD_NOW}",)),
    ),
    "ddl-values-differ",
)
NOW_EACH = Trap((Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {_ADD_NOW}")), Run(())), "shard-ddl-unsupported", 2)
# The target lacks a value for the rows of the shard that does not have the column yet.
NEEDS_A_VALUE = Trap(
    (
        Run((f"0 ALTER s1 {_ADD_N}", "0 INSERT s2 VALUES (3, 3)", "1 INSERT s1 VALUES (11, 1)")),
        Run((f"1 ALTER s1 {_ADD_N}", "0 INSERT s1 VALUES (4, 4, 4)", "1 INSERT s2 VALUES (12, 1)")),
        Run((f"0 ALTER s2 {_ADD_N}", f"1 ALTER s2 {_ADD_N}", "1 INSERT s2 VALUES (13, 1, 1)")),
    )
)
OTHER_DEFAULTS = Trap(
    (
        Run(("0 INSERT s1 VALUES (1, 1)", "0 INSERT s2 VALUES (2, 2)", f"0 ALTER s1 {ADD_W}")),
        Run(("0 ALTER s2 ADD COLUMN w INT NOT NULL DEFAULT 8",)),
        Run(()),
    ),
    "shard-structures-differ",
    2,
)
BACKWARD = Trap(
    (
        Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {ADD_W}", "0 INSERT s1 VALUES (2, 1, 1)")),
        Run((f"0 ALTER s2 {ADD_W}", *(f"1 ALTER {shard} {ADD_W}" for shard in ("s1", "s2")))),
        Run(("0 DELETE s1", "0 INSERT s1 VALUES (3, 1, 1)")),
        Run((f"0 ALTER s1 {_ADD_X}", "0 UPDATE s1 SET x = 1")),
        Run(("0 UPDATE s1 SET x = x + 1", "0 DELETE s2", "0 INSERT s2 VALUES (4, 1, 1)")),
        Run((f"0 ALTER s2 {_ADD_X}",)),  # held as well: one pass begins at two places
        Run(tuple(f"1 ALTER {shard} {_ADD_X}" for shard in ("s1", "s2"))),
        Run(("0 UPDATE s1 SET v = x + 1",)),
        Run(()),
    )
)
GOES_ELSEWHERE = Trap(
    (
        Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {ADD_W}", "0 DELETE s1 WHERE id = 1")),
        Run(("0 INSERT s2 VALUES (1, 2)", f"1 ALTER s1 {ADD_W}", f"0 ALTER s2 {ADD_W}", f"1 ALTER s2 {ADD_W}")),
        Run(("0 DELETE s2 WHERE id = 1",)),
        Run(("1 INSERT s1 VALUES (1, 3, 3)",)),
    )
)
MOVES, MOVES_AT_A_KEY = (
    Trap(
        (
            Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {ddl}")),
            Run(("0 DELETE s1 WHERE id = 1", "0 INSERT s2 VALUES (1, 2)")),
        ),
        "duplicate-key",
    )
    for ddl in (ADD_W, "ADD UNIQUE INDEX by_v (v, id)")
)


def _said(name: str, words: str) -> str:
    """The statement, of which the shard's name stands after the verb."""
    verb, rest = words.split(" ", 1)
    if "{}" in rest:
        return words.format(name)
    opens = {"ALTER": "ALTER TABLE", "INSERT": "INSERT INTO", "DELETE": "DELETE FROM", "UPDATE": "UPDATE"}
    return f"{opens[verb]} {name}.{rest}"


@dataclass(frozen=True, slots=True)
class Scene:
    """Two sources, what runs on them, and their target."""

    name: str
    upstreams: Sequence[ThrowawayServer]
    target: ThrowawayServer
    subtasks: Sequence[SubtaskConfig]
    running: set[str] = field(default_factory=set)  # the sources of the present run

    def sync(self) -> None:
        """Run until all is applied; the first time this stores where the task begins."""
        with ExitStack() as stack:
            for sync in [stack.enter_context(running_sync(subtask)) for subtask in self.subtasks]:
                sync.wait_synced()

    def play(self, run: Run, number: int) -> None:
        """One run, from its start until all is read; raises what ends a source's."""
        self.running.clear()
        self.running.update(self.subtasks[source].source_id for source in run.sources)
        with ExitStack() as stack:
            running = [
                (self.upstreams[source], stack.enter_context(running_sync(self.subtasks[source])))
                for source in sorted(run.sources)
            ]
            for statement in run.statements:
                source, words = statement.split(" ", 1)
                self.upstreams[int(source)].execute(_said(self.name, words))
            for upstream, sync in running:
                # A row of a table that is no shard comes when all before it is applied or held.
                marker = f"{self.name}.u{upstream.server_id}"
                upstream.execute(f"INSERT INTO {marker} VALUES ({number})")
                wait_until(partial(self._there, sync, marker, number), f"run {number} is read")
            if run.waits and self.subtasks[0].shard_mode == "pessimistic":
                there = bool(self.target.query(f"SHOW COLUMNS FROM {self.name}.t LIKE '{run.waits}'"))
                assert there is run.has, "altered before all shards came to it"

    def _there(self, sync: RunningSync, marker: str, number: int) -> bool:
        if sync.error is not None:
            raise sync.error
        return bool(self.target.query(f"SELECT id FROM {marker} WHERE id = {number}"))

    def finish(self) -> None:
        """All is applied, and the target has what the shards have."""
        self.sync()
        report = compare(pair_tables(list(self.upstreams), [self.name], route=self._route), self.target)
        for table in report.tables:
            table.structure = [line for line in table.structure if not other_places(line)]
        assert report.identical, str(report)

    def _route(self, _: ComparedServer, table: TableName) -> TableName:
        return TableName(self.name, _GROUPS.get(table.table[0], table.table))


def scene_of(
    name: str,
    upstreams: Sequence[ThrowawayServer],
    target: ThrowawayServer,
    mode: ShardMode,
) -> Scene:
    for server in upstreams:
        server.execute(*(f"CREATE TABLE {name}.{group}{shard} ({_COLUMNS})" for group in _GROUPS for shard in (1, 2)))
        server.execute(f"CREATE TABLE {name}.u{server.server_id} (id INT PRIMARY KEY)")
        target.execute(f"CREATE TABLE {name}.u{server.server_id} (id INT PRIMARY KEY)")
    target.execute(*(f"CREATE TABLE {name}.{table} ({_COLUMNS})" for table in _GROUPS.values()))
    rules = tuple(
        RouteRule(schema_pattern=name, table_pattern=f"{group}*", target_schema=name, target_table=table)
        for group, table in _GROUPS.items()
    )
    sources = tuple(f"source-{number}" for number in range(len(upstreams)))
    changes = {"shard_mode": mode, "shard_sources": sources}
    subtasks = [
        subtask_for(server, target, name, task=name, source_id=source, routes=rules).model_copy(update=changes)
        for server, source in zip(upstreams, sources, strict=True)
    ]
    scene = Scene(name, upstreams, target, subtasks)
    scene.sync()
    return scene
