"""The record of a replay at a target: what is stored at each step, and what a second session can't do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema
from dm.position import Position
from dm.progress import replayed
from dm.progress.checkpoint import Checkpoint, TablePoint, read_checkpoint, write_new
from dm.progress.lane_rows import CONTROL, LaneClaim, claimed, raise_epoch, read_lanes
from dm.progress.replayed import REMOVALS, WRITES, RelayRange, ReplayPart, StoredReplay
from dm.progress.tables import SubtaskKey, create_tables
from dm.progress.takeover import UndoneKeys, has_undone, store_undone
from dm.tools.replay.applying import commit_part
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of
from tests.unit.changes.plans import delete, key, number, plan

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

KEYED, KEYLESS = TableName("shop", "items"), TableName("shop", "notes")
FILE = "bin.000001"
L, B, E = Position("uuid", FILE, 100), Position("uuid", FILE, 300), Position("uuid", FILE, 900)
LANE = replayed.lane_of(0)


class Target:
    """A task's progress, with a checkpoint."""

    def __init__(self, connection: TargetConnection, schema: str, *, bound: Position | None = None) -> None:
        self.connection = connection
        self.key = SubtaskKey(schema, "task", "source-1")
        create_tables(connection, self.key)
        replayed.create_record(connection, self.key)
        structures = [TableSchema(name, (Column("id", "int"),), ()) for name in (KEYED, KEYLESS)]
        write_new(connection, self.key, Checkpoint(L, bound, {each.name: TablePoint(each) for each in structures}))
        self.claim = self.take()

    def take(self) -> LaneClaim:
        """Begin a run."""
        epoch, _ = raise_epoch(self.connection, self.key, [CONTROL])
        return self.claim_of(CONTROL, epoch)

    def claim_of(self, lane: str, epoch: int) -> LaneClaim:
        """The claim of a session that goes on with a lane."""
        batches = {row.lane: row.batch for row in read_lanes(self.connection, self.key)}
        return LaneClaim(self.key, lane, epoch, batches[lane])

    @property
    def checkpoint(self) -> Checkpoint:
        """What is stored."""
        found = read_checkpoint(self.connection, self.key)
        assert found is not None
        return found

    def plan(self, **fields: object) -> StoredReplay:
        """A plan of this run."""
        pieces, tables = (RelayRange(FILE, 100, 900),), {KEYED: TableName("there", "items")}
        plan = StoredReplay("n1", self.claim.epoch, L, E, pieces, 4, again=False, replayed=tables, left={})
        return replace(plan, **fields)  # type: ignore[arg-type]

    def begin(self, **fields: object) -> StoredReplay:
        """R1."""
        plan = self.plan(**fields)
        replayed.begin_replay(self.connection, self.claim, self.checkpoint, plan, 2)
        return plan

    def lanes(self) -> list[str]:
        """The lanes of a replay that have rows."""
        rows = self.connection.query(f"SELECT lane FROM {self.key.worker.sql} WHERE lane <> 'control' ORDER BY lane")
        return [str(lane) for (lane,) in rows]

    def commit(self, part: ReplayPart, epoch: int | None = None) -> None:
        """R2, R3: a part without changes."""
        with claimed(self.connection, self.claim_of(LANE, self.claim.epoch if epoch is None else epoch)):
            replayed.record_part(self.connection, self.key, part, 7)


@pytest.fixture
def connection(target: ThrowawayServer) -> Iterator[TargetConnection]:
    with closing(TargetConnection(endpoint_of(target))) as connection:
        yield connection


@pytest.fixture
def meta(target: ThrowawayServer, schema: SchemaFactory) -> str:
    return schema(target)


def test_a_replay_that_begins_leaves_the_stretch_to_the_safe_mode_of_a_syncer(
    connection: TargetConnection, meta: str
) -> None:
    task = Target(connection, meta)
    store_undone(connection, task.claim, {("uuid", FILE, 200): UndoneKeys(None)})
    plan = task.begin()
    assert task.checkpoint.position == L
    assert task.checkpoint.bound == E
    # It may be done from now on: a syncer must not apply it strictly.
    assert not has_undone(connection, task.key)
    assert replayed.read_replay(connection, task.key) == plan
    assert StoredReplay.from_json(plan.to_json()) == plan
    assert json.loads(plan.to_json())["number"] == "n1"
    assert task.lanes() == [replayed.lane_of(0), replayed.lane_of(1)]


