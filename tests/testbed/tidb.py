"""A TiDB of the test's own: one process with its store in it, which starts in a second or two.

The binary comes from `make tidb`. TiDB speaks MySQL's protocol and dialect, so its flavour is MySQL's; its version says
that it is a TiDB. As with the other servers a SIGKILL loses nothing that was acknowledged.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Self

from dm.demo.installation import cache_directory
from dm.demo.private_server import HOST, GuardedProcess, PrivateServer, free_port
from dm.errors import DMError


def binary() -> Path:
    """Where `make tidb` puts the server."""
    return cache_directory() / "tidb" / "tidb-server"


class TidbServer(PrivateServer):
    """`settings` are tables and keys of TiDB's configuration file; they go over the ones chosen here."""

    tidb = True

    def __init__(self, directory: Path, *, password: str | None = None, **settings: object) -> None:
        super().__init__("mysql", directory, secrets.token_urlsafe(12) if password is None else password)
        self._settings = settings

    def __repr__(self) -> str:
        return f"TiDB at {self.host}:{self.port}"

    def start(self) -> Self:
        """Start the server and wait until it answers; raises DMError with the end of its log."""
        if self.running:
            raise RuntimeError(f"{self!r} runs already")
        first = self.port == 0
        (self.directory / "tmp").mkdir(parents=True, exist_ok=True)
        for _ in range(5):
            if first:
                self._reserve_port()
            self._launch()
            if self._await_ready(password="" if first else self.password):
                if first:
                    self._set_password()
                return self
            if not (first and "address already in use" in self.log_tail()):
                break
        raise DMError("server-not-started", flavor="TiDB", directory=self.directory, log=self.log_tail())

    def _launch(self) -> None:
        configuration = self.directory / "tidb.toml"
        configuration.write_text(_toml(self._configuration()), encoding="utf-8")
        command = [str(binary().resolve()), f"-config={configuration}"]
        self._process = GuardedProcess(command, log=self.log, directory=self.directory)  # it makes `oom_record` there
        self._frozen = False

    def _configuration(self) -> dict[str, object]:
        return {
            "host": HOST,
            "port": self.port,
            "store": "unistore",
            "path": str(self.directory / "data"),
            # The embedded store has locks in memory only (unistore/tikv/mvcc.go writes them down when it is closed). If
            # it is killed after the commit in a transaction's first region, it forgets what was locked in the others.
            "split-table": False,
            "socket": "",
            "temp-dir": str(self.directory / "tmp"),
            "tmp-storage-path": str(self.directory / "tmp"),
            "log": {"level": "warn", "slow-query-file": str(self.directory / "slow.log")},
            # A TiDB asks itself for the sessions of its cluster through this port.
            "status": {"status-host": HOST, "status-port": free_port()},
            **self._settings,
        }

    def _set_password(self) -> None:
        connection = self.connect(password="")
        try:
            with connection.cursor() as cursor:
                # A transaction of more bytes is committed in batches: it is acknowledged after the first of them, and
                # the others' locks are what the embedded store forgets (client-go, txnkv/transaction/2pc.go).
                cursor.execute(f"SET GLOBAL tidb_txn_commit_batch_size = {1 << 30}")
                cursor.execute("ALTER USER root@'%%' IDENTIFIED BY %s", (self.password,))
        finally:
            connection.close()


def _toml(settings: dict[str, object]) -> str:
    """Keys first, then tables; strings, numbers and booleans look in TOML as in JSON."""
    keys = [f"{name} = {json.dumps(value)}" for name, value in settings.items() if not isinstance(value, dict)]
    tables = [f"\n[{name}]\n{_toml(value)}" for name, value in settings.items() if isinstance(value, dict)]
    return "\n".join([*keys, *tables])
