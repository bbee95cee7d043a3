"""Sync processes with one safeguard taken out; the names are those of `tests.testbed.progress_model`.

A test of the tests: a crash loop that does not notice the absence of a safeguard proves nothing about its presence.
Each value is Python that a unit's process executes before it starts the unit.
"""

from __future__ import annotations

from collections.abc import Mapping

WITHOUT: Mapping[str, str] = {
    "conflict detector": """
import itertools
from dm.syncer.apply.conflict_detector import ConflictDetector
turn = itertools.count()
ConflictDetector.place = lambda self, keys: next(turn) % self._workers
ConflictDetector.place_all = lambda self, changes, at, room: ((), at)  # each of them by `place`
""",
    "bound": """
from dm.progress.takeover import Takeover
Takeover.bound = lambda self: None
""",
    # Neither the locks that end older sessions nor the number that stops those that were not ended.
    "epoch": """
from dm.progress import lane_rows, takeover
from dm.progress.takeover import Fence
Fence.take = lambda self, connection, lane: None
def take_without_waiting(connection, key, names, beside=lambda epoch: None):
    if not lane_rows.read_lanes(connection, key):
        lane_rows.insert_lanes(connection, key, names, epoch=1)
    beside(1)
    return 1, lane_rows.read_lanes(connection, key)
takeover.raise_epoch = take_without_waiting
lane_rows.LaneClaim.advanced = lambda self, affected: None
""",
    "keyless position": """
from dm.progress.takeover import Takeover
Takeover.keyless_done = lambda self: None
""",
}