def test_a_part_counts_once_and_only_in_its_run(connection: TargetConnection, meta: str) -> None:
    task = Target(connection, meta)
    plan = task.begin()
    task.commit(ReplayPart(REMOVALS, 1, 0))
    task.commit(ReplayPart(WRITES, 1, 0))
    with pytest.raises(DMError):
        task.commit(ReplayPart(REMOVALS, 1, 0))
    assert replayed.done_parts(connection, task.key, REMOVALS, 1) == {0: 7}
    assert replayed.done_parts(connection, task.key, WRITES, 2) == {}
    older, task.claim = task.claim.epoch, task.take()
    with pytest.raises(DMError) as raised:
        task.commit(ReplayPart(WRITES, 3, 0), older)
    assert raised.value.name == "fenced"
    ours, done = replayed.continue_replay(connection, task.claim, plan, 3)
    assert (ours.epoch, done) == (task.claim.epoch, 14)
    assert replayed.read_replay(connection, task.key) == ours
    assert len(task.lanes()) == 3


def test_the_checkpoint_moves_to_the_end(connection: TargetConnection, meta: str) -> None:
    task = Target(connection, meta, bound=B)
    before = task.checkpoint
    plan = task.begin(again=True)
    task.commit(ReplayPart(WRITES, 0, 0))
    replayed.end_replay(connection, task.claim, before, plan, ("", None))
    assert (task.checkpoint.position, task.checkpoint.bound) == (E, None)
    assert task.checkpoint.points_ahead() == {}
    assert replayed.read_replay(connection, task.key) is None
    assert task.lanes() == []


@pytest.mark.parametrize("bound", [None, B])
def test_what_is_left_to_the_syncer_keeps_its_checkpoint(
    connection: TargetConnection, meta: str, bound: Position | None
) -> None:
    task = Target(connection, meta, bound=bound)
    before = task.checkpoint
    plan = task.begin(again=bound is not None, left={KEYLESS: "it has no key by which rows are found"})
    replayed.end_replay(connection, task.claim, before, plan, ("", None))
    assert (task.checkpoint.position, task.checkpoint.bound) == (L, bound)
    assert task.checkpoint.points_ahead() == {KEYED: E}


def test_a_cancelled_replay_leaves_the_bound(connection: TargetConnection, meta: str) -> None:
    task = Target(connection, meta)
    task.begin()
    replayed.forget_replay(connection, task.claim)
    assert (task.checkpoint.position, task.checkpoint.bound) == (L, E)
    assert replayed.read_replay(connection, task.key) is None


def test_a_part_that_a_lost_executor_commits_meanwhile_is_done(
    connection: TargetConnection, meta: str, target: ThrowawayServer
) -> None:
    task = Target(connection, meta)
    task.begin()
    connection.execute(f"CREATE TABLE {TableName(meta, 't').sql} (id INT PRIMARY KEY)")
    removal = delete(replace(plan([number("id")], [key("PRIMARY", "id")]), target=TableName(meta, "t")), 1)
    with closing(TargetConnection(endpoint_of(target))) as retry:
        claim = task.claim_of(replayed.lane_of(1), task.claim.epoch)
        # Nobody has the part, and the row is not there.
        with pytest.raises(DMError) as raised:
            commit_part(retry, claim, ReplayPart(REMOVALS, 0, 0), [removal])
        assert raised.value.name == "row-missing"
        with claimed(connection, task.claim_of(LANE, task.claim.epoch)):
            replayed.record_part(connection, task.key, ReplayPart(REMOVALS, 0, 0), 1)
        assert commit_part(retry, claim, ReplayPart(REMOVALS, 0, 0), [removal]) == 0
        # It is another part if it had another number of changes.
        with pytest.raises(DMError):
            commit_part(retry, claim, ReplayPart(REMOVALS, 0, 0), [removal, removal])
        task.claim = task.take()
        with pytest.raises(DMError) as raised:
            commit_part(retry, claim, ReplayPart(REMOVALS, 0, 0), [removal])
        assert raised.value.name == "fenced"
