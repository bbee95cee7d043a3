"""Idle: what a running task of a daemon costs while its source writes nothing, in shares of one core.

A task is a process for its relay and one for its subtask; the daemon, which all tasks share, is told beside them. The
source sends a heartbeat now and then and nothing else.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.measure import Comparison, Series, process_seconds
from benchmarks.recording import SCHEMA
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON
from tests.testbed.daemon import Daemon

GOAL = 1.0  # times one hundredth of a core
_TASK = "idle"
_SETTLE_SECONDS = 3.0


def measure(source: ThrowawayServer, target: ThrowawayServer, seconds: float) -> Comparison:
    """One task for so many seconds."""
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        Daemon(Path(directory) / "daemon", fresh=True) as daemon,
    ):
        for server in (source, target):
            server.execute(
                f"CREATE DATABASE IF NOT EXISTS {SCHEMA}",
                f"DROP TABLE IF EXISTS {SCHEMA}.idle",
                f"CREATE TABLE {SCHEMA}.idle (id INT PRIMARY KEY)",
            )
        _start(daemon, source, target)
        source.execute(f"INSERT INTO {SCHEMA}.idle VALUES (1)")
        daemon.wait(
            _TASK, lambda status: _synced(status) and bool(target.query(f"SELECT * FROM {SCHEMA}.idle")), "the row"
        )
        time.sleep(_SETTLE_SECONDS)
        pids = daemon.hosts() | {"dm-worker": daemon.pid}
        before = {name: process_seconds(pid) for name, pid in pids.items()}
        began = time.monotonic()
        time.sleep(seconds)
        passed = time.monotonic() - began
        shares = {name: 100 * (process_seconds(pid) - before[name]) / passed for name, pid in pids.items()}
    unit = "% of a core"
    ours = Series("dm", unit, [sum(share for name, share in shares.items() if name != "dm-worker")])
    notes: dict[str, JSON] = {
        "seconds": round(passed, 1),
        "processes": {name: round(share, 2) for name, share in shares.items()},
    }
    limit = Series("one hundredth", unit, [1.0])
    return Comparison("idle", "a running task whose source rests", ours, limit, GOAL, judged_by="limit", notes=notes)


def _start(daemon: Daemon, source: ThrowawayServer, target: ThrowawayServer) -> None:
    file, position = source.query("SHOW BINARY LOG STATUS")[0][:2]
    for name, text in {
        "source.yaml": f"source-id: bench\nenable-relay: true\nfrom: {_login(source)}\n",
        "task.yaml": f"name: {_TASK}\ntask-mode: incremental\ntarget-database: {_login(target)}\n"
        f"mysql-instances:\n  - source-id: bench\n    block-allow-list: b\n"
        f"    meta: {{binlog-name: {file}, binlog-pos: {position}}}\n"
        f"block-allow-list: {{b: {{do-dbs: [{SCHEMA}]}}}}\n",
    }.items():
        path = daemon.directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    daemon.must("operate-source", "create", "source.yaml")
    daemon.must("start-task", "task.yaml")


def _login(server: ThrowawayServer) -> str:
    return f"{{host: {server.host}, user: {server.user}, password: '{server.password}', port: {server.port}}}"


def _synced(status: dict[str, dict[str, object]]) -> bool:
    sync = status["bench"].get("sync")
    return isinstance(sync, dict) and sync.get("synced") is True
