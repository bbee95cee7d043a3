"""Pace: rates under a limit, the time until its end is seen, and how late a slow replica of the target gets.

`python -m benchmarks.pace` limits a backlog, a load and a comparison to 1,000 rows per second, and counts a minute of
each at the servers. Then the target has a replica that sleeps in a trigger for each row, and the task a limit of lag.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from pymysql.cursors import DictCursor

from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon

PASSWORD: Final = "pace"
_SETTLES: Final = 5.0  # seconds, until lanes and workers wait for tokens
_TABLE: Final = "(id INT PRIMARY KEY, k INT, c CHAR(60))"


def _counted(server: ThrowawayServer, name: str) -> int:
    return int(str(server.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1]))


def _inserted(server: ThrowawayServer) -> int:
    return _counted(server, "Handler_write")


def _read(server: ThrowawayServer) -> int:
    return _counted(server, "Rows_read")


def _fill(server: ThrowawayServer, schema: str, rows: int) -> None:
    # MariaDB bounds a recursion by max_recursive_iterations; SEQUENCE is always there.
    server.execute(
        f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t {_TABLE}",
        f"INSERT INTO {schema}.t SELECT seq, seq * 7, LEFT(SHA2(seq, 256), 60) FROM {schema}.seq_1_to_{rows}",
    )  # fmt: skip


class Scene:
    """Source, target, and tasks between them."""

    def __init__(self, source: ThrowawayServer, target: ThrowawayServer, daemon: Daemon, limit: int) -> None:
        self.source, self.target, self.daemon, self.limit = source, target, daemon, limit
        self.head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
        (daemon.directory / "s.yaml").write_text(f"source-id: one\nfrom: {{{self.head}, port: {source.port}}}\n")
        daemon.must("operate-source", "create", "s.yaml")

    def start(self, name: str, mode: str, schema: str, pace: str) -> None:
        """Start a task of one schema."""
        (self.daemon.directory / f"{name}.yaml").write_text(
            f"name: {name}\ntask-mode: {mode}\ntarget-database: {{{self.head}, port: {self.target.port}}}\n"
            f"mysql-instances: [{{source-id: one, block-allow-list: l}}]\npace: {{{pace}}}\n"
            f"block-allow-list: {{l: {{do-dbs: [{schema}]}}}}\n"
        )
        self.daemon.must("start-task", f"{name}.yaml")

    def rate(self, count: Callable[[], int], seconds: float) -> float:
        """Per second, once rows come: progress rows are fewer than a second's worth."""
        first = count()
        while count() - first < self.limit:
            time.sleep(0.05)
        time.sleep(_SETTLES)
        began, before = time.monotonic(), count()
        time.sleep(seconds)
        return (count() - before) / (time.monotonic() - began)


def rates(scene: Scene, seconds: float) -> Iterator[dict[str, Any]]:
    """A minute each of load, sync and comparison."""
    rows, daemon = int(scene.limit * (seconds + 30)), scene.daemon
    pace = f"rows-per-second: {scene.limit}"
    _fill(scene.source, "loaded", rows)
    scene.start("load", "full", "loaded", pace)
    daemon.wait("load", lambda status: status["one"]["unit"] == "Load", "the load begins", seconds=600)
    yield {"what": "load", "rows per second": round(scene.rate(lambda: _inserted(scene.target), seconds), 1)}
    daemon.must("stop-task", "load")

    for server in (scene.source, scene.target):
        server.execute("CREATE DATABASE sync", f"CREATE TABLE sync.t {_TABLE}")
    scene.start("sync", "incremental", "sync", pace)
    with closing(scene.source.connect(user="dm", password=PASSWORD, autocommit=True)) as session:
        for first in range(1, rows, 1000):
            values = ", ".join(f"({id}, {id}, 'row {id}')" for id in range(first, first + 1000))
            session.query(f"INSERT INTO sync.t VALUES {values}")
    yield {"what": "sync", "rows per second": round(scene.rate(lambda: _inserted(scene.target), seconds), 1)}
    began, before = time.monotonic(), _inserted(scene.target)
    daemon.must("pace", "sync", "--none")
    said = time.monotonic()
    while _inserted(scene.target) - before < 3 * scene.limit:
        time.sleep(0.01)
    yield {"what": "limit taken away", "seconds until 3 seconds' worth is there, after dmctl": round(
        time.monotonic() - said, 2), "with dmctl": round(time.monotonic() - began, 2)}  # fmt: skip
    daemon.must("wait", "sync", "--synced", "--timeout", "600")
    daemon.must("pace", "sync", "--limit", pace.replace(": ", "="))
    thread = threading.Thread(target=daemon.dmctl, args=("diff", "sync", "--threads", "1"))
    thread.start()
    yield {"what": "diff, rows of one side", "rows per second": round(
        scene.rate(lambda: _read(scene.source), seconds), 1), "limit": scene.limit}  # fmt: skip
    daemon.must("pace", "sync", "--none")
    thread.join()
    daemon.must("stop-task", "sync")


