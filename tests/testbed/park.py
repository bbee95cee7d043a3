"""The servers of one test session, each started when a test first asks for it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from pathlib import Path

from dm.demo.installation import find, usual
from dm.demo.servers import Option, ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.testbed.tidb import TidbServer

ROOT_PASSWORD = "root-of-the-test-bed"
OLDEST_TARGET: Mapping[Flavor, tuple[int, int]] = {"mysql": (5, 7), "mariadb": (10, 2)}


class _UsualServer(ThrowawayServer):
    _find = staticmethod(usual)


class ServerPark:
    """Starts servers by role and ends them all."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ids = itertools.count(1001)
        self._shared: dict[tuple[Flavor, str], ThrowawayServer] = {}
        self._all: list[ThrowawayServer] = []
        self._tidb: TidbServer | None = None
        self._lock = threading.Lock()

    def shared(self, flavor: Flavor, role: str) -> ThrowawayServer:
        """The server of this role; tests leave it running and keep to schemas of their own."""
        with self._lock:
            if (flavor, role) not in self._shared:
                self._shared[flavor, role] = self._create(flavor, role, gtid=True, options={}).start()
            return self._shared[flavor, role]

    def target(self, flavor: Flavor, role: str) -> ThrowawayServer:
        """The same; the usual server where that of this flavour is too old for a target (see the check `version`)."""
        return self.newer(flavor) if find(flavor).release < OLDEST_TARGET[flavor] else self.shared(flavor, role)

    def newer(self, flavor: Flavor) -> ThrowawayServer:
        """The same of the usual installation, where a variable has made the others older."""
        with self._lock:
            if (flavor, "newer") not in self._shared:
                server = self._create(flavor, "newer", gtid=True, options={}, made=_UsualServer)
                self._shared[flavor, "newer"] = server.start()
            return self._shared[flavor, "newer"]

    def tidb(self) -> TidbServer:
        """The one TiDB; tests leave it running and keep to schemas of their own."""
        with self._lock:
            if self._tidb is None:
                self._tidb = TidbServer(self._directory / "tidb", password=ROOT_PASSWORD).start()
            return self._tidb

    def own(self, flavor: Flavor, *, gtid: bool, options: Mapping[str, Option]) -> ThrowawayServer:
        """A new server, not started yet, that the test may kill, freeze and spoil."""
        with self._lock:
            return self._create(flavor, "own", gtid=gtid, options=options)

    def _create(
        self,
        flavor: Flavor,
        role: str,
        *,
        gtid: bool,
        options: Mapping[str, Option],
        made: type[ThrowawayServer] = ThrowawayServer,
    ) -> ThrowawayServer:
        server_id = next(self._ids)
        server = made(
            flavor,
            self._directory / f"{flavor}-{role}-{server_id}",
            server_id=server_id,
            gtid=gtid,
            options=options,
            password=ROOT_PASSWORD,
        )
        self._all.append(server)
        return server

    def close(self) -> None:
        """End every server and delete its files."""
        for server in self._all:
            server.destroy()
        if self._tidb is not None:
            self._tidb.destroy()
