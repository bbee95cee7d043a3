"""Drives a cut-over from state to state, until nothing is left to do or its daemon ends.

What fails before the switch and can't be helped by waiting is an abort: the sources take writes again. After the switch
was begun nothing is undone by itself, since a hook that failed may have moved some applications: the cut-over rests
with the reason, until a person calls it again or completes it. It rests at once where waiting doesn't help, else after
a few tries: a source that is dead for good must not keep a person from the way out. What a step with a hook has done is
kept until it is stored, so a lost connection to the row repeats no hook.

At an abort it rests where the hook fails. A source that can't be opened again is tried until it can: an outage should
not last for longer than its cause. An exception that is no DMError (no process, a full disk, a defect) is an error that
waiting does not help: none ends the thread while sources are closed. That holds for one that is raised while an error
is handled, too. Where one is raised around the step (the row can't be read or written), all is tried again a few times.
Then the end is stored in place of a further step, as soon as it can be: nothing of the step is repeated. Each error is
logged once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

import structlog

from dm.clock import Clock
from dm.errors import DMError, said
from dm.tools.cutover.machine import RESTING, UNDOABLE, CutOverServers, CutOverState, NotYet, advance

_FOR_A_PERSON: Final = ("cut-over-hook", "internal-error")  # at an abort
_TRIES: Final = 10  # at the switch, and of what is raised around a step
_TAKEN: Final = "cut-over-taken"
_FIRST_SECONDS: Final = 0.05  # after which something is looked at once more, then after twice as long each time
_AGAIN_SECONDS: Final = 0.5


class Row(Protocol):
    """Where the state is stored (`record.py`)."""

    def take_over(self) -> int | None:
        """Be the one who drives it."""

    def owned(self, epoch: int) -> CutOverState:
        """The state of one's own."""

    def write(self, epoch: int, state: CutOverState) -> None:
        """Store a state."""


