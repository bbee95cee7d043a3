"""Entries of the block-allow-list that match nothing are in the status until what they name is there."""

from __future__ import annotations

import pytest

from dm.config.rules import BlockAllowList, TablePattern
from dm.demo.servers import ThrowawayServer
from dm.sourcelog.stream import source_monitor
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mariadb")
def test_an_entry_is_named_until_what_it_names_is_there(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_monitor, "ASK_SECONDS", 0.0)
    name = schema(upstream, target)
    server = (upstream, target)
    for each in server:
        each.execute(f"CREATE TABLE {name}.there (id INT PRIMARY KEY)")
    lists = BlockAllowList(
        do_dbs=(name, f"{name}_later"),
        do_tables=tuple(TablePattern(db_name=name, tbl_name=table) for table in ("there", "later*", "never")),
    )
    subtask = subtask_for(upstream, target, name, task=name).model_copy(update={"block_allow_list": lists})
    with running_sync(subtask) as sync:
        named = [f"do-dbs[1]: {name}_later", f"do-tables[1]: {name}.later*", f"do-tables[2]: {name}.never"]
        assert sync.wait_synced()["listEntriesWithoutTables"] == named
        upstream.execute(f"CREATE TABLE {name}.later_1 (id INT PRIMARY KEY)", f"INSERT INTO {name}.later_1 VALUES (1)")
        upstream.execute(f"CREATE DATABASE {name}_later")
        wait_until(lambda: sync.wait_synced()["listEntriesWithoutTables"] == named[2:], "the entries to go")
        assert target.query(f"SELECT id FROM {name}.later_1") == ((1,),)
    for each in server:
        each.execute(f"DROP DATABASE IF EXISTS {name}_later")
