"""A small model of a table that is loaded again beside its task's stream, explored exhaustively.

One source writes rows of the table, one after the other. Main and the share are what
`dm.progress.joining.table_joining` calls so. A row is committed with its stream's exact position, and main's checkpoint
L lags behind; main has other tables, so its position moves also where it leaves the table's rows out. Main may rest for
as long as it likes, and go on without having met the share. Either process may crash at any step. The share's may be
frozen instead, before a write, which its session then makes at any time later, unless somebody has ended it. A person
may take the reload back, and have it begin again. `explore` walks all states and returns the first violation:

- a row is applied that is there already, or before one that is not;
- nothing can be done any more, and the table is not main's with each row once.

Each safeguard can be taken away, and then there must be a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from dm.progress.joining.table_joining import Phase
from tests.testbed.exploration import Violation, Wrong, explore

ROWS: Final = 3
_FOLLOWING: Final[tuple[Phase, ...]] = ("loading", "undo", "near", "until")

Safeguard = Literal[
    "given up at rest", "emptying is stored", "lock", "again ends the share", "claim on ready",
    "the row is read again", "who was near loads nothing", "one place", "taken back at rest",
]  # fmt: skip
SAFEGUARDS: Final[tuple[Safeguard, ...]] = (
    "given up at rest",
    "emptying is stored",
    "lock",
    "again ends the share",
    "claim on ready",
    "the row is read again",
    "who was near loads nothing",
    "one place",
    "taken back at rest",
)


@dataclass(frozen=True, slots=True)
class Main:
    """Its running process."""

    at: int
    holds: bool  # it leaves the table out
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Its process: what it does next."""

    step: Literal["look", "locked", "empty", "emptied", "load", "begin", "follow"] = "look"
    epoch: int = 0
    at: int = 0


@dataclass(frozen=True, slots=True)
class Late:
    """What the session of a frozen process does later."""

    act: Literal["empty", "load", "row", "ready"]
    epoch: int
    at: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """Everything stored, and the processes."""

    end: int = 1  # of the source's rows
    rows: tuple[int, ...] = (1, *[0] * (ROWS - 1))  # how often each is at the target
    phase: Phase | None = "asked"
    place: int = 0
    stored: int = 0  # main's L
    done: int = 1  # what main's lanes have done
    share_at: int | None = None  # the share's checkpoint
    epoch: int = 0  # of the share
    main: Main | None = None
    share: Share | None = None
    late: Late | None = None
    crashes: int = 1
    cancels: int = 1
    again: int = 1


