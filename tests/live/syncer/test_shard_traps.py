"""What users of DM fell into when they merged shards, played on two sources with restarts in between.

Each trap has a safeguard here. The small-scope models take each one away and see a row or a DDL go wrong
(`tests/unit/progress/test_shard_model.py`, `test_optimistic_model.py`); here is the trap itself:

a row between two DDLs, whose second one comes  numbers: a shard is at its own DDL, whatever others are at
with the first at the other source
the same DDL twice (ADD, DROP, ADD)             numbers, and not what the structure looks like
one shard is on its way when its source stops   the record of who is there commits with L
a conflict that is forgotten by a new start     what was agreed on is stored, and so is met again
the same DDLs in another order                  forms are compared one by one, not as sets
a column dropped by some and added again        old values are remembered with the structure (`kept`)
a source stops, tables come and go meanwhile    who has to come is stored, and not who runs
two groups crossed in two sources               a source holds shards, it does not stand still
a row moves from a shard that waits             no safe mode: the old row is met, not replaced
a pass that dies inside a transaction           it is an ordinary run from a place to a place
a table's checkpoint that goes backward         a table has one place, which goes along when its reading changes
what DM refuses                                 names and defaults are met by the structure of both sides
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pytest

from dm.config.choices import ShardMode
from dm.config.route import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import Server, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.checkpoint import has_checkpoint
from dm.progress.tables import SubtaskKey
from tests.live.syncer.test_shards import KEYED, KEYLESS, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.shard_workload import other_places
from tests.testbed.sync import RunningSync, SyncProcess, endpoint_of, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

_COLUMNS = "id INT PRIMARY KEY, v INT"
_GROUPS = {"s": "t", "r": "q"}  # tables s1, s2 of each source become t, and r1, r2 become q
_BOTH = frozenset({0, 1})


@dataclass(frozen=True, slots=True)
class Run:
    """The sources that run, and what is written meanwhile: the source's number, a space, a statement."""

    statements: tuple[str, ...]
    sources: frozenset[int] = _BOTH


@dataclass(frozen=True, slots=True)
class Trap:
    """Runs one after the other, each begun anew; the last ones pause with the error, if there is one."""

    runs: tuple[Run, ...]
    error: str = ""
    pauses: int = 1  # how many of the last runs meet the error


