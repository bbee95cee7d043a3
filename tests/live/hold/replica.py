"""A task between two servers of its own, which may be killed and frozen, through a daemon that may be killed, too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Answer, Daemon
from tests.testbed.looks import looks
from tests.testbed.proxy import FaultProxy

PASSWORDS = {"DM_SOURCE_PASSWORD": "canary-of-the-source-09c4", "DM_TARGET_PASSWORD": "canary-of-the-target-5b1e"}
_AT_SOURCE = "SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
_AT_TARGET = "CREATE, SELECT, INSERT, UPDATE, DELETE, ALTER, DROP, INDEX, REFERENCES ON *.*"
_SCHEMA = "hold"
_LIMIT_SECONDS = 120.0  # for what hangs, not a measure of speed


class Replica:
    """`task` copies the schema `hold`, a keyed and a keyless table; `ways` lead to the servers if given."""

    task = "hold"

    def __init__(
        self,
        upstream: ThrowawayServer,
        target: ThrowawayServer,
        directory: Path,
        *,
        relay: bool = False,
        ways: tuple[FaultProxy, FaultProxy] | None = None,
    ) -> None:
        self.upstream = upstream
        self.target = target
        self._source_port, self._target_port = (way.port for way in ways) if ways else (upstream.port, target.port)
        self.daemon = Daemon(directory, PASSWORDS, fresh=True)
        self._relay = relay
        self._writes = 0

    def prepare(self, mode: str, *, rows: int = 2) -> None:
        """Tables at the source with some rows, accounts on both sides, and the files."""
        self.upstream.execute(
            f"CREATE DATABASE {_SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",  # both flavours have it
            f"CREATE TABLE {_SCHEMA}.keyed (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(400), UNIQUE KEY (v))",
            f"CREATE TABLE {_SCHEMA}.keyless (v INT)",
            f"INSERT INTO {_SCHEMA}.keyless VALUES (1), (1), (NULL)",
        )
        doublings = max(rows - 1, 0).bit_length()
        self.upstream.execute(
            f"INSERT INTO {_SCHEMA}.keyed (v) VALUES (CONCAT(UUID(), REPEAT('x', 300)))",
            *[f"INSERT INTO {_SCHEMA}.keyed (v) SELECT CONCAT(UUID(), REPEAT('x', 300)) FROM {_SCHEMA}.keyed"]
            * doublings,
        )
        if mode == "incremental":
            self.target.execute(f"CREATE DATABASE {_SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
            for table in ("keyed", "keyless"):
                ((_, create),) = self.upstream.query(f"SHOW CREATE TABLE {_SCHEMA}.{table}")
                self.target.execute(create.replace("CREATE TABLE ", f"CREATE TABLE {_SCHEMA}."))
                for row in self.upstream.query(f"SELECT * FROM {_SCHEMA}.{table}"):
                    self.target.query(f"INSERT INTO {_SCHEMA}.{table} VALUES ({', '.join(['%s'] * len(row))})", row)
                self.target.execute("COMMIT")
        more = ["XA_RECOVER_ADMIN ON *.*"] if self.upstream.flavor == "mysql" else []
        self.upstream.create_user("dm", PASSWORDS["DM_SOURCE_PASSWORD"], _AT_SOURCE, *more)
        self.target.create_user("dm", PASSWORDS["DM_TARGET_PASSWORD"], _AT_TARGET)
        directory = self.daemon.directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "source.yaml").write_text(
            f"source-id: one\nenable-gtid: true\nenable-relay: {str(self._relay).lower()}\nfrom:\n  host: 127.0.0.1\n"
            f"  port: {self._source_port}\n  user: dm\n  password: ${{DM_SOURCE_PASSWORD}}\n"
            "checker:\n  backoff-max: 2s\n"
        )
        (directory / "task.yaml").write_text(
            f"name: {self.task}\ntask-mode: {mode}\ntarget-database:\n  host: 127.0.0.1\n  port: {self._target_port}\n"
            "  user: dm\n  password: ${DM_TARGET_PASSWORD}\nmysql-instances:\n  - source-id: one\n"
            "    block-allow-list: hold\n    mydumper-config-name: chunks\n"
            f"block-allow-list:\n  hold:\n    do-dbs: [{_SCHEMA}]\nmydumpers:\n  chunks:\n    rows: 500\n"
            "spark:\n  master: local[2]\n"
        )

    def start(self) -> None:
        """As a user would."""
        self.daemon.must("operate-source", "create", "source.yaml")
        self.daemon.must("start-task", "task.yaml")

    def write(self) -> None:
        """One transaction with an insert, an update, a key move and a delete, keyless rows included."""
        self._writes += 1
        number = self._writes
        connection = self.upstream.connect(autocommit=False)
        with connection.cursor() as cursor:
            for statement in (
                f"INSERT INTO {_SCHEMA}.keyed (id, v) VALUES ({100000 + number}, 'row {number}')",
                f"UPDATE {_SCHEMA}.keyed SET v = CONCAT('changed by {number} ', id) WHERE id = 1",
                f"UPDATE {_SCHEMA}.keyed SET id = {200000 + number} WHERE id = {100000 + number - 1}",
                f"DELETE FROM {_SCHEMA}.keyed WHERE id = {200000 + number - 2}",
                f"INSERT INTO {_SCHEMA}.keyless VALUES ({number % 2}), ({number % 2})",
                f"DELETE FROM {_SCHEMA}.keyless WHERE v = {number % 2} LIMIT 1",
            ):
                cursor.execute(statement)
        connection.commit()
        connection.close()

    def status(self) -> dict[str, Any]:
        """DM's subTaskStatus."""
        return self.daemon.status(self.task)["one"]

    def unit(self) -> str:
        return str(self.status()["unit"])

    def await_synced(self) -> None:
        """Everything is at the target, and nothing is complained of any more."""
        self.daemon.wait(
            self.task,
            lambda status: bool(status["one"].get("sync", {}).get("synced")) and not status["one"]["sync"]["waiting"],
            "synced",
        )
        report = compare(pair_tables([self.upstream], [_SCHEMA], lambda _, table: table), self.target)
        assert report.identical, str(report)

    def shown(self) -> Answer:
        """What a person sees."""
        return self.daemon.said("query-status", self.task)

    def says(self, word: str) -> None:
        """Wait until `query-status`, as a person sees it, says this of the present."""
        self._until_said(lambda lines: any(word in line for line in lines), word)

    def settles_on(self, word: str) -> Answer:
        """Wait until everything that `query-status` complains of is this; gives all that it says."""
        return self._until_said(lambda lines: bool(lines) and all(word in line for line in lines), word)

    def _until_said(self, wanted: Callable[[list[str]], bool], word: str) -> Answer:
        for _ in looks(_LIMIT_SECONDS):
            answer = self.shown()
            if wanted([line for line in answer.out.splitlines() if ": error " in line or ": waits: " in line]):
                return answer
        raise AssertionError(f"query-status never said {word!r}:\n{json.dumps(self.status(), indent=2)}")
