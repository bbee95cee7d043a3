"""End-to-end cases: a folder with a task file, source files and SQL becomes a test.

tests/cases/<name>/
  task.yaml            the task; `@{source1.host}`, `@{source1.port}`, `@{target.port}`, `@{source1.binlog-name}`,
                       `@{source1.binlog-pos}`, `@{source1.binlog-gtid}` (at the mark, else before upstream1.sql) and
                       `@{source1.flavor}` are filled in; passwords are ${DM_SOURCE_PASSWORD} and ${DM_TARGET_PASSWORD}
  source1.yaml ...     one per upstream
  target.sql           run at the target before anything else; optional
  upstream1.sql ...    run at the upstream before the task starts; optional
  during*.sql          run one after the other once the task is under way, beginning at source1; optional
  expect.yaml          see `Expectation`

A case passes when the task ends as expected and rows and structures are the same byte by byte.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from ruamel.yaml import YAML

from dm.demo.compare import ComparedServer, TablePair, UpstreamTable, compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors.catalogue import CATALOGUE
from dm.ident import Ident, TableName
from dm.mysql.dialect import FLAVORS, Flavor, dialect
from tests.testbed.daemon import Daemon
from tests.testbed.park import ServerPark
from tests.testbed.replication_words import binlog_status, forgetting_binlogs
from tests.testbed.script import Step, render, steps

PASSWORDS = {"DM_SOURCE_PASSWORD": "password-of-the-sources", "DM_TARGET_PASSWORD": "password-of-the-target"}
# Those of the README; MariaDB, and MySQL before 8.0, neither have nor need XA_RECOVER_ADMIN.
_ON_BOTH = "SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT, TRIGGER, EVENT"
SOURCE_GRANTS: dict[Flavor, str] = {"mysql": f"{_ON_BOTH}, XA_RECOVER_ADMIN ON *.*", "mariadb": f"{_ON_BOTH} ON *.*"}
TARGET_GRANTS = "CREATE, SELECT, INSERT, UPDATE, DELETE, ALTER, DROP, INDEX, REFERENCES, REPLICATION CLIENT ON *.*"
TEMPORARY_GRANT = "CREATE TEMPORARY TABLES ON dm_meta.*"  # of those only validators and some filters need it
APPLIER_GRANTS = {flavor: f"{dialect(flavor).applier}, TRIGGER ON *.*" for flavor in FLAVORS}
# What the cut-over's verb needs besides, and what it sees XA transactions by (docs/cut-over.md).
FENCING_GRANTS: dict[Flavor, str] = {
    "mysql": "SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN, PROCESS ON *.*",
    "mariadb": "READ_ONLY ADMIN, PROCESS ON *.*",
}
XA_GRANTS: dict[Flavor, tuple[str, ...]] = {"mysql": ("SELECT ON performance_schema.*",), "mariadb": ()}
_SYSTEM_SCHEMAS = frozenset({"mysql", "sys"} | {"information_schema", "performance_schema", "metrics_schema"})
_META_SCHEMA = "dm_meta"
_RETRYABLE = frozenset(kind.code for kind in CATALOGUE.values() if kind.retryable)


@dataclass(frozen=True)
class Expectation:
    """The keys of expect.yaml."""

    flavors: list[str] = field(default_factory=lambda: list(FLAVORS))  # of all servers, or `source->target`
    tidb: list[str] = field(default_factory=list)  # flavors of sources from which it is played to a TiDB, too
    chaos: list[str] = field(default_factory=list)  # those of them that run in `make chaos` only
    mariadb_collation: str = ""  # a pattern; where a MariaDB as the target has none like it, the case is left out
    mariadb_since: list[int] = field(default_factory=list)  # before this release its statements are not understood
    mysql_since: list[int] = field(default_factory=list)  # the same
    start: int = 0  # exit status of start-task
    says: str = ""  # what a start that fails says, a part of it
    end: str = "synced"  # synced, finished, paused
    error: int = 0  # DM's error code of the paused subtask
    schemas: list[str] = field(default_factory=list)  # of the sources, that are compared; default: all
    routes: dict[str, str] = field(default_factory=dict)  # schema or schema.table -> where it goes; "" for nowhere
    extra: list[str] = field(default_factory=list)  # tables that only the target is to have
    queries: dict[str, list[list[Any]]] = field(default_factory=dict)  # asked at the target

    @classmethod
    def read(cls, path: Path) -> Expectation:
        """Read and check expect.yaml."""
        found = YAML(typ="safe").load(path.read_text(encoding="utf-8")) or {}
        unknown = found.keys() - {known.name for known in fields(cls)}
        if unknown:
            raise ValueError(f"{path}: unknown keys {sorted(unknown)}")
        return cls(**found)

    def route(self, table: TableName) -> TableName | None:
        """Where a source table is expected."""
        target = self.routes.get(str(table), self.routes.get(table.schema, table.schema))
        if not target:
            return None
        schema, _, name = target.partition(".")
        return TableName(schema, name or table.table)


class Case:
    """One run of one case on servers of given flavours."""

    def __init__(
        self, folder: Path, servers: str, park: ServerPark, directory: Path, environment: Mapping[str, str]
    ) -> None:
        self._environment = {**PASSWORDS, **environment}  # of the daemon
        self._folder = folder
        self._directory = directory
        self.expectation = Expectation.read(folder / "expect.yaml")
        source_flavor, _, target_flavor = servers.partition("->")
        count = len(list(folder.glob("source*.yaml")))
        self._sources = [_shared(park, source_flavor, f"case-source-{n}") for n in range(1, count + 1)]
        self._target: PrivateServer = (
            park.tidb()
            if target_flavor == "tidb"
            else park.target(cast(Flavor, target_flavor or source_flavor), "case-target")
        )
        self._servers: dict[str, PrivateServer] = {f"source{n}": each for n, each in enumerate(self._sources, 1)}
        self._servers["target"] = self._target
        self._values: dict[str, str] = {}

    def run(self) -> None:
        """Play the case and judge it."""
        wanted = self.expectation.mariadb_collation if self._target.flavor == "mariadb" else ""
        if wanted and not self._target.query("SHOW COLLATION LIKE %s", (wanted,)):
            pytest.skip(f"the target has no collation like {wanted}")
        for server in self._sources:
            since = self.expectation.mariadb_since if server.flavor == "mariadb" else self.expectation.mysql_since
            if [*server.installation.release] < since:
                pytest.skip(f"{server.installation.version} does not understand its statements")
        self._prepare_servers()
        self._run_before("target.sql", "target")
        for name in self._servers:
            if name != "target":
                self._mark(name)
                self._run_before(f"upstream{name.removeprefix('source')}.sql", name)
        self._directory.mkdir(parents=True)
        files = self._write_files()
        with Daemon(self._directory / "dm", self._environment) as daemon:
            daemon.must("operate-source", "create", *files)
            started = daemon.dmctl("start-task", str(self._directory / "task.yaml"))
            assert started.status == self.expectation.start, str(started)
            assert self.expectation.says in started.out + started.err, str(started)
            if started.status == 0:
                for script in sorted(self._folder.glob("during*.sql")):
                    self._play(script, daemon)
                self._wait(self.expectation.end, daemon)
        self._judge()

    def _prepare_servers(self) -> None:
        for name, server in self._servers.items():
            for (schema,) in server.query("SHOW DATABASES"):
                if str(schema).lower() not in _SYSTEM_SCHEMAS:
                    server.execute(f"DROP DATABASE {Ident(schema).sql}")
            target = name == "target"
            if not target:  # what other cases left in the binlog is no part of this one
                server.execute(forgetting_binlogs(server))
            if server.query("SELECT 1 FROM mysql.user WHERE User = 'dm' AND Host = '%'"):  # MySQL 5.6 has no IF EXISTS
                server.execute("DROP USER dm@'%'")
            password = PASSWORDS["DM_TARGET_PASSWORD" if target else "DM_SOURCE_PASSWORD"]
            at_target = (TARGET_GRANTS, *_applier_grants(server))
            server.create_user("dm", password, *(at_target if target else (_source_grants(server),)))
            self._values |= {f"{name}.host": server.host, f"{name}.port": str(server.port)}
            self._values[f"{name}.flavor"] = server.flavor

    def _mark(self, name: str) -> None:
        server = self._servers[name]
        ((file, offset, *rest),) = server.query(binlog_status(server))
        self._values |= {f"{name}.binlog-name": file, f"{name}.binlog-pos": str(offset)}
        if server.flavor == "mysql":
            self._values[f"{name}.binlog-gtid"] = str(rest[2]).replace("\n", "")
        else:
            self._values[f"{name}.binlog-gtid"] = str(server.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])

    def _run_before(self, file: str, name: str) -> None:
        path = self._folder / file
        if not path.exists():
            return
        server = self._servers[name]
        connection = server.connect()
        try:
            for step in steps(render(path.read_text(encoding="utf-8"), self._values), server.flavor):
                if step.verb == "mark":
                    self._mark(name)
                elif step.verb == "sql":
                    _execute(connection, step.text)
                else:
                    raise ValueError(f"{path}: `{step.verb}` is for during*.sql")
        finally:
            connection.close()

    def _write_files(self) -> list[str]:
        written = []
        for template in [*sorted(self._folder.glob("source*.yaml")), self._folder / "task.yaml"]:
            path = self._directory / template.name
            text = render(template.read_text(encoding="utf-8"), self._values)
            if template.name == "task.yaml" and self._means_other_collations:
                text += "\ncollation_compatible: strict\n"
            path.write_text(text, encoding="utf-8")
            written.append(str(path))
        return written[:-1]

    @property
    def _means_other_collations(self) -> bool:
        """Whether utf8mb4 alone is one collation at the sources, and another one at the target."""
        newer = self._target.flavor == "mysql" and not _before(self._target, (8, 0))
        return _before(self._sources[0], (8, 0)) and newer

    @property
    def _task(self) -> str:
        return cast(str, YAML(typ="safe").load((self._directory / "task.yaml").read_text(encoding="utf-8"))["name"])

    def _play(self, script: Path, daemon: Daemon) -> None:
        connections: dict[str, Connection[Cursor]] = {}
        on = "source1"
        try:
            for step in steps(render(script.read_text(encoding="utf-8"), self._values), self._sources[0].flavor):
                if step.verb == "on":
                    on = step.text
                elif step.verb == "sql":
                    if on not in connections:
                        connections[on] = self._servers[on].connect()
                    _execute(connections[on], step.text)
                else:
                    self._direct(step, daemon)
        finally:
            for connection in connections.values():
                connection.close()

    def _direct(self, step: Step, daemon: Daemon) -> None:
        match step.verb, step.text:
            case "wait", end:
                self._wait(end, daemon)
            case "dmctl", arguments:
                daemon.must(*shlex.split(arguments))
            case "kill", "daemon":
                daemon.kill()
                daemon.start()
            case "kill", "host":
                daemon.kill_hosts()
            case _:
                raise ValueError(f"`-- {step.verb} {step.text}` has no meaning here")

    def _wait(self, end: str, daemon: Daemon) -> None:
        if end == "synced":
            ends = {self._source_id(n): _binlog_end(server) for n, server in enumerate(self._sources, 1)}
            daemon.wait(self._task, lambda status: _all_synced(_healthy(status), ends), "synced")
        elif end == "finished":
            daemon.wait(
                self._task, lambda status: {one["stage"] for one in _healthy(status).values()} == {"Finished"}, end
            )
        elif end == "paused":
            status = daemon.wait(self._task, lambda status: any(_unhealed(one) for one in status.values()), end)
            if self.expectation.error:
                assert self.expectation.error in {code for one in status.values() for code in _unhealed(one)}, status
        else:
            raise ValueError(f"a task does not end as {end!r}")

    def _source_id(self, number: int) -> str:
        text = (self._directory / f"source{number}.yaml").read_text(encoding="utf-8")
        return cast(str, YAML(typ="safe").load(text)["source-id"])

    def _judge(self) -> None:
        expectation = self.expectation
        if expectation.start == 0 and expectation.end != "paused":
            report = compare(self._pairs(), self._target)
            report.unexpected = [table for table in report.unexpected if str(table) not in expectation.extra]
            assert report.identical, str(report)
        for query, rows in expectation.queries.items():
            found = [list(map(_plain, row)) for row in self._target.query(query)]
            assert found == rows, f"{query}: {found}, not {rows}"

    def _pairs(self) -> list[TablePair]:
        origins: dict[TableName, list[UpstreamTable]] = {}
        for server in self._sources:
            schemas = self.expectation.schemas or [
                name for (name,) in server.query("SHOW DATABASES") if name not in _SYSTEM_SCHEMAS
            ]
            present = [name for (name,) in server.query("SHOW DATABASES")]
            for pair in pair_tables([server], [name for name in schemas if name in present], self._route):
                origins.setdefault(pair.target, []).extend(pair.origins)
        return [TablePair(target, tuple(tables)) for target, tables in origins.items()]

    def _route(self, _: ComparedServer, table: TableName) -> TableName | None:
        return self.expectation.route(table)


def _applier_grants(server: PrivateServer) -> tuple[str, ...]:
    if not isinstance(server, ThrowawayServer):  # TiDB has none
        return ()
    # MariaDB's came with 10.5 (its documentation, "GRANT"); before, row events need SUPER.
    without = server.flavor == "mariadb" and server.installation.release < (10, 5)
    return () if without else (APPLIER_GRANTS[server.flavor],)


def _source_grants(server: PrivateServer) -> str:
    return SOURCE_GRANTS["mariadb" if _before(server, (8, 0)) else server.flavor]


def _before(server: PrivateServer, release: tuple[int, int]) -> bool:
    """Whether it is a MySQL before this release."""
    return isinstance(server, ThrowawayServer) and server.flavor == "mysql" and server.installation.release < release


def _shared(park: ServerPark, flavor: str, role: str) -> ThrowawayServer:
    return park.shared(cast(Flavor, flavor), role)


def _execute(connection: Connection[Cursor], statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def _binlog_end(server: ThrowawayServer) -> str:
    ((file, offset, *_),) = server.query(binlog_status(server))
    return f"({file}, {offset})"


def _all_synced(status: dict[str, dict[str, Any]], ends: dict[str, str]) -> bool:
    """Synced, and with the end that the source has now: an older answer would be about an older end."""
    return all(
        status[source]["stage"] == "Running"
        and status[source].get("sync", {}).get("synced") is True
        and status[source]["sync"]["masterBinlog"] == end
        for source, end in ends.items()
    )


def _healthy(status: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The status itself; fails at once on an error that no waiting will heal."""
    for subtask in status.values():
        assert not _unhealed(subtask), json.dumps(subtask["result"], indent=2)
    return status


def _unhealed(subtask: dict[str, Any]) -> list[int]:
    """The codes of a paused subtask's errors that no waiting will heal."""
    if subtask["stage"] != "Paused" or not subtask["result"]:
        return []
    return [code for error in subtask["result"]["errors"] if (code := error["ErrCode"]) not in _RETRYABLE]


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int | float | str) else str(value)
