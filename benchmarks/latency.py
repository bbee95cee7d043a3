"""Latency: from the return of a commit at the source to the row at the target, with 50 transactions a second.

Ours runs with its relay, each in a process of its own. The peer is the least that one can write: mysql-replication's
events, blocking, and one statement per row through pymysql. Both are asked the same way, by a session at the target
that looks for the row until it is there, so what the looking costs is in both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.measure import Comparison, Series, in_turn
from benchmarks.recording import SCHEMA
from dm.demo.servers import ThrowawayServer
from tests.testbed.sync import FreshProcess, SyncProcess, UnitProcess, subtask_for

GOALS = {"p50": 3.0, "p99": 15.0}  # milliseconds more than the peer's
_TASK = "latency"
_INTERVAL = 0.02
_WARM_UP = 25
_VISIBLE_SECONDS = 30.0


def measure(source: ThrowawayServer, target: ThrowawayServer, rounds: int, samples: int) -> list[Comparison]:
    """Both in each round, in turn; the figures are the medians of the rounds' p50 and p99."""
    series = {(way, which): Series(way, "ms") for way in ("dm", "mysql-replication + pymysql") for which in GOALS}
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as directory:
        for number in range(rounds):
            for way, follow in in_turn((("dm", _ours), ("mysql-replication + pymysql", _peer)), number):
                place = Path(directory) / f"{number}-{way.split()[0]}"
                place.mkdir()
                found = sorted(follow(source, target, place, samples))
                series[way, "p50"].values.append(statistics.median(found))
                series[way, "p99"].values.append(found[min(len(found) - 1, round(len(found) * 0.99))])
    return [
        Comparison(
            f"latency.{which}",
            f"commit to visible, {which}",
            series["dm", which],
            series["mysql-replication + pymysql", which],
            goal,
            judged_by="difference",
        )
        for which, goal in GOALS.items()
    ]


def _table(source: ThrowawayServer, target: ThrowawayServer) -> None:
    for server in (source, target):
        server.execute(
            f"CREATE DATABASE IF NOT EXISTS {SCHEMA}",
            f"DROP TABLE IF EXISTS {SCHEMA}.latency",
            f"CREATE TABLE {SCHEMA}.latency (id INT PRIMARY KEY, v VARCHAR(40))",
        )
    target.execute(f"DROP DATABASE IF EXISTS meta_{_TASK}")


def _ours(source: ThrowawayServer, target: ThrowawayServer, directory: Path, samples: int) -> list[float]:
    _table(source, target)
    subtask = subtask_for(source, target, SCHEMA, task=_TASK, workers=16)
    relay = directory / "relay"
    pulling = UnitProcess("relay", subtask.source.to_wire(), relay)
    try:
        process = SyncProcess(subtask, relay_directory=relay, work_directory=directory / "work", ready=FreshProcess())
        try:
            process.wait_synced()
            return _samples(source, target, samples, lambda: process.ended)
        finally:
            process.close()
    finally:
        pulling.close()


def _peer(source: ThrowawayServer, target: ThrowawayServer, directory: Path, samples: int) -> list[float]:
    _table(source, target)
    file, position = source.query("SHOW BINARY LOG STATUS")[0][:2]
    order = {
        "source": {"host": source.host, "port": source.port, "user": source.user, "passwd": source.password},
        "target": {"host": target.host, "port": target.port, "user": target.user, "password": target.password},
        "file": file,
        "position": position,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.latency_peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        return _samples(source, target, samples, lambda: process.poll() is not None)
    finally:
        process.kill()
        process.communicate()


def _samples(source: ThrowawayServer, target: ThrowawayServer, samples: int, ended: Callable[[], bool]) -> list[float]:
    """Milliseconds from the commit's return to the row's visibility, after a warm-up."""
    found = []
    with closing(source.connect(autocommit=True)) as writes, closing(target.connect(autocommit=True)) as looks:
        writer, looker = writes.cursor(), looks.cursor()
        due = time.monotonic()
        for number in range(_WARM_UP + samples):
            due += _INTERVAL
            time.sleep(max(0.0, due - time.monotonic()))
            writer.execute(f"INSERT INTO {SCHEMA}.latency VALUES ({number}, 'row {number}')")
            committed = time.monotonic()
            while not looker.execute(f"SELECT id FROM {SCHEMA}.latency WHERE id = {number}"):
                if ended() or time.monotonic() > committed + _VISIBLE_SECONDS:
                    raise RuntimeError(f"row {number} does not arrive")
            if number >= _WARM_UP:
                found.append((time.monotonic() - committed) * 1000)
    return found
