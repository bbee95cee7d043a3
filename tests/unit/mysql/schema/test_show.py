"""A structure shown as CREATE TABLE reads back as the same structure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.ident import Ident, TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.show import create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext

MYSQL = SourceContext("mysql", 90704, "d")
MARIADB = SourceContext("mariadb", 101119, "d")

EVERYTHING = """CREATE TABLE d.t (
  id bigint unsigned NOT NULL AUTO_INCREMENT,
  `a``b` varchar(30) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'it''s \\\\ %',
  n decimal(12,4) unsigned DEFAULT 1.5, f float(7,2), g double, i int(11), b bit(7) DEFAULT b'101', y year,
  d datetime(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), t timestamp NULL, h time(3) NOT NULL,
  e enum('a','it''s','c\\\\d') NOT NULL DEFAULT 'a', s set('x','ü'), c char(4) CHARACTER SET ascii, k binary(8),
  v varbinary(100), tb tinyblob, lt longtext,
  gen int GENERATED ALWAYS AS (id + 1) STORED, gv varchar(9) AS (concat('(', c, ')')) VIRTUAL,
  PRIMARY KEY (id), UNIQUE KEY u (`a``b`(5), n DESC), KEY by_e (e, s), FULLTEXT KEY ft (lt),
  CONSTRAINT fk FOREIGN KEY (i) REFERENCES other.p (x) ON DELETE CASCADE ON UPDATE SET NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"""


def reread(schema: TableSchema, context: SourceContext) -> TableSchema:
    return parse_create_table(create_table(schema), context)


@pytest.mark.parametrize("context", [MYSQL, MARIADB], ids=["mysql", "mariadb"])
def test_everything_a_structure_holds_is_shown(context: SourceContext) -> None:
    schema = parse_create_table(EVERYTHING, context)
    assert reread(schema, context) == schema


@pytest.mark.parametrize(
    ("context", "definition"),
    [
        (MYSQL, "c json, x int, KEY f ((cast(json_value(c, '$.a') as unsigned)), x)"),
        (MYSQL, "v vector(9), p point NOT NULL, SPATIAL KEY sp (p), hidden int INVISIBLE DEFAULT 7"),
        (MYSQL, "d json DEFAULT (json_array()), u varchar(36) DEFAULT (uuid())"),
        (MARIADB, "u uuid NOT NULL DEFAULT uuid(), a inet6, j json, UNIQUE KEY h (u) USING HASH"),
        (MARIADB, "hidden int INVISIBLE, e text CHARACTER SET latin1 DEFAULT 'x'"),
    ],
)
def test_what_only_one_flavour_has(context: SourceContext, definition: str) -> None:
    schema = parse_create_table(f"CREATE TABLE d.t ({definition}) CHARSET utf8mb4", context)
    assert reread(schema, context) == schema


names = st.text(st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1, max_size=8)
members = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6).map(
        lambda text: text.rstrip(" ")
    ),
    min_size=1,
    max_size=4,
    unique=True,
)


@settings(max_examples=60, deadline=None)
@given(names, names, members)
def test_hostile_names_and_members(table: str, column: str, words: list[str]) -> None:
    schema = parse_create_table("CREATE TABLE d.t (c enum('a')) CHARSET utf8mb4", MYSQL)
    hostile = replace(
        schema,
        name=TableName("d", table),
        columns=(replace(schema.columns[0], name=column, members=tuple(words)),),
    )
    assert reread(hostile, MYSQL) == hostile, Ident(column).sql


def test_checks_and_partitions_are_not_shown() -> None:
    text = "CREATE TABLE d.t (a int, CONSTRAINT k CHECK (a > 1)) PARTITION BY HASH (a) PARTITIONS 2"
    schema = parse_create_table(text, MYSQL)
    assert schema.checks
    assert schema.partitions
    assert reread(schema, MYSQL) == replace(schema, checks=(), partitions=())
