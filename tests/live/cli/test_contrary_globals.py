"""Every verb does the same whatever the servers' global variables are: each is set contrary to what dm needs.

What the source's applications write meanwhile, they write in sessions that begin with these globals.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Literal

import pytest

from dm.demo.compare import TablePair, UpstreamTable, compare
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from tests.testbed.contrary import (
    EVERYWHERE,
    FOLLOWING,
    OF_A_TARGET,
    OF_MARIADB,
    OF_MYSQL,
    OF_TIDB,
    Globals,
    Recorded,
    application,
    contrary,
    write,
)  # fmt: skip
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import wait_until
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(600)]


def beginning(schema: str, member: str, charset: str) -> Iterator[str]:
    yield (
        f'CREATE TABLE {schema}."a b" ("id" INT PRIMARY KEY, "select" VARCHAR(40), "c" CHAR(9), "at" TIMESTAMP NULL,'
        ' "n" DECIMAL(20,6), "d" DATE, "j" TEXT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4'
    )
    yield f'CREATE TABLE {schema}.keyless ("v" VARCHAR(40), "n" INT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4'
    yield (
        f'CREATE TABLE {schema}.zero ("id" INT AUTO_INCREMENT PRIMARY KEY, "t" TIMESTAMP NOT NULL DEFAULT'
        f" CURRENT_TIMESTAMP, \"e\" ENUM('x','{member}')) ENGINE=InnoDB DEFAULT CHARSET={charset}"
    )
    for start in range(0, 400, 100):
        rows = ",".join(
            f"({number}, 'back\\slash \" {number}', 'pad', '2024-03-10 02:30:0{number % 10}', 1.5, '2024-01-01', NULL)"
            for number in range(start, start + 100)
        )
        yield f'INSERT INTO {schema}."a b" VALUES {rows}'
        yield f"INSERT INTO {schema}.keyless VALUES " + ",".join(f"('{number}', {number % 7})" for number in range(100))
    yield f'CREATE TABLE {schema}.late ("id" INT PRIMARY KEY, "v" VARCHAR(9)) ENGINE=InnoDB'
    yield f"INSERT INTO {schema}.late VALUES (1, '\\'), (2, '\"')"
    yield "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"
    yield f"INSERT INTO {schema}.zero VALUES (0, '2024-06-01 00:00:00', 'x')"


def changes(schema: str, member: str, number: int) -> Iterator[str]:
    """One more round of rows and DDL, each with quotes and backslashes that mean what the session's modes say."""
    yield f'UPDATE {schema}."a b" SET "select" = \'a\\\' WHERE "id" = {number}'
    yield f"INSERT INTO {schema}.keyless VALUES ('new \\{number}', {number})"
    yield f"INSERT INTO {schema}.zero (\"e\") VALUES ('{member}')"
    yield f'DELETE FROM {schema}."a b" WHERE "id" = {100 + number}'
    yield f'ALTER TABLE {schema}."a b" ADD COLUMN "more {number}" VARCHAR(20) NOT NULL DEFAULT \'\\n "x"\''
    yield f'CREATE TABLE {schema}."made {number}" ("id" INT PRIMARY KEY, "at" TIMESTAMP NULL) ENGINE=InnoDB'
    yield f"INSERT INTO {schema}.\"made {number}\" VALUES (1, '2024-02-03 04:05:06')"
    yield f'ALTER TABLE {schema}."made {number}" MODIFY "id" BIGINT, COMMENT \'back\\slash\''


def end_of(server: ThrowawayServer) -> str:
    """The end of its binlog, as `flashback` takes a place."""
    with closing(application(server)) as session, session.cursor() as cursor:
        cursor.execute("SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS")
        file, offset, *_ = cursor.fetchall()[0]
    return f"{file}:{offset}"


