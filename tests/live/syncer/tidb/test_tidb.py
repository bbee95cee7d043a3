"""A task follows a source into TiDB."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import dialect
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import read_facts
from dm.syncer.apply.lanes import Stopped
from dm.syncer.ddl.session import DdlSession
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, endpoint_of, running_sync, subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, u INT UNIQUE, note VARCHAR(40), amount DECIMAL(20,6), at DATETIME(6))",
    "CREATE TABLE keyless (a INT, b VARCHAR(20), c DOUBLE)",
)


def identical(upstream: ThrowawayServer, target: PrivateServer, schema: str) -> None:
    report = compare(pair_tables([upstream], [schema]), target)
    assert report.identical, str(report)


def create(name: str, *servers: PrivateServer) -> None:
    for server in servers:
        # Each server has another default.
        server.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        for table in TABLES:
            server.execute(table.replace("CREATE TABLE ", f"CREATE TABLE {name}."))


def test_rows_arrive_and_a_second_run_goes_on(
    upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, tidb)
    create(name, upstream, tidb)
    subtask = subtask_for(upstream, tidb, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.keyed VALUES (1, 10, 'eins', 1.5, '2026-01-02 03:04:05.678'), (2, 20, NULL, -2, NULL)",
            f"INSERT INTO {name}.keyless VALUES (1, 'x', 0.1), (1, 'x', 0.1), (NULL, NULL, NULL)",
            f"UPDATE {name}.keyed SET u = 11, note = 'müde' WHERE id = 1",
            f"UPDATE {name}.keyed SET id = 3 WHERE id = 2",
            f"DELETE FROM {name}.keyless WHERE a = 1 LIMIT 1",
        )
        sync.wait_synced()
    identical(upstream, tidb, name)
    upstream.execute(
        f"INSERT INTO {name}.keyed VALUES (4, 40, 'later', 0, NULL)", f"DELETE FROM {name}.keyed WHERE id = 1"
    )
    with running_sync(subtask) as sync:
        sync.wait_synced()
    identical(upstream, tidb, name)


def test_ddl_arrives(upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(upstream, tidb)
    create(name, upstream, tidb)
    document = "JSON" if upstream.flavor == "mysql" else "LONGTEXT"  # MariaDB's JSON is a text, which TiDB's is not
    with running_sync(subtask_for(upstream, tidb, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.keyed (id, u) VALUES (1, 1), (2, 2)",
            f"ALTER TABLE {name}.keyed ADD COLUMN extra INT NOT NULL DEFAULT 7, ADD INDEX by_note (note)",
            f"INSERT INTO {name}.keyed (id, u, extra) VALUES (3, 3, 3)",
            f"CREATE TABLE {name}.fresh (id BIGINT AUTO_INCREMENT PRIMARY KEY, v {document})",
            f"INSERT INTO {name}.fresh (v) VALUES ('[1, 2.5, null]')",
            f"ALTER TABLE {name}.keyed DROP COLUMN note",
            f"RENAME TABLE {name}.keyless TO {name}.renamed",
            f"INSERT INTO {name}.renamed VALUES (5, 'five', 5)",
            f"TRUNCATE TABLE {name}.fresh",
            f"CREATE TABLE {name}.of_another_engine (id INT PRIMARY KEY) ENGINE = MyISAM",
            f"INSERT INTO {name}.of_another_engine VALUES (1), (2)",
            f"ALTER TABLE {name}.of_another_engine ENGINE = InnoDB",
        )
        sync.wait_synced()
    identical(upstream, tidb, name)


def test_indexes_and_columns_that_go_in_one_alter_arrive(
    upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    """A TiDB takes none of these statements whole."""
    name = schema(upstream, tidb)
    columns = "id INT PRIMARY KEY, a INT, b INT, c INT, KEY k (a, b), KEY ka (a), UNIQUE u (c)"
    for server in (upstream, tidb):
        server.execute(
            f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            *(f"CREATE TABLE {name}.t{number} ({columns})" for number in range(4)),
        )
    with running_sync(subtask_for(upstream, tidb, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            *(f"INSERT INTO {name}.t{number} VALUES (1, 1, 1, 1), (2, NULL, 2, 2)" for number in range(4)),
            f"ALTER TABLE {name}.t0 ADD INDEX n (b), DROP INDEX k, DROP COLUMN a",
            f"ALTER TABLE {name}.t1 DROP INDEX k, ADD INDEX k (b)",
            f"ALTER TABLE {name}.t2 DROP COLUMN a, DROP INDEX k, ADD COLUMN d INT DEFAULT 3, ADD INDEX (d)",
            f"ALTER TABLE {name}.t3 DROP INDEX u, ADD UNIQUE u (b, c), MODIFY a BIGINT, DROP INDEX ka",
            f"INSERT INTO {name}.t3 VALUES (3, 5000000000, 1, 2)",
            f"UPDATE {name}.t2 SET d = 4 WHERE id = 2",
        )
        sync.wait_synced()
    identical(upstream, tidb, name)


def test_values_that_a_tidb_would_take_for_others(
    upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    """VALUES() reverses the bytes of a long BIT, UPDATE takes a SET's number for a name, and 64 members have none."""
    name = schema(upstream, tidb)
    members = ",".join(f"'m{number}'" for number in range(64))
    for server in (upstream, tidb):
        server.execute(
            f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, b BIT(64), s SET('2','1','3'), e ENUM('2','1','3'))",
            f"CREATE TABLE {name}.wide (s SET({members}) PRIMARY KEY, n INT)",
            f"CREATE TABLE {name}.keyless (s SET({members}), t SET('2','1','3'), b BIT(64))",
        )
    with running_sync(subtask_for(upstream, tidb, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.t VALUES (1, 1, 1, 1), (2, NULL, NULL, NULL), (3, 3, 3, 3), (4, 1, 3, 1)",
            f"INSERT INTO {name}.wide VALUES (1, 1), ({1 << 63}, 2), ({1 << 63 | 1}, 3), ({(1 << 64) - 1}, 4), (0, 5)",
            f"INSERT INTO {name}.keyless VALUES ({(1 << 64) - 1}, 3, 1), ({1 << 60}, 1, 1), (0, 0, 0), (1, 1, 1)",
        )
        sync.wait_synced()  # so that what follows is written as changes of rows that are there
        upstream.execute(
            f"UPDATE {name}.t SET b = 1, s = 3, e = 3 WHERE id < 3",
            f"UPDATE {name}.t SET b = {1 << 63}, s = 1, e = 1 WHERE id = 3",
            f"UPDATE {name}.t SET s = 4, id = 5 WHERE id = 4",
            f"UPDATE {name}.wide SET n = 20 WHERE n < 3",
            f"DELETE FROM {name}.wide WHERE n > 3",
            f"UPDATE {name}.keyless SET t = 2, b = 7 WHERE t > 2",
            f"DELETE FROM {name}.keyless WHERE s = {1 << 60}",
        )
        sync.wait_synced()
    identical(upstream, tidb, name)


def test_rows_arrive_in_tables_that_only_a_tidb_can_make(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    """Made by hand before the task: keys that it draws, hidden row numbers that it spreads, keys apart from rows."""
    name = schema(mysql, tidb)
    tables = {
        "drawn": ("id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT", "id BIGINT AUTO_RANDOM(5) PRIMARY KEY, v INT", ""),
        "spread": ("v INT, w TEXT", "v INT, w TEXT", "SHARD_ROW_ID_BITS = 4 PRE_SPLIT_REGIONS = 2"),
        "apart": (
            "id VARCHAR(20) PRIMARY KEY, n INT AUTO_INCREMENT UNIQUE",
            "id VARCHAR(20), n INT AUTO_INCREMENT UNIQUE, PRIMARY KEY (id) NONCLUSTERED",
            "AUTO_ID_CACHE = 1",
        ),
        "placed": ("v INT, w TEXT", "v INT, w TEXT", f"PLACEMENT POLICY = {name}"),
    }
    tidb.execute(f"CREATE PLACEMENT POLICY {name} FOLLOWERS = 4")
    for table, (here, there, options) in tables.items():
        mysql.execute(f"CREATE TABLE {name}.{table} ({here})")
        tidb.execute(f"CREATE TABLE {name}.{table} ({there}) {options}")
    with running_sync(subtask_for(mysql, tidb, name, task=name)) as sync:
        sync.wait_synced()
        mysql.execute(
            f"INSERT INTO {name}.drawn (v) VALUES (1), (2), (3)",
            f"INSERT INTO {name}.spread VALUES (1, 'x'), (1, 'x'), (2, NULL)",
            f"INSERT INTO {name}.apart VALUES ('a', 1), ('b', 7), ('c', NULL)",
            f"INSERT INTO {name}.placed VALUES (1, 'x'), (2, 'y')",
        )
        sync.wait_synced()
        mysql.execute(
            f"UPDATE {name}.drawn SET id = 9 WHERE v = 2",
            f"DELETE FROM {name}.spread WHERE v = 1 LIMIT 1",
            f"UPDATE {name}.apart SET id = 'B' WHERE n = 7",
            f"ALTER TABLE {name}.drawn ADD COLUMN w INT DEFAULT 5",
            f"ALTER TABLE {name}.placed ADD COLUMN x INT DEFAULT 6, DROP COLUMN w",
        )
        sync.wait_synced()
    for table in tables:
        found, wanted = (Counter(server.query(f"SELECT * FROM {name}.{table}")) for server in (tidb, mysql))
        assert found == wanted
    ((_, made),) = tidb.query(f"SHOW CREATE TABLE {name}.placed")
    assert f"PLACEMENT POLICY=`{name}`" in made


@pytest.mark.parametrize("safe", [False, True])
def test_rows_arrive_where_collations_have_no_meaning(
    mysql: ThrowawayServer, tmp_path: Path, schema: SchemaFactory, safe: bool
) -> None:
    """A TiDB of old collations (`new_collations_enabled_on_first_bootstrap`) takes `a` and `A` for two keys."""
    name = schema(mysql)
    with TidbServer(tmp_path / "tidb", new_collations_enabled_on_first_bootstrap=False) as old:
        for server in (mysql, old):
            server.execute(
                f"CREATE DATABASE IF NOT EXISTS {name}",
                f"CREATE TABLE {name}.t (k VARCHAR(20) PRIMARY KEY, u VARCHAR(20) UNIQUE, n INT)"
                " DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci",
            )
        subtask = subtask_for(mysql, old, name, task=name)
        subtask = subtask.model_copy(update={"syncer": subtask.syncer.model_copy(update={"safe_mode": safe})})
        with running_sync(subtask) as sync:
            sync.wait_synced()
            mysql.execute(f"INSERT INTO {name}.t VALUES ('a', 'x', 1), ('b', 'y', 2), ('ß', 'ä', 3), ('c', NULL, 4)")
            sync.wait_synced()
            mysql.execute(
                f"UPDATE {name}.t SET k = 'A' WHERE n = 1",
                f"UPDATE {name}.t SET u = 'Y' WHERE n = 2",
                f"UPDATE {name}.t SET k = 's', u = 'A' WHERE n = 3",
                f"DELETE FROM {name}.t WHERE k = 'C'",
                f"INSERT INTO {name}.t VALUES ('C', 'z', 5)",
                f"ALTER TABLE {name}.t ADD COLUMN w VARCHAR(9) NOT NULL DEFAULT 'W', ADD UNIQUE KEY two (w, k)",
                f"UPDATE {name}.t SET w = 'w' WHERE n < 3",
            )
            sync.wait_synced()
        rows = f"SELECT k, u, n, w FROM {name}.t ORDER BY n"
        assert old.query(rows) == mysql.query(rows)


def test_what_widens_is_executed(upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(upstream, tidb)
    t = f"{name}.t"
    for server in (upstream, tidb):
        server.execute(f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    with running_sync(subtask_for(upstream, tidb, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {t} (id INT PRIMARY KEY, i SMALLINT, v VARCHAR(5), d DECIMAL(6,2), f DATETIME,"
            " e ENUM('a','b'))",
            f"INSERT INTO {t} VALUES (1, -7, 'ä', 1234.50, '2020-01-01 10:00:00', 'b'), (2, NULL, '', 0, NULL, NULL)",
            f"ALTER TABLE {t} MODIFY i BIGINT, CHANGE v w VARCHAR(9), MODIFY f DATETIME(3)",
            f"ALTER TABLE {t} MODIFY d DECIMAL(8,3), MODIFY e ENUM('a','b','c'), MODIFY w TEXT",
            f"CREATE TABLE {name}.none (v VARCHAR(9))",
            f"ALTER TABLE {name}.none MODIFY v INT",  # there is no row to convert
            f"ALTER TABLE {t} ADD COLUMN x DATETIME(1) DEFAULT '2020-01-01 10:00:00.700'",
        )
        sync.wait_synced()
    identical(upstream, tidb, name)


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin", "'ä'", "VARBINARY(9)"),  # bytes, here of UTF-8
        ("DOUBLE", "1e15", "VARCHAR(30)"),  # printed
    ],
)
def test_what_converts_pauses(
    upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, before: str, value: str, after: str
) -> None:
    """TiDB executes these by its own rules, with other values than the source has then."""
    name = schema(upstream, tidb)
    sync = RunningSync(subtask_for(upstream, tidb, name, task=name), None)
    sync.wait_synced()
    upstream.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, d {before})",
        f"INSERT INTO {name}.t VALUES (1, {value})",
        f"ALTER TABLE {name}.t MODIFY d {after}",
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError), error
    assert error.name == "ddl-values-differ", error
    assert f"TiDB may convert column d in another way than {dialect(upstream.flavor).title}" in error.message


def test_a_turn_at_a_table_is_seen_by_another_session(mysql: ThrowawayServer, tidb: TidbServer) -> None:
    source = connect(endpoint_of(mysql))
    facts = read_facts(source)
    source.close()
    table = TableName("s", "t")
    with ExitStack() as stack:
        one, two = (stack.enter_context(closing(TargetConnection(endpoint_of(tidb)))) for _ in range(2))
        sessions = [DdlSession(each, facts, lambda seconds: True) for each in (one, two)]
        assert not sessions[0].has_turn(two)
        sessions[0].take_turn(table)
        assert sessions[0].has_turn(two)
        with pytest.raises(Stopped):
            sessions[1].take_turn(table)
        sessions[0].end_turn()
        sessions[1].take_turn(table)
        assert sessions[1].has_turn(one)
        assert not sessions[0].has_turn(two)


def test_a_fraction_that_mariadb_cuts_off_pauses(
    mariadb: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    """TiDB rounds it, and has no mode in which it does not."""
    name = schema(mariadb, tidb)
    sync = RunningSync(subtask_for(mariadb, tidb, name, task=name), None)
    sync.wait_synced()
    mariadb.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY)",
        f"ALTER TABLE {name}.t ADD COLUMN x DATETIME DEFAULT '2020-01-01 10:00:00.7'",
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError), error
    assert error.name == "ddl-values-differ", error
    assert "TiDB rounds the fraction of a second in 2020-01-01 10:00:00.7" in error.message


@pytest.mark.parametrize("safe", [False, True])
def test_values_that_have_one_name_stay_two(
    upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, *, safe: bool
) -> None:
    name = schema(upstream, tidb)
    for server in (upstream, tidb):
        server.execute(
            f"CREATE TABLE {name}.keyed (s SET('a','','c') PRIMARY KEY, e ENUM('a',''), v INT)",
            f"CREATE TABLE {name}.keyless (s SET('a','','c'), v INT)",
            f"INSERT INTO {name}.keyed VALUES (0, 'a', 1), (1, 'a', 2)",
            f"INSERT INTO {name}.keyless VALUES (0, 1), (2, 1), (0, 1)",
        )
    subtask = subtask_for(upstream, tidb, name, task=name, safe_mode=safe)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            "SET SESSION sql_mode = ''",
            f"UPDATE {name}.keyed SET s = 2, v = 3 WHERE s = 0",
            f"INSERT INTO {name}.keyed VALUES (0, 2, 4)",
            f"UPDATE {name}.keyed SET e = 'nothing' WHERE s = 0",  # the error value, which is '' as well
            f"UPDATE {name}.keyed SET s = 4, e = 2 WHERE s = 1",
            f"UPDATE {name}.keyless SET s = 2 WHERE s = 0 LIMIT 1",
        )
        sync.wait_synced()
    for query in (f"SELECT s + 0, e + 0, v FROM {name}.keyed", f"SELECT s + 0, v FROM {name}.keyless"):
        assert sorted(tidb.query(query)) == sorted(upstream.query(query))


