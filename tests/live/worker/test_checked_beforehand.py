"""Rows that are at the target already, entries of the lists that lead nowhere, and what an account does not see."""

from __future__ import annotations

import pytest

from dm.config import read_source, read_task
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.progress.load_parts import PartKey, begin_run, claim_part
from dm.progress.tables import SubtaskKey
from dm.task.precheck.not_migrated import ITEM as LISTS
from dm.task.precheck.run import prechecks
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.migration import Migration, put_right
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


@pytest.fixture
def migration(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Migration:
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE {name}.orders (id INT PRIMARY KEY)", f"CREATE TABLE {name}.log (id INT PRIMARY KEY)"
    )
    return Migration(upstream, target, name)


def test_rows_that_the_target_has_already(migration: Migration) -> None:
    name, target = migration.schema, migration.target
    target.execute(*(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY)" for table in ("orders", "log", "strange")))
    assert migration.only("downstream_table_empty").state == "success"
    target.execute(f"INSERT INTO {name}.orders VALUES (1), (2), (3)", f"INSERT INTO {name}.strange VALUES (1)")
    finding = migration.only("downstream_table_empty")
    assert (finding.state, finding.message.endswith(f" already: {name}.orders (3 rows)")) == ("warning", True)
    digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4)"
    many = f"SELECT a.d + 5*b.d + 25*c.d + 125*e.d + 625*f.d + 3125*g.d FROM {digits} a, {digits} b, {digits} c"
    target.execute(f"INSERT INTO {name}.log {many}, {digits} e, {digits} f, {digits} g")
    finding = migration.only("downstream_table_empty")
    assert f"{name}.log (about 1" in finding.message
    assert f"estimated), {name}.orders (3 rows)" in finding.message
    migration.mode = "incremental"
    assert migration.only("downstream_table_empty").state == "success", "it loads nothing"


def test_rows_of_the_task_s_own_load_are_not_told(migration: Migration) -> None:
    name, target = migration.schema, migration.target
    target.execute(f"CREATE TABLE {name}.orders (id INT PRIMARY KEY)", f"INSERT INTO {name}.orders VALUES (1)")
    migration.task_lines = f"meta-schema: {name}\n"
    assert migration.only("downstream_table_empty").state == "warning"
    (table,) = (table for table in migration.tables() if table.table == "orders")
    with TargetConnection(endpoint_of(target)) as connection:
        run = begin_run(connection, SubtaskKey(name, "t", "one"), "dump", migration.stop)
        connection.begin()
        claim_part(connection, run, PartKey(table, 0, 0, 0), 1, 4, table)
        connection.commit()
    assert migration.only("downstream_table_empty").state == "success"


def test_a_task_that_begins_anew_would_have_its_own_rows_twice_where_no_key_finds_them(migration: Migration) -> None:
    name, target = migration.schema, migration.target
    migration.upstream.execute(f"CREATE TABLE {name}.bare (v INT)", f"CREATE TABLE {name}.others (v INT)")
    for table, columns in (("orders", "id INT PRIMARY KEY"), ("bare", "v INT"), ("others", "v INT")):
        target.execute(f"CREATE TABLE {name}.{table} ({columns})", f"INSERT INTO {name}.{table} VALUES (1)")
    migration.task_lines = f"meta-schema: {name}\n"
    tables = {table.table: table for table in migration.tables()}
    with TargetConnection(endpoint_of(target)) as connection:
        run = begin_run(connection, SubtaskKey(name, "t", "one"), "dump", migration.stop)
        connection.begin()
        for table in ("orders", "bare"):
            claim_part(connection, run, PartKey(tables[table], 0, 0, 0), 1, 4, tables[table])
        connection.commit()
    assert "bare" not in migration.only("downstream_table_empty").message
    doubled, others = migration.check(anew=True)["downstream_table_empty"]
    assert (doubled.state, f": {name}.bare (1 row)" in doubled.message) == ("failure", True)
    assert (others.state, "bare" in others.message, "orders" in others.message) == ("warning", False, True)
    assert doubled.instruction.endswith(" (at the target)")
    target.execute(doubled.instruction.removesuffix(" (at the target)"))
    (left,) = migration.check(anew=True)["downstream_table_empty"]
    assert left.state == "warning"


def test_a_name_that_no_source_has_is_said_and_stops_nothing_beside_one_that_is_there(migration: Migration) -> None:
    name = migration.schema
    migration.lists = f"{{do-tables: [{{db-name: {name}, tbl-name: ordrs}}, {{db-name: {name}, tbl-name: log}}]}}"
    finding = migration.only(LISTS)
    assert (finding.state, finding.message) == (
        "warning",
        f"line 8, block-allow-list.b.do-tables[0]: no table {name}.ordrs is seen at one; did you mean `orders`?",
    )
    migration.lists = f"{{do-dbs: [{name}, {name[:-1]}]}}"
    finding = migration.only(LISTS)
    assert finding.state == "warning"
    assert finding.message.endswith(
        f"block-allow-list.b.do-dbs[1]: no schema {name[:-1]} is seen at one; did you mean `{name}`?"
    )
    migration.task_lines = f"ignore-checking-items: [{LISTS}]\n"
    assert LISTS not in migration.check()


