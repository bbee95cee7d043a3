"""Someone who has just installed dm: two servers, a schema, files written by hand, and every mistake to make."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from dm.cli.client import Client
from dm.demo.servers import ThrowawayServer
from dm.verbs.sources import ShowSources
from dm.verbs.status import ListTasks
from tests.testbed.daemon import Answer, Daemon
from tests.testbed.snapshots import Known, Snapshots

OK, FAILED, BAD_USAGE, PRECHECK_FAILED = 0, 1, 2, 3
AT_SOURCE = "SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT, TRIGGER, EVENT"
AT_TARGET = "CREATE, SELECT, INSERT, UPDATE, DELETE, ALTER, DROP, INDEX, REFERENCES"
_CANARY = "canary-71fe"  # every password holds it; nothing that is printed may


def version_of(server: ThrowawayServer) -> str:
    return str(server.query("SELECT VERSION()")[0][0])


class Newcomer:
    """The files, the daemon, and what can be seen of both sides from outside."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, directory: Path) -> None:
        self.upstream = upstream
        self.target = target
        self.schema = f"shop_{secrets.token_hex(4)}"
        self.meta = f"meta_{self.schema}"
        self.directory = directory
        self.daemon = Daemon(directory)
        self._names = 0
        self._snapshots = Snapshots(
            Path(__file__).parent / "said",
            schema=self.schema,
            meta=self.meta,
            source_port=upstream.port,
            source_version=version_of(upstream),
            server_id=upstream.server_id,
            target_port=target.port,
        )
        upstream.execute(
            f"CREATE DATABASE {self.schema}",
            f"CREATE TABLE {self.schema}.orders (id INT PRIMARY KEY, v VARCHAR(20))",
            f"INSERT INTO {self.schema}.orders VALUES (1, 'one'), (2, 'two')",
        )
        target.execute(
            f"CREATE DATABASE {self.schema}", f"CREATE TABLE {self.schema}.orders (id INT PRIMARY KEY, v VARCHAR(20))"
        )

    def close(self) -> None:
        """Leave the servers as they were found, but for accounts."""
        self.daemon.stop()
        for server in (self.upstream, self.target):
            server.execute(f"DROP DATABASE IF EXISTS {self.schema}", f"DROP DATABASE IF EXISTS {self.meta}")

    def new_name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names:02d}"

    def user(self, server: ThrowawayServer, *grants: str) -> str:
        """An account of its own; XA RECOVER takes a privilege of its own since MySQL 8."""
        name = f"new_{secrets.token_hex(4)}"
        server.create_user(name, f"{_CANARY}-{name}", *grants)
        return name

    def good_source_user(self) -> str:
        more = ["XA_RECOVER_ADMIN ON *.*"] if self.upstream.flavor == "mysql" else []
        return self.user(self.upstream, f"{AT_SOURCE} ON *.*", *more)

    def good_target_user(self) -> str:
        return self.user(self.target, *(f"{AT_TARGET} ON {schema}.*" for schema in (self.schema, self.meta)))

    def file(self, name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        (self.directory / name).write_bytes(data)
        return name

    def source_text(
        self, name: str, user: str, *, port: int | None = None, password: str | None = None, more: str = ""
    ) -> str:
        return (
            f"source-id: {name}\n{more}from:\n  host: 127.0.0.1\n  port: {port or self.upstream.port}\n"
            f"  user: {user}\n  password: '{password or f'{_CANARY}-{user}'}'\n"
        )

    def task_text(
        self,
        name: str,
        source: str,
        user: str,
        *,
        mode: str = "incremental",
        port: int | None = None,
        password: str | None = None,
    ) -> str:
        return (
            f"name: {name}\ntask-mode: {mode}\nmeta-schema: {self.meta}\ntarget-database:\n  host: 127.0.0.1\n"
            f"  port: {port or self.target.port}\n  user: {user}\n  password: '{password or f'{_CANARY}-{user}'}'\n"
            f"mysql-instances:\n  - source-id: {source}\n    block-allow-list: shop\n"
            f"block-allow-list:\n  shop:\n    do-dbs: [{self.schema}]\n"
        )

    def state(self) -> dict[str, Any]:
        """Everything that a command might have left behind, but for processes."""
        client = Client(None, {"DM_HOME": str(self.daemon.home)}, print)
        names = [self.meta, self.schema]
        return {
            "sources": {one["source"]: one["from"] for one in client.ask(ShowSources())["sources"]},
            "tasks": {one["taskName"]: one["taskStatus"] for one in client.ask(ListTasks())["tasks"]},
            "work": sorted(path.name for path in (self.daemon.home / "work").iterdir()),
            "relay": sorted(path.name for path in (self.daemon.home / "relay").iterdir()),
            "at the target": self.target.query(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema IN (%s, %s)"
                " UNION SELECT schema_name, '' FROM information_schema.schemata WHERE schema_name IN (%s, %s)"
                " ORDER BY 1, 2",
                [*names, *names],
            ),
            "outside": sorted(path.name for path in self.directory.iterdir() if path.suffix not in (".yaml", ".out")),
        }

    def must(self, *words: str) -> None:
        """A command that has to succeed."""
        answer = self.daemon.said(*words)
        assert answer.status == OK, str(answer)

    def refused(self, status: int, *words: str, says: str, also: str = "") -> Answer:
        """The command is refused with this exit status and one message that says so, and leaves nothing behind."""
        before, processes = self.state(), set(self.daemon.hosts())
        answer = self.daemon.said(*words)
        assert answer.status == status, str(answer)
        told = answer.err
        if status == PRECHECK_FAILED:  # the list of findings is an answer, and its cells are folded
            told = " ".join(answer.out.split())
        assert says in told, str(answer)
        assert also in told, str(answer)
        assert answer.err.count("Error") == 1, str(answer)
        assert answer.err.startswith("Error "), str(answer)
        assert "Traceback" not in answer.out + answer.err, str(answer)
        assert "internal" not in answer.err, str(answer)
        if status != PRECHECK_FAILED:
            assert answer.out == "", str(answer)
        assert _CANARY not in answer.out + answer.err, str(answer)
        assert self.state() == before
        assert set(self.daemon.hosts()) <= processes
        return answer

    def told(self, snapshot: str, answer: Answer, **known: Known) -> None:
        """The answer is the snapshot's, word by word."""
        self._snapshots.demand(snapshot, answer, **known)