@dataclass(frozen=True, slots=True)
class JoiningModel:
    """The protocol, perhaps with a safeguard taken away."""

    without: Safeguard | None = None
    crashes: int = 1

    def explore(self, limit: int = 1_000_000) -> tuple[int, Violation[State] | None]:
        """Walk all reachable states; gives their number and the first violation."""
        return explore(State(crashes=self.crashes), self._steps, self._judge, limit)

    def _judge(self, state: State, stuck: bool) -> None:
        if not stuck:
            return
        ended = state.phase is None and state.main is not None and state.main.at == ROWS
        if not (ended and set(state.rows) == {1}):
            raise Wrong("nothing goes on, and something is missing")

    def _has(self, safeguard: Safeguard) -> bool:
        return self.without != safeguard

    def _steps(self, state: State) -> Iterator[State]:
        if state.end < ROWS:
            yield replace(state, end=state.end + 1)
        yield from self._person(state)
        yield from self._main(state)
        yield from self._share(state)
        if state.late is not None:
            yield self._late(replace(state, late=None), state.late)

    def _person(self, state: State) -> Iterator[State]:
        if state.cancels and state.phase == "asked":
            yield replace(state, cancels=0, phase=None)
        if state.cancels and state.phase == "out":
            yield replace(state, cancels=0, phase="undo")
        # The share's process is brought to rest before; a frozen one may be left.
        if state.again and state.share is None and state.phase not in (None, "asked", "cancelled"):
            state = replace(state, again=0, phase="emptying", share_at=None)
            yield replace(state, epoch=state.epoch + 1) if self._has("again ends the share") else state

    # -- Main

    def _main(self, state: State) -> Iterator[State]:
        main = state.main
        if main is None:
            yield from self._main_begins(state)
            return
        if state.crashes:
            yield replace(state, main=None, crashes=state.crashes - 1)
        if state.stored < main.at:
            yield replace(state, stored=main.at)
        if main.at < state.end and main.at != main.until:
            after = replace(state, main=replace(main, at=main.at + 1), done=max(state.done, main.at + 1))
            known = main.holds or main.at < state.done
            yield after if known else _applied(after, main.at)
        if (
            main.until is None and main.at >= state.done and state.phase in ("asked", "near", "ready")
        ) or main.at == main.until:
            yield replace(state, main=None, stored=main.at)

    def _main_begins(self, state: State) -> Iterator[State]:
        stored = state.stored
        rests = stored >= state.done
        main = Main(stored, holds=state.phase not in (None, "asked"))
        if state.phase == "asked" and (rests or not self._has("given up at rest")):
            yield replace(state, phase="out", share_at=stored, epoch=state.epoch + 1)
        elif state.phase == "ready" and (rests or not self._has("taken back at rest")):
            if stored == state.place or not self._has("one place"):
                yield replace(state, phase=None, share_at=None, epoch=state.epoch + 1)
            elif stored < state.place:
                yield replace(state, main=replace(main, until=state.place))
            else:
                yield replace(state, phase="loading", main=main)
        else:
            if state.phase == "near" and rests:
                yield replace(state, phase="until", place=stored)  # it waits
            yield replace(state, main=main)

    # -- The share

    def _share(self, state: State) -> Iterator[State]:
        share, phase = state.share, state.phase
        if share is None:
            if phase not in (None, "asked", "ready"):
                yield replace(state, share=Share())
            return
        if state.crashes:
            gone = replace(state, share=None, crashes=state.crashes - 1)
            yield gone
            if state.late is None and (late := self._pending(state, share)) is not None:
                yield replace(gone, late=late)
        if share.step == "look":
            yield from self._look(state)
        elif share.step == "locked":
            if phase == "out" and self._has("emptying is stored"):
                yield replace(
                    state, phase="emptying", share_at=None, epoch=state.epoch + 1, share=replace(share, step="empty")
                )
            else:
                yield replace(state, share=Share("empty") if phase in ("out", "emptying") else Share())
        elif share.step == "empty":
            yield replace(state, rows=(0,) * ROWS, share=Share("emptied"))
        elif share.step == "emptied":
            if phase == "out":  # without the safeguard
                yield replace(state, phase="loading", share_at=None, epoch=state.epoch + 1, share=Share())
            else:
                yield replace(state, phase="loading" if phase == "emptying" else phase, share=Share())
        elif share.step == "load":
            yield self._late(replace(state, share=Share()), Late("load", share.epoch))
        elif share.step == "begin":
            epoch = state.epoch + 1  # every older session is ended
            if state.share_at is None and not self._has("who was near loads nothing"):
                yield replace(state, epoch=epoch, share=Share("load", epoch))
            elif state.share_at is None or (phase not in _FOLLOWING and self._has("the row is read again")):
                yield replace(state, epoch=epoch, share=Share())
            else:
                yield replace(state, epoch=epoch, share=Share("follow", epoch, state.share_at))
        else:
            yield from self._follow(state, share)

    def _look(self, state: State) -> Iterator[State]:
        phase = state.phase
        if phase in ("out", "emptying"):
            ended = self._has("lock") and state.late is not None and state.late.act == "empty"
            yield replace(state, share=Share("locked"), late=None if ended else state.late)
        elif phase == "loading" and state.share_at is None:
            # The dump has an id of its own, which is the epoch here.
            yield replace(state, epoch=state.epoch + 1, share=Share("load", state.epoch + 1))
        elif phase in _FOLLOWING and state.share_at is not None:
            yield replace(state, share=Share("begin"))
        elif phase in (None, "ready"):
            yield replace(state, share=None)

    def _follow(self, state: State, share: Share) -> Iterator[State]:
        if share.epoch != state.epoch:
            yield replace(state, share=None)  # fenced
            return
        if share.at < state.end:
            moved = replace(state, share=replace(share, at=share.at + 1))
            yield self._late(moved, Late("row", share.epoch, share.at))
        if state.phase in ("loading", "undo") and share.at >= state.stored:
            yield replace(state, phase="near")
        if self._there(state, share):
            yield self._late(replace(state, share=None), Late("ready", share.epoch, share.at))

    @staticmethod
    def _there(state: State, share: Share) -> bool:
        return state.phase == "until" and share.at >= state.place

    def _pending(self, state: State, share: Share) -> Late | None:
        """What its session may have been given before the process froze."""
        if share.step == "empty":
            return Late("empty", 0)
        if share.step == "load":
            return Late("load", share.epoch)
        if share.step == "follow":
            return Late("ready" if self._there(state, share) else "row", share.epoch, share.at)
        return None

    def _late(self, state: State, late: Late) -> State:
        """A write of the share, as the target takes it."""
        if late.act == "empty":
            return replace(state, rows=(0,) * ROWS)
        ours = late.epoch == state.epoch
        if late.act == "ready":
            if state.phase == "until" and (ours or not self._has("claim on ready")):
                return replace(state, phase="ready", place=late.at)
            return state
        if not ours:
            return state
        if late.act == "load":
            if state.share_at is not None:
                return state  # its parts have records
            rows = tuple(count + (1 if at < state.end else 0) for at, count in enumerate(state.rows))
            if max(rows) > 1:
                raise Wrong("a row is loaded that is there already")
            return replace(state, rows=rows, share_at=state.end)
        if state.share_at is not None and late.at < state.share_at:
            return state  # the lane's row says that it is done
        if late.at >= state.end:
            return state
        return replace(_applied(state, late.at), share_at=late.at + 1)


def _applied(state: State, at: int) -> State:
    if state.rows[at]:
        raise Wrong(f"row {at} is applied, and is there already")
    if not all(state.rows[:at]):
        raise Wrong(f"row {at} is applied before one that is not there")
    return replace(state, rows=(*state.rows[:at], 1, *state.rows[at + 1 :]))
