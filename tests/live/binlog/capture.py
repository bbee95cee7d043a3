"""Makes the binlog files that the offline tests read: python -m tests.live.binlog.capture

One file per server family with every event and column type that fits into a few kilobytes. Written again only when a
new server version is to be covered.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import FLAVORS, Flavor
from tests.live.binlog.recording import flush

SAMPLES = Path(__file__).parents[2] / "unit" / "binlog" / "samples"
_WIDE = (
    "CREATE TABLE s.wide (id INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, a TINYINT, b SMALLINT UNSIGNED, c MEDIUMINT, "
    " d BIGINT, e FLOAT, f DOUBLE, g DECIMAL(20,6), h BIT(10), i YEAR, j DATE, k TIME(3), l DATETIME(6),"
    " m TIMESTAMP(2) NULL, n ENUM('x','y'), o SET('p','q','r'), p CHAR(10), q VARCHAR(300), r BINARY(4),"
    " s VARBINARY(20), t BLOB, u TEXT, v GEOMETRY, w JSON, x MEDIUMINT UNSIGNED)"
)
_VALUES = (
    "(1, -2, 3, -4, 5, 1.5, -2.25, -12345.678901, 513, 2024, '2024-02-03', '-01:02:03.5', '2024-02-03 04:05:06.789',"
    " '2024-02-03 04:05:06.78', 'y', 'p,r', 'char', REPEAT('v', 300), x'0100', x'00ff', x'6200', 'text', POINT(1, 2),"
    ' \'{"k": [1, 2.5, "s", null, true, {"n": -1}], "b": 12345678901}\', 77)'
)
_COMMON = (
    "CREATE DATABASE s",
    _WIDE,
    f"INSERT INTO s.wide VALUES {_VALUES}",
    "INSERT INTO s.wide (id) VALUES (2), (3)",
    "UPDATE s.wide SET a = 9, q = NULL",
    "SET binlog_row_image = MINIMAL",
    "UPDATE s.wide SET c = 5 WHERE id = 2",
    "DELETE FROM s.wide",
    "SET binlog_row_image = FULL",
    "XA START 'x'",
    "INSERT INTO s.wide (id) VALUES (5)",
    "XA END 'x'",
    "XA PREPARE 'x'",
    "XA COMMIT 'x'",
    "START TRANSACTION",
    "INSERT INTO s.wide (id) VALUES (6)",
    "SAVEPOINT p",
    "INSERT INTO s.wide (id) VALUES (7)",
    "ROLLBACK TO p",
    "COMMIT",
    "SET timestamp = 1700000000.25, time_zone = '+03:00'",
    "CREATE TABLE s.later (a TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6))",
)
STATEMENTS: dict[Flavor, tuple[str, ...]] = {
    "mysql": (
        "SET binlog_rows_query_log_events = ON",
        *_COMMON,
        "CREATE TABLE s.vec (a VECTOR(2), b INT INVISIBLE)",
        "INSERT INTO s.vec VALUES (TO_VECTOR('[1,2]'))",
        "SET binlog_row_value_options = PARTIAL_JSON",
        "INSERT INTO s.wide (id, w) VALUES (10, JSON_OBJECT('k', REPEAT('x', 100), 'l', 1))",
        "UPDATE s.wide SET w = JSON_REPLACE(w, '$.l', 2) WHERE id = 10",
        "SET binlog_row_value_options = ''",
        "SET binlog_transaction_compression = ON",
        "INSERT INTO s.wide (id, u) VALUES (8, REPEAT('z', 2000))",
        "SET binlog_transaction_compression = OFF",
        "SET gtid_next = 'AUTOMATIC:tag'",
        "INSERT INTO s.wide (id) VALUES (9)",
    ),
    "mariadb": (
        *_COMMON,
        "CREATE TABLE s.own (a UUID, b INET6, c INET4, d VARCHAR(100) COMPRESSED, e BLOB COMPRESSED)",
        "INSERT INTO s.own VALUES ('123e4567-e89b-12d3-a456-426655440000', '::1', '1.2.3.0', 'd', REPEAT('e', 500))",
        "SET GLOBAL log_bin_compress = ON",
        "INSERT INTO s.wide (id, u) VALUES (8, REPEAT('z', 2000))",
        "UPDATE s.wide SET u = REPEAT('y', 2000) WHERE id = 8",
        "DELETE FROM s.wide WHERE id = 8",
        f"CREATE TABLE s.long (a INT) COMMENT '{'c' * 500}'",
        "SET binlog_alter_two_phase = ON",
        "ALTER TABLE s.wide ADD COLUMN z INT",
    ),
}


def capture(flavor: Flavor, directory: Path) -> None:
    """Run the statements on a new server and keep its binlog file."""
    server = ThrowawayServer(flavor, directory / flavor, server_id=11, options={"binlog_row_metadata": "FULL"})
    with server:
        name = flush(server)
        session = server.connect()
        with session, session.cursor() as cursor:
            for statement in STATEMENTS[flavor]:
                cursor.execute(statement)
        flush(server)
        shutil.copy(server.data / name, SAMPLES / f"{flavor}.binlog")


if __name__ == "__main__":
    SAMPLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        for family in FLAVORS:
            capture(family, Path(temporary))