@pytest.mark.parametrize(
    ("lists", "entries"),
    [
        ("{{do-dbs: [absent]}}", 1),
        ("{{do-dbs: [absent, 'absent_*']}}", 2),
        ("{{do-dbs: [{0}], do-tables: [{{db-name: {0}, tbl-name: ordrs}}, {{db-name: {0}, tbl-name: lgo}}]}}", 2),
    ],
)
def test_names_of_which_nothing_is_there_are_a_failure(migration: Migration, lists: str, entries: int) -> None:
    """No table would pass, so nothing would be migrated."""
    migration.lists = lists.format(migration.schema)
    assert [finding.state for finding in migration.check()[LISTS]] == ["failure"] * entries


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ("{{do-tables: [{{db-name: {0}, tbl-name: 'ordrs*'}}, {{db-name: {0}, tbl-name: log}}]}}", "do-tables[0]"),
        ("{{do-dbs: [{0}, '~^absent']}}", "do-dbs[1]"),
        ("{{do-dbs: ['absent_*']}}", "do-dbs[0]"),
        ("{{do-dbs: [{0}], ignore-tables: [{{db-name: {0}, tbl-name: ordrs}}]}}", "ignore-tables[0]"),
        ("{{ignore-dbs: ['absent']}}", "ignore-dbs[0]"),
        ("{{do-dbs: [{0}]}}", ""),
    ],
)
def test_a_pattern_may_wait_and_what_is_left_out_may_be_absent(migration: Migration, lists: str, told: str) -> None:
    migration.lists = lists.format(migration.schema)
    finding = migration.only(LISTS)
    assert (finding.state, told in finding.message) == ("warning" if told else "success", True)


def test_a_route_that_nothing_takes(migration: Migration) -> None:
    migration.meta = "    route-rules: [r]\n"
    rule = "{{schema-pattern: {0}, table-pattern: '{1}', target-schema: x, target-table: y}}"
    migration.task_lines = f"routes: {{r: {rule.format(migration.schema, 'ordr_*')}}}\n"
    finding = migration.only(LISTS)
    assert (finding.state, "routes.r: " in finding.message) == ("warning", True)
    migration.task_lines = f"routes: {{r: {rule.format(migration.schema, 'ord*')}}}\n"
    assert migration.only(LISTS).state == "success"


def test_a_list_of_two_sources_is_one_list(migration: Migration, schema: SchemaFactory) -> None:
    """Each shard has tables of its own."""
    name, upstream, target = migration.schema, migration.upstream, migration.target
    server = f"{{{{host: 127.0.0.1, port: {{}}, user: root, password: '{upstream.password}'}}}}"
    sources = {
        source: read_source(f"source-id: {source}\nfrom: {server.format(one.port)}\n")
        for source, one in (("one", upstream), ("two", target))
    }
    target.execute(f"CREATE TABLE {name}.orders_2 (id INT PRIMARY KEY)")
    text = (
        f"name: t\ntask-mode: all\ntarget-database: {server.format(target.port)}\n"
        "mysql-instances: [{source-id: one, block-allow-list: b}, {source-id: two, block-allow-list: b}]\n"
        f"block-allow-list: {{b: {{do-tables: [{{db-name: {name}, tbl-name: orders}},"
        f" {{db-name: {name}, tbl-name: orders_2}}, {{db-name: {name}, tbl-name: orders_3}}]}}}}\n"
    )
    task = read_task(text, sources)
    (finding,) = [result for result in prechecks(task, ["one", "two"]) if result.item == LISTS]
    assert (finding.state, f"no table {name}.orders_3 is seen at one, two" in finding.message) == ("warning", True)
    upstream.execute(f"DROP TABLE {name}.orders")
    found = [result.state for result in prechecks(task, ["one"]) if result.item == LISTS]
    assert found == ["warning"] * 3, "the other source was not asked"
    target.execute(f"DROP TABLE {name}.orders_2")
    found = [result.state for result in prechecks(task, ["one", "two"]) if result.item == LISTS]
    assert found == ["failure"] * 3


def test_what_the_account_does_not_see_is_said(migration: Migration) -> None:
    name, upstream = migration.schema, migration.upstream
    upstream.execute(
        f"CREATE TRIGGER {name}.trg BEFORE INSERT ON {name}.log FOR EACH ROW SET NEW.id = 1",
        f"CREATE PROCEDURE {name}.proc() SELECT 1",
        f"CREATE EVENT {name}.evt ON SCHEDULE EVERY 1 YEAR DO SELECT 1",
    )
    migration.source_user = migration.user(
        upstream, f"SELECT ON `{name}`.*", "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
    )
    warning, listed = migration.check()["not_migrated"]
    assert warning.state == "warning"
    assert f"whether there are triggers of {name}; events of {name}; routines of {name};" in warning.message
    assert "trg" not in listed.message
    put_right(upstream, warning.instruction)
    lacking, finding = migration.check()["not_migrated"]
    assert f"procedure {name}.proc" in lacking.message
    assert all(f"{name}.{what}" in finding.message for what in ("trg", "proc", "evt")), finding.message
