"""A rest: the source has no more for now. Changes held back for the lanes are sent, or wait for a lane.

Changes are held back so that batches fill (`dm.syncer.apply.placement`). When the queue is empty, nothing can fill them
soon, so partial batches are sent at once. But while enough lanes are busy, a small batch gains nothing: it can as well
wait until a lane ends its batch, and more changes may come. Three threads follow this protocol:

    dispatcher    finds the queue empty: `begin`, then asks the lanes to hand over what is held back.
                  Enough lanes are busy: `starve` first, then check them. Otherwise `feed` and hand over.
                  Then it sleeps until there is a transaction, or it has to check `again`.
    lane          has ended a batch: `batch_ended`, which wakes the dispatcher only while it starves.
    reader        puts a transaction: the rest is over, whatever is held back.

No wake-up is lost. The dispatcher starves before it checks the lanes, so the last lane that ends a batch either was
seen idle or sees the dispatcher starve. An end between `begin` and the sleep is noted under the queue's lock.
"""

from __future__ import annotations

import threading


class Rest:
    """The state of a rest: one per run, under the lock of the queue on which the dispatcher sleeps."""

    def __init__(self, queue_changed: threading.Condition) -> None:
        self._queue_changed = queue_changed
        self._starving = False
        self._ended = False  # a lane has ended a batch since the dispatcher began to check them
        self._asked = False

    @property
    def starving(self) -> bool:
        """Whether changes are held back until a lane ends its batch."""
        return self._starving

    def again(self) -> bool:
        """Whether the dispatcher should ask the lanes once more; under the queue's lock."""
        return (self._ended and self._starving) or self._asked

    def begin(self) -> None:
        """The dispatcher is about to check the lanes; under the queue's lock."""
        self._ended = self._asked = False

    def starve(self) -> None:
        """From now on a lane that ends a batch wakes the dispatcher."""
        self._starving = True

    def feed(self) -> None:
        """Nothing is held back: only a transaction wakes the dispatcher."""
        self._starving = False

    def ask(self) -> None:
        """Have the dispatcher look again, for another reason than a lane's; called in any thread."""
        with self._queue_changed:
            self._asked = True
            self._queue_changed.notify_all()

    def batch_ended(self) -> None:
        """A lane has ended a batch; called in its thread."""
        if self._starving:
            with self._queue_changed:
                self._ended = True
                self._queue_changed.notify_all()
