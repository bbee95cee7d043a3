"""check-task says in one line which GRANT lets rows go as row events; the statement works."""

from __future__ import annotations

import re

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.migration import Migration, put_right

pytestmark = [pytest.mark.live]


def test_the_grant_that_row_events_take_is_named(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT)")
    migration = Migration(upstream, target, name)
    migration.target_user = migration.user(target, "SELECT, INSERT ON *.*")
    finding = migration.only("row_events")
    assert finding.state == "success", "a task does without"
    statement = re.search(r"GRANT .+$", finding.message)
    assert statement is not None
    put_right(target, statement[0])
    assert migration.only("row_events").message == ""
    target.execute(f"REVOKE TRIGGER ON *.* FROM {migration.target_user}")
    assert "GRANT TRIGGER ON *.*" in migration.only("row_events").message
    target.execute(f"GRANT TRIGGER ON {name}.a TO {migration.target_user}")
    assert migration.only("row_events").message == ""
