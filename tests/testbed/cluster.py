"""Members of a cluster on this machine: daemons with homes and ports of their own, and an etcd."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from dm.demo.private_server import HOST, PrivateServer, ReservedPort
from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Answer, Daemon, run_here
from tests.testbed.etcd import PASSWORD, EtcdServer
from tests.testbed.sync import wait_until


class Cluster:
    """Its members by name; each runs from `start` on."""

    def __init__(self, directory: Path, etcd: EtcdServer, prefix: str = "/dm/") -> None:
        self.directory = directory
        self.etcd = etcd
        self.options: tuple[str, ...] = ("--cluster", etcd.endpoint, "--cluster-prefix", prefix)
        if etcd.authority is not None:  # then it wants the password, too
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "password").write_text(f"{PASSWORD}\n")
            login = ("--cluster-user", "root", "--cluster-password-file", str(directory / "password"))
            self.options += ("--cluster-ca", str(etcd.authority.file), *login)
        self.members: dict[str, Daemon] = {}
        self.endpoints: dict[str, str] = {}  # of members that reach etcd another way
        self._ports: dict[str, ReservedPort] = {}

    def __enter__(self) -> Self:
        assert self.here("cluster", "init", *self.options).status == 0
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each in self.members.values():
            each.kill()
        for port in self._ports.values():
            port.release()

    def here(self, *arguments: str, home: str = "nobody") -> Answer:
        """Run `dmctl` without a daemon."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return run_here(arguments, self.directory, {"DM_HOME": str(self.directory / home / "home")})

    def port(self, name: str) -> int:
        """Of a member's API."""
        if name not in self._ports:
            self._ports[name] = ReservedPort()
        return self._ports[name].number

    def arguments(self, name: str) -> tuple[str, ...]:
        """Of a member's daemon."""
        address, tls = f"{HOST}:{self.port(name)}", tuple[str, ...]()
        if self.etcd.authority is not None:
            certificate, key = self.etcd.authority.signed(name, addresses=(HOST,))
            tls = ("--ssl-cert", str(certificate), "--ssl-key", str(key), "--ssl-ca", str(self.etcd.authority.file))
        cluster = ("--cluster", self.endpoints.get(name, self.etcd.endpoint), *self.options[2:])
        return (*cluster, "--name", name, "--listen", address, "--labels", f"zone=of-{name}", *tls)

    def daemon(self, name: str) -> Daemon:
        """A member's, before it runs."""
        return Daemon(self.directory / name)

    def start(self, *names: str, **environment: str) -> None:
        """Have members run."""
        for name in names:
            daemon = self.members.setdefault(name, self.daemon(name))
            daemon.start(*self.arguments(name), **environment)

    def address(self, name: str) -> str:
        """Of a member's port."""
        return f"{HOST}:{self._ports[name].number}"

    def __getitem__(self, name: str) -> Daemon:
        return self.members[name]

    def owners(self, at: str) -> dict[str, str]:
        """By source, as a member sees it."""
        listed = self.members[at].said("list-member", "-w", "-o", "json").json()["members"]
        return {source: one["name"] for one in listed[0]["worker"]["workers"] for source in one["sources"]}

    def until_owned(self, at: str, owners: Mapping[str, str | None]) -> None:
        """Wait until each source has this owner; None: any."""

        def owned() -> bool:
            found = self.owners(at)
            return all(source in found and owner in (None, found[source]) for source, owner in owners.items())

        wait_until(owned, f"the owners are {owners}", 120)

    def file(self, name: str, content: Mapping[str, Any]) -> str:
        """A source or task file that all members may be given."""
        from ruamel.yaml import YAML

        path = self.directory / name
        with path.open("w", encoding="utf-8") as out:
            YAML(typ="safe").dump(dict(content), out)
        return str(path)

    def source_file(self, name: str, server: PrivateServer) -> str:
        """Of a source."""
        return self.file(f"{name}.yaml", {"source-id": name, "from": login(server)})


def login(server: PrivateServer) -> dict[str, Any]:
    """As files have it."""
    return {"host": HOST, "port": server.port, "user": server.user, "password": server.password}


SOURCES: Final = ("one", "two")


class ClusterTask:
    """A task on two sources in a cluster; each has a table, and one without a key."""

    def __init__(
        self, cluster: Cluster, upstreams: tuple[ThrowawayServer, ...], target: PrivateServer, schema: str
    ) -> None:
        self.cluster, self.upstreams, self.target, self.schema = cluster, upstreams, target, schema
        self.written = 0

    def file(self, **more: Any) -> str:
        """The task file; it begins where the sources are now."""
        instances = [
            {
                "source-id": source,
                "block-allow-list": source,
                "meta": dict(zip(("binlog-name", "binlog-pos"), server.query("SHOW BINARY LOGS")[-1][:2], strict=True)),
            }
            for source, server in zip(SOURCES, self.upstreams, strict=True)
        ]
        lists = {source: {"do-tables": [{"db-name": self.schema, "tbl-name": f"{source}*"}]} for source in SOURCES}
        return self.cluster.file(
            "task.yaml",
            {
                "name": "t", "task-mode": "incremental", "meta-schema": f"meta_{self.schema}",
                "target-database": login(self.target), "mysql-instances": instances, "block-allow-list": lists, **more,
            },
        )  # fmt: skip

    def prepare(self) -> None:
        """The tables, on both sides."""
        for source, server in zip(SOURCES, self.upstreams, strict=True):
            for at in (server, self.target):
                at.execute(f"CREATE TABLE {self.schema}.{source} (id INT PRIMARY KEY)")
                at.execute(f"CREATE TABLE {self.schema}.{source}_keyless (id INT)")

    def write(self) -> None:
        """A row in each table of each source."""
        self.written += 1
        for source, server in zip(SOURCES, self.upstreams, strict=True):
            server.execute(
                f"INSERT INTO {self.schema}.{source} VALUES ({self.written})",
                f"INSERT INTO {self.schema}.{source}_keyless VALUES ({self.written})",
            )

    def counts(self) -> list[int]:
        """Rows at the target, by table: a row twice in one without a key counts twice."""
        tables = [name for source in SOURCES for name in (source, f"{source}_keyless")]
        return [self.target.query(f"SELECT count(*) FROM {self.schema}.{name}")[0][0] for name in tables]

    def arrives(self) -> None:
        """Rows that are written at each source now come to the target, once."""
        self.write()
        wait_until(lambda: self.counts() == [self.written] * 4, "both sources' rows are at the target", 120)
