"""States that an older dm has stored, recorded as files, and put back under servers and a daemon of today.

    python -m tests.testbed.stored_states TREE [SCENE ..]     records them with the dm of that tree

The archives are listed in tests/data/states/README.md, one for each flavour, scene and number of the progress' format.

A state is what is left when a machine dies: the daemon's home, the target with `dm_meta`, and the source's binlog, with
writes that came after the death. A source is put back as an empty server with the recorded identity and binlog files;
its rows are written beside the binlog. So positions and GTIDs of the state mean what they meant. Ports and the home's
path are other ones each time; they are replaced in the files that the registry keeps.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import pymysql

from dm.demo.private_server import GuardedProcess
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident, TableName
from dm.mysql.dialect import FLAVORS, Flavor
from tests.testbed.looks import looks

STATES: Final = Path(__file__).parents[1] / "data" / "states"
Scene = Literal["follow", "load", "shards", "cut-over"]
SCENES: Final[tuple[Scene, ...]] = ("follow", "load", "shards", "cut-over")
SCHEMA: Final = "shop"
TABLES: Final = ("journal", "orders", "stock")

_PASSWORD = "of-stored-states"
_SOURCE_ID, _TARGET_ID = 4801, 4802
_TEXTS = {"source": ("text", "directory"), "task": ("text", "directory")}


@dataclass(frozen=True)
class Restored:
    """A state that is back: its servers run, its daemon does not."""

    source: ThrowawayServer
    target: ThrowawayServer
    directory: Path  # of the daemon, whose home is in it

    def rows(self, server: ThrowawayServer) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of the tables, in an order of theirs."""
        return {name: sorted(server.query(f"SELECT * FROM {SCHEMA}.{name}"), key=repr) for name in TABLES}


@contextmanager
def _servers(flavor: Flavor, directory: Path) -> Iterator[tuple[ThrowawayServer, ThrowawayServer]]:
    with ExitStack() as stack:
        pair = [
            stack.enter_context(ThrowawayServer(flavor, directory / name, server_id=number, password=_PASSWORD))
            for name, number in (("source", _SOURCE_ID), ("target", _TARGET_ID))
        ]
        yield pair[0], pair[1]


def archive_of(flavor: Flavor, scene: Scene, number: int) -> Path:
    """Where a state is kept."""
    return STATES / f"{flavor}-{scene}-{number}.tar.xz"


@contextmanager
def restored(flavor: Flavor, scene: Scene, directory: Path, number: int = 0) -> Iterator[Restored]:
    """Put a state back, of this number of the progress' format."""
    with tarfile.open(archive_of(flavor, scene, number)) as archive:
        archive.extractall(directory, filter="data")
    facts = json.loads((directory / "facts.json").read_text())
    with _servers(flavor, directory) as (source, target):
        _execute(source, ["SET SESSION sql_log_bin = 0", *facts["source-rows"]])
        _execute(target, facts["target-rows"])
        source.stop()
        for fresh in source.data.glob("binlog.*"):
            fresh.unlink()
        for file in (directory / "source-files").iterdir():
            file.touch()  # servers purge files by their age
            file.rename(source.data / file.name)
        source.start()
        with closing(sqlite3.connect(directory / "home" / "registry.sqlite")) as database, database:
            for table, columns in _TEXTS.items():
                for column in columns:
                    for old, new in (
                        (f"port: {facts['source-port']}", f"port: {source.port}"),
                        (f"port: {facts['target-port']}", f"port: {target.port}"),
                        (facts["directory"], str(directory)),
                    ):
                        database.execute(f"UPDATE {table} SET {column} = REPLACE({column}, ?, ?)", (old, new))
        yield Restored(source, target, directory)


def _execute(server: ThrowawayServer, statements: Sequence[str]) -> None:
    server.execute("SET NAMES utf8mb4")
    server.execute(*statements)


# Recording.


