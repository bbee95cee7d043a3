"""From an older server into the system's: what its binlog does not say, and what newer servers do otherwise.

`make test-mariadb MARIADB=10.5` and `make test-mysql56` name the older one; without it there is nothing to be seen.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE
from dm.sourcelog.upstream.connection import connect, fetch
from dm.sourcelog.upstream.facts import binlog_end, question_session, read_facts
from dm.sourcelog.upstream.snapshot import lower_bound
from tests.live.syncer.ddl.test_server_written import STATEMENTS, write
from tests.live.syncer.follow.test_follow import identical
from tests.testbed.diffing import differences
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.migration import Migration
from tests.testbed.sync import endpoint_of, running_sync, subtask_for

pytestmark = pytest.mark.live

COLUMNS = (
    "id INT PRIMARY KEY, b BIT(9), y YEAR, e ENUM('ä','b') CHARACTER SET latin1, s SET('x','y','z'), d DECIMAL(30,10),"
    " f FLOAT, g DOUBLE, at DATETIME(3), t TIME(6), m TIMESTAMP(3) NULL, day DATE, u BIGINT UNSIGNED,"
    " l VARCHAR(20) CHARACTER SET latin1, v VARCHAR(20) CHARACTER SET utf8, w VARCHAR(20) CHARACTER SET utf8mb4,"
    " x TEXT CHARACTER SET latin1, z BLOB, n VARBINARY(8), k BINARY(4), KEY by_l (l), UNIQUE KEY by_u (u)"
)
ROWS = (
    "(1, b'100000001', 2026, 'ä', 'x,z', -12345678901234567890.0123456789, 1.5, 0.1, '2026-01-02 03:04:05.678',"
    " '-838:59:58.000001', '2026-01-02 03:04:05.678', '2026-01-02', 18446744073709551615,"
    " 'müde', 'müde', '\U0001f600', 'größer', x'00ff', x'00ff', x'0100')",
    "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(3, b'0', 1901, 'b', '', 0, -0.0, 1e300, '1000-01-01 00:00:00.000', '00:00:00.5', '1970-01-01 00:00:01.000',"
    " '9999-12-31', 0, '', '', '', REPEAT('ß', 5000), REPEAT(x'00', 60000), '', '')",
)


def test_an_older_server_is_followed_into_a_newer_one(
    upstream: ThrowawayServer, newer: ThrowawayServer, flavor: Flavor, schema: SchemaFactory
) -> None:
    name = schema(upstream, newer)
    # MySQL 5.6 refuses CREATE TABLE .. SELECT with GTIDs.
    copied = [f"CREATE TABLE {name}.copied AS SELECT * FROM {name}.t"] if flavor == "mariadb" else []
    with running_sync(subtask_for(upstream, newer, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            # Without explicit_defaults_for_timestamp, which MariaDB before 10.10 and MySQL before 5.7 do not log, the
            # first TIMESTAMP is filled and kept up to date, and no other one may be NULL.
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, first TIMESTAMP, second TIMESTAMP, third TIMESTAMP(3) NULL,"
            " d DATETIME DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, u CHAR(9) CHARACTER SET utf8)",
            f"INSERT INTO {name}.t (id, u) VALUES (1, 'müde'), (2, NULL)",
            f"UPDATE {name}.t SET u = 'x' WHERE id = 2",
            f"ALTER TABLE {name}.t ADD COLUMN fourth TIMESTAMP, ADD COLUMN n INT DEFAULT 5",
            f"INSERT INTO {name}.t (id, fourth, third) VALUES (3, '2026-01-02 03:04:05', '2026-01-02 03:04:05.678')",
            f"ALTER TABLE {name}.t MODIFY COLUMN d TIMESTAMP",
            f"UPDATE {name}.t SET n = n + 1",
            f"CREATE TABLE {name}.keyless (a INT, at TIMESTAMP)",
            f"INSERT INTO {name}.keyless (a) VALUES (1), (1), (NULL)",
            f"DELETE FROM {name}.keyless WHERE a = 1 LIMIT 1",
            *copied,
        )
        sync.wait_synced()
    identical(upstream, newer, name)


@pytest.mark.parametrize("gtid", [True, False])
def test_types_and_changes_of_structure_arrive(
    upstream: ThrowawayServer, newer: ThrowawayServer, schema: SchemaFactory, gtid: bool
) -> None:
    name = schema(upstream, newer)
    for server in (upstream, newer):
        server.execute(f"DROP DATABASE {name}")
    subtask = subtask_for(upstream, newer, name, task=name)
    source = subtask.source.model_copy(update={"enable_gtid": gtid})
    # What utf8mb4 means without a collation is another one since MySQL 8.0.
    subtask = subtask.model_copy(update={"source": source, "collation_compatible": "strict"})
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE DATABASE {name}",
            f"CREATE TABLE {name}.t ({COLUMNS})",
            f"CREATE TABLE {name}.old (id INT PRIMARY KEY, v VARCHAR(20), x TEXT) DEFAULT CHARSET=latin1",
            f"CREATE TABLE {name}.child (id INT AUTO_INCREMENT PRIMARY KEY, t INT, CONSTRAINT of_t FOREIGN KEY (t)"
            f" REFERENCES {name}.t (id)) ENGINE=InnoDB ROW_FORMAT=COMPACT COMMENT='of t'",
            f"INSERT INTO {name}.t VALUES {', '.join(ROWS)}",
            f"INSERT INTO {name}.old VALUES (1, 'müde', 'ä'), (2, '', NULL)",
            f"INSERT INTO {name}.child (t) VALUES (1), (2), (NULL)",
            f"UPDATE {name}.t SET l = 'ß', v = 'ß', e = 'b', s = 'y' WHERE id = 1",
            f"UPDATE {name}.t SET t = '12:00:00.25', at = '2026-05-06 07:08:09.1', b = b'11' WHERE id = 2",
            f"ALTER TABLE {name}.old ADD COLUMN at DATETIME(6) DEFAULT '2026-01-02 03:04:05.678' AFTER id,"
            " ADD INDEX by_v (v)",
            f"UPDATE {name}.old SET v = 'anders' WHERE id = 2",
            f"ALTER TABLE {name}.old CHANGE COLUMN v renamed VARCHAR(40) CHARACTER SET utf8 NOT NULL DEFAULT 'ä'",
            f"INSERT INTO {name}.old (id) VALUES (3)",
            f"ALTER TABLE {name}.old DROP COLUMN x",
            f"RENAME TABLE {name}.old TO {name}.moved",
            f"DELETE FROM {name}.moved WHERE id = 1",
            f"XA START '{name}'",
            f"INSERT INTO {name}.moved (id) VALUES (4)",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
            f"XA COMMIT '{name}'",
            f"TRUNCATE TABLE {name}.child",
            f"CREATE TABLE {name}.alike LIKE {name}.moved",
            f"DROP TABLE {name}.child",
        )
        sync.wait_synced()
    identical(upstream, newer, name)
    assert differences(subtask) == {}


@pytest.mark.parametrize("flavor", ["mariadb"])
def test_an_older_server_with_certificates_is_spoken_to_in_cipher(
    mysql: ThrowawayServer, server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    """MariaDB 10.1 and 10.2 have yaSSL here: TLS 1.0, and no word about safe renegotiation (RFC 5746)."""
    authority, certificate = (str(mysql.data / f"{name}.pem") for name in ("ca", "server-cert"))
    key = tmp_path / "key.pem"  # in the form that yaSSL reads
    private = load_pem_private_key((mysql.data / "server-key.pem").read_bytes(), None)
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    older = server(flavor, ssl_ca=authority, ssl_cert=certificate, ssl_key=str(key))
    with closing(connect(endpoint_of(older))) as connection:
        assert fetch(connection, "SHOW STATUS LIKE 'Ssl_cipher'")[0][1]


def test_an_older_target_has_the_timestamps_of_a_newer_source(
    target: ThrowawayServer, newer: ThrowawayServer, schema: SchemaFactory
) -> None:
    if target is newer:
        pytest.skip("the older server is no target")
    name = schema(newer, target)
    with running_sync(subtask_for(newer, target, name, task=name)) as sync:
        sync.wait_synced()
        newer.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a TIMESTAMP, b TIMESTAMP(3) DEFAULT CURRENT_TIMESTAMP(3))",
            f"INSERT INTO {name}.t (id) VALUES (1)",
            f"ALTER TABLE {name}.t ADD COLUMN c TIMESTAMP, ADD COLUMN n INT",
            f"INSERT INTO {name}.t (id, b) VALUES (2, NULL)",
        )
        sync.wait_synced()
    identical(newer, target, name)


@pytest.mark.parametrize("rights", ["root", "of the README"])
def test_nothing_is_found_against_such_a_source(
    upstream: ThrowawayServer, newer: ThrowawayServer, schema: SchemaFactory, rights: str
) -> None:
    name = schema(upstream)
    task = Migration(upstream, newer, name, passwords={upstream.user: upstream.password})
    if rights != "root":
        task.source_user = task.user(
            upstream, "SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT, TRIGGER, EVENT ON *.*"
        )
    upstream.execute(
        f"CREATE TABLE {name}.t ({COLUMNS})", f"CREATE TABLE {name}.bare (id INT PRIMARY KEY, at TIMESTAMP)"
    )
    found = [result for results in task.check().values() for result in results]
    assert {result.item for result in found} >= {"version", "replication_privilege", "dump_privilege", "table_schema"}
    assert [str(result) for result in found if result.state == "failure"] == []


def test_a_load_begins_where_all_is_committed(upstream: ThrowawayServer, newer: ThrowawayServer) -> None:
    """MySQL 5.6 tells of a GTID before the commit; so the place is the binlog's end under a lock, as of MariaDB."""
    with closing(question_session(endpoint_of(upstream))) as session:
        facts = read_facts(session)
        point = lower_bound(partial(question_session, endpoint_of(upstream)), facts)
        assert (point.file, point.offset) == (binlog_end(session).file, binlog_end(session).offset)
        assert point.offset > MAGIC_SIZE


