"""A small model of tables that leave their task's stream at a place and come back, explored exhaustively.

One source writes changes of two tables. Main has a lane per table: a lane commits a change with its own exact place,
main's checkpoint L lags behind the slower one, and a lane that fails leaves the other one ahead.
`dm.progress.joining.branches` says what a branch is. The second change of table 0 is refused until a person mends it;
table 1 may leave because a person asks for it, so both may be out at once. A person may release a branch too early: it
fails again on its way back. Or a person takes a request back, holds a table once more that has come back, gives one up.
A branch that was not ready in time is let go: main is past its place, and they meet later.

Either kind of process may crash at any step, or be frozen before a write, which its session then makes at any time
later, unless it has been ended. `explore` walks all states and returns the first violation:

- a change is applied that is there already, or before an earlier one of its table, or two streams have a table;
- nothing can be done any more, and the tables are not main's with each change once, but for those given up.

Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from tests.testbed.exploration import Violation, Wrong, explore

TABLES: Final = (0, 1)
OF: Final = (0, 0, 0, 1)  # which table each change is of
ROWS: Final = len(OF)
REFUSED: Final = 1  # this one, until it is mended

Safeguard = Literal[
    "progress is copied", "one transaction", "older runs of main end", "own id", "older runs of a branch end",
    "the row is read again", "one place", "taken back at rest", "let go", "what is given up stays out",
]  # fmt: skip
SAFEGUARDS: Final[tuple[Safeguard, ...]] = (
    "progress is copied",
    "one transaction",
    "older runs of main end",
    "own id",
    "older runs of a branch end",
    "the row is read again",
    "one place",
    "taken back at rest",
    "let go",
    "what is given up stays out",
)
BranchPhase = Literal["asked", "aside", "undo", "near", "until", "ready", "dropped"]
_FOLLOWING: Final = ("undo", "near", "until")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch as it is stored; `at` is exact, None where it was not copied yet."""

    phase: BranchPhase
    at: int | None = None
    place: int = 0


