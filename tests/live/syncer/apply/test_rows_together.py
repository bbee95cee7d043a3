"""Rows of tables without an index, found together by their hash: the same outcome as one by one, kills included.

The reference is the source, and for errors the task that finds each row by itself. Tables and statements are drawn from
a seed; DM_SEED plays one again.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pymysql
import pytest

from dm.changes import row_bag
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.dialect import Flavor
from dm.unit import JSON
from tests.testbed.crash_loop import BATCH_POINTS
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.random_table import HOSTILE, Column, Table, draw_column
from tests.testbed.sync import SyncProcess, running_sync
from tests.testbed.twins import Twins

pytestmark = [pytest.mark.live]

SAMPLE = 20261127
SEEDS = 10
NEVER = 1 << 30
_WITHOUT_TEXT = ("UUID", "INET", "POINT", "POLYGON", "GEOMETRY")
_AT_ONCE = 40


@pytest.fixture
def together(park: ServerPark, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twins]:
    """One schema between two MariaDBs, in both forms of rows; any number of rows is found together."""
    monkeypatch.setattr(row_bag, "MIN_SEARCHED", 1)
    upstream, target = park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target")
    made = Twins(upstream, target, schema(upstream, target, prefix="hash"))
    yield made
    made.close()


class Drawn:
    """Tables without an index, and statements that change many of their rows."""

    def __init__(self, twins: Twins, chance: random.Random, log: Path) -> None:
        self._name = twins.name
        self._chance = chance
        self._log = log.open("w", encoding="utf-8")
        self._connection = twins.upstream.connect()
        self._cursor = self._connection.cursor()
        self._tables: list[Table] = []
        self._execute("SET SESSION sql_mode = ''")
        while len(self._tables) < 6:
            self._create(twins.upstream.flavor)

    def _create(self, flavor: Flavor) -> None:
        chance, dialect = self._chance, HOSTILE[flavor]
        number = len(self._tables)
        table = Table(chance.choice(dialect.table_names).format(number), [], options=chance.choice(dialect.options[:2]))
        for _ in range(chance.choice((1, 2, 4, 7))):
            column = draw_column(table, flavor, chance, dialect)
            if not column.type.startswith(_WITHOUT_TEXT):
                table.columns.append(column)
        if table.columns and self._execute(table.create(self._name)):
            self._tables.append(table)

    def transaction(self) -> None:
        """Some statements, committed or rolled back."""
        self._execute("BEGIN")
        for _ in range(self._chance.randrange(1, 7)):
            self._execute(self._statement(self._chance.choice(self._tables)))
        self._execute(self._chance.choice(("COMMIT",) * 9 + ("ROLLBACK",)))

    def close(self) -> None:
        self._connection.close()
        self._log.close()

    def _statement(self, table: Table) -> str:
        chance = self._chance
        name = f"{Ident(self._name).sql}.{Ident(table.name).sql}"
        column = chance.choice(table.columns)
        limit = chance.choice(("", f" LIMIT {chance.randrange(1, _AT_ONCE)}"))
        match chance.randrange(8):
            case 0 | 1:
                rows = (self._row(table.columns) for _ in range(chance.randrange(1, _AT_ONCE)))
                return f"INSERT IGNORE INTO {name} VALUES {', '.join(rows)}"
            case 2:
                return f"INSERT IGNORE INTO {name} SELECT * FROM {name} LIMIT {chance.randrange(1, _AT_ONCE)}"
            case 3:
                return f"DELETE FROM {name} LIMIT {chance.randrange(1, _AT_ONCE)}"
            case 4:
                return f"DELETE FROM {name} WHERE {Ident(column.name).sql} = {column.draw(chance)}{limit}"
            case _:
                return f"UPDATE IGNORE {name} SET {Ident(column.name).sql} = {column.draw(chance)}{limit}"

    def _row(self, columns: list[Column]) -> str:
        return f"({', '.join(column.draw(self._chance) for column in columns)})"

    def _execute(self, statement: str) -> bool:
        self._log.write(statement + ";\n")
        try:
            self._cursor.execute(statement)
        except pymysql.err.MySQLError as error:
            self._log.write(f"-- {error}\n")
            return False
        return True


def follow(twins: Twins, form: str) -> Mapping[str, JSON]:
    """Follow to the source's end."""
    return twins.follow(twins.tasks[form])


def refused(status: Mapping[str, JSON]) -> list[JSON]:
    """The tables whose rows are no longer found together, with the reasons."""
    tables = status["tables"]
    assert isinstance(tables, list)
    found = [entry for entry in tables if isinstance(entry, dict) and "rowHash" in entry]
    return [entry for entry in found if not str(entry["rowHash"]).startswith("in use")]


def drawn(twins: Twins, seed: int, directory: Path) -> None:
    """What a seed draws, followed in both forms."""
    twins.begin()
    scene = Drawn(twins, random.Random(seed), directory / f"{seed}.sql")
    for _ in range(60):
        scene.transaction()
    scene.close()
    for form in twins.tasks:
        status = follow(twins, form)
        assert int(str(status["hashRows"])) > 500, f"DM_SEED={seed}"
        assert refused(status) == [], f"DM_SEED={seed}"
    twins.demand_equal()


@pytest.mark.timeout(300)
def test_drawn_tables_and_statements_come_to_the_same(together: Twins, tmp_path: Path) -> None:
    drawn(together, int(os.environ.get(SEED_VARIABLE, SAMPLE)), tmp_path)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_many_seeds_come_to_the_same(
    park: ServerPark, schema: SchemaFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_bag, "MIN_SEARCHED", 1)
    upstream, target = park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target")
    first = draw_seed("rows together", "mariadb")
    for seed in range(first, first + (1 if SEED_VARIABLE in os.environ else SEEDS)):
        sys.stderr.write(f"DM_SEED={seed}, statements in {tmp_path}\n")
        twins = Twins(upstream, target, schema(upstream, target, prefix="hash"))
        try:
            drawn(twins, seed, tmp_path)
        finally:
            twins.close()


