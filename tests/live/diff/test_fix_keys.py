"""The statements of a comparison find the rows by keys that no number equals in a simple way."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.diffing import differences, put_right
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for

pytestmark = pytest.mark.live

MEMBERS = ", ".join(f"'m{number}'" for number in range(1, 65))


@pytest.mark.parametrize("key", ["PRIMARY KEY (s)", "PRIMARY KEY (s, n)"])
def test_sets_of_many_members(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, key: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (s SET({MEMBERS}) NOT NULL, n INT NOT NULL, {key})")
    target.execute(f"INSERT INTO {name}.t VALUES ('m64', 1), ('m1,m64', 2), ('m54', 3), ('m1,m54', 4), ('m2', 5)")
    upstream.execute(f"INSERT INTO {name}.t VALUES ('m1,m54', 4)")
    subtask = subtask_for(upstream, target, name, task=name)
    found = differences(subtask)
    assert len(found["t"]) == 4
    put_right(target, found["t"])
    assert differences(subtask) == {}
