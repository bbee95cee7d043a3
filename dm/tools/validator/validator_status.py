"""What `query-status` and `validation status` show of a validator, in DM's fields, from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.position import Position
from dm.progress.validator import Cutover, Processed
from dm.progress.validator_errors import ErrorState
from dm.tools.validator.pending import PendingRows
from dm.tools.validator.throttle import SHARE, CheckpointGate
from dm.unit import JSON


class ValidatorStatus:
    """One run's; the threads of the run write, any thread reads."""

    def __init__(self, subtask: SubtaskConfig, pending: PendingRows, clock: Clock) -> None:
        self._subtask = subtask
        self._pending = pending
        self._clock = clock
        self._position: Callable[[], Position] | None = None
        self._processed: Callable[[], Processed] | None = None
        self._gate: CheckpointGate | None = None
        self.errors: Mapping[ErrorState, int] = {}
        self.cutover = Cutover()
        self.full = False  # the quota of rows is used up
        self.waits = False  # for the syncer
        self.gives_way = True  # to a syncer that is behind
        self.behind_at: float | None = None  # the source's time of what was read last; None: all there is

    def attach(
        self, position: Callable[[], Position], processed: Callable[[], Processed], gate: CheckpointGate
    ) -> None:
        """The run is in place."""
        self._position, self._processed, self._gate = position, processed, gate

    def report(self) -> Mapping[str, JSON]:
        """All fields; only the mode until the run is in place."""
        mode: dict[str, JSON] = {"mode": self._subtask.validator.mode}
        if self._position is None or self._processed is None or self._gate is None:
            return mode
        position, processed, pending = self._position(), self._processed(), self._pending.counts()
        behind = 0.0
        if self.behind_at is not None and not self.waits:
            behind = max(0.0, round(self._clock.time() - self.behind_at, 3))
        return {
            **mode,
            "validatorBinlog": str(position),
            "validatorBinlogGtid": str(position.gtid_set),
            "cutoverBinlogPos": self.cutover.place,
            "cutoverBinlogGtid": self.cutover.gtid,
            "processedRowsStatus": rows_status(processed.inserts, processed.updates, processed.deletes),
            "pendingRowsStatus": rows_status(pending["insert"], pending["update"], pending["delete"]),
            "errorRowsStatus": errors_status(self.errors),
            "newErrors": self.errors.get("new", 0),
            "pendingRows": len(self._pending),
            "pendingBytes": self._pending.used,
            "syncerCheckpoint": str(self._gate.place),
            "secondsBehindSyncer": behind,
            "detail": self._detail(behind),
        }

    def _detail(self, behind: float) -> str:
        said = []
        if self.gives_way and len(self._pending):
            said.append(f"gives way to a syncer that is behind: looks take {SHARE:.0%} of the time")
        if self.full:
            said.append(
                f"reading rests: {len(self._pending)} rows ({self._pending.used} bytes) wait, which is all that"
                " `max-pending-row-count` and `max-pending-row-size` allow"
            )
        late = self._subtask.validator.row_error_delay
        if behind > max(late, 60.0) and not self.full:
            said.append(f"behind the syncer by {behind:.0f} s of the source's time")
        return "; ".join(said)


def rows_status(inserts: int, updates: int, deletes: int) -> str:
    """Counts in DM's form."""
    return f"insert/update/delete: {inserts}/{updates}/{deletes}"


def errors_status(counts: Mapping[ErrorState, int]) -> str:
    """Counts in DM's form."""
    return f"new/ignored/resolved: {counts.get('new', 0)}/{counts.get('ignored', 0)}/{counts.get('resolved', 0)}"
