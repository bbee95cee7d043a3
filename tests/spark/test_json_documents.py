"""JSON documents of MySQL arrive with the types of their values, also those that their text does not show."""

from __future__ import annotations

import random

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.json_literal import NOTHING, types_expression
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, rows

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

SEED = random.SystemRandom().randrange(1 << 32)

LEAVES = (
    "CAST(1.50 AS DECIMAL(10,2))", "CAST(-12345678901234567890.123 AS DECIMAL(40,3))", "CAST(7 AS UNSIGNED)",
    "CAST(5000000000 AS SIGNED)", "18446744073709551615", "-1", "1e300", "-0e0", "true", "null", "'it''s \\\\ 😀'",
    "'2024-01-01'", "'base64:type15:BQ=='", "CAST('2024-01-01' AS DATE)", "CAST('-838:59:58.5' AS TIME(3))",
    "CAST('0001-01-01 00:00:00' AS DATETIME)", "x'00ff275c'", "b'101'", "REPEAT('x', 300)", "x''",
)  # fmt: skip
COLUMNS = ("ts", "d3", "bits", "bin3", "b", "u", "y")


def document(dice: random.Random, depth: int) -> str:
    """An expression that makes a document."""
    shape = dice.randrange(4) if depth else 3
    if shape == 0:
        return f"JSON_ARRAY({', '.join(document(dice, depth - 1) for _ in range(dice.randrange(4)))})"
    if shape in (1, 2):
        members = (f"'{dice.choice('abcdé')}{at}', {document(dice, depth - 1)}" for at in range(dice.randrange(5)))
        return f"JSON_OBJECT({', '.join(members)})"
    return dice.choice(LEAVES + COLUMNS)


def shown_types(server: PrivateServer, table: TableName) -> list[tuple[object, ...]]:
    """Each document's text and types."""
    types = types_expression(table, "j")
    return rows(server, f"SELECT id, CAST(j AS CHAR), {types}, JSON_TYPE(j) FROM {table.sql} ORDER BY id")


def assert_types_equal(load: FullLoad, table: str) -> None:
    before = shown_types(load.upstream, TableName(load.schema, table))
    after = shown_types(load.target, TableName(load.target_schema, table))
    assert before == after
    assert any(row[2] != NOTHING.decode() for row in before)


def test_every_type_inside_documents_arrives(mysql: ThrowawayServer, full_load: LoadFactory) -> None:
    print("seed", SEED)
    dice = random.Random(SEED)
    cells = "(ts TIMESTAMP(2), d3 DATETIME(3), bits BIT(9), bin3 BINARY(3), b BLOB, u INT UNSIGNED, y YEAR)"
    inserts = [
        f"INSERT INTO v (id, j) SELECT {row}, JSON_ARRAY({document(dice, 4)}) FROM cells" for row in range(1, 60)
    ]
    load = full_load(
        mysql,
        mysql,
        f"CREATE TABLE cells {cells}",
        "INSERT INTO cells VALUES ('2024-01-01 00:00:01.5', '2024-02-03 04:05:06.789', 261, 'abc', 'blob', 9, 2024)",
        # Column names like those of the question about types; bytes that only a binary literal carries.
        "CREATE TABLE v (id INT PRIMARY KEY, j JSON, v JSON, o JSON, g VARCHAR(9) CHARACTER SET gbk, b VARBINARY(9))",
        *inserts,
        "INSERT INTO v VALUES (100, CAST(CAST('2024-01-01' AS DATE) AS JSON), JSON_ARRAY(CAST(1 AS UNSIGNED)), '[1]',"
        " _gbk x'815C', x'FF275CE4')",
        "INSERT INTO v VALUES (101, CAST(CAST(7 AS UNSIGNED) AS JSON), '{}', '[1]', '中', NULL),"
        " (102, '1', '\"x\"', '2', '', '')",
        rows=20,
    )
    load.dump()
    load.load()
    assert load.report().identical
    assert_types_equal(load, "v")


