"""Many tables: what `check-task`, and `start-task` up to the first row of its load, cost with thousands of them.

Two sources with half of the tables each go into one target. Told are the seconds, the questions that each server was
asked (`Questions`), and the most memory of the daemon. `python -m benchmarks.many_tables --tables 10000` is the case of
the goal.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon

_PASSWORD: Final = "many"
_TABLE: Final = "(id BIGINT PRIMARY KEY, customer INT NOT NULL, note VARCHAR(60), KEY (customer))"


class MostMemory:
    """The most resident memory of a process, looked at now and then."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._over = threading.Event()
        self.most = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(0.2):
            for line in self._status.read_text().splitlines():
                if line.startswith("VmRSS:"):
                    self.most = max(self.most, int(line.split()[1]) // 1024)

    def stop(self) -> int:
        """MiB."""
        self._over.set()
        self._thread.join()
        return self.most


def questions(server: ThrowawayServer) -> int:
    """What the server was asked since it began."""
    return int(str(server.query("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1]))


def measured(daemon: Daemon, servers: Sequence[ThrowawayServer], what: str, *arguments: str) -> dict[str, Any]:
    """One verb."""
    before, memory, began = [questions(each) for each in servers], MostMemory(daemon.pid), time.monotonic()
    answer = daemon.dmctl(*arguments)
    seconds = time.monotonic() - began
    asked = [questions(each) - first for each, first in zip(servers, before, strict=True)]
    return {"what": what, "seconds": round(seconds, 1), "exit": answer.status, "questions": asked,
            "daemon MiB": memory.stop()}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line of JSON for each verb."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--flavor", choices=("mysql", "mariadb"), default="mariadb")
    parser.add_argument("--last", choices=("check-task", "start-task", "wait"), default="wait", help="verb to end with")
    asked = parser.parse_args(arguments)
    options = {"innodb_flush_log_at_trx_commit": 2, "sync_binlog": 0, "table_definition_cache": 20000}
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as name,
        ThrowawayServer(asked.flavor, Path(name) / "one", server_id=61, options=options) as one,
        ThrowawayServer(asked.flavor, Path(name) / "two", server_id=62, options=options) as two,
        ThrowawayServer(asked.flavor, Path(name) / "target", server_id=63, options=options) as target,
        Daemon(Path(name), fresh=True) as daemon,
    ):
        servers = (one, two, target)
        for server in servers:
            server.create_user("dm", _PASSWORD, "ALL ON *.*")
        head = f"host: 127.0.0.1, user: dm, password: {_PASSWORD}"
        for number, server in enumerate((one, two)):
            server.execute(f"CREATE DATABASE s{number}")
            server.execute(*(f"CREATE TABLE s{number}.t{n} {_TABLE}" for n in range(asked.tables // 2)))
            (daemon.directory / f"s{number}.yaml").write_text(
                f"source-id: s{number}\nfrom: {{{head}, port: {server.port}}}\n"
            )
            daemon.must("operate-source", "create", f"s{number}.yaml")
        (daemon.directory / "many.yaml").write_text(
            f"name: many\ntask-mode: full\ntarget-database: {{{head}, port: {target.port}}}\n"
            "mysql-instances: [{source-id: s0, block-allow-list: l}, {source-id: s1, block-allow-list: l}]\n"
            "block-allow-list: {l: {do-dbs: ['s0', 's1']}}\n"
        )
        print(json.dumps({"tables": asked.tables, "flavor": asked.flavor, "cores": os.cpu_count()}))
        for what, *words in (
            ("check-task", "check-task", "many.yaml"),
            ("start-task", "start-task", "many.yaml"),
            ("whole task, from then on", "wait", "many", "--finished", "--timeout", "3600"),
        ):
            print(json.dumps(measured(daemon, servers, what, *words)), flush=True)
            if words[0] == asked.last:
                break


if __name__ == "__main__":
    main()
