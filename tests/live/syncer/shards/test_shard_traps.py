"""What users of DM fell into when they merged shards, played on two sources with restarts in between.

Each trap has a safeguard here. `test_shard_safeguards.py` takes them away, and the trap is one again. The small-scope
models do so with each crash and order of steps (`tests/unit/progress/test_shard_model.py`, `test_optimistic_model.py`).
Here is the trap itself:

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
NOT NULL without a default (optimistic)         the target's column has the type's own until all shards have it
a conflict without a sign (optimistic)          a new column is compared with the target's, its default as well

Traps that are played elsewhere, and have their safeguards taken away there as well: shards that differ at the start
(`test_shard_keyless.py`), a conflict without a way out (`test_shards.py`), an executor that dies
(`test_shards_killed.py`), gh-ost and pt-osc (`test_online_shards.py`).
"""

from __future__ import annotations

import pytest

from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.checkpoint import has_checkpoint
from dm.progress.tables import SubtaskKey
from tests.live.syncer.shards.test_shards import KEYED, KEYLESS, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.shard_traps import (
    ADD_W,
    BACKWARD,
    COMES_BACK,
    CROSSED,
    FORGOTTEN,
    GOES_ELSEWHERE,
    MOVES,
    MOVES_AT_A_KEY,
    NEEDS_A_VALUE,
    NOW,
    NOW_EACH,
    ON_ITS_WAY,
    OTHER_DEFAULTS,
    OTHER_ORDER,
    REFUSED_BY_DM,
    ROW_BETWEEN,
    TABLES_COME_AND_GO,
    TWICE,
    Trap,
    scene_of,
)
from tests.testbed.sync import SyncProcess, endpoint_of, running_sync

pytestmark = pytest.mark.live

_CHAOS = pytest.mark.chaos


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(
    ("mode", "trap"),
    [
        pytest.param("pessimistic", ROW_BETWEEN, id="a row between, pessimistic"),
        pytest.param("optimistic", ROW_BETWEEN, id="a row between, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", TWICE, id="twice, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", TWICE, id="twice, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", ON_ITS_WAY, id="on its way, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", ON_ITS_WAY, id="on its way, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", TABLES_COME_AND_GO, id="tables come and go, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", TABLES_COME_AND_GO, id="tables come and go, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", CROSSED, id="crossed, pessimistic"),
        pytest.param("optimistic", OTHER_ORDER, id="another order, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", REFUSED_BY_DM, id="what DM refuses, pessimistic"),
        pytest.param("optimistic", REFUSED_BY_DM, id="what DM refuses, optimistic", marks=_CHAOS),
        pytest.param("optimistic", NEEDS_A_VALUE, id="a column needs a value, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", BACKWARD, id="a table's checkpoint, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", GOES_ELSEWHERE, id="a row moves, optimistic", marks=_CHAOS),
    ],
)
@pytest.mark.ci_sample(1)
def test_dms_trap_is_none(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    mode: ShardMode,
    trap: Trap,
) -> None:
    scene = scene_of(schema(*upstreams, target), upstreams, target, mode)
    for number, run in enumerate(trap.runs):
        scene.play(run, number)
    scene.finish()


# The second pass is killed when it has sent some rows of a transaction, and not committed them.
_DIES_IN_THE_PASS = """
from dm import faults
from dm.syncer.shards.main_or_second_pass import ShardRun
begin = ShardRun._begin
def begin_and_arm(self, *arguments):
    begin(self, *arguments)
    faults.arm("syncer.inside_transaction=kill")
ShardRun._begin = begin_and_arm
"""


def after_a_pass_that_died(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, columns: str
) -> SubtaskConfig:
    """A subtask whose second pass was killed inside a transaction; six rows are to come."""
    (subtask,) = subtasks_of(name, [upstream], target, columns=columns)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(
        f"ALTER TABLE {name}.s1 {ADD_W}",
        "BEGIN",
        f"INSERT INTO {name}.u VALUES (1)",
        *(f"INSERT INTO {name}.s1 VALUES ({row}, {row}, {row})" for row in range(5)),
        f"INSERT INTO {name}.s2 VALUES (10, 10)",
        "COMMIT",
        f"UPDATE {name}.s1 SET v = v + 1",
        f"ALTER TABLE {name}.s2 {ADD_W}",
    )
    process = SyncProcess(subtask, patch=_DIES_IN_THE_PASS)
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with TargetConnection(endpoint_of(target)) as connection:
        assert has_checkpoint(connection, SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id).second)
    assert target.query(f"SELECT id FROM {name}.t") == ((10,),), "nothing of the pass is committed"
    return subtask


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("columns", [KEYLESS, pytest.param(KEYED, marks=_CHAOS)])
def test_a_pass_that_dies_inside_a_transaction_leaves_and_doubles_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    name = schema(upstream, target)
    subtask = after_a_pass_that_died(upstream, target, name, columns)
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 6, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(
    ("mode", "trap"),
    [
        pytest.param("pessimistic", FORGOTTEN, id="a conflict is forgotten"),
        pytest.param("pessimistic", Trap(OTHER_ORDER.runs[:2], "shard-ddl-conflict"), id="another order"),
        pytest.param("optimistic", COMES_BACK, id="a column comes back", marks=_CHAOS),
        pytest.param("optimistic", OTHER_DEFAULTS, id="other defaults, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", MOVES, id="a row moves, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", MOVES_AT_A_KEY, id="a row moves, optimistic", marks=_CHAOS),
        pytest.param("pessimistic", NOW, id="a default of the moment, pessimistic", marks=_CHAOS),
        pytest.param("optimistic", NOW_EACH, id="a default of the moment, optimistic", marks=_CHAOS),
    ],
)
def test_what_can_not_be_exact_pauses_and_pauses_again(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    mode: ShardMode,
    trap: Trap,
) -> None:
    scene = scene_of(schema(*upstreams, target), upstreams, target, mode)
    for number, run in enumerate(trap.runs):
        if number < len(trap.runs) - trap.pauses:
            scene.play(run, number)
            continue
        with pytest.raises(DMError) as caught:
            scene.play(run, number)
        assert caught.value.name == trap.error
        assert caught.value.position
