"""In which order a run reads and writes what is stored, and what it takes from that.

The order is what a crash relies on: each test names the step that must not come too early.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.config.references import StartPoint
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.mysql.binlog.event import SourceEvent, SourceRun
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.checkpoint import Checkpoint
from dm.progress.intent import Intent
from dm.progress.lane_rows import CONTROL, KEYLESS, LaneClaim, LaneRow, OrderedRecord, worker_lane
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover, Undone
from dm.sourcelog.stream.prepared_list import HeldXa
from dm.sourcelog.stream.source_server import SourceServer
from dm.syncer import state_found
from dm.syncer.resources import Resources
from dm.syncer.state_found import FirstCheckpoint, StateFound, find_state
from tests.testbed.fake_clock import FakeClock
from tests.unit.sourcelog.stream.test_assembler import Stream, run_of, start

KEY = SubtaskKey("dm_meta", "task", "source-1")


def at(offset: int) -> Position:
    return Position("a", "bin.000001", offset)


L = at(100)


class Stored:
    """What the target has, and all that is done with it, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        self.ordered = OrderedRecord()
        self.switched: Position | None = None
        self.asked: tuple[Position | None, ...] = ()  # the source, whether it has all of this
        self.begun: OrderedRecord | None = None
        self.bound: Position | None = None
        self._stand_in(monkeypatch, "read_ordered", lambda *_: self.ordered)
        self._stand_in(monkeypatch, "store_bound", lambda _writer, _checkpoint, bound: setattr(self, "bound", bound))
        self._stand_in(monkeypatch, "store_begun", lambda _connection, _claim, record: setattr(self, "begun", record))
        self._stand_in(monkeypatch, "read_operators", lambda *_: [])
        self._stand_in(monkeypatch, "read_online", lambda *_: {})
        self._stand_in(monkeypatch, "read_prepared", lambda *_: "")
        self._stand_in(monkeypatch, "take_undone", lambda *_: Undone())

    def _stand_in(self, monkeypatch: pytest.MonkeyPatch, name: str, answer: Callable[..., object]) -> None:
        def called(*given: Any) -> object:
            self.steps.append(name)
            return answer(*given)

        monkeypatch.setattr(state_found, name, called)

    # -- Of the source

    def switch_bound(self, *positions: Position | None) -> Position | None:
        self.steps.append("switch_bound")
        self.asked = positions
        return self.switched

    gtid_ordered = True

    @property
    def facts(self) -> Stored:
        return self

    def demand_same_file(self, _: Position) -> None:
        self.steps.append("demand_same_file")

    def tracker(self, structures: Iterable[TableSchema]) -> SchemaTracker:
        self.steps.append("tracker")
        assert list(structures) == []
        return SchemaTracker("mysql")

    # -- Of the unit

    def without_rows(self) -> list[HeldXa]:
        return []

    def open(self, epoch: int, position: Position | None, _: str = "") -> None:
        self.steps.append(f"open list of epoch {epoch} at {None if position is None else position.offset}")

    @property
    def prepared(self) -> Stored:
        return self

    @property
    def record(self) -> Stored:
        return self

    def put(self, _: StartPoint | None) -> None:
        self.steps.append("noted that it has run")

    def stored(self, _: Position) -> None:
        self.steps.append("let go")

    # -- A first checkpoint

    @property
    def subtask(self) -> Stored:
        return self

    @property
    def meta(self) -> StartPoint | None:
        return None

    def make(self, *_: object) -> Checkpoint:
        self.steps.append("first checkpoint")
        return Checkpoint(L)

    def found(self, checkpoint: Checkpoint | None, *rows: LaneRow, intent: Intent | None = None) -> StateFound:
        """What a run finds."""
        taken = Takeover({CONTROL: LaneClaim(KEY, CONTROL, 7)}, checkpoint, intent, rows)
        control, server = cast(TargetConnection, object()), cast(SourceServer, self)
        return find_state(taken, control, server, cast(Resources, self), cast(FirstCheckpoint, self))

    def before(self, earlier: str, later: str) -> bool:
        """Whether one step comes before another."""
        return self.steps.index(earlier) < self.steps.index(later)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    return Stored(monkeypatch)


def test_the_list_of_xa_transactions_is_opened_for_the_epoch_before_anything_else(stored: Stored) -> None:
    stored.found(Checkpoint(L))
    assert stored.steps[:2] == ["read_prepared", "open list of epoch 7 at 100"]


def test_a_first_checkpoint_is_made_after_the_list_that_is_opened_without_one(stored: Stored) -> None:
    found = stored.found(None)
    assert stored.steps[:3] == ["open list of epoch 7 at None", "first checkpoint", "noted that it has run"]
    assert found.start == L
    assert found.dumped_until is None


def test_the_bound_is_stored_before_anything_is_let_go(stored: Stored) -> None:
    stored.found(Checkpoint(L), LaneRow(worker_lane(0), 6, 1, at(300)))
    assert stored.bound == at(300)
    assert stored.before("store_bound", "store_begun")
    assert stored.before("store_begun", "let go")


