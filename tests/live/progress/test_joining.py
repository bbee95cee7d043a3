"""What the row of tables that join says at each step, on both flavours of target."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.config.subtask import Share
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.joining.table_joining import Joining, ask, begin_emptying, begin_loading, find_joining
from dm.progress.tables import SubtaskKey, create_tables
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]


def test_who_has_emptied_tables_before_they_were_to_be_made_anew_does_not_load(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(target)
    key = SubtaskKey(name, "t", "one")
    with closing(TargetConnection(endpoint_of(target))) as connection:

        def stored() -> Joining:
            found = find_joining(connection, key)
            assert found is not None
            return found

        create_tables(connection, key.share)  # as main does when it gives them up
        asked = ask(connection, key, "reload", Share(tables=(("db", "t"),)), [TableName("db", "t")])
        assert begin_emptying(connection, key, asked, ["asked"])
        emptied = stored()
        assert begin_emptying(connection, key, emptied, ["emptying"], anew=True)
        assert not begin_loading(connection, key, emptied)
        again = stored()
        assert (again.phase, again.anew) == ("emptying", True)
        assert begin_loading(connection, key, again)
        assert stored().phase == "loading"