@contextmanager
def replica_of(target: ThrowawayServer, directory: Path, row_ms: float) -> Iterator[ThrowawayServer]:
    """A replica that sleeps for each row of schema `slow`."""
    options: dict[str, str | int | bool | None] = {"slave_run_triggers_for_rbr": "YES", "read_only": 0}
    options["gtid_strict_mode"] = "OFF"  # it has made its table by itself
    with ThrowawayServer("mariadb", directory, server_id=93, options=options) as replica:
        replica.create_user("dm", PASSWORD, "ALL ON *.*")
        replica.execute(
            "CREATE DATABASE slow", f"CREATE TABLE slow.t {_TABLE}",
            f"CREATE TRIGGER slow.wait BEFORE INSERT ON slow.t FOR EACH ROW DO SLEEP({row_ms / 1000})",
        )  # fmt: skip
        file, offset = target.query("SHOW MASTER STATUS")[0][:2]
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {target.port}, MASTER_USER = 'dm',"
            f" MASTER_PASSWORD = '{PASSWORD}', MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {offset}",
            "START SLAVE",
        )
        yield replica


def lag(scene: Scene, directory: Path, limit: int, seconds: float) -> dict[str, Any]:
    """How late the replica gets, with and without the limit."""
    scene.target.execute("CREATE DATABASE slow", f"CREATE TABLE slow.t {_TABLE}")
    scene.source.execute("CREATE DATABASE slow", f"CREATE TABLE slow.t {_TABLE}")
    with replica_of(scene.target, directory, row_ms=2.0) as replica:
        pace = f"replica-lag: {limit}s, replicas: ['127.0.0.1:{replica.port}']"
        scene.start("slow", "incremental", "slow", pace)
        with closing(scene.source.connect(user="dm", password=PASSWORD, autocommit=True)) as session:
            for first in range(1, int(seconds * 450), 10):  # nearly what the replica could take in this time
                values = ", ".join(f"({id}, {id}, 'row {id}')" for id in range(first, first + 10))
                session.query(f"INSERT INTO slow.t VALUES {values}")
        worst, end = 0, time.monotonic() + seconds
        with closing(replica.connect(autocommit=True)) as session, session.cursor(DictCursor) as cursor:
            while time.monotonic() < end:
                cursor.execute("SHOW SLAVE STATUS")
                (row,) = cursor.fetchall()
                worst = max(worst, int(row["Seconds_Behind_Master"] or 0))
                time.sleep(0.1)
        done = int(str(replica.query("SELECT COUNT(*) FROM slow.t")[0][0]))
    return {"what": "replica's lag", "limit": limit, "worst seconds": worst, "rows": done, "seconds": seconds}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line of JSON for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--lag", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args(arguments)
    options = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0}
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as name,
        ThrowawayServer("mariadb", Path(name) / "source", server_id=91, options=options) as source,
        ThrowawayServer("mariadb", Path(name) / "target", server_id=92, options=options) as target,
        Daemon(Path(name), fresh=True) as daemon,
    ):
        for server in (source, target):
            server.create_user("dm", PASSWORD, "ALL ON *.*")
        scene = Scene(source, target, daemon, asked.limit)
        for found in rates(scene, asked.seconds):
            print(json.dumps({"cores": os.cpu_count(), "limit": asked.limit, **found}), flush=True)
        print(json.dumps(lag(scene, Path(name) / "replica", asked.lag, asked.seconds)), flush=True)


if __name__ == "__main__":
    main()
