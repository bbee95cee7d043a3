"""A second pass whose tables all wait again is over, however far its end is, whatever runs may have done up to it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import Position
from dm.progress.lane_rows import CONTROL, LaneClaim
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import OwnedTables
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.reader import TransactionQueue
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply.completion import CompletionTracker
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.shards import main_or_second_pass
from dm.syncer.shards.main_or_second_pass import PassEnd, ShardRun
from dm.syncer.unit import follow
from tests.testbed.fake_clock import FakeClock
from tests.unit.rules.subtasks import subtask

OLD, NEW = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"
START = Position(NEW, "b.000007", 40, GtidSet.parse(f"{OLD}:1-2"))  # after the switch of servers
PLACE = Position(OLD, "b.000001", 90, GtidSet.parse(f"{OLD}:1-3"))  # of main
CLAIM = LaneClaim(SubtaskKey("dm_meta", "shop", "mysql-01"), CONTROL, 7)
TABLE = TableName("shop", "s1")


class Pass:
    """A run of a pass, whose bound after the switch is its end; nothing is read, and no lane has work."""

    def __init__(self, *tables: TableName, commits: bool = True) -> None:
        config = subtask("syncer-config-name: s", "syncers:\n  s: {}\n")
        self.end = PassEnd(PLACE)
        self.run = ShardRun(config, CLAIM, self.end)
        self.run.rules = OwnedTables(config, only=tables)
        self.queue = TransactionQueue(MemoryQuota(1 << 20))
        self.completions = CompletionTracker(START)
        self.commits = commits

    def follow(self) -> None:
        bound = self.run.bound(Position(NEW, "b.000009", 4, GtidSet.parse(f"{OLD}:1-9")))
        reader = SimpleNamespace(queue=self.queue, start=_nothing, stop=self.queue.close)
        parts: Any = SimpleNamespace(
            reader=reader,
            dispatcher=SimpleNamespace(dispatch=self._dispatch, source_rests=_nothing),
            completions=self.completions,
            safe_mode=SafeModeWindow(bound, always=False, seconds=0, clock=FakeClock()),
            lanes=_part(take_undone=list),
            progress=_part(stored=START),
            monitor=_part(),
            ahead=_part(),
            undone=SimpleNamespace(left=lambda _: {}),
            turn=None,
            resolving=None,
            **{name: _part() for name in ("schemas", "weights", "filters", "spool")},
        )
        state: Any = SimpleNamespace(writer=SimpleNamespace(connection=None), claims={CONTROL: CLAIM})
        nobody: Any = None
        self.run.follow(parts, state, nobody, _nothing, FakeClock(), lambda: follow(parts, lambda: False))

    def _dispatch(self, transaction: SourceTransaction) -> None:
        """The statement at which the table waits again (`ShardGate.hold`)."""
        self.run.rules.hold(TABLE)
        self.run.reading().holding()
        opened = self.completions.open(transaction.end, 0, transaction.begin, 0)
        if self.commits:
            self.completions.close(opened, 0)


def _nothing(*_: object) -> None:
    pass


def _part(**more: object) -> Any:
    names = ("start", "stop", "close", "wipe", "write", "drain", "drain_within")
    return SimpleNamespace(**dict.fromkeys(names, _nothing), **more)


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[LaneClaim]:
    found = list[LaneClaim]()
    monkeypatch.setattr(main_or_second_pass, "return_second", lambda _connection, main, *_: found.append(main))
    return found


# With the statement at which the table waits again.
LAST = SourceTransaction(START, Position(NEW, "b.000007", 50, START.gtid_set), None, 0)


def test_where_its_last_table_waits_again(given_back: list[LaneClaim]) -> None:
    reading = Pass(TABLE)
    reading.queue.put(LAST)
    reading.follow()
    assert reading.run.returned
    assert given_back == [CLAIM]


def test_where_a_run_was_killed_after_that(given_back: list[LaneClaim]) -> None:
    reading = Pass()
    reading.follow()
    assert reading.run.returned
    assert given_back == [CLAIM]


def test_a_pass_that_is_stopped_keeps_its_tables(given_back: list[LaneClaim]) -> None:
    reading = Pass(TABLE)
    reading.queue.close()
    reading.follow()
    assert not reading.run.returned
    assert not given_back


def test_a_pass_that_has_still_to_commit_keeps_its_tables(given_back: list[LaneClaim]) -> None:
    reading = Pass(TABLE, commits=False)
    reading.queue.put(LAST)
    reading.follow()
    assert reading.queue.broken_off
    assert not reading.run.returned
    assert not given_back