def test_nothing_is_written_before_the_source_is_known_to_have_what_was_applied(stored: Stored) -> None:
    stored.found(Checkpoint(L))
    assert stored.before("switch_bound", "store_bound")
    assert stored.before("demand_same_file", "store_bound")


def test_the_record_of_undone_changes_is_taken_away_when_the_source_was_asked_for_the_last_time(stored: Stored) -> None:
    stored.found(Checkpoint(L))
    assert stored.before("tracker", "take_undone")
    assert stored.before("store_bound", "take_undone")


def test_after_a_switch_the_end_of_the_other_server_is_the_bound(stored: Stored) -> None:
    stored.switched = at(900)
    found = stored.found(Checkpoint(L), LaneRow(worker_lane(0), 6, 1, at(300)))
    assert (found.checkpoint.bound, stored.bound) == (at(900), at(900))
    assert found.dumped_until == at(300)
    assert stored.asked == (L, at(300), None), "the other server has to have what is applied"


def test_after_a_clean_stop_and_a_switch_there_is_no_bound(stored: Stored) -> None:
    stored.switched = at(900)
    found = stored.found(Checkpoint(L), LaneRow(worker_lane(0), 6, 1, L))
    assert (found.checkpoint.bound, stored.bound) == (None, None)
    assert "switch_bound" in stored.steps, "whether the server has everything is asked all the same"


def test_after_a_switch_what_the_ordered_lane_or_a_ddl_may_have_done_has_the_other_servers_end_as_bound(
    stored: Stored,
) -> None:
    stored.switched = at(900)
    by_keyless = stored.found(Checkpoint(L), LaneRow(KEYLESS, 6, 1, at(300)))
    assert (by_keyless.checkpoint.bound, stored.bound) == (at(900), at(900))
    assert stored.asked == (L, None, at(300))
    by_ddl = stored.found(Checkpoint(L), intent=Intent(at(300), 0, "ALTER TABLE t ADD COLUMN w INT", 5, {}, {}))
    assert (by_ddl.checkpoint.bound, stored.bound) == (at(900), at(900))


def test_what_the_ordered_lane_has_done_is_exact_and_not_a_part_of_the_bound(stored: Stored) -> None:
    found = stored.found(Checkpoint(L), LaneRow(KEYLESS, 6, 1, at(300)))
    assert (found.done.ordered, found.done.atomic) == (at(300), None)
    assert found.checkpoint.bound is None
    assert found.replays_in_order


def test_how_far_runs_have_come_is_stored_once(stored: Stored) -> None:
    stored.ordered = OrderedRecord(kept=True, reached=at(200))
    row = LaneRow(worker_lane(0), 6, 1, at(300))
    found = stored.found(Checkpoint(L), row)
    assert found.ordered.reached == at(300)
    assert stored.begun == found.ordered
    stored.ordered, stored.begun = replace(stored.ordered, reached=at(300)), None
    assert stored.found(Checkpoint(L), row).ordered.reached == at(300)
    assert stored.begun is None
    stored.ordered = replace(stored.ordered, done=at(400))
    stored.found(Checkpoint(L), row)
    assert stored.begun is not None, "a run takes again what lies before a checkpoint that was moved back"


class Log:
    """A source whose log can be read, and whether it was."""

    def __init__(self, *statements: str, together: bool) -> None:
        stream = Stream()
        self._events = [stream.format, *map(stream.query, statements)]
        self._together = together
        self.read = False
        self.ends = [event.end_offset for event in self._events[1:]]

    def unaltered(self, end: int) -> bool:
        """Whether a task that begins at the start of the file knows its tables."""
        subtask = SimpleNamespace(syncer=SimpleNamespace(reading_quota=1 << 20))
        rules = SimpleNamespace(wanted=lambda table: table == TableName("db", "t"))
        given = cast(Any, subtask), cast(Any, rules), cast(Any, self), threading.Event()
        return FirstCheckpoint(*given)._unaltered(start(), replace(start(), offset=end), cast(SourceServer, self))

    @property
    def clock(self) -> FakeClock:
        return FakeClock()

    def event_source(self) -> Log:
        return self

    def context_of(self, query: Query) -> SourceContext:
        return SourceContext("mysql", 90704, query.schema)

    def runs(self, _start: Position, _stop: threading.Event) -> Iterator[SourceRun | SourceEvent]:
        self.read = True
        yield from (self._events[0], run_of(self._events[1:])) if self._together else self._events


@pytest.mark.parametrize("together", [True, False])
def test_a_statement_up_to_the_end_alters_a_table_and_one_after_it_does_not(together: bool) -> None:
    log = Log("BEGIN", "ALTER TABLE u ADD b INT", "ALTER TABLE t ADD b INT", "BEGIN", together=together)
    assert [log.unaltered(end) for end in log.ends] == [True, True, False, False]


def test_no_log_is_read_whose_end_is_too_far_away() -> None:
    """A task that begins far behind its source would look at the first part of it in vain."""
    log = Log("BEGIN", together=True)
    assert not log.unaltered(start().offset + state_found._LOOKED_AT + 1)
    assert not log.read
