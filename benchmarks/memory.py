"""Memory of a syncer beside its `memory-quota`: one transaction that is larger, and a target that stands still.

What counts is the peak of the process over what it holds while it is idle. The target stands still by SIGSTOP while
the source goes on writing, several times the quota.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Comparison, Series
from benchmarks.recording import SCHEMA
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON
from tests.testbed.memory import ROW, begin_peak_anew, insert_rows, memory_of
from tests.testbed.sync import FreshProcess, SyncProcess, subtask_for

GOAL = 1.0
QUOTA = 32 << 20
SIZE = 512 << 20  # bytes of scale 1, of the transaction and of what is written while the target stands still
_PER_STATEMENT = 64
_STANDS_SECONDS = 5.0
_SYNCED_SECONDS = 600.0
_MB = 1e6


def measure(source: ThrowawayServer, target: ThrowawayServer, scale: float) -> Iterator[Comparison]:
    """One syncer, which reads from the source itself: the transaction first, the standing target then."""
    size = max(int(SIZE * scale), 2 * QUOTA)
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as directory:
        for server in (source, target):
            server.execute(
                f"CREATE DATABASE IF NOT EXISTS {SCHEMA}",
                f"DROP TABLE IF EXISTS {SCHEMA}.large, {SCHEMA}.many",
                *(
                    f"CREATE TABLE {SCHEMA}.{name} (id INT PRIMARY KEY, note VARCHAR(1100))"
                    for name in ("large", "many")
                ),
            )
        subtask = subtask_for(source, target, SCHEMA, task="memory", workers=16, memory_quota=QUOTA)
        sync = SyncProcess(subtask, work_directory=Path(directory) / "work", ready=FreshProcess())
        try:
            sync.wait_synced()
            base = memory_of(sync.process.pid, "VmRSS")
            begin_peak_anew(sync.process.pid)
            insert_rows(source, SCHEMA, "large", size)
            yield _comparison("transaction", f"one transaction of {size / _MB:.0f} MB", sync, base, size)
            begin_peak_anew(sync.process.pid)
            target.freeze()
            _write(source, size)
            time.sleep(_STANDS_SECONDS)
            target.thaw()
            yield _comparison("standing", f"a target stands still, {size / _MB:.0f} MB are written", sync, base, size)
        finally:
            target.thaw()
            sync.close()
        for name in ("large", "many"):
            sums = [server.query(f"CHECKSUM TABLE {SCHEMA}.{name}")[0][1] for server in (source, target)]
            if sums[0] != sums[1]:
                raise RuntimeError(f"table {name} differs, checksums {sums}")


def _write(source: ThrowawayServer, size: int) -> None:
    connection = source.connect()
    try:
        with connection.cursor() as cursor:
            for first in range(0, size // ROW, _PER_STATEMENT):
                values = ",".join(f"({key},REPEAT(SHA2({key},256),16))" for key in range(first, first + _PER_STATEMENT))
                cursor.execute(f"INSERT INTO {SCHEMA}.many VALUES {values}")
    finally:
        connection.close()


def _comparison(key: str, what: str, sync: SyncProcess, base: int, size: int) -> Comparison:
    sync.wait_synced(_SYNCED_SECONDS)
    peak = memory_of(sync.process.pid, "VmHWM")
    over = Series("dm, over idle", "MB", [(peak - base) / _MB])
    quota = Series("memory-quota", "MB", [QUOTA / _MB])
    notes: dict[str, JSON] = {"bytes": size, "idle": base, "peak": peak, "settings": "worker-count 16, no relay"}
    return Comparison(f"memory.{key}", f"memory: {what}", over, quota, GOAL, judged_by="limit", notes=notes)