def test_expressions_that_an_older_server_does_not_tell_are_not_compared(
    upstream: ThrowawayServer, newer: ThrowawayServer, flavor: Flavor, schema: SchemaFactory
) -> None:
    if flavor == "mysql":
        pytest.skip("MySQL 5.6 has no generated columns")
    name = schema(upstream, newer)
    columns = "id INT PRIMARY KEY, g INT AS (id + {}) PERSISTENT, p INT"
    upstream.execute(f"CREATE TABLE {name}.t ({columns.format(1)})")
    newer.execute(f"CREATE TABLE {name}.t ({columns.format(2)} AS (id + 3))")
    message = Migration(upstream, newer, name).only("table_schema").message
    assert f"{name}.t.p is " in message.replace("`", "")
    assert (f"{name}.t.g is " in message.replace("`", "")) is (upstream.installation.release >= (10, 2))


def test_texts_of_a_latin1_and_a_gbk_client_arrive_as_they_are_meant(
    server: ServerFactory, newer: ThrowawayServer, flavor: Flavor, schema: SchemaFactory
) -> None:
    upstream = server(flavor, gtid=False)
    name = schema(upstream, newer)
    with running_sync(subtask_for(upstream, newer, name, task=name)) as sync:
        sync.wait_synced()
        for charset in ("latin1", "gbk"):
            dropped = "CREATE TABLE `drop@` (id INT PRIMARY KEY)", "DROP TABLE `drop@`", "DROP TABLE IF EXISTS `never@`"
            write(upstream, name, charset, *STATEMENTS, *dropped)
        sync.wait_synced()
    tables = (
        "SELECT table_name, table_comment FROM information_schema.tables"
        f" WHERE table_schema = '{name}' AND table_type = 'BASE TABLE'"
    )
    columns = (
        "SELECT table_name, column_name, column_comment, column_default FROM information_schema.columns"
        f" WHERE table_schema = '{name}' AND table_name NOT LIKE 'view%'"
    )
    for asked in (tables, columns):
        assert set(upstream.query(asked)) == set(newer.query(asked))
