"""Events as both server families write them, in the forms their settings choose."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.event import MariadbBinlogCheckpoint
from dm.mysql.binlog.reader import (
    FormatDescription,
    GtidEvent,
    GtidList,
    PreviousGtids,
    Query,
    Rotate,
    Rows,
    RowsQuery,
    TableMapEvent,
    TransactionPayload,
    XaPrepare,
    Xid,
)
from dm.mysql.binlog.value import ABSENT
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import Column
from tests.live.binlog.recording import Recording, columns_of, recording
from tests.testbed.fixtures import SchemaFactory, ServerFactory

pytestmark = pytest.mark.live


def run(server: ThrowawayServer, *statements: str, **connection: object) -> Recording:
    """Run statements in one session and give what they wrote."""
    with recording(server) as recorded:
        session = server.connect(**connection)
        with session, session.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
    return recorded


def gtids(recorded: Recording) -> list[GtidEvent]:
    return [event for event in recorded.events if isinstance(event, GtidEvent)]


def queries(recorded: Recording) -> list[Query]:
    return [event for event in recorded.events if isinstance(event, Query)]


def test_a_file_starts_with_its_format_and_ends_with_a_rotation(upstream: ThrowawayServer, flavor: Flavor) -> None:
    with recording(upstream) as recorded:
        pass
    first, last = recorded.events[0], recorded.events[-1]
    assert isinstance(first, FormatDescription)
    assert (first.flavor, first.checksum) == (flavor, True)
    assert first.server_version == upstream.query("SELECT VERSION()")[0][0]
    assert isinstance(last, Rotate)
    assert not last.artificial
    assert last.next_file == upstream.query("SHOW BINARY LOGS")[-1][0]


def test_a_transaction_has_the_shape_its_family_gives_it(
    upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory
) -> None:
    name = schema(upstream)
    upstream.execute(f"CREATE TABLE {name}.t (a INT)")
    recorded = run(upstream, "START TRANSACTION", "INSERT INTO t VALUES (1), (2)", "COMMIT", database=name)
    # MariaDB says that a binlog file needs no recovery any more when its engines have synced, wherever that falls.
    kinds = [type(event).__name__ for event in recorded.events if not isinstance(event, MariadbBinlogCheckpoint)]
    start = kinds.index("GtidEvent")
    if flavor == "mysql":
        assert kinds[start:-1] == ["GtidEvent", "Query", "TableMapEvent", "Rows", "Xid"]
        assert queries(recorded)[0].sql == b"BEGIN"
    else:
        assert kinds[start:-1] == ["GtidEvent", "RowsQuery", "TableMapEvent", "Rows", "Xid"]
        assert not gtids(recorded)[0].is_ddl_standalone


def test_gtids_and_what_went_before_them_are_the_servers_own(mysql: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mysql)
    before = mysql.query("SELECT @@gtid_executed")[0][0]
    recorded = run(mysql, f"CREATE TABLE {name}.g (a INT)")
    after = mysql.query("SELECT @@gtid_executed")[0][0]
    previous = next(event for event in recorded.events if isinstance(event, PreviousGtids))
    assert previous.gtid_set == GtidSet.parse(before)
    (event,) = gtids(recorded)
    assert event.gtid is not None
    assert previous.gtid_set.with_gtid(event.gtid) == GtidSet.parse(after)
    sizes = {type(typed): raw.header.size for raw, typed in zip(recorded.raw, recorded.events, strict=True)}
    assert event.transaction_length == sizes[GtidEvent] + sizes[Query]
    now = mysql.query("SELECT UNIX_TIMESTAMP(NOW(6)) * 1000000")[0][0]
    assert event.commit_timestamp_us is not None
    assert abs(int(now) - event.commit_timestamp_us) < 600_000_000
    assert event.original_commit_timestamp_us == event.commit_timestamp_us
    assert queries(recorded)[0].xid


def test_tagged_gtids_are_read_in_events_and_in_sets(server: ServerFactory) -> None:
    mysql = server("mysql")
    mysql.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT)")
    other = "ffeeddcc-bbaa-9988-7766-554433221100"
    recorded = run(
        mysql,
        "SET gtid_next='AUTOMATIC:some_tag'",
        "INSERT INTO d.t VALUES (1)",
        "INSERT INTO d.t VALUES (2)",
        f"SET gtid_next='{other}:tag_2:9223372036854775806'",
        "INSERT INTO d.t VALUES (3)",
        f"SET gtid_next='{other}:77'",
        "INSERT INTO d.t VALUES (4)",
    )
    uuid = mysql.query("SELECT @@server_uuid")[0][0]
    found = [event.gtid for event in gtids(recorded)]
    assert found == [
        Gtid("mysql", f"{uuid}:some_tag", 1),
        Gtid("mysql", f"{uuid}:some_tag", 2),
        Gtid("mysql", f"{other}:tag_2", 9223372036854775806),
        Gtid("mysql", other, 77),
    ]
    for number, event in enumerate(gtids(recorded)[:3]):
        assert event.commit_timestamp_us is not None
        assert event.transaction_length is not None
        assert event.sequence_number == number + 1
    with recording(mysql) as after:
        pass
    previous = next(event for event in after.events if isinstance(event, PreviousGtids))
    assert previous.gtid_set == GtidSet.parse(mysql.query("SELECT @@gtid_executed")[0][0])
    sizes = [raw.header.size for raw in recorded.raw]
    at = [type(event) for event in recorded.events].index(GtidEvent)
    assert gtids(recorded)[0].transaction_length == sum(sizes[at : at + 5])


def test_without_gtids_the_events_are_anonymous(server: ServerFactory) -> None:
    mysql = server("mysql", gtid=False)
    mysql.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT)")
    (event,) = gtids(run(mysql, "INSERT INTO d.t VALUES (1)"))
    assert event.gtid is None
    assert event.commit_timestamp_us


def test_mariadb_positions_and_its_ddl_groups(mariadb: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mariadb)
    before = mariadb.query("SELECT @@gtid_binlog_pos")[0][0]
    recorded = run(mariadb, f"CREATE TABLE {name}.m (a INT)", f"INSERT INTO {name}.m VALUES (1)")
    at_start = next(event for event in recorded.events if isinstance(event, GtidList))
    assert at_start.gtid_set == GtidSet.parse(before, "mariadb")
    ddl, dml = gtids(recorded)
    assert (ddl.is_ddl_standalone, ddl.is_ddl, dml.is_ddl_standalone) == (True, True, False)
    assert str(dml.gtid) == mariadb.query("SELECT @@gtid_binlog_pos")[0][0]


@pytest.mark.parametrize("rows", [1, 30_000])
def test_a_compressed_transaction_unpacks_to_the_plain_one(
    mysql: ThrowawayServer, schema: SchemaFactory, rows: int
) -> None:
    name = schema(mysql)
    mysql.execute(f"CREATE TABLE {name}.z (a INT, b VARCHAR(100))")
    columns = columns_of(mysql, name, "z")
    values = ", ".join(f"({number}, REPEAT('{number}', 10))" for number in range(rows))
    recorded = run(mysql, "SET binlog_transaction_compression = ON", f"INSERT INTO z VALUES {values}", database=name)
    payload = next(event for event in recorded.events if isinstance(event, TransactionPayload))
    kinds = [type(event) for event in recorded.events if not isinstance(event, GtidEvent)]
    inner = kinds[kinds.index(TransactionPayload) + 1 :]
    assert inner[:2] == [Query, TableMapEvent]
    assert Xid in inner
    assert payload.uncompressed_size
    expected = [(None, (number, str(number).encode() * 10)) for number in range(rows)]
    assert recorded.rows("z", columns) == expected


def test_compressed_events_of_mariadb_are_read_as_plain_ones(server: ServerFactory) -> None:
    mariadb = server("mariadb", log_bin_compress=True, log_bin_compress_min_len=10)
    mariadb.execute("CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY, b MEDIUMTEXT)")
    long = "x" * 70_000
    recorded = run(
        mariadb,
        f"INSERT INTO d.t VALUES (1, '{long}'), (2, 'b')",
        "UPDATE d.t SET b = REPEAT('y', 300) WHERE a = 1",
        "DELETE FROM d.t",
        f"CREATE TABLE d.u (a INT) COMMENT '{long[:1000]}'",
    )
    changed = [(1, b"y" * 300), (2, b"b")]
    assert recorded.rows("t", columns_of(mariadb, "d", "t")) == [
        (None, (1, long.encode())),
        (None, (2, b"b")),
        ((1, long.encode()), changed[0]),
        (changed[0], None),
        (changed[1], None),
    ]
    assert queries(recorded)[-1].text == f"CREATE TABLE d.u (a INT) COMMENT '{long[:1000]}'"


def test_the_two_phases_of_a_mariadb_alter(mariadb: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mariadb)
    mariadb.execute(f"CREATE TABLE {name}.p (a INT)")
    recorded = run(mariadb, "SET binlog_alter_two_phase = ON", "ALTER TABLE p ADD COLUMN b INT", database=name)
    start, commit = gtids(recorded)
    assert start.gtid is not None
    assert (start.alter_phase, start.alter_start) == ("start", None)
    assert (commit.alter_phase, commit.alter_start) == ("commit", start.gtid.number)
    assert all(query.session.complete for query in queries(recorded))


def test_both_phases_of_xa(upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory) -> None:
    name = schema(upstream)
    upstream.execute(f"CREATE TABLE {name}.x (a INT)")
    xid = "X'616263',X'6465',7"
    recorded = run(
        upstream,
        "XA START 'abc', 'de', 7",
        "INSERT INTO x VALUES (1)",
        "XA END 'abc', 'de', 7",
        "XA PREPARE 'abc', 'de', 7",
        "XA COMMIT 'abc', 'de', 7",
        database=name,
    )
    (prepare,) = (event for event in recorded.events if isinstance(event, XaPrepare))
    assert prepare == XaPrepare(xid, one_phase=False)
    assert queries(recorded)[-1].text == f"XA COMMIT {xid}"
    if flavor == "mariadb":
        assert [event.xa for event in gtids(recorded)] == [xid, xid]


def test_a_query_tells_the_session_it_ran_in(upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory) -> None:
    name = schema(upstream)
    recorded = run(
        upstream,
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', time_zone = '+05:30', foreign_key_checks = 0",
        "SET NAMES latin1",
        'CREATE TABLE q ("ä" INT DEFAULT 1)',
        database=name,
        charset="latin1",
    )
    query = queries(recorded)[-1]
    assert query.schema == name
    assert query.text == 'CREATE TABLE q ("ä" INT DEFAULT 1)'
    assert query.sql_mode == 0x4 | 0x100000
    assert query.charset is not None
    assert query.charset[0] == 8
    assert query.session.flags2 is not None
    assert query.session.flags2 & 0x04000000
    assert query.session.complete
    if flavor == "mysql":
        assert query.session.updated_schemas == (name,)
        assert query.default_collation_for_utf8mb4 == 255


def test_the_time_zone_comes_with_statements_that_depend_on_it(mysql: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mysql)
    recorded = run(
        mysql,
        "SET time_zone = '+05:30', timestamp = 1700000000.5",
        "CREATE TABLE z (a TIMESTAMP DEFAULT '2024-01-01 00:00:00')",
        database=name,
    )
    query = queries(recorded)[-1]
    assert query.time_zone == "+05:30"
    assert query.timestamp == 1700000000


def test_the_statement_after_the_rows_is_readable(
    upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory
) -> None:
    name = schema(upstream)
    upstream.execute(f"CREATE TABLE {name}.r (a INT)")
    switch = "binlog_rows_query_log_events" if flavor == "mysql" else "binlog_annotate_row_events"
    recorded = run(upstream, f"SET {switch} = ON", "INSERT INTO r VALUES (1) /* ä */", database=name)
    (comment,) = (event for event in recorded.events if isinstance(event, RowsQuery))
    assert comment.text == "INSERT INTO r VALUES (1) /* ä */"


def test_full_metadata_names_everything(server: ServerFactory, flavor: Flavor) -> None:
    full = server(flavor, binlog_row_metadata="FULL")
    full.execute("CREATE DATABASE d")
    recorded = run(
        full,
        "CREATE TABLE f (`a``b` INT UNSIGNED, y YEAR, b BIGINT, c VARCHAR(9) CHARACTER SET latin1, d ENUM('x','y'),"
        " e SET('p','q'), g GEOMETRY, h VARBINARY(3), i TEXT CHARACTER SET utf8mb4, j DECIMAL(5,2) UNSIGNED,"
        " PRIMARY KEY (b, c(3)))",
        "INSERT INTO f (b, c) VALUES (1, 'c')",
        database="d",
    )
    (table_map,) = (event.table_map for event in recorded.events if isinstance(event, TableMapEvent))
    optional = table_map.optional
    assert optional.names == ("a`b", "y", "b", "c", "d", "e", "g", "h", "i", "j")
    assert optional.primary_key == ((2, 0), (3, 3))
    assert optional.members is not None
    assert (optional.members[4], optional.members[5]) == ((b"x", b"y"), (b"p", b"q"))
    assert optional.collations is not None
    assert (optional.collations[3], optional.collations[7]) == (8, 63)
    rows = recorded.rows("f", columns_of(full, "d", "f"))
    assert rows == [(None, (None, None, 1, b"c", None, None, None, None, None, None))]


def test_full_metadata_betrays_a_wrong_structure(server: ServerFactory, flavor: Flavor) -> None:
    full = server(flavor, binlog_row_metadata="FULL")
    full.execute("CREATE DATABASE d")
    recorded = run(
        full,
        "CREATE TABLE f (a INT UNSIGNED, b VARCHAR(4) CHARACTER SET latin1, c ENUM('x','ä'), d VARBINARY(9))",
        "INSERT INTO f (a) VALUES (1)",
        database="d",
    )
    (table_map,) = (event.table_map for event in recorded.events if isinstance(event, TableMapEvent))
    right = columns_of(full, "d", "f")
    RowDecoder(table_map, right)
    wrong = {
        0: (Column("a", "int"), Column("z", "int", unsigned=True)),
        1: (Column("b", "varchar", 1, charset="utf8mb4"), Column("b", "varchar", 4, charset="latin2")),
        2: (Column("c", "enum", members=("ä", "x")), Column("c", "enum", members=("x", "ä", "y"))),
        3: (Column("d", "varchar", 9, charset="latin1"),),
    }
    for index, columns in wrong.items():
        for column in columns:
            with pytest.raises(DMError) as caught:
                RowDecoder(table_map, [*right[:index], column, *right[index + 1 :]])
            assert caught.value.name == "row-layout-mismatch"


def test_a_minimal_image_leaves_columns_absent(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    upstream.execute(f"CREATE TABLE {name}.i (a INT PRIMARY KEY, b INT, c TEXT)")
    recorded = run(
        upstream,
        "SET binlog_row_image = MINIMAL",
        "INSERT INTO i (a, b) VALUES (1, 2)",
        "UPDATE i SET c = 'x' WHERE a = 1",
        "DELETE FROM i",
        database=name,
    )
    assert recorded.rows("i", columns_of(upstream, name, "i")) == [
        (None, (1, 2, ABSENT)),
        ((1, ABSENT, ABSENT), (ABSENT, ABSENT, b"x")),
        ((1, ABSENT, ABSENT), None),
    ]


def test_a_row_of_defaults_only_has_no_image_and_is_still_a_row(mysql: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mysql)
    mysql.execute(f"CREATE TABLE {name}.n (a INT DEFAULT 5)")
    recorded = run(mysql, "SET binlog_row_image = MINIMAL", "INSERT INTO n VALUES ()", database=name)
    found = recorded.rows("n", columns_of(mysql, name, "n"))
    assert found in ([(None, (ABSENT,))], [(None, (5,))])


def test_a_thousand_columns_with_every_third_null(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    names = [f"c{number}" for number in range(1000)]
    values = ", ".join("NULL" if number % 3 == 0 else str(number % 100) for number in range(1000))
    recorded = run(
        upstream,
        f"CREATE TABLE w ({', '.join(f'{column} TINYINT' for column in names)})",
        f"INSERT INTO w VALUES ({values})",
        "UPDATE w SET c0 = 1",
        database=name,
    )
    row = tuple(None if number % 3 == 0 else number % 100 for number in range(1000))
    found = recorded.rows("w", columns_of(upstream, name, "w"))
    assert found == [(None, row), (row, (1, *row[1:]))]


def test_more_null_patterns_than_functions_are_kept(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    rows = [tuple(number if number >> bit & 1 else None for bit in range(9)) for number in range(512)]
    values = ", ".join("(" + ", ".join("NULL" if cell is None else str(cell) for cell in row) + ")" for row in rows)
    recorded = run(
        upstream,
        "CREATE TABLE o (a INT, b DECIMAL(5,2), c VARCHAR(9), d INT, e INT, f DATE, g TEXT, h MEDIUMINT, i DOUBLE)",
        "SET sql_mode = ''",
        f"INSERT INTO o (a, b, c, d, e, f, g, h, i) VALUES {values}",
        database=name,
    )
    columns = columns_of(upstream, name, "o")
    found = [after for _, after in recorded.rows("o", columns)]
    assert len(found) == 512
    for row, after in zip(rows, found, strict=True):
        assert after is not None
        assert [cell is None for cell in after] == [cell is None for cell in row]
        assert (after[0], after[3], after[7]) == (row[0], row[3], row[7])
        assert after[2] == (None if row[2] is None else str(row[2]).encode())


def test_old_temporal_types_of_mariadb(server: ServerFactory) -> None:
    mariadb = server("mariadb", mysql56_temporal_format=False)
    texts = (
        "'2024-06-07 08:09:10.123456'",
        "'1999-12-31 23:59:59.99'",
        "'1970-01-01 00:00:01'",
        "'1970-01-01 00:00:00.9'",
    )
    times = ("'-00:00:00.25'", "'838:59:59'", "'-12:34:56.789'", "'00:00:00'")
    mariadb.execute("CREATE DATABASE d", "SET GLOBAL time_zone = '+00:00'")
    for digits in range(7):
        recorded = run(
            mariadb,
            f"CREATE OR REPLACE TABLE d.o (id INT PRIMARY KEY AUTO_INCREMENT, t TIME({digits}) NULL,"
            f" d DATETIME({digits}) NULL, s TIMESTAMP({digits}) NULL, n INT)",
            *(f"INSERT IGNORE INTO d.o (d, s) VALUES ({text}, {text})" for text in texts),
            *(f"INSERT IGNORE INTO d.o (t, d) VALUES ({text}, '0000-00-00')" for text in times),
        )
        expected = mariadb.query("SELECT CAST(t AS CHAR), CAST(d AS CHAR), CAST(s AS CHAR) FROM d.o ORDER BY id")
        found = [after[1:4] for _, after in recorded.rows("o", columns_of(mariadb, "d", "o")) if after is not None]
        assert found == list(expected)


def test_a_structure_that_is_not_the_one_of_the_rows_is_refused(
    upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory
) -> None:
    name = schema(upstream)
    recorded = run(upstream, "CREATE TABLE s (a INT, b VARCHAR(5))", "INSERT INTO s VALUES (1, 'b')", database=name)
    (table_map,) = (event.table_map for event in recorded.events if isinstance(event, TableMapEvent))
    right = columns_of(upstream, name, "s")
    RowDecoder(table_map, right)
    wrong: list[list[Column]] = [
        right[:1],
        [*right, right[0]],
        [right[1], right[0]],
        [Column("a", "bigint"), right[1]],
        [right[0], Column("b", "varchar", 6, charset="utf8mb4")],
    ]
    if flavor == "mysql":  # MariaDB says nothing of signs unless it is asked to
        wrong.append([Column("a", "int", unsigned=True), right[1]])
    for columns in wrong:
        with pytest.raises(DMError) as caught:
            RowDecoder(table_map, columns)
        assert caught.value.name == "row-layout-mismatch"


_JSON_UPDATES = (
    "b = JSON_REPLACE(b, '$.l', 2)",
    """b = JSON_SET(b, '$.new', CAST('2024-02-03' AS DATE), '$."a b"', JSON_ARRAY(1, 2.50, 'x'))""",
    """b = JSON_SET(b, '$."a b"[1]', 1e20)""",
    """b = JSON_REMOVE(b, '$."a b"[0]')""",
    "b = JSON_SET(b, '$.m', JSON_OBJECT('deep', JSON_ARRAY(JSON_OBJECT('z', 1))))",
    r"""b = JSON_SET(b, '$.m.deep[0].y', NULL, '$.m.deep[0].äö', 'quote\\"')""",
    "b = JSON_SET(JSON_REMOVE(b, '$.l'), '$.m.deep[5]', CAST(1.5 AS DECIMAL(9,4)))",
    "b = JSON_ARRAY_INSERT(b, '$.m.deep[0]', 'first')",
    "b = JSON_REPLACE(b, '$.k', REPEAT('y', 3000)), c = JSON_SET(c, '$[0]', 1)",
    "c = NULL",
    "c = '{}', b = JSON_REMOVE(b, '$.m')",
    "a = a + 10",
)


def test_partial_json_is_applied_to_the_document_before(mysql: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mysql)
    mysql.execute(f"CREATE TABLE {name}.j (a INT PRIMARY KEY, b JSON, n INT, c JSON)")
    expected: list[tuple[object, ...]] = []
    with recording(mysql) as recorded:
        session = mysql.connect(database=name)
        with session, session.cursor() as cursor:
            cursor.execute("SET binlog_row_value_options = PARTIAL_JSON")
            cursor.execute("INSERT INTO j VALUES (1, JSON_OBJECT('k', REPEAT('x', 3000), 'l', 1.0), 0, '[0, 1]')")
            for change in ("n = 0", *_JSON_UPDATES):
                cursor.execute(f"UPDATE j SET {change}, n = n + 1")
                cursor.execute("SELECT a, CAST(b AS CHAR), n, CAST(c AS CHAR) FROM j")
                expected.append(cursor.fetchone() or ())
    assert any(isinstance(event, Rows) and event.partial for event in recorded.events)
    changes = recorded.rows("j", columns_of(mysql, name, "j"))
    assert [after for before, after in changes if before is not None] == expected
    assert [before for before, _ in changes[2:]] == expected[:-1]


def test_partial_json_without_a_document_before_is_refused(mysql: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mysql)
    mysql.execute(f"CREATE TABLE {name}.j (a INT PRIMARY KEY, b JSON)")
    recorded = run(
        mysql,
        "SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL",
        "INSERT INTO j VALUES (1, JSON_OBJECT('k', REPEAT('x', 1000), 'l', 1))",
        "UPDATE j SET b = JSON_REPLACE(b, '$.l', 2)",
        database=name,
    )
    with pytest.raises(DMError) as caught:
        recorded.rows("j", columns_of(mysql, name, "j"))
    assert "binlog_row_image" in caught.value.workaround
