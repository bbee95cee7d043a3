"""Rows for which a TiDB's session leaves its strict modes: it takes each exactly, or the task pauses."""

from __future__ import annotations

import pytest

from dm.changes.statement import lenient_script
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.exchange import lenient
from dm.errors import DMError
from tests.live.downstream.test_refused_row import REFUSED, enums_arrive, pauses_and_leaves_nothing
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb]

OF = "DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin"


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("own", ["", ", own INT DEFAULT 7"])
def test_the_error_value_of_an_enum_arrives(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, safe: bool, own: str
) -> None:
    name = schema(mysql, tidb)
    enums_arrive(mysql, tidb, name, own, safe=safe)
    if not own:
        report = compare(pair_tables([mysql], [name]), tidb)
        assert report.identical, str(report)


@pytest.mark.parametrize(("columns", "row"), REFUSED[1:])  # its latin1 holds every character
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
def test_a_value_that_does_not_fit_pauses_and_leaves_nothing(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, columns: str, row: str, key: str
) -> None:
    pauses_and_leaves_nothing(mysql, tidb, schema(mysql, tidb), f"id INT {key}", columns, row, OF)


def test_a_script_is_lenient_for_one_statement(tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(tidb)
    tidb.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, e ENUM('a'))")
    script = lenient_script("tidb", f"INSERT INTO {name}.t VALUES (1, 0)".encode()).decode()
    modes = "SELECT @@SESSION.sql_mode = @@GLOBAL.sql_mode"
    tidb.execute(*script.split(";\n"), f"INSERT INTO {name}.t SELECT 2, 'a' FROM ({modes} AS same) AS m WHERE same")
    assert tidb.query(f"SELECT id, e + 0 FROM {name}.t") == ((1, 0), (2, 1))


def test_the_session_is_strict_again(tidb: TidbServer) -> None:
    with TargetConnection(endpoint_of(tidb)) as connection:
        mode = connection.settings()["sql_mode"]
        assert "STRICT_ALL_TABLES" in mode
        with lenient(connection):
            assert "STRICT" not in connection.settings()["sql_mode"]
        assert connection.settings()["sql_mode"] == mode
        with pytest.raises(DMError), lenient(connection):
            connection.execute("SELECT nothing")
        assert connection.settings()["sql_mode"] == mode
        with TargetConnection(endpoint_of(tidb)) as killer, lenient(connection):
            killer.kill(connection.connection_id)
            with pytest.raises(DMError, match="connection"):
                connection.execute("SELECT 1")
        assert not connection.alive
