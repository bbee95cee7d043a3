"""A host that is lost with its home, and the member that has nothing but etcd, the servers and what is at the target.

Member `a` has sources until its daemon is killed and its home is removed; member `b` takes them over. Where `a` has to
be lost at one moment, a fault point holds it there.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from tests.testbed.cluster import Cluster, login
from tests.testbed.frozen import frozen
from tests.testbed.sync import wait_until

SECONDS: Final = 300.0


@dataclass
class LostHome:
    """Two members and a task `t` of sources, each with where it is at first."""

    cluster: Cluster
    target: PrivateServer
    schema: str
    sources: Mapping[str, ThrowawayServer]
    at: Mapping[str, str] = field(default_factory=dict)  # by source, where that is not `a`

    def begin(self, fault: str = "", **environment: str) -> None:
        """Both members live; the fault, and what more is said to the daemon, is at `a` alone."""
        cluster = self.cluster
        cluster.start("a", **({"DM_FAULTS": fault} if fault else {}), **environment)
        cluster.start("b")
        owners = {name: self.at.get(name, "a") for name in self.sources}
        for name, server in self.sources.items():
            file = cluster.source_file(name, server)
            cluster["a"].must("operate-source", "create", file, "-w", owners[name])
        cluster.until_owned("b", owners)

    def lose(self) -> None:
        """The host of `a` is gone with all that it had."""
        self.cluster["a"].kill()
        shutil.rmtree(self.cluster["a"].home)
        self.cluster.until_owned("b", dict.fromkeys(self.sources, "b"))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The host of `a` stands still, with units, JVM and Python workers, beyond its lease: `b` has the sources."""
        daemon = self.cluster["a"]
        with frozen(daemon.pid, *daemon.hosts().values()):
            self.cluster.until_owned("b", dict.fromkeys(self.sources, "b"))
            yield

    def file(self, said: Mapping[str, Any] | None = None, **more: Any) -> str:
        """Of a task in mode `all`; `said` is what the instances say besides, by source."""
        instances = [
            {"source-id": name, "block-allow-list": "l", **(said or {}).get(name, {})} for name in self.sources
        ]
        return self.cluster.file(
            "task.yaml",
            {
                "name": "t", "task-mode": "all", "meta-schema": f"meta_{self.schema}",
                "target-database": login(self.target), "mysql-instances": instances,
                "block-allow-list": {"l": {"do-dbs": [self.schema]}}, **more,
            },
        )  # fmt: skip

    def ends(self) -> dict[str, Any]:
        """What instances say to begin where the sources are now."""
        return {
            name: {
                "meta": dict(zip(("binlog-name", "binlog-pos"), server.query("SHOW BINARY LOGS")[-1][:2], strict=True))
            }
            for name, server in self.sources.items()
        }

    def following(self, of_all: Mapping[str, Any] | None = None, **more: Any) -> str:
        """Of a task that begins there without a dump; `of_all` is what each instance says besides."""
        said = {name: {**end, **(of_all or {})} for name, end in self.ends().items()}
        return self.file(said, **{"task-mode": "incremental", **more})

    def start(self, file: str) -> None:
        """Start the task."""
        self.cluster["a"].must("start-task", file)

    def loaded(self, source: str) -> int:
        """How many parts with rows of a source's dump are at the target."""
        meta = f"meta_{self.schema}"
        there = self.target.query(
            f"SELECT 1 FROM information_schema.tables WHERE table_schema = '{meta}'"
            " AND table_name = 't_loader_checkpoint'"
        )
        if not there:
            return 0
        parts = f"SELECT COUNT(*) FROM {meta}.t_loader_checkpoint WHERE id = '{source}' AND cp_table <> ''"
        return int(self.target.query(parts)[0][0])

    def until_loaded(self, source: str, parts: int = 1) -> None:
        """Wait for parts of a source's dump."""
        wait_until(lambda: self.loaded(source) >= parts, f"{parts} parts of {source} are loaded", SECONDS)

    def until_same(self, table: str, source: str = "one") -> None:
        """Wait until the target has a table's rows."""
        query = f"SELECT * FROM {self.schema}.{table} ORDER BY 1, 2"
        there = f"SHOW TABLES FROM {self.schema} LIKE '{table}'"
        server, target = self.sources[source], self.target

        def same() -> bool:
            return bool(target.query(there)) and server.query(query) == target.query(query)

        wait_until(same, f"{table} is as at the source", SECONDS)

    def state(self, source: str = "one") -> dict[str, Any]:
        """Of the task on a source, as `b` tells it."""
        return self.cluster["b"].status("t")[source]

    def until_unit(self, unit: str, source: str = "one") -> None:
        """Wait until the unit of a source is this."""
        wait_until(lambda: self.state(source)["unit"] == unit, f"{source} is in {unit}", SECONDS)

    @property
    def errors(self) -> list[int]:
        """Codes of what holds the task on source `one`."""
        result = self.state().get("result")
        return [error["ErrCode"] for error in result["errors"]] if isinstance(result, dict) else []
