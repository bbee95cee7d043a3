"""A load never ends well where a row of a table has gone for another one of the same table that is still there."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import rows

pytestmark = [pytest.mark.live, pytest.mark.spark]

# What makes one key of two at the target: an expression that is not the source's, and a key that the source lacks.
OTHERS = {
    "computed": ("k INT AS (a) STORED, UNIQUE KEY by_k (k)", "k INT AS (a DIV 10) STORED, UNIQUE KEY by_k (k)"),
    "lacking": ("KEY by_k (a, b)", "UNIQUE KEY by_k (b)"),
}


def table(name: str, rest: str) -> str:
    return f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b VARCHAR(20), ts TIMESTAMP NULL, {rest})"


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(("other", "files"), [("computed", "all"), ("lacking", "none")])
def test_a_row_that_is_still_at_the_source_replaces_no_other(
    other: str, files: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    here, there = OTHERS[other]
    text = "x ON DUPLICATE KEY"  # a value is no part of the statement around it
    load = full_load(upstream, target, table("t", here), dump_files=files)
    name = f"`{load.target_schema}`.t"
    upstream.execute(
        f"INSERT INTO `{load.schema}`.t (id, a, b, ts) VALUES (1, 10, '{text}', '2020-01-01'), (2, 20, 'y', NULL),"
        f" (3, 11, '{text}', '2020-01-01')"
    )
    target.execute(f"CREATE DATABASE `{load.target_schema}`", table(name, there))

    def run() -> None:
        load.dump()
        load.load()

    with pytest.raises(DMError) as caught:
        run()
    assert (caught.value.name, caught.value.retryable) == ("load-row-replaced", False)
    assert all(part in caught.value.message for part in ("by_k", "id=1", "id=3", f"{load.schema}.t"))
    # The way out that it names.
    target.execute(f"ALTER TABLE {name} DROP INDEX by_k")
    run()
    assert rows(target, f"SELECT id FROM {name} ORDER BY id") == [(1,), (2,), (3,)]


@pytest.mark.ci_flavor("mariadb")
def test_a_row_that_the_source_has_deleted_meanwhile_may_go(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    here, there = OTHERS["computed"]
    load = full_load(upstream, target, table("t", here))
    name = f"`{load.target_schema}`.t"
    upstream.execute(f"INSERT INTO `{load.schema}`.t (id, a) VALUES (1, 10), (2, 11)")
    target.execute(f"CREATE DATABASE `{load.target_schema}`", table(name, there))
    load.dump()
    upstream.execute(f"DELETE FROM `{load.schema}`.t WHERE id = 1")
    load.load()
    assert rows(target, f"SELECT id FROM {name}") == [(2,)]


@pytest.mark.ci_flavor("mariadb")
def test_a_table_without_a_key_loses_no_row_to_a_key_of_the_target(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, "CREATE TABLE t (a INT, b INT)", "INSERT INTO t VALUES (1, 1), (1, 2)")
    target.execute(
        f"CREATE DATABASE `{load.target_schema}`", f"CREATE TABLE `{load.target_schema}`.t (a INT, b INT, UNIQUE (a))"
    )
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-row-replaced"
