"""What counts as a change of structure, and what a settled point tells."""

from __future__ import annotations

import pytest

from dm.dumper.chunk_reader import select_text, selected_columns
from dm.dumper.structures import same
from dm.ident import TableName
from dm.loader.part_writer import statement_frame
from dm.loader.target_tables import misfit
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.show import normal_structure
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext

TABLE = "CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB{}"


def parsed(body: str) -> TableSchema:
    return parse_create_table(f"CREATE TABLE `t` ({body}) DEFAULT CHARSET=utf8mb4", SourceContext("mysql", 90704, "s"))


def test_a_counter_that_moved_is_no_change() -> None:
    assert same(TABLE.format(" COMMENT='x'"), TABLE.format(" AUTO_INCREMENT=17 COMMENT='x'"))
    assert same(TABLE.format(" AUTO_INCREMENT=3 COMMENT='x'"), TABLE.format(" AUTO_INCREMENT=4 COMMENT='x'"))
    assert not same(TABLE.format(" COMMENT='x'"), TABLE.format(" COMMENT='y'"))


def test_the_column_attribute_of_that_name_is_kept() -> None:
    assert "`id` int NOT NULL AUTO_INCREMENT," in normal_structure(TABLE.format(" AUTO_INCREMENT=5"))


def test_being_there_is_a_difference() -> None:
    assert same(None, None)
    assert not same(None, TABLE)
    assert not same(TABLE, None)


def test_values_are_selected_in_their_exact_form_and_computed_ones_not_at_all() -> None:
    schema = parsed(
        "`a``b` float, `v` int GENERATED ALWAYS AS (1) VIRTUAL, `bits` bit(9), `e` enum('','x'), `f` enum('x'),"
        " `d` double"
    )
    assert selected_columns(schema) == ("a`b", "bits", "e", "f", "d")
    assert select_text(schema, None) == "SELECT `a``b` * 1e0, `bits`, `e` | 0, `f`, `d` * 1e0 FROM `s`.`t`"
    assert select_text(schema, "PRIMARY").endswith("FROM `s`.`t` FORCE INDEX (`PRIMARY`)")


@pytest.mark.parametrize(
    ("mode", "keyed", "head", "tail"),
    [
        ("replace", True, b"REPLACE INTO `s`.`t` (`a`) VALUES ", b""),
        ("ignore", True, b"INSERT INTO `s`.`t` (`a`) VALUES ", b" ON DUPLICATE KEY UPDATE `a` = `a`"),
        ("error", True, b"INSERT INTO `s`.`t` (`a`) VALUES ", b""),
        ("replace", False, b"INSERT INTO `s`.`t` (`a`) VALUES ", b""),
        ("ignore", False, b"INSERT INTO `s`.`t` (`a`) VALUES ", b""),
    ],
)
def test_duplicates_are_met_as_the_task_says(mode: str, keyed: bool, head: bytes, tail: bytes) -> None:
    columns = parsed("`a` int").columns
    assert statement_frame(TableName("s", "t"), columns, mode, unique=keyed) == (head, tail)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("`a` int", "`a` int(11)"),
        ("`a` int", "`z` int AUTO_INCREMENT, `a` int, KEY (`z`)"),
        ("`a` int", "`a` int, `more` int DEFAULT 1"),
        ("`a` varchar(9) COLLATE utf8mb4_bin", "`a` varchar(9) COLLATE utf8mb4_general_ci"),
        ("`a` json", "`a` longtext"),
        ("`a` int, `g` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL", "`a` int"),
    ],
)
def test_tables_that_take_the_rows(source: str, target: str) -> None:
    assert misfit(parsed(source), parsed(target)) is None


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("`a` int unsigned", "`a` int"),
        ("`a` decimal(5,2)", "`a` decimal(5,1)"),
        ("`a` varchar(9)", "`a` varchar(8)"),
        ("`a` varchar(9) CHARACTER SET latin1", "`a` varchar(9) CHARACTER SET utf8mb4"),
        ("`a` enum('x','y')", "`a` enum('y','x')"),
        ("`a` datetime(3)", "`a` datetime"),
        ("`a` binary(3)", "`a` varbinary(3)"),
    ],
)
def test_tables_that_do_not_take_the_rows_as_they_are(source: str, target: str) -> None:
    assert misfit(parsed(source), parsed(target)) is not None
    assert misfit(parsed(source), parsed(target), wider=True) is not None


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("varchar(8)", "varchar(9)"),
        ("int", "bigint"),
        ("enum('x')", "enum('x','y')"),
        ("datetime", "datetime(3)"),
        ("varchar(8) CHARACTER SET utf8mb3", "varchar(8) CHARACTER SET utf8mb4"),
        ("text CHARACTER SET ascii", "text CHARACTER SET utf8mb4"),
        ("bit(1)", "bit(8)"),
    ],
)
def test_a_column_may_be_wider_where_another_shard_is_further_on(narrow: str, wide: str) -> None:
    source, target = parsed(f"`a` {narrow}"), parsed(f"`a` {wide}")
    assert misfit(source, target, wider=True) is None
    assert misfit(source, target) is not None
    assert misfit(target, source, wider=True) is not None


def test_where_the_json_of_mariadb_is_to_become_the_json_of_mysql_it_is_said_what_takes_it() -> None:
    why = misfit(parsed("`a` longtext CHECK (json_valid(`a`))"), parsed("`a` json"))
    assert why is not None
    assert "LONGTEXT with CHECK (json_valid(..))" in why