@dataclass(frozen=True, slots=True)
class Main:
    """Its running process: how far each lane has come."""

    lanes: tuple[int, int]
    out: frozenset[int]
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A branch's running process; it has looked, and next it ends older ones, or it follows."""

    table: int
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Late:
    """What a frozen session does later, unless it was ended; `table` None: of main's lane of the change."""

    act: Literal["row", "ready"]
    at: int
    table: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything stored, and the processes."""

    end: int = 1
    rows: tuple[int, ...] = (0,) * ROWS
    mended: bool = False
    stored: int = 0  # main's L
    done: tuple[int, int] = (0, 0)  # what each of main's lanes has committed, exactly
    branches: tuple[Branch | None, Branch | None] = (None, None)
    main: Main | None = None
    failed: int | None = None  # main's process knows of whose error its last run has ended
    process: Process | None = None
    late: Late | None = None
    crashes: int = 1
    holds: int = 1
    early: int = 1  # releases of what is not mended
    drops: int = 0  # of what rests


@dataclass(frozen=True, slots=True)
class BranchModel:
    """The protocol, perhaps with a safeguard taken away."""

    without: Safeguard | None = None
    crashes: int = 1
    holds: int = 0  # of table 1, so that two are out
    early: int = 1
    drops: int = 0

    def explore(self, limit: int = 3_000_000) -> tuple[int, Violation[State] | None]:
        """Walk all reachable states; gives their number and the first violation."""
        start = State(crashes=self.crashes, holds=self.holds, early=self.early, drops=self.drops)
        return explore(start, self._steps, self._judge, limit)

    def _has(self, safeguard: Safeguard) -> bool:
        return self.without != safeguard

    @staticmethod
    def _judge(state: State, stuck: bool) -> None:
        if not stuck:
            return
        kept = [table for table in TABLES if _phase(state, table) != "dropped"]
        ended = all(state.branches[table] is None for table in kept)
        ended = ended and state.main is not None and min(state.main.lanes) == ROWS
        if not (ended and all(done or OF[at] not in kept for at, done in enumerate(state.rows))):
            raise Wrong("nothing goes on, and something is missing")

    def _steps(self, state: State) -> Iterator[State]:
        if state.end < ROWS:
            yield replace(state, end=state.end + 1)
        yield from self._person(state)
        yield from self._main_begins(state) if state.main is None else self._main(state, state.main)
        yield from self._process(state)
        if state.late is not None:
            yield self._written(replace(state, late=None), state.late)

    @staticmethod
    def _person(state: State) -> Iterator[State]:
        if not state.mended and state.branches[0] is not None:
            yield replace(state, mended=True)
        if state.holds and state.branches[1] is None:
            yield _with(replace(state, holds=state.holds - 1), 1, Branch("asked"))
        for table, branch in enumerate(state.branches):
            if branch is not None and branch.phase == "asked":
                yield _with(state, table, None)  # taken back
            if branch is not None and branch.phase == "aside" and state.drops:
                yield _with(replace(state, drops=state.drops - 1), table, Branch("dropped"))
            if branch is not None and branch.phase == "aside" and branch.at is not None:
                released = _with(state, table, replace(branch, phase="undo"))
                if table != OF[REFUSED] or state.mended:
                    yield released
                elif state.early:
                    yield replace(released, early=0)

    # -- Main

    def _main_begins(self, state: State) -> Iterator[State]:
        if state.failed is not None and state.crashes:
            yield replace(state, failed=None, crashes=state.crashes - 1)
        if state.late is not None and state.late.table is None and self._has("older runs of main end"):
            state = replace(state, late=None)
        for table, branch in enumerate(state.branches):  # without the safeguard
            if branch is not None and branch.phase == "aside" and branch.at is None:
                yield _with(state, table, replace(branch, at=max(state.stored, state.done[table])))
        if state.failed is not None:
            yield self._left(replace(state, failed=None), state.failed)
            return
        for table, branch in enumerate(state.branches):
            if branch is not None and branch.phase == "asked":
                yield self._left(state, table)
                return
        rests = max(state.done) <= state.stored  # what lanes have done of tables that are out, too
        until: int | None = None
        for table, branch in enumerate(state.branches):
            if branch is None or branch.phase != "ready" or not (rests or not self._has("taken back at rest")):
                continue
            if branch.place == state.stored or not self._has("one place"):
                yield self._returned(state, table, branch)
                return
            if branch.place > state.stored:
                until = branch.place if until is None else min(until, branch.place)
            elif self._has("let go"):
                yield _with(state, table, replace(branch, phase="undo"))
                return
        out = self._out(state)
        main = Main((state.stored, state.stored), out, until)
        near = next((table for table in TABLES if _phase(state, table) == "near"), None)
        if near is not None and rests and until is None:
            branch = state.branches[near]
            assert branch is not None
            yield _with(replace(state, main=main), near, replace(branch, phase="until", place=state.stored))
        yield replace(state, main=main)

    def _out(self, state: State) -> frozenset[int]:
        stays = self._has("what is given up stays out")
        return frozenset(
            table
            for table, branch in enumerate(state.branches)
            if branch is not None and (stays or branch.phase != "dropped")
        )

    def _due(self, state: State, branch: Branch) -> bool:
        """Whether main has something to do about it when its next run begins."""
        if branch.phase == "ready":
            return branch.place >= state.stored or self._has("let go")
        return branch.phase in ("asked", "near")

    def _left(self, state: State, table: int) -> State:
        """The transaction in which a table leaves."""
        at: int | None = max(state.stored, state.done[table]) if self._has("progress is copied") else state.stored
        if not self._has("one transaction"):
            at = None
        state = _with(state, table, Branch("aside", at))
        other = state.branches[1 - table]
        if not self._has("own id") and other is not None and other.at is not None:
            state = _with(state, 1 - table, replace(other, at=at))
        return state

    def _returned(self, state: State, table: int, branch: Branch) -> State:
        late = state.late
        if late is not None and late.table == table:
            late = None  # it finds no row of its own
        # The row of a lane that both tables have speaks for both.
        place = max(branch.place, *state.done)
        done = (place, state.done[1]) if table == 0 else (state.done[0], place)
        return _with(replace(state, late=late, done=done), table, None)

    def _main(self, state: State, main: Main) -> Iterator[State]:
        if state.crashes:
            gone = replace(state, main=None, crashes=state.crashes - 1)
            yield gone
            for table in TABLES if state.late is None else ():
                if (at := main.lanes[table]) < state.end and self._applies(state, main, table, at):
                    yield replace(gone, late=Late("row", at))
        if state.stored < min(main.lanes):
            yield replace(state, stored=min(main.lanes))
        last = state.end if main.until is None else min(state.end, main.until)
        for table in TABLES:
            at = main.lanes[table]
            if at >= last:
                continue
            lanes = (at + 1, main.lanes[1]) if table == 0 else (main.lanes[0], at + 1)
            moved = replace(state, main=replace(main, lanes=lanes))
            if not self._applies(state, main, table, at):
                yield moved
            elif at == REFUSED and not state.mended:
                yield replace(state, main=None, failed=table)
            else:
                yield self._written(moved, Late("row", at))
        same = main.lanes[0] == main.lanes[1]
        due = any(self._due(state, branch) for branch in state.branches if branch is not None)
        seen = self._out(state) != main.out
        if same and (due or seen) and (main.until is None or main.lanes[0] == main.until):
            yield replace(state, main=None, stored=main.lanes[0])

    @staticmethod
    def _applies(state: State, main: Main, table: int, at: int) -> bool:
        return OF[at] == table and table not in main.out and at >= state.done[table]

    # -- Branches

    def _process(self, state: State) -> Iterator[State]:
        process = state.process
        if process is None:
            for table in TABLES:
                if _phase(state, table) in _FOLLOWING:
                    yield replace(state, process=Process(table))
            return
        branch, table = state.branches[process.table], process.table
        if state.crashes:
            gone = replace(state, process=None, crashes=state.crashes - 1)
            yield gone
            if (
                state.late is None
                and branch is not None
                and (late := self._pending(state, branch, process)) is not None
            ):
                yield replace(gone, late=late)
        if branch is None or (branch.phase not in _FOLLOWING and process.at is not None):
            yield replace(state, process=None)  # when it looks again
        if branch is not None and process.at is None:
            yield self._begun(state, table, branch)
        elif branch is not None and process.at is not None:
            yield from self._follows(state, branch, table, process.at)

    def _begun(self, state: State, table: int, branch: Branch) -> State:
        """It ends older sessions, and looks at the row once more: one of them may have been ready."""
        if state.late is not None and state.late.table == table and self._has("older runs of a branch end"):
            state = replace(state, late=None)
        if branch.phase not in _FOLLOWING and self._has("the row is read again"):
            return replace(state, process=None)
        return replace(state, process=Process(table, branch.at))

    @staticmethod
    def _pending(state: State, branch: Branch, process: Process) -> Late | None:
        """What its session may have been given before the process froze."""
        if process.at is None:
            return None
        if branch.phase == "until" and process.at >= branch.place:
            return Late("ready", process.at, process.table)
        if process.at < state.end and OF[process.at] == process.table and (process.at != REFUSED or state.mended):
            return Late("row", process.at, process.table)
        return None

    def _follows(self, state: State, branch: Branch, table: int, at: int) -> Iterator[State]:
        if at < state.end:
            if at == REFUSED and OF[REFUSED] == table and not state.mended:
                yield _with(replace(state, process=None), table, replace(branch, phase="aside"))
            else:
                yield self._written(replace(state, process=Process(table, at + 1)), Late("row", at, table))
        if branch.phase == "undo" and at >= state.stored:
            yield _with(state, table, replace(branch, phase="near"))
        if branch.phase == "until" and at >= branch.place:
            yield self._written(replace(state, process=None), Late("ready", at, table))

    # -- Writes, as the target takes them

    def _written(self, state: State, late: Late) -> State:
        if late.table is None:
            return self._by_main(state, late)
        branch = state.branches[late.table]
        if branch is None or branch.at is None:
            if branch is not None or late.act == "ready" or OF[late.at] != late.table:
                return state
            return _applied(state, late.at)
        if late.act == "ready":
            if branch.phase != "until":
                return state
            return _with(state, late.table, replace(branch, phase="ready", place=late.at))
        if late.at < branch.at:
            return state  # the lane's row says that it is done
        state = _with(state, late.table, replace(branch, at=late.at + 1))
        return _applied(state, late.at) if OF[late.at] == late.table else state

    @staticmethod
    def _by_main(state: State, late: Late) -> State:
        table = OF[late.at]
        if late.at < state.done[table]:
            return state
        state = _applied(state, late.at)
        done = (late.at + 1, state.done[1]) if table == 0 else (state.done[0], late.at + 1)
        return replace(state, done=done)


def _phase(state: State, table: int) -> str:
    branch = state.branches[table]
    return "" if branch is None else branch.phase


def _with(state: State, table: int, branch: Branch | None) -> State:
    branches = (branch, state.branches[1]) if table == 0 else (state.branches[0], branch)
    return replace(state, branches=branches)


def _applied(state: State, at: int) -> State:
    if state.rows[at]:
        raise Wrong(f"change {at} is applied, and is there already")
    if any(OF[earlier] == OF[at] and not state.rows[earlier] for earlier in range(at)):
        raise Wrong(f"change {at} is applied before an earlier one of its table")
    return replace(state, rows=(*state.rows[:at], 1, *state.rows[at + 1 :]))
