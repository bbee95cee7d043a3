"""Named points in the code where a test may strike.

`hit("syncer.before_commit")` does nothing unless the environment variable DM_FAULTS arms the point. Its value is a list
of `point=action[@n]`, separated by `;`: the action is taken at the n-th passage (1 when not given).

actions  kill        SIGKILL this process
         stop        SIGSTOP this process (a test sends SIGCONT)
         error       raise FaultError
         hang:PATH   block until the file PATH exists

Every point is registered in `POINTS`, so that a crash loop can draw from all of them and prove that each one fired.
When DM_FAULTS_LOG names a file, each strike appends one line "point action pid" to it before it acts.
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

POINTS: frozenset[str] = frozenset(
    {
        "relay.after_write",
        "relay.before_meta",
        "relay.inside_transaction",
        "relay.rotate",
        "syncer.before_begin",
        "syncer.after_lane_row",
        "syncer.inside_transaction",
        "syncer.before_commit",
        "syncer.after_commit",
        "syncer.before_checkpoint",
        "syncer.after_checkpoint",
        "syncer.before_intent",
        "syncer.before_ddl",
        "syncer.after_ddl",
        "syncer.after_ddl_record",
        "syncer.bound_persisted",
        "validator.before_checkpoint",
        "validator.after_checkpoint",
        "diff.session_open",
        "diff.chunk_equal",
        "shard.joined",
        "shard.ready",
        "shard.early",
        "shard.held",
        "shard.begun",
        "shard.before_execute",
        "shard.after_execute",
        "shard.executed",
        "shard.decided",
        "shard.loosened",
        "shard.widened",
        "shard.structure_stored",
        "shard.before_pass",
        "shard.pass_begun",
        "shard.before_return",
        "shard.returned",
        "shard.renamed",
        "shard.left",
        "unlock.stored",
        "unlock.committed",
        "unlock.given_up",
        "unlock.skipped",
        "unlock.source_left",
        "order.joined",
        "order.drained",
        "order.published",
        "join.given_up",
        "join.emptying",
        "join.emptied",
        "join.loading",
        "join.near",
        "join.before_ready",
        "join.ready",
        "join.called",
        "join.before_return",
        "join.returned",
        "branch.before_leaving",
        "branch.left",
        "branch.before_rest",
        "branch.rests",
        "join.noted",
        "join.forgotten",
        "join.dropped",
        "replay.decoded",
        "replay.begun",
        "replay.inside_part",
        "replay.part_committed",
        "replay.removed",
        "replay.before_end",
        "replay.ended",
        "heal.begun",
        "heal.inside",
        "heal.written",
        "heal.whole_asked",
        "heal.before_end",
        "heal.ended",
        "xa.held",
        "xa.before_list",
        "xa.after_list",
        "xa.removed",
        "xa.before_takeover",
        "xa.after_takeover",
        "prepared.read_again",
        "prepared.restored",
        "dumper.after_p0",
        "dumper.chunk_written",
        "dumper.chunk_recorded",
        "dumper.before_p1",
        "dumper.tables_given_up",
        "dumper.finished",
        "loader.chunk_inserted",
        "loader.chunk_committed",
        "loader.tables_announced",
        "loader.tables_made",
        "loader.table_dropped",
        "loader.table_forgotten",
        "loader.rows_removed",
        "loader.indexes_recorded",
        "loader.indexes_off",
        "loader.index_added",
        "loader.finished",
        "worker.after_state_change",
        "purge.decided",
        "purge.index_removed",
        "purge.file_removed",
        "purge.directory_removed",
    }
)


class FaultError(Exception):
    """Raised by an armed point with the action `error`."""


@dataclass
class _Armed:
    action: str
    passages_left: int


_lock = threading.Lock()


def _parse(text: str) -> dict[str, _Armed]:
    armed: dict[str, _Armed] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        point, _, rest = entry.partition("=")
        action, _, count = rest.partition("@")
        if point not in POINTS:
            raise ValueError(f"DM_FAULTS names an unknown fault point {point!r}")
        armed[point] = _Armed(action, int(count) if count else 1)
    return armed


_armed = _parse(os.environ.get("DM_FAULTS", ""))


def arm(text: str) -> None:
    """Replace what is armed in this process; the syntax of DM_FAULTS."""
    with _lock:
        _armed.clear()
        _armed.update(_parse(text))


def hit(point: str) -> None:
    """Pass the point; acts only when it is armed and its turn has come."""
    if not _armed:
        return
    with _lock:
        fault = _armed.get(point)
        if fault is None:
            return
        fault.passages_left -= 1
        if fault.passages_left > 0:
            return
        del _armed[point]
    _strike(point, fault.action)


def _strike(point: str, action: str) -> None:
    log = os.environ.get("DM_FAULTS_LOG")
    if log:
        with Path(log).open("a", encoding="utf-8") as lines:
            lines.write(f"{point} {action} {os.getpid()}\n")
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "error":
        raise FaultError(point)
    elif action.startswith("hang:"):
        while not Path(action[5:]).exists():
            threading.Event().wait(0.01)
    else:
        raise ValueError(f"DM_FAULTS: unknown action {action!r} at {point}")
