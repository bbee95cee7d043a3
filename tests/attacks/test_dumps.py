"""A dump of another program makes the target compute nothing, and the daemon read nothing without an end."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.storage import LocalStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.sql_loader import FileLoader, FileTask
from dm.mysql.schema.table import Column
from dm.progress.load_parts import begin_run
from dm.progress.tables import SubtaskKey
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.chaos, pytest.mark.live]

COMPUTED = (
    "({other}.f())",
    "((SELECT {other}.f()))",
    "(1), ({other}.f())",
    "(1) ON DUPLICATE KEY UPDATE v = {other}.f()",
    "(1/*!+{other}.f()*/)",
    "(CONVERT({other}.f(), SIGNED))",
    "(LENGTH(LOAD_FILE('/etc/passwd')))",
    "(@@GLOBAL.max_connections)",
)


@pytest.mark.parametrize("values", COMPUTED)
def test_an_expression_in_place_of_a_value_is_not_run(
    values: str, mariadb: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    there, other, meta = schema(mariadb), schema(mariadb), schema(mariadb)
    mariadb.execute(
        f"CREATE TABLE `{there}`.t (v INT)",
        f"CREATE TABLE `{other}`.called (v INT)",
        f"CREATE FUNCTION `{other}`.f() RETURNS INT DETERMINISTIC"
        f" BEGIN INSERT INTO `{other}`.called VALUES (1); RETURN 7; END",
    )
    (tmp_path / "s.t.sql").write_text(f"INSERT INTO `t` VALUES {values.format(other=other)};\n")
    target, columns = endpoint_of(mariadb), (Column("v", "int"),)
    with TargetConnection(target) as connection:
        run = begin_run(connection, SubtaskKey(meta, "attack", "source-1"), "dump", threading.Event())
    destination = Destination(TableName(there, "t"), columns, unique=False)
    task = FileTask(TableName("s", "t"), 0, 0, "s.t.sql", 0, destination, columns, rows=0, ours=False)
    with pytest.raises(DMError) as caught:
        FileLoader(target, LocalStorage(tmp_path), run)((task,))
    assert caught.value.name == "dump-file-not-understood"
    for table in (f"`{there}`.t", f"`{other}`.called"):
        assert mariadb.query(f"SELECT * FROM {table}") == ()