def files(directory: Path, source: PrivateServer, target: PrivateServer, schema: str) -> None:
    """The source's file, the task's, which is called as the schema, and one of shards, whose schema is `<schema>_s`.

    `first.yaml` is the task before a table is added to it.
    """
    (directory / "source.yaml").write_text(
        f"source-id: one\nfrom: {{host: {source.host}, port: {source.port}, user: root, password: {source.password}}}\n"
    )
    into = (
        f"meta-schema: {schema}_meta\ntask-mode: all\ntarget-database: {{host: {target.host}, port: {target.port},"
        f" user: root, password: '{target.password}'}}\n"
    )
    for file, less in (("first", f", ignore-tables: [{{db-name: {schema}, tbl-name: late}}]"), ("task", "")):
        (directory / f"{file}.yaml").write_text(
            f"name: {schema}\n{into}"
            "mysql-instances: [{source-id: one, block-allow-list: b, mydumper-config-name: m, syncer-config-name: s,"
            " expression-filters: [f]}]\n"
            f"block-allow-list: {{b: {{do-dbs: [{schema}]{less}}}}}\n"
            "mydumpers: {m: {threads: 2, rows: 100}}\nsyncers: {s: {checkpoint-flush-interval: 1, worker-count: 2}}\n"
            f'expression-filter: {{f: {{schema: {schema}, table: keyless, insert-value-expr: "n / 3 = 33.3333"}}}}\n'
        )
    (directory / "healed.yaml").write_text(
        f"name: {schema}_h\n{into}mysql-instances: [{{source-id: one, block-allow-list: b}}]\n"
        f"block-allow-list: {{b: {{do-dbs: [{schema}_s]}}}}\n"
    )
    (directory / "shards.yaml").write_text(
        f"name: {schema}_s\n{into}shard-mode: pessimistic\n"
        "mysql-instances: [{source-id: one, block-allow-list: b, route-rules: [r]}]\n"
        f"block-allow-list: {{b: {{do-dbs: [{schema}_s]}}}}\n"
        f"routes: {{r: {{schema-pattern: {schema}_s, table-pattern: t_*, target-schema: {schema}_s,"
        " target-table: t}}\n"
    )


def compared(daemon: Recorded, task: str) -> None:
    """All tables are equal, but for one that is not compared, since a filter may leave out rows of it."""
    answer = daemon.said("diff", task)
    assert answer.out, str(answer)
    *tables, _ = answer.out.splitlines()
    ends = sorted(line.split(": ")[1].split(",")[0] for line in tables)
    assert (answer.status, set(ends[:-1]), ends[-1]) == (2, {"equal"}, "not compared"), str(answer)


def follows(daemon: Recorded, source: ThrowawayServer, schema: str, names: tuple[str, str], *, briefly: bool) -> None:
    """A task that is loaded, follows, rests and goes on; `names`: a member of an ENUM, a character set."""
    member, charset = names
    at_tidb = charset == "utf8mb4"
    write(source, *beginning(schema, member, charset))
    daemon.must("operate-source", "create", "source.yaml")
    daemon.must("start-relay", "-s", "one")
    first = "task.yaml" if briefly else "first.yaml"
    daemon.must("check-task", first)
    daemon.must("start-task", first)
    daemon.synced(schema)
    write(source, *changes(schema, member, 1))
    daemon.synced(schema)
    daemon.must("query-status", schema)
    if not briefly:
        daemon.must("update-task", "task.yaml", "--yes")
        daemon.synced(schema)
    daemon.must("validation", "start", schema)
    place = end_of(source)
    daemon.must(
        "pace", schema, "-l", "target-threads-running=1000", "-l", "query=SELECT 1 / 2", "-l", "query-limit=0.6"
    )
    write(source, *changes(schema, member, 2))
    daemon.synced(schema)
    compared(daemon, schema)
    daemon.must("pace", schema, "--none")
    daemon.must("support-bundle", "-o", "bundle.tar.gz")
    validated(daemon, schema)
    if not briefly:
        daemon.must("reload-table", schema, schema, "keyless")
        daemon.synced(schema)
        aside(daemon, source, schema)
    daemon.must("pause-task", schema)
    told(daemon, schema)
    write(source, *changes(schema, member, 3))
    if not at_tidb:
        daemon.must("flashback", schema, "--sql", "back", "--from", place, "--tables", f"{schema}.zero")
    if not briefly and not at_tidb:
        daemon.must("replay", schema)
    daemon.must("resume-task", schema)
    daemon.synced(schema)
    daemon.must("stop-task", schema)
    write(source, *changes(schema, member, 4))
    daemon.must("start-task", "task.yaml")
    daemon.synced(schema)
    if not briefly:
        compared(daemon, schema)


