"""A rest: the source has nothing more for now. What is held back for the lanes leaves, or waits for one of them.

Changes are held back so that batches fill (`dm.syncer.apply.placement`). When the queue is empty, nothing that may fill
them is on its way, so they leave at once. But while enough lanes are at work, a small batch gains nothing over one that
leaves when a lane has ended its own: until then more may come. Three threads keep to this:

    dispatcher    finds the queue empty: `begin`, then asks the lanes to hand over what is held back.
                  Enough lanes are at work: `starve` first, then look at them. Otherwise `feed` and hand over.
                  Then it sleeps until there is a transaction, or has to look `again`.
    lane          has ended a batch: `batch_ended`, which wakes the dispatcher only while it starves.
    reader        puts a transaction: the rest is over, whatever is held back.

No wake-up is lost. The dispatcher starves before it looks at the lanes, so the last lane that ends either was seen idle
or sees the dispatcher starve. What ends between `begin` and the sleep is noted under the queue's lock.
"""

from __future__ import annotations

import threading


class Rest:
    """The state of a rest: one for each run, under the lock of the queue that the dispatcher sleeps on."""

    def __init__(self, queue_changed: threading.Condition) -> None:
        self._queue_changed = queue_changed
        self._starving = False
        self._ended = False  # a lane has ended a batch since the dispatcher began to look at them

    @property
    def starving(self) -> bool:
        """Whether changes are held back until a lane ends its batch."""
        return self._starving

    def again(self) -> bool:
        """Whether the dispatcher is to ask the lanes once more; under the queue's lock."""
        return self._ended and self._starving

    def begin(self) -> None:
        """The dispatcher is about to look at the lanes; under the queue's lock."""
        self._ended = False

    def starve(self) -> None:
        """Whoever ends a batch from now on wakes the dispatcher."""
        self._starving = True

    def feed(self) -> None:
        """Nothing is held back any more: only a transaction wakes the dispatcher."""
        self._starving = False

    def batch_ended(self) -> None:
        """A lane has ended a batch; called in its thread."""
        if self._starving:
            with self._queue_changed:
                self._ended = True
                self._queue_changed.notify_all()
