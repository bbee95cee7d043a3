"""What is loaded is what was there, byte for byte, for every type of both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import rows

pytestmark = [pytest.mark.live, pytest.mark.spark]

LENIENT = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"

NUMBERS = (
    "CREATE TABLE numbers (id BIGINT UNSIGNED PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED ZEROFILL, s SMALLINT,"
    " m MEDIUMINT UNSIGNED, i INT(5) ZEROFILL, b BIGINT, d DECIMAL(65,30), d0 DECIMAL(5), f FLOAT, g DOUBLE, y YEAR,"
    " bits BIT(13), bit1 BIT(1), bit64 BIT(64))",
    "INSERT INTO numbers VALUES (0, -128, 0, -32768, 0, 7, -9223372036854775808, -0.076900000000000000000000000001, -7,"
    " '-0', '-0', 0, b'1', b'0', ~0),"
    "(18446744073709551615, 127, 255, 32767, 16777215, 99999, 9223372036854775807,"
    " 99999999999999999999999999999999999.999999999999999999999999999999, 99999, 3.4028235e38, 1.7976931348623157e308,"
    " 2155, b'1111111111111', b'1', 1), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"
    " NULL, NULL), (4, 1, 1, 1, 1, 1, 1, 0.1, 1, 16777217, 0.1, 1901, 39, 1, 10016003), (5, 0, 0, 0, 0, 0, 0, 0, 0,"
    " 1.1, 2.2250738585072014e-308, 1999, 0, 0, 0), (6, 0, 0, 0, 0, 0, 0, -0.0, 0, 1e-45, 5e-324, 2000, 92, 0, 0)",
)
TIMES = (
    "CREATE TABLE times (id INT PRIMARY KEY, d DATE, t TIME, t6 TIME(6), dt DATETIME, dt3 DATETIME(3),"
    " ts TIMESTAMP NULL, ts6 TIMESTAMP(6) NULL)",
    "INSERT INTO times VALUES (1, '0000-00-00', '-838:59:59', '-838:59:58.999999', '0000-00-00 00:00:00',"
    " '2024-02-30 01:02:03.999', '0000-00-00 00:00:00', '1970-01-01 00:00:01.000001'), (2, '9999-12-31', '838:59:59',"
    " '-00:00:00.000001', '9999-12-31 23:59:59', '1000-00-00 00:00:00.001', '2038-01-19 03:14:07',"
    " '2038-01-19 03:14:07.999999'), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (4, '2024-00-15', '00:00:00',"
    " '00:00:00', '2024-03-31 02:30:00', '2024-10-27 02:30:00', '2024-03-31 02:30:00', '2024-10-27 02:30:00')",
)
TEXTS = (
    "CREATE TABLE texts (id INT PRIMARY KEY, c CHAR(10) CHARACTER SET latin1, g VARCHAR(20) CHARACTER SET gbk,"
    " u VARCHAR(20) CHARACTER SET utf16, u8 TEXT CHARACTER SET utf8mb4, l LONGTEXT CHARACTER SET utf8mb3,"
    " a VARCHAR(9) CHARACTER SET ascii, sj VARCHAR(9) CHARACTER SET sjis, u32 CHAR(3) CHARACTER SET utf32,"
    " k VARCHAR(9) CHARACTER SET koi8r)",
    r"INSERT INTO texts VALUES (1, 'é\'\\\0\n', '中文\\''', '\0\\😀', '\'\"\\\0\Z\r\n\t😀%_', 'ü', 'a\\', '表\\', '😀',"
    r" 'я'),"
    r"(2, '', '', '', '', '', '', '', '', ''), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
    r"(4, ' x ', ' x ', ' x ', ' x ', ' x ', ' x ', ' x ', ' x ', ' x ')",
    # Bytes whose second one is a backslash or a quote in the column's own character set.
    "INSERT INTO texts (id, g, sj) VALUES (5, _gbk x'815C', _sjis x'955C'), (6, _gbk x'D55C27', _sjis x'835C5C')",
)
BYTES = (
    "CREATE TABLE bytes (id INT PRIMARY KEY, b BINARY(5), v VARBINARY(300), t TINYBLOB, l LONGBLOB)",
    "INSERT INTO bytes VALUES (1, x'00', x'', x'00275C0A0D1A22FF', REPEAT(x'00275C', 100000)),"
    " (2, NULL, NULL, NULL, NULL), (3, x'2000000020', REPEAT(x'FB', 251), x'FF', REPEAT('x', 70000))",
    "CREATE TABLE byte_defaults (id INT PRIMARY KEY, a VARBINARY(9) DEFAULT x'00FF', b BINARY(2) DEFAULT x'80FE')",
    "INSERT INTO byte_defaults (id) VALUES (1), (2)",
)
CHOICES = (
    "CREATE TABLE choices (id INT PRIMARY KEY, e ENUM('a','b''c','ü\\\\','0','2') CHARACTER SET utf8mb4,"
    " s SET('x','y'';','ü') CHARACTER SET latin1, ee ENUM('','x','0') NOT NULL, es SET('','x'))",
    LENIENT,
    "INSERT INTO choices VALUES (1, 'b''c', 'x,ü', '', ''), (2, NULL, NULL, 'x', NULL), (3, 'ü\\\\', '', '0', 'x'),"
    " (4, '0', 'x', '0', ',x'), (5, '2', 'x', 'x', 'x'), (6, 'wrong', 'x', 'wrong', 'x'), (7, 0, 0, 0, 0),"
    " (8, 1, 7, 1, 1)",
)
# Not among BOTH: no client with a strict session takes such a CREATE TABLE.
TWINS = (
    LENIENT,
    "CREATE TABLE twins (id INT PRIMARY KEY, e ENUM('a','b','A','a ','ü','u') CHARACTER SET utf8mb4,"
    " s SET('x','X','y') CHARACTER SET latin1)",
    "INSERT INTO twins VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 5, 7), (6, 6, 0), (7, NULL, NULL),"
    " (8, 0, 1)",
)
DOCUMENTS = (
    "CREATE TABLE documents (id INT PRIMARY KEY, j JSON)",
    r"""INSERT INTO documents VALUES (1, '{"a": "it\'s \\\\ \\"q\\" 😀", "b": [1, -0.0, 1.5e300, true, null, {}]}'),"""
    r"(2, 'null'), (3, NULL), (4, '[]'), (5, '18446744073709551615'), (6, '\"\\u0000\"'), (7, '1.0')",
)
SHAPES = (
    "CREATE TABLE shapes (id INT PRIMARY KEY, g GEOMETRY, p POINT NOT NULL)",
    "INSERT INTO shapes VALUES (1, ST_GeomFromText('LINESTRING(0 0, 1.5 -2)'), ST_GeomFromText('POINT(39 92)')),"
    " (2, NULL, ST_GeomFromText('POINT(0 0)')), (3, ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))', 4326),"
    " ST_GeomFromText('POINT(1 2)'))",
)
COMPUTED = (
    "CREATE TABLE computed (a INT, v INT GENERATED ALWAYS AS (a + 1) VIRTUAL, s VARCHAR(30) GENERATED ALWAYS AS"
    " (CONCAT('<', a, '>')) STORED, b INT, PRIMARY KEY (a), KEY (v), UNIQUE KEY (s))",
    "INSERT INTO computed (a, b) VALUES (1, 10), (-5, NULL)",
)
NAMES = (
    "CREATE TABLE `we``ird 'n\"ame; é%s` (`a``b` INT PRIMARY KEY, `c'd\"` INT, `e\\\\f %d` INT, `from` INT)",
    "INSERT INTO `we``ird 'n\"ame; é%s` VALUES (1, 2, 3, 4)",
)
KEYLESS = (
    "CREATE TABLE keyless (a INT, b VARCHAR(20), c FLOAT, UNIQUE KEY (a))",
    "INSERT INTO keyless VALUES (NULL, 'x', 0.1), (NULL, 'x', 0.1), (NULL, NULL, NULL), (1, '', -1)",
)
FAMILY = (
    "SET foreign_key_checks = 0",
    "CREATE TABLE a_child (id INT PRIMARY KEY, parent INT,"
    " CONSTRAINT fk FOREIGN KEY (parent) REFERENCES z_parent (id))",
    "CREATE TABLE z_parent (id INT AUTO_INCREMENT PRIMARY KEY, n INT DEFAULT 3 COMMENT 'it''s')"
    " AUTO_INCREMENT = 500 COMMENT 'x'",
    "INSERT INTO a_child VALUES (1, 1), (2, 77)",
    "INSERT INTO z_parent VALUES (1, NULL), (0, 5), (-1, 5)",
)
ODD = (
    "CREATE TABLE lonely (v VARCHAR(9))",
    "INSERT INTO lonely VALUES (''), (NULL), ('\\\\N'), ('N'), ('\\t\\n'), ('')",
    "CREATE TABLE many_keys (a INT NOT NULL, b VARCHAR(9) NOT NULL, c DECIMAL(9,3), UNIQUE KEY z (b, a),"
    " UNIQUE KEY (c), KEY (b DESC))",
    "INSERT INTO many_keys VALUES (1, 'x', 1.5), (2, 'x', -0.001), (3, 'X ', NULL)",
    "CREATE TABLE none_stored (g INT AS (1) VIRTUAL, h INT AS (2) STORED)",
    "INSERT INTO none_stored VALUES (), ()",
    "CREATE TABLE big_set (id INT PRIMARY KEY, s SET("
    + ",".join(["''", *(f"'{at}'" for at in range(63))])
    + "), l LINESTRING)",
    "INSERT INTO big_set VALUES (1, '62,0', ST_GeomFromText('LINESTRING(9 10, 92 13)')), (2, ',62', NULL)",
)
PARTITIONED = (
    "CREATE TABLE partitioned (id INT, k INT, PRIMARY KEY (id, k)) PARTITION BY HASH (k) PARTITIONS 3",
    "INSERT INTO partitioned VALUES (1, 1), (1, 2), (2, 1)",
)
MYSQL_ONLY = (
    "CREATE TABLE hidden (a INT PRIMARY KEY, h INT INVISIBLE DEFAULT 5, c INT DEFAULT (a * 2))",
    "INSERT INTO hidden (a, h) VALUES (1, 2), (2, 3)",
    "SET SESSION sql_generate_invisible_primary_key = ON",
    "CREATE TABLE gipk (a INT)",
    "SET SESSION sql_generate_invisible_primary_key = OFF",
    "INSERT INTO gipk VALUES (7), (7)",
    # More than a packet of the protocol; MariaDB's limit for a statement is just a packet by default.
    "CREATE TABLE huge (id INT PRIMARY KEY, l LONGBLOB)",
    "INSERT INTO huge VALUES (1, REPEAT('x', 17000000)), (2, 'after')",
    "CREATE TABLE vectors (id INT PRIMARY KEY, v VECTOR(3))",
    "INSERT INTO vectors VALUES (1, TO_VECTOR('[1, -0.5, 3e38]')), (2, NULL)",
    "CREATE TABLE functional (id INT, a INT, UNIQUE KEY ((a + 1)), PRIMARY KEY (id))",
    "INSERT INTO functional VALUES (1, 1), (2, 2)",
)
# Documents with types that their text does not say.
TYPED_DOCUMENTS = (
    "CREATE TABLE typed (id INT PRIMARY KEY, j JSON, g VARCHAR(9) CHARACTER SET gbk, b BLOB)",
    "INSERT INTO typed VALUES (1, JSON_OBJECT('d', CAST(1.50 AS DECIMAL(9,2)), 'n', x'00FF'), _gbk x'815C', x'E45C'),"
    " (2, '[1]', _gbk x'D55C27', x'27E4')",
)
MARIADB_ONLY = (
    "CREATE TABLE ids (id UUID PRIMARY KEY, a INET6, b INET4, c TEXT)",
    "INSERT INTO ids VALUES ('6ccd780c-baba-1026-9564-5b8c656024db', '::ffff:1.2.3.4', '10.0.0.1', REPEAT('x', 1000)),"
    " ('00000000-0000-0000-0000-000000000000', NULL, NULL, NULL)",
    "CREATE TABLE hidden (a INT PRIMARY KEY, h INT INVISIBLE DEFAULT 5)",
    "INSERT INTO hidden (a, h) VALUES (1, 2), (2, 3)",
    "CREATE TABLE longkey (id INT, t TEXT, UNIQUE KEY (t) USING HASH, PRIMARY KEY (id))",
    "INSERT INTO longkey VALUES (1, 'a'), (2, NULL)",
    # MySQL's moments begin a second later.
    "CREATE TABLE first_second (id INT PRIMARY KEY, s TIMESTAMP(3) NULL)",
    "INSERT INTO first_second VALUES (1, '1970-01-01 00:00:00.999'), (2, '0000-00-00')",
)
BOTH = (
    LENIENT, *NUMBERS, *TIMES, *TEXTS, *BYTES, *CHOICES, *DOCUMENTS, *SHAPES, *COMPUTED, *NAMES, *KEYLESS, *FAMILY,
    *PARTITIONED, *ODD,
)  # fmt: skip


def loads_of_data(server: ThrowawayServer) -> int:
    """How many LOAD DATA statements the server has run."""
    return int(rows(server, "SHOW GLOBAL STATUS LIKE 'Com_load'")[0][1])


@pytest.fixture(
    params=[
        pytest.param("INSERT", marks=pytest.mark.ci_flavor("mariadb")),
        pytest.param("LOAD DATA", marks=pytest.mark.ci_flavor("mysql")),
    ]
)
def way(request: pytest.FixtureRequest, target: ThrowawayServer) -> Iterator[str]:
    """Both ways in which rows are written, as the target admits them."""
    ((before,),) = rows(target, "SELECT @@GLOBAL.local_infile")
    target.execute(f"SET GLOBAL local_infile = {int(request.param == 'LOAD DATA')}")
    yield request.param
    target.execute(f"SET GLOBAL local_infile = {before}")


def test_every_type_arrives_unchanged(
    way: str, flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    only = (*MYSQL_ONLY, *TYPED_DOCUMENTS) if flavor == "mysql" else MARIADB_ONLY
    load = full_load(upstream, target, *BOTH, *TWINS, *only, rows=2)
    load.dump()
    before = loads_of_data(target)
    load.load()
    assert (loads_of_data(target) > before) is (way == "LOAD DATA")
    report = load.report()
    assert report.identical, str(report)


def test_from_mysql_to_mariadb(mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    tables = (NUMBERS, TIMES, TEXTS, BYTES, CHOICES, KEYLESS, DOCUMENTS)
    statements = [
        statement.replace("CHARACTER SET utf8mb4", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        + (" COLLATE utf8mb4_general_ci" if statement.startswith("CREATE") else "")
        for table in tables
        for statement in table
    ]
    # MariaDB prints a negative zero without its sign, so no comparison could tell.
    load = full_load(mysql, mariadb, LENIENT, *statements, "UPDATE numbers SET f = 0, g = 0 WHERE id = 0")
    load.dump()
    load.load()
    report = load.report(structures=False)
    assert report.identical, str(report)


def test_a_row_larger_than_the_statements_limit(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(
        upstream,
        target,
        "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)",
        "INSERT INTO t VALUES (1, REPEAT('\\\\', 600000)), (2, 'x'), (3, REPEAT('y', 600000))",
    )
    load.dump()
    load.load()
    assert load.report().identical


def test_a_schema_comes_with_its_character_set(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, "CREATE TABLE t (id INT PRIMARY KEY)")
    upstream.execute(f"ALTER DATABASE `{load.schema}` CHARACTER SET latin1 COLLATE latin1_german1_ci")
    load.dump()
    load.load()
    query = "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata"
    assert rows(target, f"{query} WHERE schema_name = '{load.target_schema}'") == [("latin1", "latin1_german1_ci")]


@pytest.mark.ci_flavor("mysql")
def test_a_where_limits_what_is_dumped(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(
        upstream,
        target,
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2), (3)",
        where="id > 1",
        rows=1,
    )
    load.dump()
    load.load()
    assert rows(target, f"SELECT id FROM `{load.target_schema}`.t ORDER BY id") == [(2,), (3,)]


def test_a_collation_that_the_target_lacks_is_named_with_a_way_out(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    table = "CREATE TABLE t (id VARCHAR(9) PRIMARY KEY) CHARACTER SET utf8mb4 COLLATE {}"
    load = full_load(mysql, mariadb, table.format("utf8mb4_ja_0900_as_cs"), "INSERT INTO t VALUES ('a'), ('ß')")
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-collation-unknown"
    assert "utf8mb4_ja_0900_as_cs" in caught.value.cause
    mariadb.execute(f"USE `{load.target_schema}`", table.format("utf8mb4_general_ci"))
    load.load()
    assert load.report(structures=False).identical