LATER = {
    "a DECIMAL where others have a DOUBLE": "JSON_OBJECT('n', 1.5, 'a', JSON_ARRAY(JSON_OBJECT('p', 2)))",
    "a small number without a sign": "JSON_OBJECT('n', 1.5e0, 'a', JSON_ARRAY(JSON_OBJECT('p', CAST(2 AS UNSIGNED))))",
    "a large one with a sign": "JSON_OBJECT('n', CAST(5000000000 AS SIGNED))",
    "a number in another place": "JSON_OBJECT('m', CAST(1.5 AS DECIMAL(5,2)))",
    "another and none at those that are asked for": "JSON_OBJECT('n', NULL, 'm', CAST(1 AS UNSIGNED))",
    "no array": "JSON_OBJECT('n', 1.5e0, 'a', JSON_OBJECT('p', CAST(3 AS UNSIGNED)))",
    "a date": "JSON_OBJECT('t', CAST('2024-01-01' AS DATE))",
    "a time": "JSON_OBJECT('t', CAST('10:11:12' AS TIME))",
    "a year": "JSON_OBJECT('n', CAST('2024' AS YEAR))",
    "bytes": "JSON_OBJECT('n', 1.5e0, 't', x'00ff')",
    "a number alone": "CAST(CAST(7 AS UNSIGNED) AS JSON)",
}


def test_what_only_a_later_document_has_arrives(mysql: ThrowawayServer, full_load: LoadFactory) -> None:
    """The first ones are plain, so a chunk is asked by the paths of their numbers, and read again where one is not."""
    count = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 400)"
    more = "'big', CAST(5000000000 + n AS UNSIGNED), 'null', 2.5e0, 'last', n, 'to', -0e0"  # words of paths
    plain = f"JSON_OBJECT('n', 1.5e0, 'a', JSON_ARRAY(JSON_OBJECT('p', n), 'text'), {more})"
    names = [f"l{at}" for at in range(len(LATER))]
    tables = [
        statement
        for name, later in zip(names, LATER.values(), strict=True)
        for statement in (
            f"CREATE TABLE {name} (id INT PRIMARY KEY, j JSON, k JSON)",
            f"INSERT INTO {name} {count} SELECT n, {plain}, '{{}}' FROM r",
            f"INSERT INTO {name} VALUES (401, {later}, NULL), (402, NULL, '[1]')",
        )
    ]
    load = full_load(mysql, mysql, *tables, rows=1000)
    load.dump()
    load.load()
    assert load.report().identical
    for name in names:
        assert_types_equal(load, name)


def test_a_value_that_nothing_makes_is_named_with_its_row(mysql: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(
        mysql,
        mysql,
        "CREATE TABLE d (id INT PRIMARY KEY, j JSON, t TINYBLOB)",
        "INSERT INTO d VALUES (1, '{}', NULL), (77, '[1]', 'x')",
        "UPDATE d SET j = JSON_ARRAY(t) WHERE id = 77",
    )
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-json-inexpressible", str(caught.value)
    assert "id=77," in caught.value.message
    load.settings["json_types"] = "text"
    load.load()
    assert rows(mysql, f"SELECT JSON_TYPE(j->'$[0]') FROM `{load.target_schema}`.d WHERE id = 77") == [("STRING",)]


@pytest.mark.parametrize("document", ["'[1.5]'", "CONCAT('[', REPEAT('1,', 400), '1]')"], ids=["types", "text"])
def test_a_document_that_the_server_cuts_is_not_dumped(
    mysql: ThrowawayServer, full_load: LoadFactory, document: str
) -> None:
    decimals = ", ".join(["1.5"] * 60)
    load = full_load(
        mysql,
        mysql,
        "CREATE TABLE d (id INT PRIMARY KEY, j JSON)",
        f"INSERT INTO d VALUES (1, '{{}}'), (2, {document}), (3, NULL)",
        *([f"UPDATE d SET j = JSON_ARRAY({decimals}) WHERE id = 2"] if document == "'[1.5]'" else []),
    )
    ((limit,),) = rows(mysql, "SELECT @@GLOBAL.max_allowed_packet")
    mysql.execute("SET GLOBAL max_allowed_packet = 1024")
    try:
        with pytest.raises(DMError) as caught:
            load.dump()
    finally:
        mysql.execute(f"SET GLOBAL max_allowed_packet = {limit}")
    assert caught.value.name == "dump-json-cut"
    load.dump()
    load.load()
    assert load.report().identical
    here, there = (TableName(schema, "d") for schema in (load.schema, load.target_schema))
    assert shown_types(mysql, here) == shown_types(mysql, there)


def test_mariadb_gets_the_text(mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(
        mysql,
        mariadb,
        "CREATE TABLE d (id INT PRIMARY KEY, j JSON) COLLATE utf8mb4_general_ci",
        "INSERT INTO d VALUES (1, JSON_ARRAY(CAST(1.50 AS DECIMAL(5,2)), CAST('2024-01-01' AS DATE)))",
    )
    load.dump()
    load.load()
    assert rows(mariadb, f"SELECT j FROM `{load.target_schema}`.d") == [('[1.50, "2024-01-01"]',)]
