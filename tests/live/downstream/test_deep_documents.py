"""JSON documents that are deeper than a MariaDB takes: the row is named, and the way out that the error gives works."""

from __future__ import annotations

from contextlib import closing

import pyarrow
import pytest

from dm.config.endpoint import Endpoint
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.part_writer import PartWriter
from dm.mysql.schema.table import Column
from dm.mysql.sql.json_literal import depth_of
from dm.progress.load_parts import LoadRun
from dm.progress.tables import SubtaskKey
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of, running_sync, subtask_for

pytestmark = pytest.mark.live

DEEP = '{"a": ' * 20 + "[" * 12 + '"[{"' + "]" * 12 + "}" * 20
SHALLOW = '{"a": ' * 20 + "[" * 11 + '"[{[{\\\\"[["' + "]" * 11 + "}" * 20


def with_way_out(endpoint: Endpoint) -> Endpoint:
    return endpoint.model_copy(update={"session": {"check_constraint_checks": "0"}})


@pytest.mark.parametrize("columns", ["id INT PRIMARY KEY, j JSON", "id INT, j JSON"], ids=["keyed", "keyless"])
def test_a_followed_row_is_named(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    name = schema(mysql, mariadb)
    for server in (mysql, mariadb):
        server.execute(f"CREATE TABLE {name}.t ({columns})")
    subtask = subtask_for(mysql, mariadb, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        mysql.execute(f"INSERT INTO {name}.t VALUES (1, '{SHALLOW}'), (7, '{DEEP}'), (8, NULL)")
        error = sync.wait_ended()
        sync.error = None
    assert isinstance(error, DMError)
    assert error.name == "json-too-deep"
    assert "with id = 7:" in error.message or "PRIMARY" not in columns
    assert "column j has 32 levels" in error.message
    assert "check_constraint_checks" in error.workaround
    with running_sync(subtask.model_copy(update={"target": with_way_out(subtask.target)})) as sync:
        sync.wait_synced()
    arrived = mariadb.query(f"SELECT j FROM {name}.t WHERE id < 8 ORDER BY id")
    assert [depth_of(document.encode()) for (document,) in arrived] == [31, 32]


@pytest.mark.parametrize("local_data", [True, False], ids=["LOAD DATA", "INSERT"])
def test_a_loaded_row_is_named(mariadb: ThrowawayServer, schema: SchemaFactory, local_data: bool) -> None:
    name = schema(mariadb)
    mariadb.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, j JSON)", "SET GLOBAL local_infile = 1")
    table = TableName(name, "t")
    columns = Column("id", "int"), Column("j", "json")
    into = Destination(table, columns, unique=True, key=("id",), local_data=local_data)
    run = LoadRun(SubtaskKey(f"meta_{name}", "t", "s"), "dump", 1)
    documents = [SHALLOW.replace("\\\\", "\\").encode(), DEEP.encode()]
    arrays = [pyarrow.array(values, pyarrow.binary()) for values in ([b"1", b"7"], documents)]
    batch = pyarrow.record_batch(arrays, names=["id", "j"])
    for endpoint, loads in ((endpoint_of(mariadb), False), (with_way_out(endpoint_of(mariadb)), True)):
        with closing(TargetConnection(endpoint, local_data=local_data)) as connection:
            connection.begin()
            writer = PartWriter(connection, run, "replace", table, into, endpoint)
            if loads:
                assert writer.write(lambda names: [batch.select(list(names))], typed=False).rows == 2
                continue
            with pytest.raises(DMError) as caught:
                writer.write(lambda names: [batch.select(list(names))], typed=False)
            assert caught.value.name == "json-too-deep"
            assert "with id = 7:" in caught.value.message
