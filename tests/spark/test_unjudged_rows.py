"""A load takes rows that the source's own CHECKs forbid, since the source holds them; the target's own judge."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.spark.conftest import LoadFactory

pytestmark = [pytest.mark.live, pytest.mark.spark]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT CHECK (v > 0), j JSON, CONSTRAINT small CHECK (v < 100))",
    "CREATE TABLE keyless (v INT, CHECK (v > 0))",
    "SET check_constraint_checks = 0",
    "INSERT INTO keyed VALUES (1, -1, '['), (2, 2, '[]'), (3, 300, NULL)",
    "INSERT INTO keyless VALUES (-1), (-1), (1)",
    "SET check_constraint_checks = 1",
)


@pytest.mark.parametrize(
    "settings", [{}, {"dump_format": "sql"}, pytest.param({"dump_files": "none"}, marks=pytest.mark.chaos)]
)
def test_rows_that_the_sources_checks_forbid_are_loaded(
    mariadb: ThrowawayServer, full_load: LoadFactory, settings: dict[str, str]
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, **settings)
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)


def test_a_check_of_the_targets_own_judges_the_rows(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, -1)")
    load.dump()
    schema = f"`{load.target_schema}`"
    mariadb.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v INT CHECK (v > 0))")
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.server_errno == 4025
