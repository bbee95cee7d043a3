"""Rows that are two at the source and one by a key of the target: none replaces the other in silence."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import rows

pytestmark = [pytest.mark.live, pytest.mark.spark]

COLLATION = "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
MADE = "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_nopad_ai_ci"
# Two letters for MySQL, whose Unicode is older, and one in two cases for MariaDB.
LETTERS = "INSERT INTO t VALUES (1, 'x'), (2, '\ua7c2'), (3, '\ua7c3')"
TABLES = {
    "unique": f"CREATE TABLE t (id INT PRIMARY KEY, w {COLLATION}, UNIQUE KEY by_w (w))",
    "part of a key": f"CREATE TABLE t (id INT PRIMARY KEY, w {COLLATION}, b INT AS (7) STORED, UNIQUE KEY by_w (w(3)))",
    "primary": f"CREATE TABLE t (id INT, w {COLLATION}, PRIMARY KEY (w))",
}


@pytest.mark.parametrize("made", TABLES)
def test_a_row_does_not_replace_one_that_is_another_at_the_source(
    made: str, mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mysql, mariadb, TABLES[made], LETTERS.replace("t VALUES", "t (id, w) VALUES"))
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert (caught.value.name, caught.value.retryable) == ("load-keys-equal", False)
    index = "PRIMARY" if made == "primary" else "by_w"
    said = caught.value.message
    assert all(part in said for part in (index, "0xea9f82", "0xea9f83", "utf8mb4_0900_ai_ci")), said
    assert "`collation-map: {utf8mb4_0900_ai_ci: utf8mb4_bin}`" in caught.value.workaround
    assert rows(mariadb, f"SELECT id FROM `{load.target_schema}`.t") == []


@pytest.mark.parametrize("on_duplicate", ["replace", "ignore"])
def test_without_files_and_whichever_row_wins(
    on_duplicate: str, mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mysql, mariadb, TABLES["unique"], LETTERS, dump_files="none", on_duplicate=on_duplicate)
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "load-keys-equal"


def test_in_an_sql_file_the_target_refuses_the_row(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mysql, mariadb, TABLES["unique"], LETTERS, dump_format="sql")
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-duplicate"


@pytest.mark.parametrize("word", ["ab", "AB"])
def test_texts_that_are_one_at_the_source_as_well_follow_the_task(
    word: str, mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mysql, mariadb, TABLES["unique"], "INSERT INTO t VALUES (1, 'ab'), (2, NULL), (3, 'c')")
    load.dump()
    table = f"`{load.target_schema}`.t"
    mariadb.execute(f"CREATE DATABASE `{load.target_schema}`")
    mariadb.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, w {MADE}, UNIQUE KEY by_w (w))")
    mariadb.execute(f"INSERT INTO {table} VALUES (9, '{word}')")
    assert load.load().status()["replacedRows"] == "1"
    assert rows(mariadb, f"SELECT id, w FROM {table} ORDER BY id") == [(1, "ab"), (2, None), (3, "c")]
