"""Rules that would stop a task later are found before it starts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest

from dm.config import read_source, read_task
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.task.precheck.context import CheckResult
from dm.task.precheck.run import prechecks
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.tidb import TidbServer

# All other items that DM has a name for, to be quick.
OTHERS = [
    "version", "server_id", "binlog_enable", "binlog_format", "binlog_row_image", "binlog_db", "replication_privilege",
    "dump_privilege", "target_privilege", "meta_position", "conn_number",
]  # fmt: skip

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


class Task:
    """A task with rules between two servers."""

    def __init__(self, upstream: ThrowawayServer, target: PrivateServer, schema: str) -> None:
        self.schema = schema
        self._source = read_source(f"source-id: one\nfrom: {json.dumps(_login(upstream))}\n")
        self._target = _login(target)

    def findings(self, section: str, reference: str, rules: Mapping[str, Mapping[str, object]]) -> list[CheckResult]:
        instance = {"source-id": "one", "block-allow-list": "b", reference: list(rules)}
        text = json.dumps(
            {
                "name": "t",
                "task-mode": "all",
                "ignore-checking-items": OTHERS,
                "target-database": self._target,
                "mysql-instances": [instance],
                "block-allow-list": {"b": {"do-dbs": [self.schema]}},
                section: rules,
            }
        )
        found = prechecks(read_task(text, {"one": self._source}), ["one"])
        return [result for result in found if result.item == "table_schema"]


def _login(server: PrivateServer) -> dict[str, object]:
    return {"host": server.host, "port": server.port, "user": server.user, "password": server.password}


@pytest.fixture
def task(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Task:
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE {name}.t_1 (id INT PRIMARY KEY, name VARCHAR(20), at TIMESTAMP NULL, tags SET('a','b'))"
    )
    return Task(upstream, target, name)


def test_expressions_are_tried_on_the_tables(task: Task) -> None:
    def found(expression: str, table: str = "t_1") -> list[tuple[str, str]]:
        rule = {"schema": task.schema, "table": table, "insert-value-expr": expression}
        return [
            (result.state, result.message)
            for result in task.findings("expression-filter", "expression-filters", {"x": rule})
        ]

    assert [state for state, _ in found("name LIKE 'é%' AND id > 3")] == ["success"]
    ((state, message),) = found("id > 3")
    assert state == "success"
    assert re.fullmatch(
        rf"`insert-value-expr` of expression filter x \(.+:1, table {task.schema}.t_1\) is computed by dm", message
    )
    ((state, message),) = found("tags = 'a'")
    assert state == "success"
    assert "is evaluated by the target: column `tags` (set) compared with a constant text" in message
    ((state, message),) = found("REPLACE(name, 'a') = 'b'")
    assert state == "failure"
    assert "the target can't evaluate `REPLACE(name, 'a') = 'b'` of expression filter x" in message
    assert re.search(rf"\(table {task.schema}.t_1, .+:1\)", message)
    zone, (state, message) = found("HOUR(NOW()) = 1")
    assert zone == ("success", "expression filter x is evaluated in the target's global time zone (+00:00), as with DM")
    assert state == "success"
    assert "is evaluated by the target" in message
    zone, (state, message) = found("at > '2024-01-01'")
    assert (zone[0], state) == ("success", "success")
    assert message.endswith("is computed by dm")
    ((state, message),) = found("nam = 'a' OR id = 1")
    assert state == "warning"
    assert "does not have: nam; it leaves nothing out" in message
    ((state, message),) = found("id = 1", table="t_*")
    assert state == "warning"
    assert "no such table takes part" in message


def test_the_columns_to_extract_into_must_be_there(task: Task, target: ThrowawayServer) -> None:
    extraction = {"table-regexp": "_(.*)", "target-column": "shard"}
    route = {
        "schema-pattern": task.schema,
        "table-pattern": "t_*",
        "target-schema": task.schema,
        "target-table": "t",
        "extract-table": extraction,
    }

    def found() -> list[tuple[str, str]]:
        return [(result.state, result.message) for result in task.findings("routes", "route-rules", {"r": route})]

    assert (
        "failure",
        f"the target has no table {task.schema}.t, which routes with extracted columns from {task.schema}.t_1 need",
    ) in (found())
    columns = "id INT, name VARCHAR(20), at TIMESTAMP NULL, tags SET('a','b')"
    for column, why in (("other INT", "no such column"), ("shard INT", "of type INT"), ("shard CHAR(0)", "is longer")):
        target.execute(f"DROP TABLE IF EXISTS {task.schema}.t", f"CREATE TABLE {task.schema}.t ({columns}, {column})")
        assert [state for state, message in found() if why in message] == ["failure"]
    target.execute(f"ALTER TABLE {task.schema}.t MODIFY shard VARCHAR(9) NOT NULL, ADD PRIMARY KEY (id, shard)")
    assert [state for state, _ in found()] == ["success"]
    extraction["table-regexp"] = "^x_(.*)"
    ((state, message),) = found()
    assert state == "failure"
    assert "`^x_(.*)` does not match the table name" in message


@pytest.mark.parametrize("merged", [False, True])
def test_names_that_a_target_takes_for_one_are_found(
    upstream: ThrowawayServer, schema: SchemaFactory, server: ServerFactory, *, merged: bool
) -> None:
    target = server(upstream.flavor, lower_case_table_names=1)
    name = schema(upstream)
    upstream.execute(*(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY)" for table in ("Orders", "orders", "Apart")))
    target.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.apart (id INT PRIMARY KEY) ENGINE=MyISAM")
    route = {"schema-pattern": name, "table-pattern": "orders", "target-schema": name, "target-table": "orders"}
    found = Task(upstream, target, name).findings("routes", "route-rules", {"r": route} if merged else {})
    assert any("can't roll back" in result.message and "apart" in result.message for result in found)
    alike = [result for result in found if "ignores the case of names" in result.message]
    assert [result.state for result in alike] == ([] if merged else ["failure"]), alike


def test_the_account_may_lack_temporary_tables(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t_1 (id INT PRIMARY KEY)")
    task = Task(upstream, target, name)
    account = f"'{name}'@'%'"
    target.execute(
        f"CREATE USER {account} IDENTIFIED BY 'secret'",
        f"GRANT CREATE, SELECT, INSERT, UPDATE, DELETE, ALTER, DROP, INDEX, REFERENCES ON *.* TO {account}",
    )
    task._target |= {"user": name, "password": "secret"}
    rule = {"schema": name, "table": "t_1", "insert-value-expr": "ABS(id) = 1"}
    try:
        (found,) = task.findings("expression-filter", "expression-filters", {"x": rule})
        assert found.state == "failure"
        assert "CREATE TEMPORARY TABLES" in found.instruction
        (grant,) = re.findall(r"GRANT .* TO '\S+'@'%'", found.instruction)
        target.execute(grant)
        (found,) = task.findings("expression-filter", "expression-filters", {"x": rule})
        assert found.state == "success"
    finally:
        target.execute(f"DROP USER {account}")


def test_another_flavour_evaluates_with_a_warning(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, mariadb)
    mysql.execute(f"CREATE TABLE {name}.t_1 (id INT PRIMARY KEY, doc JSON, name VARCHAR(9) COLLATE utf8mb4_0900_bin)")
    task = Task(mysql, mariadb, name)

    def found(expression: str) -> tuple[str, str]:
        rule = {"schema": name, "table": "t_1", "insert-value-expr": expression}
        collations, result = task.findings("expression-filter", "expression-filters", {"x": rule})
        assert "collation-map: {utf8mb4_0900_bin: utf8mb4_nopad_bin}" in collations.instruction
        return result.state, result.message

    assert found("id = 1")[0] == "success"
    state, message = found("ABS(id) = 1")
    assert state == "warning"
    assert "its functions are MariaDB's" in message
    state, message = found("JSON_VALID(doc)")
    assert state == "failure"
    assert "which MariaDB keeps as a text" in message
    state, message = found("UPPER(name) = 'A'")
    assert state == "failure"
    assert "utf8mb4_0900_bin" in message


def test_a_column_that_mariadb_does_not_hide_is_told(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, mariadb)
    table = f"CREATE TABLE {name}.{{}} (id INT PRIMARY KEY, h INT {{}}) COLLATE utf8mb4_general_ci"
    mysql.execute(table.format("t_1", "NOT NULL INVISIBLE"), table.format("t_2", "NOT NULL INVISIBLE DEFAULT 1"))
    found = Task(mysql, mariadb, name).findings("routes", "route-rules", {})
    (refused,) = [each.message for each in found if each.state == "failure"]
    assert f"the target does not make {name}.t_1 as it is" in refused
    assert "Invisible column `h` must have a default value" in refused


@pytest.mark.tidb
def test_a_tidb_computes_by_its_own_rules_and_prints_in_its_own_words(
    mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, tidb)
    for server in (mysql, tidb):
        server.execute(
            f"CREATE TABLE {name}.t_1 (id INT PRIMARY KEY, tags SET('a','b'), up INT AS (id * 2 + length('x')) STORED)"
        )
    task = Task(mysql, tidb, name)
    rule = {"schema": name, "table": "t_1", "insert-value-expr": "tags = 'a'"}
    found = [result.message for result in task.findings("expression-filter", "expression-filters", {"x": rule})]
    assert any("its functions are TiDB's, which may have other results" in message for message in found), found
    assert not any("computes columns otherwise" in message for message in found), found


@pytest.mark.tidb
def test_what_a_tidb_leaves_out_is_told(mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(mysql)
    mysql.execute(
        f"CREATE TABLE {name}.t_1 (id INT PRIMARY KEY, h INT INVISIBLE DEFAULT 5, CHECK (id > 0))",
        f"CREATE TABLE {name}.t_2 (w VARCHAR(9) COLLATE utf8mb4_bin, FULLTEXT KEY words (w))",
    )
    found = {each.message: each.state for each in Task(mysql, tidb, name).findings("routes", "route-rules", {})}
    assert found.get(f"TiDB leaves out of {name}.t_1: CHECK constraints, INVISIBLE of column h") == "warning", found
    # This one has no TiFlash, which a full-text index takes.
    (refused,) = [message for message, state in found.items() if state == "failure"]
    assert refused.startswith(f"the target does not make {name}.t_2 as it is: 8200 "), refused
