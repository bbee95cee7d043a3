"""An ALTER was announced as a whole, and what is planned now has it in pieces only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.position import Position
from dm.progress.intent import Intent
from dm.syncer.ddl.barrier import AroundSteps, DdlBarrier
from dm.syncer.ddl.execution import DdlExecution
from dm.syncer.ddl.gate import GateVerdict, OpenGate
from dm.syncer.ddl.plan import CutOver, DdlPlan, Execute, Step, TrackOnly
from dm.syncer.ddl.temporary_tables import TemporaryTables
from dm.syncer.shards.pessimistic_gate import ShardGate
from tests.unit.syncer.ddl.planning import PLACE, Looking, query
from tests.unit.syncer.shards.shard_merge import CONTEXT, TARGET, altered, table

WHOLE = "ALTER TABLE d.t ADD COLUMN w INT, DROP COLUMN n"
GHOST = TableName("d", "_t_gho")
BEFORE = table(TARGET)
AFTER = altered(altered(BEFORE, "ALTER TABLE d.t ADD COLUMN w INT"), "ALTER TABLE d.t DROP COLUMN n")
OTHERWISE = altered(BEFORE, "ALTER TABLE d.t DROP COLUMN n")
ANNOUNCED = Intent(PLACE, 2, WHOLE, 7, {TARGET: BEFORE}, {TARGET: AFTER})
REFUSED = replace(ANNOUNCED, refused=True)

FIRST, SECOND = (Execute(piece, query(piece.text.encode())) for piece in split(WHOLE, CONTEXT))
FOLLOWED = tuple(TrackOnly(step.piece, "if possible") for step in (FIRST, SECOND))
REPLACED: tuple[Step, ...] = (*(replace(step, by_hand=True, track="not") for step in (FIRST, SECOND)), *FOLLOWED)
CUT_OVER: tuple[Step, ...] = (
    CutOver(GHOST, TARGET, TARGET, (FIRST.piece, SECOND.piece), "RENAME TABLE d._t_gho TO d.t"),
    *(replace(step, track="not", copied_to=GHOST) for step in (FIRST, SECOND)),
    TrackOnly(Piece.of("RENAME TABLE d._t_gho TO d.t", CONTEXT), "if possible"),
)
FILTERED: tuple[Step, ...] = (FIRST, TrackOnly(SECOND.piece))


class Target:
    """The target's session, with one structure; it executes nothing and notes what it is asked."""

    def __init__(self, schema: TableSchema | None) -> None:
        self._schema = schema
        self.asked: list[str] = []

    def take_turn(self, name: TableName) -> None:
        self.asked.append(f"turn {name.table}")

    def await_end_of(self, statement: str) -> None:
        self.asked.append(f"end of {statement}")

    def read(self, name: TableName) -> TableSchema | None:
        assert self.asked, "it is altered while it is looked at"
        return self._schema if name == TARGET else None


class Noting(DdlExecution):
    """An execution that notes which pieces it is given, and under which announcement."""

    def __init__(self, target: Target) -> None:
        sides = SimpleNamespace(session=target, schemas=target)
        super().__init__(cast(Any, None), cast(Any, sides), cast(Any, None), cast(Any, SimpleNamespace(monotonic=int)))
        self.given: list[tuple[int, Intent | None]] = []

    def run(self, step: Execute, number: int, end: object, intent: Intent | None) -> None:
        if intent is None or number >= intent.piece:
            self.given.append((number, intent))


class Gate(OpenGate):
    """Of a group whose shards have all come, and one of which has announced what it executes."""

    def __init__(self, intent: Intent) -> None:
        self._intent = intent

    def decide(self, planned: DdlPlan, end: Position, intent: Intent | None) -> GateVerdict:
        return GateVerdict(planned, self._intent)

    def number_of_whole(self, planned: DdlPlan) -> int:
        return ShardGate.number_of_whole(cast(Any, self), planned)