def test_members_and_comments_that_a_tidb_prints_as_they_are(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    r"""It says `enum('y\','q')` of a member that ends with a backslash (`dm.mysql.dialect.tidb`)."""
    name = schema(mysql, tidb)
    create = (
        rf"CREATE TABLE {name}.t (id INT PRIMARY KEY, e ENUM('y\\', 'q''r\\z', '\\'), s SET('a\\b', 'c', '`d`\\')"
        r" COMMENT 'x\\y''z') COLLATE utf8mb4_bin"
    )
    parts = r"PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10) COMMENT 'c\\d''e\\')"
    for server in (mysql, tidb):
        server.execute(create, f"CREATE TABLE {name}.p (id INT PRIMARY KEY, v INT) {parts}")
    subtask = subtask_for(mysql, tidb, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        mysql.execute(
            rf"INSERT INTO {name}.t VALUES (1, 'y\\', 'a\\b,c'), (2, 'q''r\\z', '`d`\\'), (3, '\\', '')",
            f"INSERT INTO {name}.p VALUES (1, 1)",
            rf"ALTER TABLE {name}.t MODIFY e ENUM('y\\', 'q''r\\z', '\\', 'new\\') COLLATE utf8mb4_bin",
            rf"UPDATE {name}.t SET e = 'new\\', s = 'a\\b' WHERE e = '\\'",
        )
        sync.wait_synced()
    identical(mysql, tidb, name)
