"""What a TiDB got from a stretch of the relay is taken back there by the statements that are written for it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.flashback.scene import Scene
from tests.live.flashback.test_flashback import accepted, draw_changes, session
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.random_rows import RandomRows
from tests.testbed.random_table import Table, draw_table
from tests.testbed.shared_dialect import shared_dialect
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb, pytest.mark.timeout(300)]

MEMBERS = ", ".join(f"'m{number}'" for number in range(60))
TABLES = (
    "CREATE TABLE {}.k (id INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(40), n DECIMAL(20, 6), d DOUBLE, t DATETIME(6),"
    " s TIMESTAMP(3) NULL, b BIT(40), x BLOB, l VARCHAR(9) CHARACTER SET latin1, e ENUM('a', 'b'),"
    f" m SET({MEMBERS}), j {{}}, g INT AS (id + 1) STORED)",
    "CREATE TABLE {}.l (v INT, w VARCHAR(9))",
)
ROW = (
    "({0}, {0}, 'row {0}', {0}.5, {0} / 7, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.5', {0}, x'00ff', 'é', 'b',"
    " 'm1,m59', '[{0}, 2]')"
)
COLUMNS = "(id, u, v, n, d, t, s, b, x, l, e, m, j)"


@pytest.fixture
def scene(upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, tmp_path: Path) -> Scene:
    one = Scene(upstream, tidb, schema(upstream), tmp_path)
    for server, name in ((upstream, one.name), (tidb, one.there)):  # each has another default
        server.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    return one


def test_changes_of_all_kinds_of_columns_are_taken_back(scene: Scene, flavor: Flavor) -> None:
    document = "JSON" if flavor == "mysql" else "LONGTEXT"
    for server, name in ((scene.upstream, scene.name), (scene.target, scene.there)):
        server.execute(*(table.format(name, document) for table in TABLES))
    with session(scene.upstream, scene.name) as cursor:
        with scene.following():
            cursor.execute(f"INSERT INTO k {COLUMNS} VALUES " + ", ".join(ROW.format(n) for n in range(1, 9)))
            cursor.execute("INSERT INTO l VALUES (1, 'x'), (1, 'x'), (2, NULL)")
            cursor.execute("UPDATE k SET e = 0 WHERE id = 8")
        before, begin = scene.rows(), scene.place
        with scene.following():
            cursor.execute("BEGIN")
            cursor.execute("UPDATE k SET u = NULL WHERE id = 1")
            cursor.execute("UPDATE k SET u = 1, id = 20 WHERE id = 2")
            cursor.execute("UPDATE k SET u = 2 WHERE id = 1")
            cursor.execute("COMMIT")
            cursor.execute("UPDATE k SET v = UPPER(v), n = -n, d = d * (1 + 2.3e-16), t = NULL, s = NULL WHERE id = 3")
            cursor.execute("UPDATE k SET b = 0, x = x'', l = 'E', m = '', e = NULL, j = '{\"a\": 1}' WHERE id = 4")
            cursor.execute("DELETE FROM k WHERE id BETWEEN 5 AND 8")
            cursor.execute(f"INSERT INTO k {COLUMNS} VALUES {ROW.format(30)}")
            cursor.execute("DELETE FROM l WHERE v = 1 LIMIT 1")
            cursor.execute("UPDATE l SET w = 'X' WHERE v = 1")
            cursor.execute("INSERT INTO l VALUES (3, 'new'), (3, 'new')")
    assert scene.rows() != before
    report, statements = scene.take_back(begin)
    assert dict(report.statements) == {f"{scene.there}.k": 10, f"{scene.there}.l": 4}
    scene.execute(statements)
    assert scene.rows() == before


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(4))
def test_drawn_changes_are_taken_back(scene: Scene, flavor: Flavor, seed: int) -> None:
    chance, dialect, tables = random.Random(seed), shared_dialect(flavor, "tidb"), list[Table]()
    with session(scene.upstream, scene.name) as cursor, session(scene.target, scene.there) as there:
        while len(tables) < 8:
            table = draw_table(f"t{len(tables)}", flavor, chance, dialect)
            if accepted(there, table.create(scene.there)):
                if accepted(cursor, table.create(scene.name)):
                    tables.append(table)
                else:
                    there.execute(f"DROP TABLE {table.name}")
        rows = RandomRows(scene.name, tables, chance)
        with scene.following():
            draw_changes(cursor, rows, chance, 100)
        before, begin = scene.rows(), scene.place
        with scene.following():
            draw_changes(cursor, rows, chance, 200)
    assert scene.rows() != before
    _, statements = scene.take_back(begin)
    scene.execute(statements)
    after = scene.rows()
    assert {name: rows for name, rows in after.items() if rows != before[name]} == {}, f"seed {seed}"
