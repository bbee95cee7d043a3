"""Each trap that `test_shard_traps.py` lists is one again where its safeguard is taken away, in the code itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from dm.changes.column_map import map_columns
from dm.config.scalar import ShardMode
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.piece import Piece
from dm.progress.checkpoint import TablePoint, write_table
from dm.progress.lane_rows import CONTROL, claimed
from dm.progress.shards import held_shards as shard_holds
from dm.progress.shards.group import Member, Shard, ShardGroup, ShardTables
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.progress.shards.optimistic_structures import GroupSurvey
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.syncer.shards import main_or_second_pass, optimistic_gate
from dm.syncer.shards import optimistic_policy as shard_policy
from dm.syncer.shards import pessimistic_gate as shard_gate
from dm.syncer.shards.main_or_second_pass import ShardRun
from dm.syncer.shards.optimistic_gate import OptimisticGate
from dm.syncer.shards.optimistic_policy import Surrounding
from dm.task.shard_locks import Decision, decide
from tests.live.syncer.shards.test_online_shards import altered_one_by_a_tool
from tests.live.syncer.shards.test_shard_keyless import merging
from tests.live.syncer.shards.test_shard_traps import after_a_pass_that_died
from tests.live.syncer.shards.test_shards import KEYED, KEYLESS, held, wait_for_rows
from tests.live.syncer.shards.test_shards_killed import after_the_last_one_died
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.online_ddl_tools import TOOLS, Tool
from tests.testbed.shard_traps import (
    ADD_W,
    BACKWARD,
    COMES_BACK,
    CROSSED,
    FORGOTTEN,
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
    Scene,
    Trap,
    scene_of,
)
from tests.testbed.sync import RunningSync, running_sync

pytestmark = [pytest.mark.live, pytest.mark.chaos]

TakeAway = Callable[[pytest.MonkeyPatch, Scene], None]


def no_numbers(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """A shard that has come to some DDL has come to each."""

    def missing(group: ShardGroup, number: int) -> list[Member]:
        return [each for each in group.members if max(each.ready, each.waived) < number and each.ready <= each.passed]

    patch.setattr(ShardGroup, "missing", missing)


def only_who_runs(patch: pytest.MonkeyPatch, scene: Scene) -> None:
    """The shards of a source that does not run are not waited for."""
    stored = ShardGroups.group

    def group(
        groups: ShardGroups, connection: TargetConnection, target: TableName, executed: int | None = None
    ) -> ShardGroup:
        found = stored(groups, connection, target, executed)
        return replace(found, members=tuple(each for each in found.members if each.source_id in scene.running))

    patch.setattr(ShardGroups, "group", group)


def no_forms(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """Statements are not compared number by number."""
    patch.setattr(ShardGroups, "_agree", lambda groups, connection, ddl, number: True)


def forgotten_by_a_start(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """What shards have come to is in memory, and not stored."""
    begin = ShardRun.begin

    def begin_anew(run: ShardRun, control: TargetConnection, taken: Takeover) -> bool:
        with claimed(control, taken.claims[CONTROL]):
            control.execute(f"DELETE FROM {ShardTables.of(run.main_key or run.key).ddl.sql} WHERE state = 'open'")
        return begin(run, control, taken)

    patch.setattr(ShardRun, "begin", begin_anew)


def nothing_kept(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """Nobody remembers whose old values a column has."""
    around = OptimisticGate._around

    def forgetful(gate: OptimisticGate, survey: GroupSurvey, target: TableSchema | None, shard: Shard) -> Surrounding:
        return replace(around(gate, survey, target, shard), kept=frozenset(), left=frozenset())

    patch.setattr(OptimisticGate, "_around", forgetful)


def nothing_held(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """The source of a shard that waits stands still."""
    patch.setattr(shard_gate, "WAIT_SECONDS", float("inf"))


def safe_mode(_: pytest.MonkeyPatch, scene: Scene) -> None:
    """Rows are written with REPLACE."""
    for subtask in scene.subtasks:
        object.__setattr__(subtask, "syncer", subtask.syncer.model_copy(update={"safe_mode": True}))


def no_places(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """All tables of a second pass begin where the first one does."""

    def write(connection: TargetConnection, key: SubtaskKey, table: TableName, point: TablePoint) -> None:
        write_table(connection, key, table, TablePoint(point.schema))

    patch.setattr(shard_holds, "write_table", write)


def values_not_compared(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """A DEFAULT counts as the same for all shards."""
    for module in (shard_gate, optimistic_gate):
        patch.setattr(module, "differing_values", lambda column: "")


def columns_by_place(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """The first column of a row is the first one of the target, and so on."""

    def by_place(source: TableName, wire: Sequence[Column], target: TableSchema, **kind: Any) -> Any:
        named = [replace(own, name=there.name) for own, there in zip(wire, target.columns, strict=False)]
        return map_columns(source, named, target, **kind)

    patch.setattr("dm.changes.plan.map_columns", by_place)


def no_own_default(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """A column that some shards lack is the target's as it is theirs who have it."""
    patch.setattr(shard_policy, "needs_value", lambda column: False)