_ADD_W, _ADD_X = "ADD COLUMN w INT NOT NULL DEFAULT 7", "ADD COLUMN x INT"
_ROW_BETWEEN = Trap(
    (
        Run((f"0 ALTER s1 {_ADD_W}", "0 INSERT s1 (id, v, w) VALUES (1, 1, 1)", "0 INSERT s2 (id, v) VALUES (2, 1)")),
        Run((f"0 ALTER s1 {_ADD_X}", f"0 ALTER s2 {_ADD_W}", "0 INSERT s2 (id, v, w) VALUES (3, 1, 1)")),
        Run((f"0 ALTER s2 {_ADD_X}", "1 INSERT s1 (id, v) VALUES (11, 1)")),
        Run(
            tuple(f"1 ALTER {shard} {ddl}" for ddl in (_ADD_W, _ADD_X) for shard in ("s1", "s2"))
            + ("0 UPDATE s1 SET x = 5", "1 UPDATE s1 SET x = 5")
        ),
    )
)
_TWICE = Trap(
    (
        Run((f"0 ALTER s1 {_ADD_W}", "0 INSERT s1 VALUES (1, 1, 1)", "0 ALTER s1 DROP COLUMN w")),
        Run(
            (f"0 ALTER s2 {_ADD_W}", "0 INSERT s2 VALUES (2, 1, 1)", f"1 ALTER s1 {_ADD_W}", "1 ALTER s1 DROP COLUMN w")
        ),
        Run(("0 ALTER s2 DROP COLUMN w", f"1 ALTER s2 {_ADD_W}", "1 INSERT s2 VALUES (12, 1, 1)")),
        Run(("1 ALTER s2 DROP COLUMN w",)),
        Run((f"0 ALTER s1 {_ADD_W}", "0 INSERT s1 VALUES (3, 3, 3)", f"1 ALTER s2 {_ADD_W}")),
        Run((f"0 ALTER s2 {_ADD_W}", f"1 ALTER s1 {_ADD_W}", "1 INSERT s1 VALUES (13, 3, 3)")),
    )
)
_ON_ITS_WAY = Trap(
    (
        Run((f"0 ALTER s1 {_ADD_W}", f"0 ALTER s2 {_ADD_W}", "0 INSERT s2 VALUES (1, 1, 1)")),
        Run((f"1 ALTER s1 {_ADD_W}", "1 INSERT s1 VALUES (11, 1, 1)"), frozenset({1})),
        Run((f"0 ALTER s1 {_ADD_X}", "0 INSERT s1 VALUES (2, 1, 1, 1)"), frozenset({0})),
        Run((f"1 ALTER s2 {_ADD_W}", f"1 ALTER s2 {_ADD_X}", "1 INSERT s2 VALUES (12, 1, 1, 1)")),
        Run((f"1 ALTER s1 {_ADD_X}", f"0 ALTER s2 {_ADD_X}")),
    )
)
_TABLES_COME_AND_GO = Trap(
    (
        Run((f"0 ALTER s1 {_ADD_W}", "1 INSERT s1 VALUES (11, 1)")),
        Run(
            (
                "0 CREATE TABLE {}.s3 (id INT PRIMARY KEY, v INT)",
                "0 INSERT s3 VALUES (3, 3)",
                f"0 ALTER s2 {_ADD_W}",
                f"0 ALTER s3 {_ADD_W}",
                "0 CREATE TABLE {}.s4 (id INT PRIMARY KEY, v INT)",
                "0 DROP TABLE {}.s4",
            ),
            frozenset({0}),
        ),
        Run(
            ("1 DELETE s1", "1 DROP TABLE {}.s1", "1 INSERT s2 VALUES (12, 1)", f"1 ALTER s2 {_ADD_W}"), frozenset({1})
        ),
        Run(("0 UPDATE s3 SET w = 1", "1 DELETE s2 WHERE id = 12", "1 INSERT s2 VALUES (13, 1, 1)")),
    )
)
_CROSSED = Trap(
    (
        Run(
            tuple(f"0 ALTER {group}{number} {_ADD_W}" for group in "sr" for number in (1, 2))
            + tuple(f"1 ALTER {group}{number} {_ADD_W}" for group in "rs" for number in (1, 2))
            + tuple(f"{source} INSERT {group}1 VALUES ({source}1, 1, 1)" for source in (0, 1) for group in "sr"),
        ),
    )
)
_OTHER_ORDER = Trap(
    (
        Run((f"0 ALTER s1 {_ADD_W}", f"0 ALTER s1 {_ADD_X}", "0 INSERT s1 VALUES (1, 1, 1, 1)")),
        Run((f"1 ALTER s1 {_ADD_X}", f"1 ALTER s1 {_ADD_W}", "1 INSERT s1 (id, x) VALUES (11, 1)")),
        Run(tuple(f"{source} ALTER s2 {ddl}" for source in (0, 1) for ddl in (_ADD_X, _ADD_W))),
    )
)
_FORGOTTEN = Trap(
    (Run((f"0 ALTER s1 {_ADD_W}",)), Run(("1 ALTER s1 ADD COLUMN w BIGINT",)), Run(()), Run(())),
    "shard-ddl-conflict",
    3,
)
_COMES_BACK = Trap(
    (
        Run(("0 INSERT s1 VALUES (1, 1)", "0 ALTER s1 DROP COLUMN v", "1 INSERT s1 VALUES (11, 1)")),
        Run(("0 ALTER s1 ADD COLUMN v INT",)),
        Run(("1 ALTER s1 DROP COLUMN v",), frozenset({0})),
    ),
    "shard-column-kept",
    2,
)
_ADD_N, _NAME = "ADD COLUMN n INT NOT NULL", "CHANGE COLUMN v renamed INT"
_FIRST = "ADD COLUMN p INT FIRST"
_REFUSED_BY_DM = Trap(
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
            tuple(f"1 ALTER {shard} {ddl}" for ddl in (_ADD_N, _NAME, _FIRST) for shard in ("s1", "s2"))
            + ("1 INSERT s2 VALUES (1, 12, 2, 2)",)
        ),
    )
)
_ADD_NOW = "ADD COLUMN m DATETIME DEFAULT CURRENT_TIMESTAMP"
_NOW = Trap(
    (
        Run(
            ("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {_ADD_NOW}", f"0 ALTER s2 {_ADD_NOW}", f"1 ALTER s1 {_ADD_NOW}")
        ),
        Run((f"1 ALTER s2 {_ADD_NOW}",)),
    ),
    "ddl-values-differ",
)
_NOW_EACH = Trap((Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {_ADD_NOW}")), Run(())), "shard-ddl-unsupported", 2)
_BACKWARD = Trap(
    (
        Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {_ADD_W}", "0 INSERT s1 VALUES (2, 1, 1)")),
        Run((f"0 ALTER s2 {_ADD_W}", *(f"1 ALTER {shard} {_ADD_W}" for shard in ("s1", "s2")))),
        Run(("0 DELETE s1", "0 INSERT s1 VALUES (3, 1, 1)")),
        Run((f"0 ALTER s1 {_ADD_X}", "0 UPDATE s1 SET x = 1")),
        Run(("0 UPDATE s1 SET x = x + 1", "0 DELETE s2", "0 INSERT s2 VALUES (4, 1, 1)")),
        Run((f"0 ALTER s2 {_ADD_X}",)),  # held as well: one pass begins at two places
        Run(tuple(f"1 ALTER {shard} {_ADD_X}" for shard in ("s1", "s2"))),
        Run(("0 UPDATE s1 SET v = x + 1",)),
        Run(()),
    )
)
_GOES_ELSEWHERE = Trap(
    (
        Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {_ADD_W}", "0 DELETE s1 WHERE id = 1")),
        Run(("0 INSERT s2 VALUES (1, 2)", f"1 ALTER s1 {_ADD_W}", f"0 ALTER s2 {_ADD_W}", f"1 ALTER s2 {_ADD_W}")),
        Run(("0 DELETE s2 WHERE id = 1",)),
        Run(("1 INSERT s1 VALUES (1, 3, 3)",)),
    )
)
_MOVES, _MOVES_AT_A_KEY = (
    Trap(
        (
            Run(("0 INSERT s1 VALUES (1, 1)", f"0 ALTER s1 {ddl}")),
            Run(("0 DELETE s1 WHERE id = 1", "0 INSERT s2 VALUES (1, 2)")),
        ),
        "duplicate-key",
    )
    for ddl in (_ADD_W, "ADD UNIQUE INDEX by_v (v, id)")
)


def _said(name: str, words: str) -> str:
    """The statement, of which the shard's name stands behind the verb."""
    verb, rest = words.split(" ", 1)
    if "{}" in rest:
        return words.format(name)
    opens = {"ALTER": "ALTER TABLE", "INSERT": "INSERT INTO", "DELETE": "DELETE FROM", "UPDATE": "UPDATE"}
    return f"{opens[verb]} {name}.{rest}"


@dataclass(frozen=True, slots=True)
class _Scene:
    """Two sources, what runs on them, and their target."""

    name: str
    upstreams: Sequence[ThrowawayServer]
    target: ThrowawayServer
    subtasks: Sequence[SubtaskConfig]

    def sync(self) -> None:
        """Run until all is applied; the first time this stores where the task begins."""
        with ExitStack() as stack:
            for sync in [stack.enter_context(running_sync(subtask)) for subtask in self.subtasks]:
                sync.wait_synced()

    def play(self, run: Run, number: int) -> None:
        """One run, from its start until all is read; raises what ends a source's."""
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

    def _route(self, _: Server, table: TableName) -> TableName:
        return TableName(self.name, _GROUPS.get(table.table[0], table.table))


def _scene(
    name: str,
    upstreams: Sequence[ThrowawayServer],
    target: ThrowawayServer,
    mode: ShardMode,
) -> _Scene:
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
    scene = _Scene(name, upstreams, target, subtasks)
    scene.sync()
    return scene


_CHAOS = pytest.mark.chaos


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(
    ("mode", "trap"),
    [
        pytest.param("pessimistic", _ROW_BETWEEN, id="a row between, pessimistic"),
        pytest.param("optimistic", _ROW_BETWEEN, id="a row between, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", _TWICE, id="twice, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", _TWICE, id="twice, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", _ON_ITS_WAY, id="on its way, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", _ON_ITS_WAY, id="on its way, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", _TABLES_COME_AND_GO, id="tables come and go, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", _TABLES_COME_AND_GO, id="tables come and go, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", _CROSSED, id="crossed, pessimistic"),
        pytest.param("optimistic", _OTHER_ORDER, id="another order, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", _REFUSED_BY_DM, id="what DM refuses, pessimistic"),
        pytest.param("optimistic", _REFUSED_BY_DM, id="what DM refuses, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", _BACKWARD, id="a table's checkpoint, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", _GOES_ELSEWHERE, id="a row moves, optimistic", marks=_CHAOS),
    ],
)
def test_dms_trap_is_none(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    mode: ShardMode,
    trap: Trap,
) -> None:
    scene = _scene(schema(*upstreams, target), upstreams, target, mode)
    for number, run in enumerate(trap.runs):
        scene.play(run, number)
    scene.finish()


# The second pass is killed when it has sent some rows of a transaction, and not committed them.
_DIES_IN_THE_PASS = """
from dm import faults
from dm.syncer.sharding.shard_run import ShardRun
begin = ShardRun._begin
def begin_and_arm(self, *arguments):
    begin(self, *arguments)
    faults.arm("syncer.inside_transaction=kill")
ShardRun._begin = begin_and_arm
"""


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("columns", [KEYLESS, pytest.param(KEYED, marks=_CHAOS)])
def test_a_pass_that_dies_inside_a_transaction_leaves_and_doubles_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, columns=columns)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(
        f"ALTER TABLE {name}.s1 {_ADD_W}",
        "BEGIN",
        f"INSERT INTO {name}.u VALUES (1)",
        *(f"INSERT INTO {name}.s1 VALUES ({row}, {row}, {row})" for row in range(5)),
        f"INSERT INTO {name}.s2 VALUES (10, 10)",
        "COMMIT",
        f"UPDATE {name}.s1 SET v = v + 1",
        f"ALTER TABLE {name}.s2 {_ADD_W}",
    )
    process = SyncProcess(subtask, patch=_DIES_IN_THE_PASS)
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with TargetConnection(endpoint_of(target)) as connection:
        assert has_checkpoint(connection, SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id).second)
    assert target.query(f"SELECT id FROM {name}.t") == ((10,),), "nothing of the pass is committed"
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 6, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(
    ("mode", "trap"),
    [
        pytest.param("pessimistic", _FORGOTTEN, id="a conflict is forgotten"),
        pytest.param("pessimistic", Trap(_OTHER_ORDER.runs[:2], "shard-ddl-conflict"), id="another order"),
        pytest.param("optimistic", _COMES_BACK, id="a column comes back", marks=_CHAOS),
        pytest.param("pessimistic", _MOVES, id="a row moves, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", _MOVES_AT_A_KEY, id="a row moves, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", _NOW, id="a default of the moment, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", _NOW_EACH, id="a default of the moment, optimistic", marks=_CHAOS),
    ],
)
def test_what_can_not_be_exact_pauses_and_pauses_again(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    mode: ShardMode,
    trap: Trap,
) -> None:
    scene = _scene(schema(*upstreams, target), upstreams, target, mode)
    for number, run in enumerate(trap.runs):
        if number < len(trap.runs) - trap.pauses:
            scene.play(run, number)
            continue
        with pytest.raises(DMError) as caught:
            scene.play(run, number)
        assert caught.value.name == trap.error
        assert caught.value.position