def aside(daemon: Recorded, source: ThrowawayServer, schema: str) -> None:
    """A table waits beside the stream and comes back; then it is given up, and loaded again."""
    name = f"{schema}.keyless"
    for ends in ("release", "drop"):
        daemon.must("table", "hold", schema, name)
        daemon.wait(
            schema,
            lambda status: [each["phase"] for each in status["one"].get("branches") or []] == ["aside"],
            "the table is aside",
        )
        write(source, f"INSERT INTO {name} VALUES ('aside \\', 7)")
        assert "aside, since" in daemon.must("table", "list", schema).out
        daemon.must("table", ends, schema, name)
        if ends == "drop":
            daemon.must("reload-table", schema, schema, "keyless")
        daemon.synced(schema)


def validated(daemon: Recorded, schema: str) -> None:
    """Its validator tells, and has nothing to tell."""
    daemon.must("validation", "status", schema)
    daemon.must("validation", "update", schema, "--cutover-binlog-pos", "(binlog.000001, 4)")
    assert daemon.must("validation", "show-error", schema, "-o", "json").json()["error"] == []
    for verb in ("ignore-error", "resolve-error", "clear-error"):
        daemon.must("validation", verb, schema, "--all")
    daemon.must("validation", "stop", schema)


def told(daemon: Recorded, schema: str) -> None:
    """A person looks at structures and events of a paused task, and leaves all as it was."""
    there = (schema, schema, "a b")
    before = daemon.must("binlog-schema", "list", *there).out
    daemon.must("binlog-schema", "delete", *there)
    for origin in ("--from-target", "--from-source"):
        daemon.must("binlog-schema", "update", *there, origin)
    assert daemon.must("binlog-schema", "list", *there).out == before
    ahead = ("-b", "binlog.999999:4")
    statement = f"ALTER TABLE {schema}.`a b` ADD COLUMN `\\` VARCHAR(9) DEFAULT '\\\\'"
    for verb, words in (("skip", ()), ("replace", (statement,)), ("inject", (statement,))):
        daemon.must("binlog", verb, schema, *words, *ahead)
        assert len(daemon.must("binlog", "list", schema, "-o", "json").json()["sources"]) == 1
        daemon.must("binlog", "revert", schema, *ahead)


def shards(daemon: Recorded, source: ThrowawayServer, schema: str) -> None:
    """A DDL waits for a shard, and a person lets it wait no more."""
    for number in (1, 2):
        write(source, f'CREATE TABLE {schema}_s.t_{number} ("id" INT PRIMARY KEY) ENGINE=InnoDB',
              f"INSERT INTO {schema}_s.t_{number} VALUES ({number})")  # fmt: skip
    daemon.must("start-task", "shards.yaml")
    daemon.synced(f"{schema}_s")
    write(source, f"ALTER TABLE {schema}_s.t_1 ADD COLUMN \"more\" VARCHAR(9) DEFAULT '\\'")

    def locks() -> list[str]:
        return [each["ID"] for each in daemon.must("shard-ddl-lock", "list", "-o", "json").json()["locks"]]

    wait_until(lambda: bool(locks()), "a DDL waits")
    daemon.must("shard-ddl-lock", "unlock", locks()[0])
    daemon.synced(f"{schema}_s")
    daemon.must("stop-task", f"{schema}_s")


def heals(daemon: Recorded, source: ThrowawayServer, schema: str) -> None:
    """What a task without filters has missed is found by comparing."""
    name = f"{schema}_h"
    daemon.must("start-task", "healed.yaml")
    daemon.synced(name)
    daemon.must("pause-task", name)
    write(source, f'INSERT INTO {schema}_s.t_1 ("id") VALUES (7)', f'DELETE FROM {schema}_s.t_2 WHERE "id" > 0')
    daemon.must("heal", name)
    daemon.must("resume-task", name)
    daemon.synced(name)
    daemon.must("diff", name)
    daemon.must("stop-task", name, "--remove-meta")


