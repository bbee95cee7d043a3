"""A heal beside a load of everything: how long each takes until the task goes on, and whether all rows are equal.

`python -m benchmarks.heal --rows 10000000` loads a table, lets the task rest, spoils rows of one in a thousand chunks
at the target, and heals. Meanwhile a session writes to the source. Goal: at most a quarter of the load's time.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon

_PASSWORD: Final = "heal"
_CHUNK: Final = 100_000  # rows, as `dmctl heal` has it
_OF_CHUNKS: Final = 1000  # one of so many differs, one at least
_WRONG: Final = 10  # rows in a chunk that differs
_PAUSE: Final = 0.02  # seconds between two transactions of the workload


@contextmanager
def workload(source: ThrowawayServer, rows: int) -> Iterator[None]:
    """Rows come, change and go while the block runs."""
    over = threading.Event()

    def write() -> None:
        at = 0
        with closing(source.connect(user="dm", password=_PASSWORD, autocommit=True)) as session:
            while not over.wait(_PAUSE):
                at += 1
                session.query(f"INSERT INTO big.t VALUES ({rows + at}, {at}, 'new')")
                session.query(f"UPDATE big.t SET c = 'changed {at}' WHERE id = {at * 7919 % rows + 1}")
                session.query(f"DELETE FROM big.t WHERE id = {rows + at - 5}")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def spoiled(target: ThrowawayServer, rows: int) -> int:
    """Make rows of some chunks wrong; gives how many chunks."""
    chunks = max(1, rows // _CHUNK // _OF_CHUNKS)
    for number in range(chunks):
        first = number * (rows // chunks) + rows // chunks // 2
        target.execute(
            f"UPDATE big.t SET c = 'wrong' WHERE id BETWEEN {first} AND {first + _WRONG - 3}",
            f"DELETE FROM big.t WHERE id BETWEEN {first + _WRONG - 2} AND {first + _WRONG - 1}",
        )
    return chunks


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    asked = parser.parse_args(arguments)
    options: dict[str, str | int | bool | None] = {
        "innodb_flush_log_at_trx_commit": 2,
        "sync_binlog": 0,
        "innodb_buffer_pool_size": "512M",
    }
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as name,
        ThrowawayServer("mariadb", Path(name) / "source", server_id=91, options=options) as source,
        ThrowawayServer("mariadb", Path(name) / "target", server_id=92, options=options) as target,
        Daemon(Path(name), fresh=True) as daemon,
    ):
        head = f"host: 127.0.0.1, user: dm, password: {_PASSWORD}"
        for server in (source, target):
            server.create_user("dm", _PASSWORD, "ALL ON *.*")
        (daemon.directory / "s.yaml").write_text(f"source-id: one\nfrom: {{{head}, port: {source.port}}}\n")
        (daemon.directory / "t.yaml").write_text(
            f"name: big\ntask-mode: all\ntarget-database: {{{head}, port: {target.port}}}\n"
            "mysql-instances: [{source-id: one, block-allow-list: l}]\nblock-allow-list: {l: {do-dbs: [big]}}\n"
        )
        daemon.must("operate-source", "create", "s.yaml")
        source.execute(
            "CREATE DATABASE big", "CREATE TABLE big.t (id INT PRIMARY KEY, k INT, c CHAR(60), KEY by_k (k))",
            f"INSERT INTO big.t SELECT seq, seq * 7, LEFT(SHA2(seq, 256), 60) FROM big.seq_1_to_{asked.rows}",
        )  # fmt: skip
        began = time.monotonic()
        with workload(source, asked.rows):
            daemon.must("start-task", "t.yaml")
            daemon.wait("big", lambda status: status["one"]["unit"] == "Sync", "it is loaded", seconds=7200)
            load = time.monotonic() - began
            daemon.must("wait", "big", "--synced", "--timeout", "7200")
        daemon.must("pause-task", "big")
        chunks = spoiled(target, asked.rows)
        began = time.monotonic()
        with workload(source, asked.rows):
            said = daemon.must("heal", "big", "--output", "json").json()
            heal = time.monotonic() - began
            daemon.must("resume-task", "big")
        daemon.must("wait", "big", "--synced", "--timeout", "7200")
        verdict = daemon.must("diff", "big", "--output", "json").json()["verdict"]
        found = {"cores": os.cpu_count(), "rows": asked.rows, "chunks spoiled": chunks, "load": round(load, 1)}
        found |= {"heal": round(heal, 1), "share": round(heal / load, 2), "written rows": said["writtenRows"]}
        print(json.dumps({**found, "load average": round(os.getloadavg()[0], 1), "rows then": verdict}), flush=True)


if __name__ == "__main__":
    main()
