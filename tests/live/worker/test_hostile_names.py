"""A whole task on schemas, tables, columns and indexes with names that break whatever does not quote them.

Every place that carries a name sees each of them: dump, its files, load, rows, DDL, rules, status, errors, operators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from dm.demo.compare import ComparedServer, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident, TableName
from tests.testbed.daemon import Daemon

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

# What servers allow: no NUL, no character beyond U+FFFF, no space at the end, 64 characters, 255 bytes of file name.
ALL = (
    "back`tick``s`",
    "double\"quote's'",
    "new\nline\r\ttab",
    "per%cent%s%(x)s%25",
    "select",
    "ünïcode 表 שם \u200b",
    "x" * 64,
    "表" * 50,
    ".a.b;-- c/*!80000 d*/#e",
    "back\\slash\\n\\",
    "${dollar}{0}{name}",
    " lead",
    "*?[a-z]",
    "~^(re|gex).+$",
    "12e5",
    "../../etc",
)
SAMPLE = (*ALL[:4], *ALL[5:7])
MOVED = "routed `to` \"a\" 'b' %s \n \\"


Names = Sequence[str]


def around(names: Names, number: int) -> tuple[Ident, Ident, Ident, Ident, Ident]:
    """Five other names: of a table, of what stands in it, of a table that comes later."""
    first, second, third, fourth, fifth = (Ident(names[(number + step) % len(names)]) for step in range(1, 6))
    return first, second, third, fourth, fifth


def exactly(name: str) -> str:
    """A pattern that means this name alone."""
    escaped = re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", name).replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
    return f"~^{escaped}$"


@pytest.fixture
def clean(upstream: ThrowawayServer, target: ThrowawayServer) -> Iterator[None]:
    yield
    for server in (upstream, target):
        server.execute(*(f"DROP DATABASE IF EXISTS {Ident(name).sql}" for name in (*ALL, MOVED, "dm_meta")))


def files(directory: Path, names: Names, upstream: ThrowawayServer, target: ThrowawayServer) -> tuple[str, str]:
    directory.mkdir()
    login = {"user": "dm", "password": "canary"}
    source = directory / "source.yaml"
    source.write_text(json.dumps({"source-id": "one", "from": {"host": "127.0.0.1", "port": upstream.port, **login}}))
    table, column, *_ = around(names, 1)
    rules = {
        "name": "hostile",
        "task-mode": "all",
        "target-database": {"host": "127.0.0.1", "port": target.port, **login},
        "spark": {"master": "local[2]"},
        "mysql-instances": [
            {
                "source-id": "one",
                "block-allow-list": "b",
                "route-rules": ["r"],
                "filter-rules": ["f"],
                "expression-filters": ["e"],
            }
        ],
        "block-allow-list": {"b": {"do-dbs": [exactly(name) for name in names]}},
        "routes": {"r": {"schema-pattern": exactly(names[0]), "target-schema": MOVED}},
        "filters": {
            "f": {
                "schema-pattern": names[2],  # no wildcard is in these two
                "table-pattern": around(names, 2)[4],
                "events": ["truncate table"],
                "action": "Ignore",
            }
        },
        "expression-filter": {
            "e": {"schema": names[1], "table": table, "insert-value-expr": f"{column.sql} > 1000"},
        },
    }
    task = directory / "task.yaml"
    task.write_text(json.dumps(rules))
    return str(source), str(task)


def before(names: Names, number: int) -> list[str]:
    schema = names[number]
    table, key, text, index, _ = around(names, number)
    statements = [
        f"CREATE DATABASE {Ident(schema).sql}",
        f"CREATE TABLE {TableName(schema, table).sql} ({key.sql} INT PRIMARY KEY, {text.sql} VARCHAR(100),"
        f" UNIQUE KEY {index.sql} ({text.sql}))",
        f"CREATE TABLE {TableName(schema, key).sql} ({text.sql} VARCHAR(100), {index.sql} INT)",
    ]
    rows = ", ".join(f"({row}, CONCAT({row}, {_quoted(names[row % len(names)])}))" for row in range(20))
    statements.append(f"INSERT INTO {TableName(schema, table).sql} VALUES {rows}")
    statements.append(f"INSERT INTO {TableName(schema, key).sql} VALUES ({_quoted(schema)}, 1), (NULL, 2), (NULL, 2)")
    return statements


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def during(names: Names, number: int) -> list[str]:
    schema = names[number]
    table, key, text, index, fifth = around(names, number)
    whole, plain = TableName(schema, table).sql, TableName(schema, key).sql
    ansi = '"' + fifth.replace('"', '""') + '"'
    return [
        f"INSERT INTO {whole} VALUES (100, {_quoted(index)}), (2000, NULL)",
        f"UPDATE {whole} SET {text.sql} = CONCAT({text.sql}, '!') WHERE {key.sql} % 3 = 0",
        f"DELETE FROM {plain} WHERE {index.sql} = 2 LIMIT 1",
        f"ALTER TABLE {whole} ADD COLUMN {fifth.sql} INT DEFAULT 7 COMMENT {_quoted(schema)},"
        f" ADD KEY {key.sql} ({fifth.sql}, {key.sql})",
        f"USE {Ident(schema).sql}",
        "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
        f"CREATE TABLE {ansi} ({ansi} INT PRIMARY KEY, CONSTRAINT {ansi} CHECK ({ansi} > 0))",
        f"INSERT INTO {ansi} VALUES (1), (2)",
        "SET SESSION sql_mode = DEFAULT",
        f"ALTER TABLE {table.sql} CHANGE COLUMN {text.sql} {table.sql} VARCHAR(120), DROP INDEX {key.sql}",
        f"CREATE INDEX {fifth.sql} ON {table.sql} ({table.sql}(10))",
        f"UPDATE {table.sql} SET {fifth.sql} = {key.sql} WHERE {key.sql} < 5",
        f"RENAME TABLE {plain} TO {index.sql}",
        f"INSERT INTO {index.sql} VALUES ('later', 3)",
        f"TRUNCATE TABLE {fifth.sql}",
        f"DROP TABLE {fifth.sql}" if number % 2 else f"INSERT INTO {fifth.sql} VALUES (3)",
    ]


@pytest.mark.chaos
@pytest.mark.parametrize("names", [pytest.param(SAMPLE, id="some"), pytest.param(ALL, id="all")])
@pytest.mark.ci_flavor("mysql")
def test_a_whole_task_and_what_fails_in_it(
    upstream: ThrowawayServer, target: ThrowawayServer, clean: None, tmp_path: Path, names: Names
) -> None:
    for server in (upstream, target):
        server.execute("DROP USER IF EXISTS dm@'%'")
        server.create_user("dm", "canary", "ALL PRIVILEGES ON *.*")
    for number in range(len(names)):
        upstream.execute(*before(names, number))
    source, task = files(tmp_path / "files", names, upstream, target)
    with Daemon(tmp_path / "dm") as daemon:
        daemon.must("operate-source", "create", source)
        daemon.must("start-task", task)
        synced(daemon, upstream)
        for number in range(len(names)):
            upstream.execute(*during(names, number))
        synced(daemon, upstream)
        take_back_what_was_filtered(upstream, target, names)
        same(upstream, target, names)
        for number in (3, 10) if len(names) > 10 else (3,):
            failing(daemon, upstream, target, names, number)
        same(upstream, target, names)


def take_back_what_was_filtered(upstream: ThrowawayServer, target: ThrowawayServer, names: Names) -> None:
    """The rules that name a table, and a column, have left out a row and a TRUNCATE TABLE."""
    table, key, *_ = around(names, 1)
    count = f"SELECT COUNT(*) FROM {TableName(names[1], table).sql} WHERE {key.sql} > 1000"
    assert (upstream.query(count), target.query(count)) == (((1,),), ((0,),))
    target.execute(f"INSERT INTO {TableName(names[1], table).sql} ({key.sql}) VALUES (2000)")
    later = around(names, 2)[4]
    emptied = TableName(names[2], later).sql
    assert target.query(f"SELECT {later.sql} FROM {emptied} ORDER BY 1") == ((1,), (2,), (3,))
    target.execute(f"DELETE FROM {emptied} WHERE {later.sql} < 3")


def synced(daemon: Daemon, upstream: ThrowawayServer) -> None:
    status = "SHOW BINARY LOG STATUS" if upstream.flavor == "mysql" else "SHOW MASTER STATUS"
    file, offset, *_ = upstream.query(status)[0]

    def arrived(found: dict[str, dict[str, Any]]) -> bool:
        one = found["one"]
        assert one["stage"] != "Paused", json.dumps(one["result"], indent=2, ensure_ascii=False)
        sync = one.get("sync") or {}
        return (
            one["stage"] == "Running" and sync.get("synced") is True and sync["masterBinlog"] == f"({file}, {offset})"
        )

    daemon.wait("hostile", arrived, "synced", seconds=600)


def same(upstream: ThrowawayServer, target: ThrowawayServer, names: Names) -> None:
    def route(_: ComparedServer, table: TableName) -> TableName:
        return TableName(MOVED, table.table) if table.schema == names[0] else table

    report = compare(pair_tables([upstream], names, route), target)
    assert report.identical, str(report)


def failing(daemon: Daemon, upstream: ThrowawayServer, target: ThrowawayServer, names: Names, number: int) -> None:
    """A statement and a row that the target refuses, each named as it is, and each put right by name."""
    table, key, *_ = around(names, number)
    schema = names[number]
    name = TableName(schema, table)
    target.execute(f"ALTER TABLE {name.sql} ADD COLUMN refused DATE")
    upstream.execute(f"ALTER TABLE {name.sql} ADD COLUMN refused INT")
    assert name.sql in paused(daemon, 36910)
    daemon.must("binlog", "replace", "hostile", f"ALTER TABLE {name.sql} MODIFY COLUMN refused INT")
    synced(daemon, upstream)
    target.execute(f"INSERT INTO {name.sql} ({key.sql}) VALUES (5000)")
    upstream.execute(f"INSERT INTO {name.sql} ({key.sql}) VALUES (5000)")
    assert name.sql in paused(daemon, 36924)
    target.execute(f"DELETE FROM {name.sql} WHERE {key.sql} = 5000")
    daemon.must("resume-task", "hostile")
    synced(daemon, upstream)
    target.execute(f"DELETE FROM {name.sql} WHERE {key.sql} = 5000")
    upstream.execute(f"UPDATE {name.sql} SET refused = 1 WHERE {key.sql} = 5000")
    assert str(name) in paused(daemon, 36921)
    target.execute(f"INSERT INTO {name.sql} ({key.sql}) VALUES (5000)")
    listed = daemon.must("binlog-schema", "list", "hostile", schema, table, "--output", "json")
    assert any(key.sql in text for text in texts(listed.json()))
    assert daemon.dmctl("query-status", "hostile").status == 1, "it rests on an error"
    daemon.must("resume-task", "hostile")
    synced(daemon, upstream)


def texts(found: Any) -> Iterator[str]:
    """All texts in a JSON document."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from texts(one)


def paused(daemon: Daemon, code: int) -> str:
    """The message of the error that the task rests on, as the status has it."""
    status = daemon.wait("hostile", lambda found: found["one"]["stage"] == "Paused", f"paused by {code}")
    (error,) = status["one"]["result"]["errors"]
    assert error["ErrCode"] == code, error
    return str(error["Message"])
