"""Chunks of a walked key hold every row once, whatever the key's type and collation; asked of the servers."""

from __future__ import annotations

import random

import pytest

from dm.demo.servers import ThrowawayServer
from dm.dumper.chunk_group import GroupWalker
from dm.dumpfiles.chunk_plan import KeyWalk
from dm.ident import Ident, TableName
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.facts import row_session
from tests.spark.full_load import endpoint
from tests.spark.key_walks import chunk_sizes, key_of
from tests.spark.test_fidelity import LENIENT
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live

NUMBERS = ["0", "-1", "1", "127", "-128", "2000", "1999", "65535", "4294967295", "18446744073709551615", "0.1", "-0.1"]
NUMBERS += ["-0.0", "1e-7", "16777217", "3.4e38", "1.25", "99999999.5"]
DATES = ["'0000-00-00'", "'2024-02-29'", "'2024-02-30'", "'9999-12-31 23:59:59.999999'", "'1970-01-01 00:00:01.5'"]
DATES += ["'2024-02-29 00:00:00.000001'", "'1000-01-01'", "'2038-01-19 03:14:07'"]
TIMES = ["'-838:59:59'", "'838:59:59'", "'0'", "'-00:00:00.000001'", "'00:00:00.000001'", "'12:00'", "'-12:00'"]
BYTES = ["x''", "x'00'", "x'0000'", "x'27'", "x'5c'", "x'ff00'", "' '"]
LETTERS = ["a", "A", "ä", "Ä", "ß", "ss", "z", "é", "e", " ", "_", "%", "''", "\\\\", "中", "国", "表", "я", "😀", "0"]
COLLATIONS = [
    "latin1_swedish_ci", "latin1_german2_ci", "latin1_bin", "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci",
    "utf8mb4_spanish2_ci", "utf8mb3_german2_ci", "gbk_chinese_ci", "sjis_japanese_ci", "utf16_unicode_ci", "utf32_bin",
    "ucs2_general_ci", "koi8r_general_ci", "binary",
]  # fmt: skip
OF_MYSQL = ["utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_ja_0900_as_cs", "gb18030_chinese_ci"]
OF_MARIADB = ["utf8mb4_uca1400_ai_ci", "utf8mb4_unicode_nopad_ci", "latin1_nopad_bin"]


def types(flavor: Flavor) -> dict[str, list[str]]:
    """Column types, and the values that their columns get."""
    kinds = dict.fromkeys(
        ["TINYINT", "SMALLINT UNSIGNED", "MEDIUMINT", "INT ZEROFILL", "BIGINT", "BIGINT UNSIGNED", "DECIMAL(30,10)"],
        NUMBERS,
    )
    kinds |= dict.fromkeys(["FLOAT", "DOUBLE", "YEAR", "BIT(13)", "BIT(64)"], NUMBERS)
    kinds |= dict.fromkeys(["DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP(6)"], DATES)
    kinds |= dict.fromkeys(["TIME", "TIME(6)"], TIMES)
    kinds |= dict.fromkeys(["BINARY(4)", "VARBINARY(6)"], BYTES)
    for collation in COLLATIONS + (OF_MYSQL if flavor == "mysql" else OF_MARIADB):
        charset = collation.partition("_")[0]
        kinds[f"VARCHAR(6) CHARACTER SET {charset} COLLATE {collation}"] = []
        kinds[f"CHAR(6) CHARACTER SET {charset} COLLATE {collation}"] = []
    if flavor == "mariadb":
        kinds |= {"UUID": [f"'{number:08x}-0000-1000-8000-{number:012x}'" for number in range(9)]}
        kinds |= {"INET6": ["'::'", "'::1'", "'ff::'", "'::ffff:1.2.3.4'"], "INET4": ["'0.0.0.0'", "'255.0.0.1'"]}
    return kinds


def value(source: random.Random, values: list[str]) -> str:
    return source.choice(values) if values else "'" + "".join(source.choices(LETTERS, k=source.randint(0, 4))) + "'"


@pytest.mark.ci_flavor("mysql")
def test_every_row_is_in_one_chunk_of_a_key_of_any_type(
    flavor: Flavor, upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    source = random.Random(seed)
    name = schema(upstream)
    tables: dict[TableName, str] = {}
    statements = [LENIENT, f"USE `{name}`"]
    for number, (kind, values) in enumerate(types(flavor).items()):
        for shape in ("k", "g, k", "k, g"):
            table = TableName(name, f"t{number}_{shape.replace(', ', '')}")
            tables[table] = kind
            rows = ", ".join(f"({source.randint(-1, 1)}, {value(source, values)})" for _ in range(30))
            statements += [
                f"CREATE TABLE {Ident(table.table).sql} (n INT AUTO_INCREMENT, g INT NOT NULL, k {kind} NOT NULL,"
                f" PRIMARY KEY ({shape}), KEY (n))",
                f"INSERT IGNORE INTO {Ident(table.table).sql} (g, k) VALUES {rows}",
            ]
    upstream.execute(*statements)
    connection = row_session(endpoint(upstream))
    questions = upstream.connect()
    try:
        keys, walks = {}, []
        for table, kind in tables.items():
            key = key_of(questions, table)
            if kind.startswith("CHAR") and "_nopad_" in kind:
                assert key is None, "its index has another order than comparisons"
                continue
            assert key is not None, kind
            keys[table] = key
            walks.append(KeyWalk(table, key, source.randint(1, 4), estimate=source.choice((0, 50))))
        for walk, result in zip(walks, GroupWalker(endpoint(upstream))(tuple(walks)), strict=True):
            said = f"{tables[walk.table]} in {walk.table} by {walk.rows}"
            assert result.bounds is not None, said
            *sizes, _ = chunk_sizes(connection, walk.table, keys[walk.table], result.bounds)
            assert all(size == walk.rows if result.counted else size <= walk.rows for size in sizes), said
    finally:
        connection.close()
        questions.close()
