"""What one flavour takes in DDL and the other one does not: words that it reserves, and CREATE OR REPLACE."""

from __future__ import annotations

import pymysql
import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident
from dm.mysql.sql.piece import names_reserved
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live

# They are keywords of tables or columns at the source. As a column's name the target refuses them, and the task pauses.
KEYWORDS = {"STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "REF_SYSTEM_ID"}


def taken(server: ThrowawayServer, words: set[str]) -> set[str]:
    """Those that the server takes as a column's name."""
    found = set()
    with server.connect(database="mysql") as session, session.cursor() as cursor:
        for word in words:
            try:
                cursor.execute(f"PREPARE s FROM 'CREATE TABLE w ({word} INT)'")
            except pymysql.ProgrammingError:
                continue
            found.add(word)
    return found


@pytest.mark.parametrize("source", ["mysql", "mariadb"])
def test_names_that_the_target_reserves_are_quoted(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory, source: str
) -> None:
    upstream, target = (mysql, mariadb) if source == "mysql" else (mariadb, mysql)
    name = schema(upstream, target)
    asked = "SELECT UPPER(word) FROM information_schema.keywords"
    known = {str(word) for server in (mysql, mariadb) for (word,) in server.query(asked)}
    here = taken(upstream, {word for word in known if word.isidentifier()})
    assert here - taken(target, here) - KEYWORDS <= names_reserved(upstream.flavor)
    words = sorted(names_reserved(upstream.flavor) & here)
    first, second, *_, last = words
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        with upstream.connect(database=name) as session, session.cursor() as cursor:
            columns = ", ".join(f"{word} INT" for word in words)
            cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}, KEY {first} ({first}, {last}))")
            cursor.execute(f"ALTER TABLE t MODIFY {second} BIGINT AFTER {last}, ALTER {last} SET DEFAULT 1")
            cursor.execute(
                f"ALTER TABLE t ADD g INT GENERATED ALWAYS AS ({last} + 1) STORED, ADD v INT AS (id) VIRTUAL"
            )
            cursor.execute(
                f"ALTER TABLE t RENAME COLUMN {first} TO y, DROP {second}, ADD CHECK (ROW({last}, 1) = (1, 1))"
            )
            cursor.execute("INSERT INTO t (id) VALUES (1)")
        sync.wait_synced()
    shown = f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{name}' ORDER BY 1"
    assert upstream.query(shown) == target.query(shown)
    assert target.query(f"SELECT g, {Ident(last).sql} FROM {name}.t") == ((2, 1),)


def test_create_or_replace_becomes_a_drop_and_a_create(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mariadb, mysql)
    with running_sync(subtask_for(mariadb, mysql, name, task=name)) as sync:
        sync.wait_synced()
        mariadb.execute(
            f"CREATE OR REPLACE TABLE {name}.t (id INT PRIMARY KEY, a INT)",
            f"INSERT INTO {name}.t VALUES (1, 2)",
            f"CREATE OR REPLACE TABLE {name}.t (id INT PRIMARY KEY, b VARCHAR(9), c INT)",
            f"INSERT INTO {name}.t VALUES (3, 'x', 4)",
            f"CREATE OR REPLACE TABLE {name}.u LIKE {name}.t",
            f"CREATE OR REPLACE TABLE {name}.s (PRIMARY KEY (id)) SELECT id, b FROM {name}.t",
            f"CREATE OR REPLACE TABLE {name}.s (PRIMARY KEY (id)) SELECT id, c FROM {name}.t",
        )
        sync.wait_synced()
    report = compare(pair_tables([mariadb], [name]), mysql, structures=False)
    assert report.identical, str(report)
    assert mysql.query(f"SELECT * FROM {name}.t UNION ALL SELECT *, 0 FROM {name}.s") == ((3, "x", 4), (3, "4", 0))
