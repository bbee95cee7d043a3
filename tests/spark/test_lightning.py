"""TiDB Lightning takes an SQL dump as it stands: which files it finds, what they are called for it, and every value."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.testbed import lightning
from tests.testbed.tidb import TidbServer

pytestmark = [
    pytest.mark.live,
    pytest.mark.spark,
    pytest.mark.tidb,
    pytest.mark.skipif(not lightning.binary().exists(), reason="TiDB Lightning is not here: make tidb builds it"),
    pytest.mark.ci_flavor("mysql"),
]

# The servers' defaults differ, and the tables must not.
OF = "DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin"
LENIENT = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"
TABLES = (
    f"CREATE TABLE numbers (id BIGINT UNSIGNED PRIMARY KEY, t TINYINT, d DECIMAL(65,30), f FLOAT, g DOUBLE, y YEAR,"
    f" bits BIT(13), bit64 BIT(64)) {OF}",
    "INSERT INTO numbers VALUES (0, -128, -0.076900000000000000000000000001, -0.1, 1.7976931348623157e308, 1901,"
    " b'1', ~0), (18446744073709551615, 127, 99999999999999999999999999999999999.5, 16777218, 5e-324, 2155, 39, 92),"
    " (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    f"CREATE TABLE texts (id INT PRIMARY KEY, v VARCHAR(40), l LONGTEXT, b VARBINARY(40), e ENUM('a','b''c'),"
    f" s SET('x','y')) {OF}",
    r"INSERT INTO texts VALUES (1, '\'\"\\\0\Z\r\n\t😀%_ /* -- ;', REPEAT('ä\\', 40000), x'00275C0A0D1A22FF', 'b''c',"
    r" 'x,y'), (2, '', '', '', 'a', ''), (3, NULL, NULL, NULL, NULL, NULL),"
    r" (4, ');\nINSERT', '-- x', x'2D2D', 'a', 'x')",
    LENIENT,
    f"CREATE TABLE times (id INT PRIMARY KEY, d DATE, t6 TIME(6), dt DATETIME, ts6 TIMESTAMP(6) NULL) {OF}",
    "INSERT INTO times VALUES (1, '0000-00-00', '-838:59:58.999999', '0000-00-00 00:00:00', NULL),"
    " (2, '9999-12-31', '00:00:00', '2024-03-31 02:30:00', '2024-10-27 02:30:00.000001')",
    f"CREATE TABLE `we``ird.na%me; é-schema` (`a``b` INT PRIMARY KEY, `from` INT) {OF}",
    "INSERT INTO `we``ird.na%me; é-schema` VALUES (1, 2), (3, 4), (5, 6)",
    f"CREATE TABLE computed (a INT PRIMARY KEY, v INT AS (a + 1) STORED, b INT) {OF}",
    "INSERT INTO computed (a, b) VALUES (1, 10), (-5, NULL)",
    f"CREATE TABLE keyless (a INT, b VARCHAR(20)) {OF}",
    "INSERT INTO keyless VALUES (NULL, 'x'), (NULL, 'x'), (1, '')",
    f"CREATE TABLE `empty` (a INT) {OF}",
)


def test_lightning_imports_a_dump(
    flavor: Flavor, upstream: ThrowawayServer, tidb: TidbServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, tidb, *TABLES, rows=2, dump_format="sql")
    upstream.execute(f"ALTER DATABASE `{load.schema}` CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    load.dump()
    try:
        lightning.import_dump(load.directory, tidb, tmp_path / "lightning")
        report = compare(pair_tables([upstream], [load.schema]), tidb)
        assert report.identical, str(report)
        assert len(report.tables) == 7, str(report)
    finally:
        tidb.execute(f"DROP DATABASE IF EXISTS `{load.schema}`")
