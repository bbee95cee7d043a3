"""Between servers of two flavours each changed value is found, and its statement ends it."""

from __future__ import annotations

import random

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.diff.versions import Difference
from dm.flavor import Flavor
from dm.ident import Ident
from tests.testbed.diffing import differences
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.random_table import Table, draw_table
from tests.testbed.shared_dialect import shared_dialect
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.without_signs import without_negative_zeros

pytestmark = [pytest.mark.live, pytest.mark.chaos, pytest.mark.timeout(1800)]

TABLES, ROUNDS, ROWS = 12, 8, 8
MODES = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"
COLLATION = "utf8mb4_general_ci"  # the servers' defaults differ


def filled(source: ThrowawayServer, schema: str, number: int, target: Flavor, chance: random.Random) -> Table:
    """A table with some rows at the source."""
    with source.connect(autocommit=True) as session, session.cursor() as cursor:
        cursor.execute(MODES)
        while True:
            table = draw_table(f"t{number}", source.flavor, chance, shared_dialect(source.flavor, target))
            without_negative_zeros(table)
            try:
                cursor.execute(table.create(schema))
            except pymysql.err.Error:
                continue
            names = ", ".join(Ident(column.name).sql for column in table.writable)
            for _ in range(ROWS):
                values = ", ".join(chance.choice(column.values) for column in table.writable)
                try:
                    cursor.execute(f"INSERT IGNORE INTO {schema}.t{number} ({names}) VALUES ({values})")
                except pymysql.err.Error:
                    continue
            return table


def changed(target: ThrowawayServer, schema: str, table: Table, chance: random.Random) -> str:
    """Change one value of one row; the statement, or nothing where no drawn one has changed anything."""
    with target.connect(autocommit=True) as session, session.cursor() as cursor:
        cursor.execute(MODES)
        for _ in range(20):
            column = chance.choice(table.writable)
            value = chance.choice(column.values)
            statement = f"UPDATE IGNORE {schema}.{table.name} SET {Ident(column.name).sql} = {value} LIMIT 1"
            try:
                if cursor.execute(statement):
                    return statement
            except pymysql.err.Error:
                continue
    return ""


def execute(target: ThrowawayServer, rows: list[Difference]) -> None:
    """Their statements, deletions first."""
    statements = [each for row in rows for each in row.fix.deletions]
    statements += [each for row in rows for each in row.fix.insertions]
    with target.connect(autocommit=True) as session, session.cursor() as cursor:
        cursor.execute(MODES)
        for statement in statements:
            for part in statement.split(b";\n"):
                session.query(part)


@pytest.mark.parametrize(("of", "to"), [("mysql", "mariadb"), ("mariadb", "mysql")])
def test_each_change_is_found(park: ServerPark, schema: SchemaFactory, of: Flavor, to: Flavor) -> None:
    source, target, chance = park.shared(of, "upstream-1"), park.shared(to, "target"), random.Random(2302)
    name = schema(source, target)
    for server in (source, target):
        server.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE {COLLATION}")
    subtask = subtask_for(source, target, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        tables = [filled(source, name, number, to, chance) for number in range(TABLES)]
        sync.wait_synced()
    assert differences(subtask) == {}
    found, without_fix = 0, set[str]()  # documents in tables without a key: no server computes what they are known by
    for number in range(ROUNDS):
        statements = {t.name: changed(target, name, t, chance) for t in tables if t.name not in without_fix}
        wrong = {table: rows for table, rows in differences(subtask).items() if table not in without_fix}
        assert wrong.keys() == {table for table, statement in statements.items() if statement}, (number, statements)
        assert all(len(rows) in (1, 2) for rows in wrong.values())
        found += len(wrong)
        execute(target, [row for rows in wrong.values() for row in rows])
        without_fix |= {table for table, rows in wrong.items() if any(row.fix.impossible for row in rows)}
        assert differences(subtask).keys() == without_fix, (number, statements)
    assert found > 0.6 * TABLES * ROUNDS