def rests(daemon: Recorded, source: ThrowawayServer, schema: str) -> None:
    """The relay and the source are operated, and forgotten with the task."""
    daemon.must("pause-relay", "-s", "one")
    daemon.must("resume-relay", "-s", "one")
    write(source, "FLUSH BINARY LOGS")
    daemon.synced(schema)
    daemon.must("purge-relay", "-s", "one", "--filename", end_of(source).partition(":")[0])
    daemon.must("stop-task", schema)
    listed = daemon.must("forgotten", "list", "--file", "task.yaml", "-o", "json").json()["forgotten"]
    stored = [each["name"] for each in listed if each["name"].startswith("progress/")]
    assert stored == [f"progress/{schema}", f"progress/{schema}_s"], listed
    daemon.must("forgotten", "remove", *stored, "--file", "task.yaml")
    daemon.must("stop-relay", "-s", "one")
    daemon.must("operate-source", "update", "source.yaml")
    daemon.must("operate-source", "show")
    daemon.must("operate-source", "stop", "one")


def differences(source: PrivateServer, target: PrivateServer, schema: str) -> str:
    names = [str(row[0]) for row in source.query(f"SHOW TABLES FROM {schema}")]
    pairs = [TablePair(TableName(schema, name), (UpstreamTable(source, TableName(schema, name)),)) for name in names]
    assert len(pairs) == 8
    report = compare(pairs, target)
    return "" if report.identical else str(report)


@pytest.mark.parametrize(
    ("source_kind", "target_kind", "briefly"),
    [
        ("mysql", "mysql", True),
        pytest.param("mysql", "mysql", False, marks=pytest.mark.chaos),
        pytest.param("mariadb", "mariadb", False, marks=pytest.mark.chaos),
        pytest.param("mysql", "mariadb", False, marks=pytest.mark.chaos),
        pytest.param("mariadb", "mysql", False, marks=pytest.mark.chaos),
        pytest.param("mysql", "tidb", False, marks=[pytest.mark.tidb, pytest.mark.chaos]),
    ],
)
def test_every_verb_does_the_same(
    source_kind: Flavor,
    target_kind: Flavor | Literal["tidb"],
    briefly: bool,
    park: ServerPark,
    schema: SchemaFactory,
    tmp_path: Path,
) -> None:
    kinds: dict[str, Globals] = {"mysql": OF_MYSQL, "mariadb": OF_MARIADB, "tidb": OF_TIDB}
    source = park.shared(source_kind, "upstream-1")
    target: PrivateServer = park.tidb() if target_kind == "tidb" else park.target(target_kind, "target")
    name = schema(source)
    source.execute(f"CREATE DATABASE {name}_s")
    files(tmp_path, source, target, name)
    try:
        with ExitStack() as stack:
            stack.enter_context(contrary(source, {**EVERYWHERE, **kinds[source_kind]}))
            engine = {} if isinstance(target, TidbServer) else OF_A_TARGET
            stack.enter_context(contrary(target, {**EVERYWHERE, **kinds[target_kind], **engine}))
            daemon = stack.enter_context(Recorded(tmp_path))
            # TiDB does not escape a backslash in what it prints of an ENUM, and has one collation of latin1 only.
            names = ("y z", "utf8mb4") if target_kind == "tidb" else ("y\\z", "latin1")
            follows(daemon, source, name, names, briefly=briefly)
            if not briefly:
                shards(daemon, source, name)
                heals(daemon, source, name)
                rests(daemon, source, name)
                assert daemon.called == FOLLOWING - ({"flashback", "replay"} if target_kind == "tidb" else set())
        assert differences(source, target, name) == ""
    finally:
        target.execute(*(f"DROP DATABASE IF EXISTS {name}{end}" for end in ("", "_meta", "_s")))
        source.execute(f"DROP DATABASE IF EXISTS {name}_s")
