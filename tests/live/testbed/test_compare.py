"""The comparer finds every difference it is there to find, and none where there is none."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from dm.demo.compare import ComparisonReport, TablePair, UpstreamTable, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

# A column definition and values no two of which are the same, though one client or another shows them alike.
LOOKALIKES = [
    ("FLOAT", "16777216", "16777218"),
    ("FLOAT", "0.1", "0.10000002"),
    ("DOUBLE", "0.1", "0.10000000000000002"),
    ("DOUBLE(10,2)", "0.1e0", "0.12"),
    ("DECIMAL(65,30)", "0.000000000000000000000000000001", "0.000000000000000000000000000002"),
    ("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551614"),
    ("VARCHAR(20)", "'a'", "'a '"),
    ("VARCHAR(20)", "'a'", "'A'"),
    ("VARCHAR(20)", "'a'", "'ä'"),
    ("VARCHAR(20)", "NULL", "''"),
    ("VARCHAR(20)", "'NULL'", "NULL"),
    ("VARCHAR(20) CHARACTER SET latin1", "_latin1 0xe4", "_latin1 0xe5"),
    ("VARCHAR(20) CHARACTER SET gbk", "_gbk 0x8140", "_gbk 0x8141"),
    ("VARBINARY(20)", "0x00", "0x0000"),
    ("BLOB", "0x5c30", "0x00"),
    ("BIT(13)", "b'1'", "b'1000000000000'"),
    ("ENUM('', 'a')", "1", "2"),
    ("SET('a','b')", "1", "3"),
    ("TIME(6)", "'-838:59:59'", "'-838:59:58.999999'"),
    ("DATETIME(6)", "'2024-01-01 00:00:00.000001'", "'2024-01-01 00:00:00'"),
    ("TIMESTAMP(3) NULL", "'2024-01-01 00:00:00.001'", "'2024-01-01 00:00:00'"),
    ("YEAR", "2000", "0"),
    ("JSON", "'[1, 2]'", "'[2, 1]'"),
    ("JSON", "'null'", "NULL"),
    ("JSON", "'\"1\"'", "'1'"),
    ("GEOMETRY", "ST_GeomFromText('POINT(1 1)', 0)", "ST_GeomFromText('POINT(1 1)', 4326)"),
]
# MariaDB stores the negative zero as zero.
MYSQL_LOOKALIKES = [("FLOAT", "0e0", "'-0'"), ("DOUBLE", "0e0", "'-0'")]


@dataclass(frozen=True)
class Sides:
    """Two servers and a schema on both."""

    source: ThrowawayServer
    target: ThrowawayServer
    schema: str

    def both(self, *statements: str) -> None:
        """Run the statements on both sides; {s} stands for the schema."""
        self.at(self.source, *statements)
        self.at(self.target, *statements)

    def at(self, server: ThrowawayServer, *statements: str) -> None:
        """Run the statements on one side."""
        server.execute(*(statement.replace("{s}", self.schema) for statement in statements))

    def compare(self) -> ComparisonReport:
        """Compare every table of the schema."""
        return compare(pair_tables([self.source], [self.schema]), self.target)


@pytest.fixture
def sides(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Sides:
    return Sides(upstream, target, schema(upstream, target))


@pytest.mark.ci_flavor("mariadb")
def test_values_that_look_alike_differ(sides: Sides) -> None:
    lookalikes = LOOKALIKES + (MYSQL_LOOKALIKES if sides.source.flavor == "mysql" else [])
    insert = "INSERT INTO {{s}}.t{} VALUES (1, {}), (2, {})"
    statements: list[str] = []
    for number, (column, one, other) in enumerate(lookalikes):
        statements.append(f"CREATE TABLE {{s}}.t{number} (id INT PRIMARY KEY, v {column})")
        statements.append(insert.format(number, one, other))
    sides.both(*statements)
    report = sides.compare()
    assert report.identical, str(report)
    statements.clear()
    for number, (_, one, _) in enumerate(lookalikes):
        statements += [f"DELETE FROM {{s}}.t{number}", insert.format(number, one, one)]
    sides.at(sides.target, *statements)
    tables = {table.target.table: table for table in sides.compare().tables}
    for number, lookalike in enumerate(lookalikes):
        assert [row.key for row in tables[f"t{number}"].rows] == ["id=b'2'"], lookalike


def test_an_enum_error_value_is_not_an_empty_member(sides: Sides) -> None:
    sides.both("CREATE TABLE {s}.t (id INT PRIMARY KEY, v ENUM('', 'a'))")
    sides.at(sides.source, "INSERT INTO {s}.t VALUES (1, 1)")
    sides.at(sides.target, "INSERT IGNORE INTO {s}.t VALUES (1, 'no member')")
    (difference,) = sides.compare().tables[0].rows
    assert "v (number) is b'1' at the source, b'0' at the target" in str(difference)


def test_missing_unexpected_and_changed_rows_are_named(sides: Sides) -> None:
    sides.both("CREATE TABLE {s}.t (a INT, b INT, v INT, PRIMARY KEY (b, a))")
    sides.both("INSERT INTO {s}.t VALUES (1, 1, 10), (1, 2, 20), (1, 3, 30), (1, 4, 40)")
    sides.at(sides.target, "DELETE FROM {s}.t WHERE b = 1", "UPDATE {s}.t SET v = 31 WHERE b = 3")
    sides.at(sides.target, "INSERT INTO {s}.t VALUES (5, 5, 50)")
    report = sides.compare()
    assert not report.identical
    assert sorted(map(str, report.tables[0].rows)) == [
        "b=b'1', a=b'1': missing at the target: {'a': b'1', 'b': b'1', 'v': b'10'}",
        "b=b'3', a=b'1': v is b'30' at the source, b'31' at the target",
        "b=b'5', a=b'5': only at the target: {'a': b'5', 'b': b'5', 'v': b'50'}",
    ]


def test_a_table_without_key_is_a_multiset(sides: Sides) -> None:
    sides.both("CREATE TABLE {s}.t (v INT, w TEXT)")
    sides.at(sides.source, "INSERT INTO {s}.t VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    sides.at(sides.target, "INSERT INTO {s}.t VALUES (2, NULL), (1, 'x')")
    report = sides.compare()
    assert [str(difference) for difference in report.tables[0].rows] == [
        "a row of a table without primary key: missing at the target: {'v': b'1', 'w': b'x'}"
    ]
    sides.at(sides.target, "INSERT INTO {s}.t VALUES (1, 'x')")
    assert not any(table.differing_buckets for table in sides.compare().tables)


def test_many_differences_are_cut_to_the_limit(sides: Sides) -> None:
    sides.both("CREATE TABLE {s}.t (id INT PRIMARY KEY)")
    values = ", ".join(f"({number})" for number in range(5000))
    sides.at(sides.source, f"INSERT INTO {{s}}.t VALUES {values}")
    report = compare(pair_tables([sides.source], [sides.schema]), sides.target, limit=3)
    assert len(report.tables[0].rows) == 3
    assert (report.tables[0].source_rows, report.tables[0].target_rows) == (5000, 0)


def test_several_upstream_tables_add_up_to_one(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    merged = TableName(name, "merged")
    for number, server in enumerate(upstreams):
        server.execute(
            f"CREATE TABLE {name}.shard_{number} (id INT PRIMARY KEY, v INT)",
            f"INSERT INTO {name}.shard_{number} VALUES ({number}, 1), ({number + 10}, 2)",
        )
    target.execute(
        f"CREATE TABLE {merged.sql} (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO {merged.sql} VALUES (0, 1), (1, 1), (10, 2), (11, 2)",
    )
    pairs = pair_tables(upstreams, [name], lambda _, table: merged)
    assert pairs == [
        TablePair(
            merged, tuple(UpstreamTable(server, TableName(name, f"shard_{n}")) for n, server in enumerate(upstreams))
        )
    ]
    assert compare(pairs, target).identical
    target.execute(f"UPDATE {merged.sql} SET v = 3 WHERE id = 11")
    assert [row.key for row in compare(pairs, target).tables[0].rows] == ["id=b'11'"]


def test_a_table_nobody_asked_for_and_a_missing_one_are_differences(sides: Sides) -> None:
    sides.at(sides.source, "CREATE TABLE {s}.wanted (id INT PRIMARY KEY)")
    sides.at(sides.target, "CREATE TABLE {s}.unwanted (id INT PRIMARY KEY)")
    report = sides.compare()
    assert not report.identical
    assert report.unexpected == [TableName(sides.schema, "unwanted")]
    assert report.tables[0].structure == ["the target has no such table"]


# Column lists at source and target, and a word of what is said about them.
STRUCTURES = [
    ("a INT, b INT", "b INT, a INT", "columns are"),
    ("a INT", "a BIGINT", "type"),
    ("a INT", "a INT UNSIGNED", "type"),
    ("a INT", "a INT NOT NULL", "nullable"),
    ("a INT DEFAULT 1", "a INT DEFAULT 2", "default"),
    ("a VARCHAR(9) DEFAULT 'null'", "a VARCHAR(9) DEFAULT NULL", "default"),
    ("a VARCHAR(9)", "a VARCHAR(10)", "type"),
    ("a VARCHAR(9) CHARACTER SET latin1", "a VARCHAR(9) CHARACTER SET utf8mb4", "charset"),
    (
        "a VARCHAR(9) COLLATE utf8mb4_bin",
        "a VARCHAR(9) COLLATE utf8mb4_general_ci",
        "collation",
    ),
    ("a INT COMMENT 'x'", "a INT", "comment"),
    ("a INT, b INT AS (a + 1) VIRTUAL", "a INT, b INT AS (a + 1) STORED", "generated"),
    ("a INT, b INT AS (a + 1) VIRTUAL", "a INT, b INT", "generated"),
    ("a INT, KEY k (a)", "a INT", "index only at the source"),
    ("a INT, KEY k (a)", "a INT, UNIQUE KEY k (a)", "index only at the target"),
    ("a TEXT, KEY k (a(5))", "a TEXT, KEY k (a(6))", "index only"),
    ("a INT PRIMARY KEY", "a INT NOT NULL", "index only at the source"),
    ("a TIMESTAMP NULL", "a TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP", "extra"),
    (
        "a VARCHAR(9) CHARACTER SET utf16, b VARCHAR(9) AS (CONCAT('x', a)) VIRTUAL",
        "a VARCHAR(9) CHARACTER SET utf16, b VARCHAR(9) AS (CONCAT('y', a)) VIRTUAL",
        "generated",
    ),
]
# MariaDB has no index over an expression.
MYSQL_STRUCTURES = [("a INT, KEY k ((a + 1))", "a INT, KEY k ((a + 2))", "index only")]


@pytest.mark.ci_flavor("mysql")
def test_structures_that_differ(sides: Sides) -> None:
    structures = STRUCTURES + (MYSQL_STRUCTURES if sides.source.flavor == "mysql" else [])
    create = "CREATE TABLE {{s}}.t{} ({})"
    sides.at(sides.source, *(create.format(number, line[0]) for number, line in enumerate(structures)))
    sides.at(sides.target, *(create.format(number, line[1]) for number, line in enumerate(structures)))
    tables = {report.target.table: report for report in sides.compare().tables}
    for number, (_, _, word) in enumerate(structures):
        assert any(word in line for line in tables[f"t{number}"].structure), str(tables[f"t{number}"])


def test_an_alter_that_only_respells_literals_makes_no_difference(sides: Sides) -> None:
    text, word = "a VARCHAR(9) CHARACTER SET utf16", "CONCAT('<', a)"
    tables = [f"{text}, b VARCHAR(9) AS ({word}) VIRTUAL, c INT", f"{text}, b VARCHAR(30) DEFAULT ({word}), c INT"]
    if sides.source.flavor == "mysql":
        tables.append(f"{text}, c INT, KEY k ((CAST({word} AS CHAR(9))), c)")
    for number, columns in enumerate(tables):
        sides.both(f"CREATE TABLE {{s}}.t{number} ({columns})")
        sides.at(sides.target, f"ALTER TABLE {{s}}.t{number} COMMENT 'told anew'")
    report = sides.compare()
    assert report.identical, str(report)


def test_a_foreign_key_leads_to_the_routed_parent(sides: Sides) -> None:
    parent = "CREATE TABLE {s}.%s (id INT PRIMARY KEY)"
    child = (
        "CREATE TABLE {s}.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {s}.%s (id) ON DELETE CASCADE)"
    )
    sides.at(sides.source, parent % "old_parent", child % "old_parent")
    sides.at(sides.target, parent % "parent", child % "parent")

    def route(_: object, table: TableName) -> TableName:
        return TableName(sides.schema, "parent") if table.table == "old_parent" else table

    assert compare(pair_tables([sides.source], [sides.schema], route), sides.target).identical
    report = compare(pair_tables([sides.source], [sides.schema]), sides.target)
    assert any("foreign key" in line for table in report.tables for line in table.structure)


def test_one_table_is_the_same_on_both_flavours(park: ServerPark, schema: SchemaFactory) -> None:
    mysql, mariadb = park.shared("mysql", "upstream-1"), park.shared("mariadb", "target")
    name = schema(mysql, mariadb)
    servers: dict[Flavor, ThrowawayServer] = {"mysql": mysql, "mariadb": mariadb}
    for server in servers.values():
        server.execute(
            f"CREATE TABLE {name}.t (id INT(11) NOT NULL AUTO_INCREMENT PRIMARY KEY, b TINYINT(1) DEFAULT 1,"
            " u BIGINT UNSIGNED ZEROFILL, s VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'it''s',"
            " d DECIMAL(20,5) DEFAULT 1.5, f FLOAT, e ENUM('x', 'y') CHARACTER SET latin1 DEFAULT 'x',"
            " n TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
            " j JSON, y YEAR, g INT AS (y % 7) VIRTUAL, bits BIT(10), KEY k (s(5), d), UNIQUE KEY (u))",
            f"CREATE TABLE {name}.c (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES {name}.t (id))",
            "SET time_zone = '+00:00'",
            f"INSERT INTO {name}.t (b, u, s, d, f, e, n, j, y, bits) VALUES"
            " (0, 7, 'ä\\'', -1.25, 1.1, 'y', '2024-02-29 12:00:00.123456', '{\"a\": [1, 2.5, null]}', 2024, 3),"
            " (NULL, NULL, NULL, NULL, NULL, NULL, '2024-02-29 12:00:00', NULL, NULL, NULL)",
        )
    for source, destination in ((mysql, mariadb), (mariadb, mysql)):
        report = compare(pair_tables([source], [name]), destination)
        assert report.identical, str(report)


DEFAULTS = (
    r"VARCHAR(40) DEFAULT 'it''s a \\ b \n c \0 d \r \Z \t e \" f'",
    r"VARCHAR(9) CHARACTER SET latin1 DEFAULT 'äö\\'",
    r"ENUM('a\\b', 'it''s') DEFAULT 'a\\b'",
    r"VARCHAR(9) DEFAULT '0x61'",
    r"BINARY(4) DEFAULT 'a\0'",
    "BINARY(3) NOT NULL DEFAULT ''",
    "VARBINARY(9) DEFAULT ''",
    r"VARBINARY(9) DEFAULT 'x\\y''\0'",
    "VARBINARY(9) DEFAULT x'80ff3f00'",
)


def test_defaults_are_the_same_however_a_server_spells_them(park: ServerPark, schema: SchemaFactory) -> None:
    mysql, mariadb = park.shared("mysql", "upstream-1"), park.shared("mariadb", "target")
    name = schema(mysql, mariadb)
    columns = ", ".join(f"c{number} {definition}" for number, definition in enumerate(DEFAULTS))
    for server in (mysql, mariadb):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, {columns})")
    for source, destination in ((mysql, mariadb), (mariadb, mysql)):
        report = compare(pair_tables([source], [name]), destination)
        assert report.identical, str(report)
    for change in (r"c0 SET DEFAULT 'it''s a \\ b'", r"c4 SET DEFAULT 'b\0'", r"c7 SET DEFAULT 'x\\y''\0\0'"):
        mysql.execute(f"ALTER TABLE {name}.t ALTER COLUMN {change}")
        column = change.partition(" ")[0]
        for source, destination in ((mysql, mariadb), (mariadb, mysql)):
            (table,) = compare(pair_tables([source], [name]), destination).tables
            assert any(line.startswith(f"column {column}: default is ") for line in table.structure), table.structure
