"""MariaDB's old_mode: without UTF8_IS_UTF8MB3 `utf8` means utf8mb4, and no event says so."""

from __future__ import annotations

import pytest

from dm.mysql.dialect import Flavor
from tests.live.syncer.ddl.test_session_forms import identical, refused
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize("to", ["mariadb", "mysql"])
def test_utf8_is_what_it_is_at_the_source(
    server: ServerFactory, park: ServerPark, schema: SchemaFactory, to: Flavor
) -> None:
    upstream, target = server("mariadb", binlog_row_metadata="NO_LOG"), park.shared(to, "target")
    name = schema(upstream, target)
    upstream.execute("SET GLOBAL old_mode = ''")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a VARCHAR(9), b TEXT COLLATE utf8_bin) CHARSET utf8",
            f"ALTER TABLE {name}.t ADD COLUMN c CHAR(3) CHARACTER SET utf8",
            f"INSERT INTO {name}.t VALUES (1, '😀', '😀', '😀')",
        )
        if to == "mysql":
            error = refused(sync)
            assert error.name == "ddl-not-understood"
            return
        sync.wait_synced()
    identical(upstream, target, name)
    found = "SELECT character_set_name FROM information_schema.columns WHERE table_schema = '{}' AND data_type <> 'int'"
    assert set(target.query(found.format(name))) == {("utf8mb4",)}