TABLE = "CREATE TABLE {}.`k``'\"ä` (`a``'\"ö` INT NOT NULL, v VARCHAR(20) CHARACTER SET latin1, f FLOAT)"
ROWS = 300


def named(schema: str) -> str:
    return f"""{schema}.`k``'"ä`"""


def written(server: ThrowawayServer, schema: str) -> None:
    """Rows, two in three of them twice, and changes of all of them, some by one transaction."""
    table = named(schema)
    rows = ", ".join(f"({at}, 'ä{at % 9}', {at}.1)" for at in range(ROWS))
    server.execute(
        f"INSERT INTO {table} VALUES {rows}",
        f"INSERT INTO {table} SELECT * FROM {table} WHERE `a``'\"ö` % 3 <> 0",
        f"UPDATE {table} SET f = f / 3, v = NULL",
        "BEGIN",
        f"UPDATE {table} SET v = CONCAT('é', `a``'\"ö` % 7)",
        f"DELETE FROM {table} WHERE `a``'\"ö` % 5 = 0 LIMIT 50",
        f"UPDATE {table} SET `a``'\"ö` = `a``'\"ö` DIV 2",
        f"INSERT INTO {table} SELECT * FROM {table} LIMIT 40",
        "COMMIT",
        f"DELETE FROM {table} WHERE v = 'é3'",
    )


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("source", ["mysql", "mariadb"])
def test_rows_of_either_family_are_found_together(park: ServerPark, schema: SchemaFactory, source: Flavor) -> None:
    """As they are in use, which takes as many rows as `MIN_SEARCHED` says."""
    upstream, target = park.shared(source, "upstream-1"), park.shared("mariadb", "target")
    twins = Twins(upstream, target, schema(upstream, target, prefix="hash"))
    try:
        twins.create(TABLE)
        twins.begin()
        written(upstream, twins.name)
        for form in twins.tasks:
            status = follow(twins, form)
            assert int(str(status["hashRows"])) > ROWS
            assert refused(status) == []
        twins.demand_equal()
    finally:
        twins.close()


def told(twins: Twins, form: str) -> tuple[str, str | None, str]:
    """The error that the task of this form ends with."""
    with pytest.raises(DMError) as caught, running_sync(twins.tasks[form]) as sync:
        sync.wait_synced()
    error = caught.value
    return error.name, error.position, error.message.replace(twins.by_sql, "S").replace(twins.name, "S")


LOST = {
    "a row": "DELETE FROM {} WHERE `a``'\"ö` = 7 LIMIT 1",
    "one of two equal rows": "DELETE FROM {} WHERE `a``'\"ö` = 4 LIMIT 1",
    "all rows": "DELETE FROM {}",
    "a value": "UPDATE {} SET v = 'x' WHERE `a``'\"ö` = 7",
    "the case of a letter": "UPDATE {} SET v = REPLACE(v, 'ä', 'Ä')",
    "the last digit of a FLOAT": "UPDATE {} SET f = f * 1.000001",
}


@pytest.mark.parametrize("lost", LOST)
@pytest.mark.ci_sample(3)
def test_what_is_missing_is_the_same_error(together: Twins, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    together.create(TABLE)
    together.begin()
    table = named(together.name)
    rows = ", ".join(f"({at}, 'ä{at % 9}', {at}.1)" for at in (*range(100), 4))
    together.upstream.execute(f"INSERT INTO {table} VALUES {rows}")
    together.follow_both()
    for schema in (together.name, together.by_sql):
        together.target.execute(LOST[lost].format(named(schema)))
    before = together.rows(together.target, together.name)
    together.upstream.execute(
        "BEGIN", f"INSERT INTO {table} VALUES (200, 'b', 0)", f"UPDATE {table} SET `a``'\"ö` = `a``'\"ö` + 1", "COMMIT"
    )
    found = [told(together, form) for form in together.tasks]
    monkeypatch.setattr(row_bag, "MIN_SEARCHED", NEVER)
    assert found == [told(together, form) for form in together.tasks]
    assert found[0][0] == "row-missing"
    assert together.rows(together.target, together.name) == before == together.rows(together.target, together.by_sql)


# Between what removes the rows and what writes them again.
KILLED_BETWEEN = """
import os, signal
from dm.downstream import rows_by_hash
def killed(connection, bag, rows):
    os.kill(os.getpid(), signal.SIGKILL)
rows_by_hash._write = killed
"""


KILLS = [  # of each point one form, in turn; the others in `make chaos`
    pytest.param(point, form, marks=[] if (number % 2 == 0) is (form == "auto") else pytest.mark.chaos)
    for number, point in enumerate([*BATCH_POINTS, "between"])
    for form in ("auto", "sql")
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("point", "form"), KILLS)
@pytest.mark.ci_sample(3)
def test_a_kill_at_any_point_of_a_batch(together: Twins, form: str, point: str) -> None:
    together.create(TABLE)
    together.begin()
    written(together.upstream, together.name)
    armed = {"patch": KILLED_BETWEEN} if point == "between" else {"faults": f"{point}=kill@2"}
    process = SyncProcess(together.tasks[form], **armed)  # type: ignore[arg-type]  # a text each
    try:
        assert process.wait_killed()
    finally:
        process.close(kill=True)
    together.upstream.execute(f"UPDATE {named(together.name)} SET f = -1")
    for each in together.tasks:
        assert int(str(follow(together, each)["hashRows"])) > 0
    together.demand_equal()