class _OlderDaemon:
    """The dm of another source tree, with its own environment.

    `python -m` looks into the working directory first, where today's dm is; PYTHONSAFEPATH forbids that.
    """

    def __init__(self, tree: Path, directory: Path, **faults: str) -> None:
        self.directory = directory
        self._python = str(tree / ".venv" / "bin" / "python")
        home = str(directory / "home")
        self._environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONSAFEPATH": "1", "DM_HOME": home}
        command = [self._python, "-m", "dm.worker.daemon"]
        environment = {**self._environment, **faults}
        self.process = GuardedProcess(command, log=directory / "daemon.log", environment=environment)

    def dmctl(self, *words: str) -> str:
        done = subprocess.run(
            [self._python, "-m", "dm.cli.dmctl", *words], env=self._environment, cwd=self.directory,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"dmctl {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def kill(self) -> None:
        self.process.send(signal.SIGKILL)
        self.process.wait(60)


def record(tree: Path, flavor: Flavor, scene: Scene) -> None:
    """Let the dm of this tree store a state, and keep it."""
    with tempfile.TemporaryDirectory() as place, _servers(flavor, Path(place)) as (source, target):
        directory = Path(place)
        source.execute(
            f"CREATE DATABASE {SCHEMA}",
            f"CREATE TABLE {SCHEMA}.orders (id INT PRIMARY KEY, note VARCHAR(40), paid DECIMAL(8, 2))",
            f"CREATE TABLE {SCHEMA}.journal (at INT, what VARCHAR(20))",
            f"CREATE TABLE {SCHEMA}.stock (id INT PRIMARY KEY, name VARCHAR(20))",
        )
        _write(source, range(300))
        (directory / "source.yaml").write_text(
            f"source-id: one\nenable-relay: true\nfrom: {{host: 127.0.0.1, port: {source.port}, user: root,"
            f" password: {_PASSWORD}}}\n"
        )
        meta = "" if scene == "load" else "meta: {binlog-name: binlog.000001, binlog-pos: 4}, "
        (directory / "task.yaml").write_text(
            f"name: shop\ntask-mode: {'all' if scene == 'load' else 'incremental'}\n"
            f"target-database: {{host: 127.0.0.1, port: {target.port}, user: root, password: {_PASSWORD}}}\n"
            f"mysql-instances: [{{source-id: one, {meta}block-allow-list: b, validator-config-name: v,"
            " mydumper-config-name: global}]\n"
            f"block-allow-list: {{b: {{do-dbs: [{SCHEMA}]}}}}\nvalidators: {{v: {{mode: full}}}}\n"
            "mydumpers: {global: {rows: 100}}\nspark: {master: 'local[1]'}\n"
        )
        if scene == "shards":
            _merge(directory / "task.yaml")
        scenes = {"follow": _follow, "load": _load, "shards": _shards, "cut-over": _cut_over}
        scenes[scene](tree, source, target, directory)
        _keep(flavor, scene, source, target, directory)


def _write(source: ThrowawayServer, numbers: range) -> None:
    for first in numbers[::100]:
        part = range(first, min(first + 100, numbers.stop))
        source.execute(
            f"INSERT INTO {SCHEMA}.orders (id, note, paid) VALUES {', '.join(f'({n}, {n!r}, {n}.5)' for n in part)}",
            f"INSERT INTO {SCHEMA}.journal VALUES {', '.join(f'({n % 7}, {n % 3!r})' for n in part)}",
            f"INSERT INTO {SCHEMA}.stock (id, name) VALUES {', '.join(f'({n}, {n!r})' for n in part)}",
            f"UPDATE {SCHEMA}.orders SET note = CONCAT(note, '!') WHERE id % 5 = 0 AND id >= {first}",
            f"DELETE FROM {SCHEMA}.journal WHERE at = 3 LIMIT 2",
        )


def _follow(tree: Path, source: ThrowawayServer, target: ThrowawayServer, directory: Path) -> None:
    daemon = _OlderDaemon(tree, directory)
    _await_daemon(daemon)
    daemon.dmctl("operate-source", "create", "source.yaml")
    daemon.dmctl("start-task", "task.yaml")
    source.execute(f"ALTER TABLE {SCHEMA}.orders ADD COLUMN channel VARCHAR(9) DEFAULT 'web'")
    with closing(source.connect()) as undecided, undecided.cursor() as cursor:
        cursor.execute("XA START 'undecided'")
        cursor.execute(f"INSERT INTO {SCHEMA}.orders (id, note) VALUES (-1, 'decided after the death')")
        cursor.execute("XA END 'undecided'")
        cursor.execute("XA PREPARE 'undecided'")
    _write(source, range(300, 400))
    daemon.dmctl("wait", "shop", "--synced", "--timeout", "120")
    daemon.dmctl("diff", "shop")
    _write(source, range(400, 1000))
    daemon.kill()
    # What comes after the death: rows, a statement and the verdict, in this file and the next.
    _write(source, range(1000, 1100))
    source.execute(f"ALTER TABLE {SCHEMA}.stock ADD COLUMN place INT DEFAULT 7", "FLUSH BINARY LOGS")
    source.execute("XA COMMIT 'undecided'")
    _write(source, range(1100, 1200))


def _load(tree: Path, source: ThrowawayServer, target: ThrowawayServer, directory: Path) -> None:
    struck = directory / "faults"
    daemon = _OlderDaemon(tree, directory, DM_FAULTS="loader.chunk_committed=kill@2", DM_FAULTS_LOG=str(struck))
    _await_daemon(daemon)
    daemon.dmctl("operate-source", "create", "source.yaml")
    daemon.dmctl("start-task", "task.yaml")
    if not any(struck.exists() for _ in looks(180)):
        raise RuntimeError("no part was loaded")
    daemon.kill()
    _write(source, range(300, 400))


def _merge(task: Path) -> None:
    """Have the task merge its two equal tables."""
    settings = "validator-config-name: v, mydumper-config-name: global"
    text = task.read_text().replace(settings, "route-rules: [r]").partition("validators:")[0]
    task.write_text(
        f"{text}shard-mode: pessimistic\nspark: {{master: 'local[1]'}}\nroutes:\n  r: {{schema-pattern: {SCHEMA},"
        f" table-pattern: 'part*', target-schema: {SCHEMA}, target-table: whole}}\n"
    )


def _shards(tree: Path, source: ThrowawayServer, target: ThrowawayServer, directory: Path) -> None:
    """One of two shards waits for the other's DDL."""
    source.execute(*(f"CREATE TABLE {SCHEMA}.part{n} (id INT PRIMARY KEY, v INT)" for n in (1, 2)))
    target.execute(f"CREATE DATABASE {SCHEMA}", f"CREATE TABLE {SCHEMA}.whole (id INT PRIMARY KEY, v INT)")
    daemon = _OlderDaemon(tree, directory)
    _await_daemon(daemon)
    daemon.dmctl("operate-source", "create", "source.yaml")
    daemon.dmctl("start-task", "task.yaml")

    def write(part: int, first: int, more: str = "") -> None:
        values = ", ".join(f"({number}, 1{more})" for number in range(first, first + 50))
        source.execute(f"INSERT INTO {SCHEMA}.part{part} VALUES {values}")

    write(1, 0)
    write(2, 1000)
    source.execute(f"ALTER TABLE {SCHEMA}.part1 ADD COLUMN w INT")
    write(1, 100, ", 2")
    write(2, 1100)
    if not any("part2" in daemon.dmctl("shard-ddl-lock", "list", "shop") for _ in looks(30)):
        raise RuntimeError(f"no shard waits: {daemon.dmctl('query-status', 'shop')}")
    daemon.kill()
    write(1, 200, ", 3")
    source.execute(f"ALTER TABLE {SCHEMA}.part2 ADD COLUMN w INT")
    write(2, 1200, ", 4")


def _cut_over(tree: Path, source: ThrowawayServer, target: ThrowawayServer, directory: Path) -> None:
    """Applications belong to the target; the task rests, and is to be completed."""
    daemon = _OlderDaemon(tree, directory)
    _await_daemon(daemon)
    daemon.dmctl("operate-source", "create", "source.yaml")
    daemon.dmctl("start-task", "task.yaml")
    daemon.dmctl("wait", "shop", "--synced", "--timeout", "120")
    daemon.dmctl("cut-over", "shop", "--prove", "none", "--yes", "--timeout", "300")
    daemon.kill()


def _await_daemon(daemon: _OlderDaemon) -> None:
    socket = daemon.directory / "home" / "dm-worker.sock"
    if not any(socket.exists() for _ in looks(60)):
        raise RuntimeError((daemon.directory / "daemon.log").read_text())


def _keep(flavor: Flavor, scene: Scene, source: ThrowawayServer, target: ThrowawayServer, directory: Path) -> None:
    number = 0
    facts = {
        "source-port": source.port,
        "target-port": target.port,
        "directory": str(directory),
        "source-rows": list(_statements(source, SCHEMA)),
        "target-rows": [*_statements(target, SCHEMA), *_statements(target, "dm_meta")],
    }
    with suppress(pymysql.err.ProgrammingError):  # there is none where there was no number yet
        ((number,),) = target.query("SELECT MAX(format) FROM dm_meta.shop_stored_format")
    source.stop()
    with tarfile.open(archive_of(flavor, scene, number), "w:xz") as archive:
        text = json.dumps(facts, indent=1, ensure_ascii=False).encode()
        member = tarfile.TarInfo("facts.json")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
        for name in ("registry.sqlite", "registry.sqlite-wal", "relay", "work"):
            if (directory / "home" / name).exists():
                archive.add(directory / "home" / name, f"home/{name}", filter=_of_nobody)
        for file in sorted([*source.data.glob("binlog.*"), *source.data.glob("auto.cnf")]):
            archive.add(file, f"source-files/{file.name}", filter=_of_nobody)


def _of_nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _statements(server: ThrowawayServer, schema: str) -> Iterator[str]:
    """What makes the schema with its rows anew."""
    yield f"CREATE DATABASE {Ident(schema).sql}"
    tables = [str(name) for (name,) in server.query(f"SHOW TABLES FROM {Ident(schema).sql}")]
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for table in (TableName(schema, name) for name in tables):
            cursor.execute(f"SHOW CREATE TABLE {table.sql}")
            (found,) = cursor.fetchall()
            yield str(found[1]).replace("CREATE TABLE ", f"CREATE TABLE {Ident(schema).sql}.", 1)
            cursor.execute(f"SELECT * FROM {table.sql}")
            for row in cursor.fetchall():
                yield cursor.mogrify(f"INSERT INTO {table.sql} VALUES ({', '.join(['%s'] * len(row))})", row)


if __name__ == "__main__":
    for one in FLAVORS:
        for what in cast("list[Scene]", sys.argv[2:]) or SCENES:
            record(Path(sys.argv[1]).absolute(), one, what)
