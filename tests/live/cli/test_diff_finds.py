"""`dmctl diff` finds each of a thousand changes of single values, nothing else, and its statements end them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from dm.demo.servers import ThrowawayServer
from dm.flavor import Flavor
from dm.ident import Ident
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import ServerFactory
from tests.testbed.random_table import Table, draw_table

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(7200)]

TABLES, ROUNDS = 50, 20
MODES = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"
PASSWORD = "canary-d1ff"


@contextmanager
def session(server: ThrowawayServer) -> Iterator[Cursor]:
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(MODES)
        yield cursor


def made(source: Cursor, target: Cursor, name: str, flavor: Flavor, chance: random.Random) -> Table:
    """A table with some rows, the same on both sides."""
    while True:
        table = draw_table(name, flavor, chance)
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


def changed(target: Cursor, table: Table, flavor: Flavor, chance: random.Random) -> str:
    """Change one value of one row; the statement, or nothing where no drawn one has changed anything."""
    for _ in range(20):
        column = chance.choice(table.writable)
        if flavor == "mariadb" and column.type.startswith(("FLOAT", "DOUBLE")):
            continue  # it prints no sign of a zero, so that one change does not count
        value = chance.choice(column.values)
        statement = f"UPDATE IGNORE shop.{table.name} SET {Ident(column.name).sql} = {value} LIMIT 1"
        try:
            if target.execute(statement):
                return statement
        except pymysql.err.Error:
            continue
    return ""


def execute(server: ThrowawayServer, directory: Path) -> None:
    for path in directory.glob("*.sql"):
        with server.connect(autocommit=True) as connection:
            for statement in path.read_bytes().split(b";\n"):
                if statement.strip():
                    connection.query(statement)
        path.unlink()


def test_each_of_a_thousand_changes_is_found(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source, target, chance = server(flavor), server(flavor), random.Random(2301)
    for each in (source, target):
        each.execute("CREATE DATABASE shop")
        each.create_user("dm", PASSWORD, "ALL PRIVILEGES ON *.*")
    head = f"host: 127.0.0.1, user: dm, password: {PASSWORD}"
    (tmp_path / "source.yaml").write_text(f"source-id: mysql-01\nfrom: {{{head}, port: {source.port}}}\n")
    (tmp_path / "shop.yaml").write_text(
        f"name: shop\ntask-mode: full\ntarget-database: {{{head}, port: {target.port}}}\n"
        "mysql-instances: [{source-id: mysql-01, block-allow-list: shop}]\n"
        "block-allow-list: {shop: {do-dbs: [shop]}}\n"
    )
    with session(source) as there, session(target) as here:
        tables = [made(there, here, f"t{number}", flavor, chance) for number in range(TABLES)]
    found = equal = 0
    with Daemon(tmp_path, {}) as daemon:
        daemon.must("operate-source", "create", "source.yaml")

        def compared() -> dict[str, Any]:
            answer = daemon.said("diff", "shop.yaml", "--fix-sql", str(tmp_path / "fixes"), "--output", "json").json()
            return {table["table"].removeprefix("shop."): table for table in answer["report"]}

        for number in range(ROUNDS):
            with session(target) as here:
                statements = {table.name: changed(here, table, flavor, chance) for table in tables}
            report = compared()
            for name, statement in statements.items():
                verdict = "different" if statement else "equal"
                assert report[name]["verdict"] == verdict, f"round {number}: {statement}: {report[name]}"
                assert report[name]["differingRows"] in ((1, 2) if statement else (0,)), statement
                found, equal = found + bool(statement), equal + (not statement)
            execute(target, tmp_path / "fixes")
        report = compared()
        assert {table["verdict"] for table in report.values()} == {"equal"}
    assert found + equal == TABLES * ROUNDS
    assert found > 0.9 * TABLES * ROUNDS