class Driver:
    """One cut-over; `run` is for a thread of its own, all else for any thread."""

    def __init__(self, task: str, row: Callable[[], Row], on: CutOverServers, clock: Clock) -> None:
        self.task = task
        self._make_row = row
        self._on = on
        self._clock = clock
        self._row: Row | None = None
        self._epoch: int | None = None
        self._stop = threading.Event()
        self._abort = threading.Event()
        self._log = structlog.get_logger().bind(task=task)
        self.found: CutOverState | None = None  # as stored last
        self.problem = ""  # why it does not get on
        self._failures = 0  # of one step of the switch
        self._pause = _AGAIN_SECONDS
        self._unstored: CutOverState | None = None  # what a step with a hook has led to
        self.taken = False  # another one drives it now

    @property
    def interrupted(self) -> bool:
        """Whether a long step is to end early."""
        return self._stop.is_set() or self._abort.is_set()

    @property
    def stopped(self) -> bool:
        """Whether it ends for its daemon's sake."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Leave it as it is: the next daemon goes on from the row."""
        self._stop.set()

    def wait(self, seconds: float) -> None:
        """Let time pass, unless the daemon ends."""
        self._clock.wait(self._stop, seconds)

    def abort(self) -> None:
        """Undo it, if it is not too late for that."""
        self._abort.set()

    def demand_owned(self) -> None:
        """Raise DMError `cut-over-taken` if another one drives it, or nobody can say."""
        assert self._row is not None
        assert self._epoch is not None
        self._row.owned(self._epoch)

    @property
    def epoch(self) -> int:
        """A later driver has a higher one."""
        return self._epoch or 0

    def run(self) -> None:
        """Go on until it rests."""
        defects = 0  # one after the other
        while not self._stop.is_set():
            self._pause = _AGAIN_SECONDS
            try:
                if self._tries_to_go_on():
                    return
                defects = 0
            except Exception as defect:
                defects += 1
                self._around_step(defect, rests=defects >= _TRIES)
            if self.problem:  # a step that is done is followed by the next one: no application can write meanwhile
                self._clock.wait(self._stop, self._pause)

    def _tries_to_go_on(self) -> bool:
        try:
            return self._go_on()
        except DMError as error:
            self.taken = error.name == _TAKEN
            self._tell(error)
            return self.taken

    def _around_step(self, defect: Exception, *, rests: bool) -> None:
        """What is to be stored next, where it rests for an exception that no step has handled."""
        error = self._defect(defect)
        if rests and self.found is not None:
            done = self._unstored or self.found
            if not (self.found.state in UNDOABLE and done.state == "aborting"):  # else it is given up already
                self._unstored = self._given_up(done, error)
        self.problem = error.message

    def _given_up(self, found: CutOverState, error: DMError) -> CutOverState:
        if found.state in UNDOABLE:
            return found.undone(error.message)
        return found if found.state in RESTING else replace(found, failed=error.message)

    def _go_on(self) -> bool:
        """One step, and its end stored; whether it rests now."""
        if self._row is None or self._epoch is None:
            self._row = self._make_row()
            self._epoch = self._row.take_over()
            if self._epoch is None:
                return True
        known, self.found = self.found, self._row.owned(self._epoch)
        found = self.found
        if found != known:
            self._unstored = None  # it was stored after all
        if found.rests:
            self.problem = found.failed
            return True
        following = self._unstored or self._next(found)
        if following is None:
            return False
        if found.state in ("switching", "aborting") or (found.state == "fencing" and not found.asked):
            self._unstored = following
        now = self._clock.time()
        if found.state == "comparing":  # what took time so far kept no application from writing
            following = replace(following, deadline=now + found.patience)
        following = replace(following, times={following.state: now, **following.times})
        self._row.write(self._epoch, following)
        self.found, self._unstored, self._failures, self.problem = following, None, 0, following.failed
        self._log.info("cut-over", state=following.state, why=following.why)
        return following.rests

    def _tell(self, error: DMError) -> None:
        if error.message != self.problem:  # else it was told: a server may be away for long
            self._log.warning("cut-over", error=error)
        self.problem = error.message

    def _defect(self, defect: Exception) -> DMError:
        error = DMError("internal-error", what=f"the cut-over: {type(defect).__name__}: {said(defect)}")
        if error.message != self.problem:
            self._log.error("cut-over", exc_info=defect)
        return error

    def _next(self, found: CutOverState) -> CutOverState | None:
        """The next state; None where this one stays."""
        undoable = found.state in UNDOABLE
        if undoable and self._abort.is_set():
            return found.undone("asked for")
        try:
            return self._stepped(found, undoable=undoable)
        except Exception as defect:
            if isinstance(defect, DMError) and defect.name == _TAKEN:
                raise
            return self._failed(found, self._defect(defect))

    def _stepped(self, found: CutOverState, *, undoable: bool) -> CutOverState | None:
        late = undoable and found.state != "comparing" and self._clock.time() > found.deadline
        try:
            if not late:
                return advance(found, self._on)
            self.problem = self.problem or "the time was over before anything was tried"
        except NotYet as wait:
            self._pause = min(_AGAIN_SECONDS, _FIRST_SECONDS * 2 ** min(self._failures, 9))
            self.problem = str(wait)
            return self._again(found)
        except DMError as error:
            return self._failed(found, error)
        return found.undone(f"the time is over: {self.problem}")

    def _failed(self, found: CutOverState, error: DMError) -> CutOverState | None:
        if error.name == _TAKEN:
            raise error
        self._tell(error)
        if error.retryable:
            return self._again(found)
        rests = found.state in UNDOABLE or found.state == "switching" or error.name in _FOR_A_PERSON
        return self._given_up(found, error) if rests else None

    def _again(self, found: CutOverState) -> CutOverState | None:
        """Where it stays; at the switch not for ever."""
        self._failures += 1
        over = found.state == "switching" and self._failures >= _TRIES
        return replace(found, failed=self.problem) if over else None