def defaults_not_compared(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """A column that is there is the one that the next shard adds."""
    patch.setattr("dm.syncer.shards.optimistic_policy._Joining._demand_same", lambda joining, column, there: None)


def places_compared(patch: pytest.MonkeyPatch, _: Scene) -> None:
    """Statements that differ in a column's place differ."""

    def form(pieces: Iterable[Piece]) -> str:
        return "; ".join(piece.text for piece in pieces)

    patch.setattr(shard_gate, "form_of", form)


@dataclass(frozen=True, slots=True)
class Lack:
    """A trap without its safeguard, and what is to be seen then.

    `goes on`: no pause where there has to be one. It is a pattern: who comes first may decide what is wrong.
    """

    mode: ShardMode
    trap: Trap
    take_away: TakeAway
    seen: str


# Another column's value is taken for a row's key.
_KEYS_MIXED_UP = "duplicate-key|row-missing"
LACKS: dict[str, Lack] = {
    "a row between": Lack("pessimistic", ROW_BETWEEN, no_numbers, "altered before"),
    "twice": Lack("pessimistic", TWICE, no_numbers, "altered before"),
    "on its way": Lack("pessimistic", ON_ITS_WAY, only_who_runs, "altered before"),
    "tables come and go": Lack("pessimistic", TABLES_COME_AND_GO, only_who_runs, "altered before"),
    "another order": Lack("pessimistic", Trap(OTHER_ORDER.runs[:2], "shard-ddl-conflict"), no_forms, "goes on"),
    "a conflict is forgotten": Lack("pessimistic", FORGOTTEN, forgotten_by_a_start, "goes on"),
    "a column comes back": Lack("optimistic", COMES_BACK, nothing_kept, "goes on"),
    "crossed": Lack("pessimistic", CROSSED, nothing_held, "never happened"),
    "a row moves": Lack("pessimistic", MOVES, safe_mode, "goes on"),
    "a row moves, optimistic": Lack("optimistic", MOVES_AT_A_KEY, safe_mode, "goes on"),
    "a table's checkpoint": Lack("pessimistic", BACKWARD, no_places, "duplicate-key"),
    "a default of the moment": Lack("pessimistic", NOW, values_not_compared, "goes on"),
    "a default of the moment, optimistic": Lack("optimistic", NOW_EACH, values_not_compared, "goes on"),
    "a column needs a value, optimistic": Lack("optimistic", NEEDS_A_VALUE, no_own_default, "row-value-refused"),
    "other defaults, optimistic": Lack("optimistic", OTHER_DEFAULTS, defaults_not_compared, "goes on"),
    "places of columns": Lack("pessimistic", REFUSED_BY_DM, columns_by_place, _KEYS_MIXED_UP),
    "places of columns, optimistic": Lack("optimistic", REFUSED_BY_DM, columns_by_place, _KEYS_MIXED_UP),
    # Who comes second ends; where the other one is asked first, it waits.
    "places in statements": Lack("pessimistic", REFUSED_BY_DM, places_compared, "shard-ddl-conflict|never happened"),
}


def seen(scene: Scene, trap: Trap) -> str:
    """How a trap ends: the error's name, what is not as it has to be, or nothing."""
    try:
        for number, run in enumerate(trap.runs):
            scene.play(run, number)
        if trap.error:
            return "goes on"
        scene.finish()
    except DMError as error:
        return error.name
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("name", LACKS)
def test_without_its_safeguard_it_is_a_trap(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    lack = LACKS[name]
    scene = scene_of(schema(*upstreams, target), upstreams, target, lack.mode)
    lack.take_away(monkeypatch, scene)
    found = seen(scene, lack.trap)
    assert found != lack.trap.error
    assert re.search(lack.seen, found), found


@pytest.mark.parametrize("columns", [KEYLESS, KEYED])
def test_rows_of_a_pass_that_died_are_lost_where_the_next_run_does_not_finish_it(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
) -> None:
    name = schema(upstream, target)
    subtask = after_a_pass_that_died(upstream, target, name, columns)
    monkeypatch.setattr(main_or_second_pass, "has_checkpoint", lambda *_: False)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert target.query(f"SELECT id FROM {name}.t") == ((10,),)


@pytest.mark.ci_flavor("mariadb")
def test_shards_that_differ_at_the_start_go_on_where_nobody_compares_them(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = schema(upstream, target)
    subtask = merging("pessimistic", name, upstream, target)
    upstream.execute(f"ALTER TABLE {name}.s2 {ADD_W}")
    monkeypatch.setattr(ShardGroups, "_fits", lambda *_: True)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 {ADD_W}", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        (waits,) = held(sync)  # for a shard that had the column at the start, and never comes to its ADD COLUMN
        assert waits["unsynced"] == [f"`{name}`.`s2`"]


@pytest.mark.ci_flavor("mariadb")
def test_a_person_does_not_get_out_where_nobody_looks_at_what_was_said(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(group: ShardGroup, number: int) -> list[Member]:
        return [each for each in group.members if each.ready < number]

    name = schema(upstream, target)
    subtask = merging("pessimistic", name, upstream, target)
    monkeypatch.setattr(ShardGroup, "missing", missing)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 {ADD_W}", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        held(sync)
        decide(subtask, Decision(f"{name}-`{name}`.`t`"))
        with pytest.raises(AssertionError, match="never happened"):
            wait_for_rows(target, name, 1, sync)


def test_a_ddl_is_executed_again_where_what_the_dead_one_announced_is_not_read(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = schema(*upstreams, target)
    _, second = after_the_last_one_died(upstreams, target, name, "shard.after_execute")
    monkeypatch.setattr(ShardGroups, "announced_piece", lambda *_: None)
    ended = RunningSync(second, None).wait_ended()
    assert isinstance(ended, DMError)
    assert "Duplicate column" in str(ended)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_on_a_shard_is_a_trap_where_its_tables_do_not_go_with_the_shard(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
    tool: Tool,
) -> None:
    for module in (shard_gate, shard_holds):
        monkeypatch.setattr(module, "hand_over", lambda *_: None)
    with pytest.raises((DMError, AssertionError)) as caught:
        altered_one_by_a_tool(upstream, target, schema(upstream, target), "pessimistic", tool)
    assert re.search("online-ddl|never happened", getattr(caught.value, "name", str(caught.value))), caught.value
