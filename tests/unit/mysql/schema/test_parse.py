"""Structures that are read wrong would be applied wrong: what cannot be understood is refused by name."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.normal import same_structure
from dm.mysql.schema.parse import has_checks, parse_create_table
from dm.mysql.schema.table import Column, IndexPart, schema_from_json, schema_to_json
from dm.mysql.sql.context import SourceContext

_MYSQL = SourceContext("mysql", 90704, "d")
_MARIADB = SourceContext("mariadb", 101119, "d")


def _column(definition: str, context: SourceContext = _MYSQL) -> Column:
    return parse_create_table(f"CREATE TABLE t (c {definition}) CHARSET utf8mb4", context).columns[0]


@pytest.mark.parametrize(
    ("definition", "base", "length", "decimals", "unsigned"),
    [
        ("int(11)", "int", 11, None, False),
        ("MEDIUMINT ZEROFILL", "mediumint", None, None, True),
        ("BOOL", "tinyint", 1, None, False),
        ("DEC", "decimal", 10, 0, False),
        ("NUMERIC(8,3) UNSIGNED", "decimal", 8, 3, True),
        ("FLOAT(24)", "float", None, None, False),
        ("FLOAT(25)", "double", None, None, False),
        ("REAL", "double", None, None, False),
        ("LONG", "mediumtext", None, None, False),
        ("TEXT(63)", "tinytext", None, None, False),
        ("TEXT(64)", "text", None, None, False),
        ("BLOB(256)", "blob", None, None, False),
        ("CHAR BYTE", "binary", 1, None, False),
        ("BIT", "bit", 1, None, False),
        ("YEAR(4)", "year", None, None, False),
        ("DATETIME(6)", "datetime", None, 6, False),
        ("VECTOR(3)", "vector", 3, None, False),
    ],
)
def test_types(definition: str, base: str, length: int | None, decimals: int | None, unsigned: bool) -> None:
    column = _column(definition)
    assert (column.base, column.length, column.decimals, column.unsigned) == (base, length, decimals, unsigned)


def test_character_sets_are_inherited() -> None:
    columns = "a CHAR(1), b CHAR(1) CHARACTER SET latin1, c CHAR(1) COLLATE utf8_bin, d NCHAR(1), e ENUM('x')"
    schema = parse_create_table(f"CREATE TABLE t ({columns})", _MYSQL, Collated("greek", "greek_bin"))
    assert [(column.charset, column.collation) for column in schema.columns] == [
        ("greek", "greek_bin"),
        ("latin1", "latin1_swedish_ci"),
        ("utf8mb3", "utf8mb3_bin"),
        ("utf8mb3", "utf8mb3_general_ci"),
        ("greek", "greek_bin"),
    ]


def test_json_is_text_in_mariadb() -> None:
    column = _column("JSON", _MARIADB)
    assert (column.base, column.charset, column.collation) == ("longtext", "utf8mb4", "utf8mb4_bin")
    assert _column("JSON").base == "json"


def test_a_primary_key_is_not_null_and_comes_first() -> None:
    schema = parse_create_table("CREATE TABLE t (a INT, b INT UNIQUE, c INT, PRIMARY KEY (c, a(3) DESC))", _MYSQL)
    assert [column.nullable for column in schema.columns] == [False, True, False]
    assert schema.indexes[0].parts == (IndexPart("c"), IndexPart("a", 3, descending=True))
    assert schema.indexes[1].name == "b"


def test_how_a_value_is_stored_is_not_part_of_its_type() -> None:
    for text in ("VARCHAR(5) COMPRESSED", "VARCHAR(5) COMPRESSED=zlib", "VARCHAR(5) /*M!100301 COMPRESSED*/"):
        column = parse_create_table(f"CREATE TABLE t (a {text} NOT NULL)", _MARIADB).columns[0]
        assert (column.base, column.length, column.nullable) == ("varchar", 5, False)


def test_serial_is_a_whole_definition() -> None:
    schema = parse_create_table("CREATE TABLE t (id SERIAL)", _MYSQL)
    assert schema.columns[0].auto_increment
    assert not schema.columns[0].nullable
    assert [index.kind for index in schema.indexes] == ["unique"]


@pytest.mark.parametrize(
    "text",
    ["", "SELECT 1", "CREATE TABLE t (a INT FROB)", "CREATE TABLE t (a INT, a INT",
     "CREATE TABLE t LIKE u", "CREATE TABLE t (KEY (a))", "CREATE TABLE t (a INT, PERIOD FOR p (a, b))",
     "DROP TABLE a, b"],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(DMError) as caught:
        parse_create_table(text, _MARIADB)
    assert caught.value.name == "structure-not-understood"


def test_labels_lose_the_spaces_at_their_end_unless_they_are_bytes() -> None:
    text = "CREATE TABLE t (a ENUM('a ', 'b'), b SET('a ', 'b') CHARACTER SET binary)"
    assert [column.members for column in parse_create_table(text, _MYSQL).columns] == [("a", "b"), ("a ", "b")]


_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=10).filter(
    lambda name: name == name.strip() and name.lower() != "primary"
)
_DEFINITIONS = st.sampled_from(
    ["INT", "BIGINT UNSIGNED NOT NULL DEFAULT 5", "ENUM('a','b''c')", "DECIMAL(10,2)", "DATETIME(3) ON UPDATE NOW(3)"]
    + ["TEXT CHARACTER SET latin1", "INT AS (1 + 2) STORED", "CHAR(3) COLLATE utf8mb4_bin INVISIBLE"]
)


@given(_NAMES, st.dictionaries(_NAMES.map(str.lower), _DEFINITIONS, min_size=1, max_size=6))
def test_names_and_the_stored_form_come_back(table: str, columns: dict[str, str]) -> None:
    body = ", ".join(f"{Ident(name).sql} {definition}" for name, definition in columns.items())
    key = Ident(next(iter(columns))).sql
    schema = parse_create_table(f"CREATE TABLE {Ident(table).sql} ({body}, KEY ({key}))", _MYSQL)
    assert schema.name == TableName("d", table)
    assert [column.name for column in schema.columns] == list(columns)
    assert schema_from_json(schema_to_json(schema)) == schema


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"v": 2}', '{"v": 1, "name": 5}'])
def test_a_damaged_stored_form_is_refused(text: str) -> None:
    with pytest.raises(DMError) as caught:
        schema_from_json(text)
    assert caught.value.name == "structure-not-understood"


def test_a_column_that_makes_its_table_system_versioned_pauses() -> None:
    context = SourceContext("mariadb", 101119, "d")
    with pytest.raises(DMError, match="system-versioned"):
        parse_create_table("CREATE TABLE t (a INT WITH SYSTEM VERSIONING, b INT)", context)
    assert len(parse_create_table("CREATE TABLE t (a INT WITHOUT SYSTEM VERSIONING)", context).columns) == 1


def test_options_of_an_engine_are_quoted_by_mariadb() -> None:
    context = SourceContext("mariadb", 101119, "d")
    table = parse_create_table("CREATE TABLE `t` (`a` int(11)) ENGINE=InnoDB `PAGE_COMPRESSED`='1'", context)
    assert table.engine == "innodb"


def test_an_index_that_no_statement_may_name_is_the_same_index() -> None:
    shown = "CREATE TABLE `t` (`a` int NOT NULL, UNIQUE KEY `u` (`a`) USING BTREE COMMENT '{0}'{1}, KEY `v` (`a`){2})"
    mysql = parse_create_table(shown.format("VISIBLE", " /*!80000 INVISIBLE */", ""), _MYSQL)
    assert [index.invisible for index in mysql.indexes] == [True, False]
    mariadb = parse_create_table(shown.format("INVISIBLE", " IGNORED", " NOT IGNORED"), _MARIADB)
    assert [index.invisible for index in mariadb.indexes] == [True, False]
    plain = parse_create_table(shown.format("IGNORED", "", ""), _MARIADB)
    assert [index.invisible for index in plain.indexes] == [False, False]
    assert plain == mariadb
    assert same_structure(plain, mariadb)


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("`v` int(11)", False),
        ("`check` int(11) COMMENT 'CHECK (1)'", False),
        ("`j` longtext CHECK (json_valid(`j`))", False),
        ("`j` longtext CHECK (json_valid(`j`) and `j` <> '{}')", True),
        ("`v` int(11) CHECK (`v` < 5)", True),
        ("`j` longtext CHECK (json_valid(`j`)), CONSTRAINT `c` CHECK (`j` <> '{}')", True),
        ("`j` longtext, CONSTRAINT `c` CHECK (json_valid(`j`))", True),
        ("`j` longtext CHECK (json_valid(`j`)), `k` text, CONSTRAINT `c` CHECK (json_valid(`k`))", True),
        ("`j` longtext, `k` longtext CHECK (json_valid(`j`))", True),
    ],
)
def test_whether_rows_are_judged_by_a_check(columns: str, found: bool) -> None:
    create = f"CREATE TABLE `t` ({columns}) ENGINE=InnoDB"
    assert has_checks(create, parse_create_table(create, _MARIADB), _MARIADB) is found


@pytest.mark.parametrize(
    ("column", "version", "checked"),
    [
        ("j JSON", 101100, True),
        ("j JSON", 100402, False),
        ("j JSON CHECK (j <> '')", 101100, False),
        ("j LONGTEXT", 101100, False),
        ("j VARCHAR(9) NOT NULL CHECK (JSON_VALID(J))", 101100, True),
        ("j TEXT CHECK (JSON_VALID(j))", 100200, False),
        ("j TEXT CHECK (JSON_VALID('j'))", 101100, False),
        ("j TEXT CHECK (JSON_VALID(j) OR j = '')", 101100, False),
    ],
)
def test_a_column_whose_own_check_demands_json(column: str, version: int, checked: bool) -> None:
    create = f"CREATE TABLE t ({column})"
    (found,) = parse_create_table(create, replace(_MARIADB, version=version)).columns
    assert found.json_checked is checked
    (mysql,) = parse_create_table(create, SourceContext("mysql", 90700, "")).columns
    assert not mysql.json_checked