def executed(
    steps: Sequence[Step], intent: Intent, now: TableSchema | None, monkeypatch: pytest.MonkeyPatch, *, shards: bool
) -> list[tuple[int, Intent | None]]:
    """The pieces that come to the target, each with what it is told of an earlier run."""
    monkeypatch.setattr("dm.syncer.ddl.barrier.prove", lambda *_: None)
    tracker = SimpleNamespace(
        changing=lambda: nullcontext({}),
        kept_columns=lambda _: (),
        with_other_keys=lambda _: (),
        get=lambda _: None,
    )
    progress = SimpleNamespace(write=lambda: None, store_held_end=lambda: None, hold=lambda _: None)
    tracking = SimpleNamespace(tracker=tracker, follow=lambda _: None)
    execution = Noting(Target(now))
    around = AroundSteps(
        cast(Any, SimpleNamespace(drain=lambda: None)),
        cast(Any, progress),
        cast(Any, None),
        lambda: None,
        lambda: None,
        Gate(intent) if shards else OpenGate(),
    )
    monkeypatch.setattr(execution, "rest", lambda: None)
    barrier = DdlBarrier(Looking().known, {}, None if shards else intent, execution, cast(Any, tracking), around)
    barrier.run(DdlPlan(TemporaryTables(), tuple(steps)), PLACE, PLACE)
    return execution.given


CASES = pytest.mark.parametrize(
    ("steps", "shards", "pieces"),
    [
        pytest.param(REPLACED, True, [0, 1], id="replaced"),
        pytest.param(CUT_OVER, True, [0, 1], id="cut over"),
        pytest.param(FILTERED, False, [0], id="filtered since"),
    ],
)


@CASES
@pytest.mark.parametrize(("intent", "now"), [(REFUSED, BEFORE), (REFUSED, OTHERWISE), (ANNOUNCED, BEFORE)])
def test_a_whole_that_was_not_executed_says_of_no_piece_that_it_is_done(
    steps: Sequence[Step],
    pieces: list[int],
    intent: Intent,
    now: TableSchema,
    monkeypatch: pytest.MonkeyPatch,
    *,
    shards: bool,
) -> None:
    assert executed(steps, intent, now, monkeypatch, shards=shards) == [(number, None) for number in pieces]


@CASES
def test_a_whole_that_was_executed_is_not_executed_in_pieces(
    steps: Sequence[Step], pieces: list[int], monkeypatch: pytest.MonkeyPatch, *, shards: bool
) -> None:
    assert executed(steps, ANNOUNCED, AFTER, monkeypatch, shards=shards) == []


@CASES
def test_a_table_that_is_neither_pauses(
    steps: Sequence[Step], pieces: list[int], monkeypatch: pytest.MonkeyPatch, *, shards: bool
) -> None:
    with pytest.raises(DMError) as caught:
        executed(steps, ANNOUNCED, OTHERWISE, monkeypatch, shards=shards)
    assert caught.value.name == "ddl-outcome-unclear"
    assert WHOLE in caught.value.message


def test_a_refused_piece_of_a_group_still_says_that_those_before_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    intent = replace(REFUSED, piece=1, statement=SECOND.piece.text)
    for steps in (REPLACED, CUT_OVER):
        assert executed(steps, intent, BEFORE, monkeypatch, shards=True) == [(1, intent)]


def test_what_a_filter_drops_now_was_refused_and_those_before_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    intent = replace(REFUSED, piece=1, statement=SECOND.piece.text)
    assert executed(FILTERED, intent, BEFORE, monkeypatch, shards=False) == []


def test_the_statement_has_come_to_its_end_before_the_table_is_looked_at() -> None:
    target = Target(BEFORE)
    assert not Noting(target).done(ANNOUNCED, [FIRST.piece, SECOND.piece])
    assert target.asked == ["turn t", f"end of {WHOLE}"]


def test_what_no_structure_shows_is_not_executed_twice() -> None:
    """REORGANIZE is not seen, and ADD COLUMN can't be repeated."""
    text = "ALTER TABLE d.t REORGANIZE PARTITION p0 INTO (PARTITION p0 VALUES LESS THAN (5))"
    pieces = [FIRST.piece, Piece.of(text, CONTEXT)]
    with pytest.raises(DMError) as caught:
        Noting(Target(BEFORE)).done(ANNOUNCED, pieces)
    assert caught.value.name == "ddl-outcome-unclear"
