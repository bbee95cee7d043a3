"""`dmctl diff` finds each of a thousand changes of single values, nothing else, and its statements end them.

A MariaDB prints no sign of a zero, so what differs in that alone is the same there: no zero has one here.
"""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from dm.demo.servers import ThrowawayServer
from dm.ident import Ident
from dm.mysql.dialect import Flavor
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.random_table import Table, draw_table
from tests.testbed.typed_rows import change_a_value, session
from tests.testbed.without_signs import without_negative_zeros

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(7200)]

TABLES, ROUNDS = 50, 20
PASSWORD = "canary-d1ff"


def made(source: Cursor, target: Cursor, name: str, flavor: Flavor, chance: random.Random) -> Table:
    """A table with some rows, the same on both sides."""
    while True:
        table = draw_table(name, flavor, chance)
        if flavor == "mariadb":
            without_negative_zeros(table)
        try:
            source.execute(table.create("shop"))
        except pymysql.err.Error:
            continue
        target.execute(table.create("shop"))
        names = ", ".join(Ident(column.name).sql for column in table.writable)
        for _ in range(8):
            values = ", ".join(chance.choice(column.values) for column in table.writable)
            statement = f"INSERT IGNORE INTO shop.{name} ({names}) VALUES ({values})"
            try:
                source.execute(statement)
            except pymysql.err.Error:
                continue
            target.execute(statement)
        return table


def execute(server: ThrowawayServer, directory: Path) -> None:
    for path in directory.glob("*.sql"):
        with server.connect(autocommit=True) as connection:
            for statement in path.read_bytes().split(b";\n"):
                if statement.strip():
                    connection.query(statement)
        path.unlink()


def task_of(directory: Path, source: ThrowawayServer, target: ThrowawayServer) -> None:
    """The files of a task between them."""
    for each in (source, target):
        each.execute("CREATE DATABASE shop")
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (directory / "source.yaml").write_text(f"source-id: mysql-01\nfrom: {{{head}, port: {source.port}}}\n")
    (directory / "shop.yaml").write_text(
        f"name: shop\ntask-mode: full\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop}]\n"
        "block-allow-list: {shop: {do-dbs: [shop]}}\n"
    )


def compared(daemon: Daemon) -> dict[str, Any]:
    """What is said of each table; the statements are in files."""
    answer = daemon.said("diff", "shop.yaml", "--fix-sql", str(daemon.directory / "fixes"), "--output", "json").json()
    return {table["table"].removeprefix("shop."): table for table in answer["report"]}


def test_each_of_a_thousand_changes_is_found(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source, target, chance = server(flavor), server(flavor), random.Random(2301)
    task_of(tmp_path, source, target)
    with session(source) as there, session(target) as here:
        tables = [made(there, here, f"t{number}", flavor, chance) for number in range(TABLES)]
    found = equal = 0
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")

        for number in range(ROUNDS):
            with session(target) as here:
                statements = {table.name: change_a_value(here, "shop", table, chance) for table in tables}
            report = compared(daemon)
            for name, statement in statements.items():
                verdict = "different" if statement else "equal"
                assert report[name]["verdict"] == verdict, f"round {number}: {statement}: {report[name]}"
                assert report[name]["differingRows"] in ((1, 2) if statement else (0,)), statement
                found, equal = found + bool(statement), equal + (not statement)
            execute(target, tmp_path / "fixes")
        report = compared(daemon)
        assert {table["verdict"] for table in report.values()} == {"equal"}
    assert found + equal == TABLES * ROUNDS
    assert found > 0.9 * TABLES * ROUNDS


NUMBERS = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i <= 40)"
ROWS = (
    "CREATE TABLE shop.p (id INT PRIMARY KEY, d DOUBLE, f FLOAT, s VARCHAR(20), j JSON, a INT, b CHAR(9))",
    f"INSERT INTO shop.p {NUMBERS} SELECT i, 0.1, 0.1, CONCAT('word ', i), '[1.5, 2]', i, CONCAT('b', i) FROM n",
    "CREATE TABLE shop.q (d DOUBLE, s VARCHAR(20))",
    f"INSERT INTO shop.q {NUMBERS} SELECT i % 4, 's' FROM n",
)
NEXT_FLOAT = struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", 0.1))[0] + 1))[0]
# What is done at the target, and the rows that differ then, with the columns; none where a side lacks the row.
PURPOSES: list[tuple[str, dict[str, list[str]]]] = [
    (f"UPDATE p SET d = '{math.nextafter(0.1, 1)!r}' WHERE id = 1", {"id=1": ["d"]}),
    (f"UPDATE p SET f = {NEXT_FLOAT!r} WHERE id = 2", {"id=2": ["f"]}),
    ("UPDATE p SET s = CONCAT(s, ' ') WHERE id = 3", {"id=3": ["s"]}),
    ("UPDATE p SET s = 'Word 4' WHERE id = 4", {"id=4": ["s"]}),
    ("UPDATE p SET j = NULL WHERE id IN (5, 6)", {}),  # an UPDATE to what MySQL takes for equal writes nothing
    ("UPDATE p SET j = '[1.5, 2.0]' WHERE id = 5", {"id=5": ["j"]}),
    # Two rows exchange a value: a sum that is linear does not see it.
    ("UPDATE p SET b = CONCAT('b', 31 - id) WHERE id IN (15, 16)", {"id=15": ["b"], "id=16": ["b"]}),
    ("UPDATE p SET a = 47 - id WHERE id IN (23, 24)", {"id=23": ["a"], "id=24": ["a"]}),
    # And all of them but the key.
    ("UPDATE p SET id = -1 WHERE id = 31", {"id=31": ["s", "a", "b"]}),
    ("UPDATE p SET id = 31 WHERE id = 32", {}),
    ("UPDATE p SET id = 32 WHERE id = -1", {"id=32": ["s", "a", "b"]}),
    ("DELETE FROM p WHERE id = 35", {"id=35": []}),
    ("INSERT INTO p VALUES (100, 0.1, 0.1, 'word 100', '[1.5, 2]', 100, 'b100')", {"id=100": []}),
]
TYPES = {  # inside a document whose text stays as it is
    "mysql": [("UPDATE p SET j = JSON_ARRAY(CAST(1.5 AS DECIMAL(2,1)), 2) WHERE id = 6", {"id=6": ["j (types)"]})],
    "mariadb": [("UPDATE p SET j = '[1.5, 2 ]' WHERE id = 6", {"id=6": ["j"]})],
}


def test_changes_that_are_easily_missed(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source, target = server(flavor), server(flavor)
    task_of(tmp_path, source, target)
    for each in (source, target):
        each.execute(*ROWS)
    purposes = PURPOSES + TYPES[flavor]
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")
        assert {table["verdict"] for table in compared(daemon).values()} == {"equal"}
        target.execute("USE shop", *(statement for statement, _ in purposes))
        target.execute("DELETE FROM shop.q WHERE d = 1 LIMIT 1", "INSERT INTO shop.q VALUES (2, 's'), (2, 's')")
        report = compared(daemon)
        found = {row["key"]: row["columns"] for row in report["p"]["rows"]}
        assert found == {key: columns for _, rows in purposes for key, columns in rows.items()}
        counts = sorted((row["timesAtSource"], row["timesAtTarget"]) for row in report["q"]["rows"])
        assert counts == [(0, 2), (1, 0)]
        execute(target, tmp_path / "fixes")
        report = compared(daemon)
        assert {table["verdict"] for table in report.values()} == {"equal"}, report
