"""Where a subtask is when it was stopped: what a cut-over goes by, and what a task in the other direction begins with.

These are two places in two binlogs. The checkpoint is the place in the source's: everything before it is at the target.
The end of the target's own binlog, read now that nothing of the task is applied any more, is where the way back begins:
what applications write to the target from now on stands behind it.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.position import Position
from dm.task.progress import stored_checkpoint
from dm.unit import JSON
from dm.upstream.connection import connect
from dm.upstream.facts import binlog_end, read_facts


@dataclass(frozen=True, slots=True)
class FinalPlace:
    """A subtask's place in both binlogs."""

    checkpoint: Position | None = None  # None: it has none
    bound: Position | None = None  # what may be applied beyond it, where a run was killed
    target: str = ""  # its address
    target_end: Position | None = None  # None: it writes no binlog, or does not tell

    def to_json(self) -> dict[str, JSON]:
        """Fields of `stop-task`."""
        return {
            "syncerBinlog": _text(self.checkpoint),
            "syncerBinlogGtid": _gtids(self.checkpoint),
            "appliedUpTo": _text(self.bound),
            "target": self.target,
            "targetBinlog": _text(self.target_end),
            "targetBinlogGtid": _gtids(self.target_end),
        }


def final_place(config: SubtaskConfig) -> FinalPlace:
    """Ask the target; raises DMError where it can't be asked for the checkpoint."""
    found = stored_checkpoint(config)
    end = _target_end(config)
    if found is None:
        return FinalPlace(target=config.target.address, target_end=end)
    return FinalPlace(found.position, found.bound, config.target.address, end)


def _target_end(config: SubtaskConfig) -> Position | None:
    """The end of the target's binlog; None where it has none, or where the account may not know it."""
    try:
        with closing(connect(config.target)) as connection:
            facts = read_facts(connection)
            return binlog_end(connection, facts) if facts.log_bin else None
    except DMError as error:
        if error.retryable:
            raise
        return None


def _text(position: Position | None) -> str:
    return "" if position is None else str(position)


def _gtids(position: Position | None) -> str:
    return "" if position is None else str(position.gtid_set)
