"""The loop of a run: parts start, transactions go to the dispatcher, parts end.

If the run ends in order (a stop, or an event that needs a person), everything given to the lanes is committed and
stored. The person may act at the target, so everything before the event must be there, and must not be replayed over
their work. Any other failure stores nothing; the next run finds its place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from dm.errors import DMError
from dm.syncer.apply.lanes import Stopped
from dm.syncer.apply.undone_changes import undone_changes
from dm.syncer.parts import Parts

STOP_SECONDS: Final = 8.0  # of the 10 s in which a unit must stop


def follow(parts: Parts, failing: Callable[[], bool]) -> None:
    """Run until the queue is closed; raises DMError, or Stopped. `failing`: whether a part has failed."""
    lanes, reader, dispatcher, turn = parts.lanes, parts.reader, parts.dispatcher, parts.turn
    queue = reader.queue
    parts.spool.wipe()
    if turn is not None:
        turn.begin()
    lanes.start()
    parts.progress.start()
    parts.monitor.start()
    reader.start()
    try:

        def at_rest() -> None:
            dispatcher.source_rests()
            if turn is not None:
                turn.rest()

        while (transaction := queue.take(at_rest)) is not None:
            if turn is not None and not turn.take(transaction):
                break
            dispatcher.dispatch(transaction)
        if (queue.finished or queue.broken_off) and not queue.closed:
            lanes.drain()  # as long as the target takes: nobody has asked to stop
        reader.stop()
        if not failing():
            _settle(parts)
            _demand_cut(parts)
            if turn is not None and queue.exhausted:
                turn.finished()
    except DMError as error:
        if not error.retryable and not failing():
            reader.stop()
            with suppress(DMError, Stopped):
                _settle(parts)
        raise
    finally:
        _end(parts)


def _settle(parts: Parts) -> None:
    """Commit and store everything given to the lanes."""
    parts.lanes.drain_within(STOP_SECONDS)
    parts.progress.stop()
    parts.progress.write()


def _demand_cut(parts: Parts) -> None:
    """Raise DMError where the run is at the end that was asked for, and an earlier one has gone further."""
    if not parts.reader.queue.exhausted:
        return
    place = parts.completions.mark.position
    bound = parts.safe_mode.bound_behind(place)
    if bound is not None:
        raise DMError("until-passed", place=place, checkpoint=bound)


def _end(parts: Parts) -> None:
    """End all threads; store which changes given to the lanes are surely not done."""
    parts.reader.stop()
    parts.ahead.close()
    parts.monitor.stop()
    parts.lanes.close()
    parts.progress.stop()
    if parts.turn is not None:
        parts.turn.close()
    if left := parts.undone.left(parts.progress.stored) | undone_changes(parts.lanes.take_undone()):
        with suppress(DMError):  # the target is away: that ended the run
            parts.progress.write_undone(left)
    parts.schemas.close()
    parts.weights.close()
    parts.filters.close()
    parts.spool.close()
