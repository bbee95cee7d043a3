"""What the target can't make is told for all tables before a row is copied, with the lines that mend it."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import scratch_schema
from dm.task.precheck.context import CheckResult
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.migration import Migration, put_right
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live

ADD = "add to the task file: "


def findings(migration: Migration, state: str = "failure") -> list[CheckResult]:
    return [result for result in migration.check()["table_schema"] if result.state == state]


def scratches(server: ThrowawayServer) -> list[str]:
    return [name for (name,) in server.query("SHOW DATABASES") if "_check_" in name]


def test_collations_become_those_that_the_target_has(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, mariadb)
    mysql.execute(
        f"CREATE TABLE {name}.a (id INT PRIMARY KEY, mail VARCHAR(50), UNIQUE KEY by_mail (mail)) CHARSET utf8mb4",
        f"CREATE TABLE {name}.b (id INT PRIMARY KEY, t TEXT) CHARSET utf8mb4",
        f"CREATE TABLE {name}.c (id INT PRIMARY KEY) CHARSET utf8mb4",
    )
    migration = Migration(mysql, mariadb, name)
    assert findings(migration) == []
    (warning,) = findings(migration, "warning")
    assert f"utf8mb4_0900_ai_ci becomes utf8mb4_uca1400_nopad_ai_ci in {name}.a, {name}.b;" in warning.message
    assert warning.message.endswith(f"{name}.a (by_mail); values stay the same")
    migration.task_lines = "collation-map: {utf8mb4_0900_ai_ci: utf8mb4_unicode_520_ci}\n"
    (warning,) = findings(migration, "warning")
    assert f"utf8mb4_0900_ai_ci becomes utf8mb4_unicode_520_ci in {name}.a, {name}.b;" in warning.message


def test_everything_that_the_target_does_not_know_comes_at_once(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, mariadb)
    mysql.execute(
        f"CREATE TABLE {name}.japanese (id INT PRIMARY KEY, t CHAR(9) COLLATE utf8mb4_ja_0900_as_cs)",
        f"CREATE TABLE {name}.places (id INT PRIMARY KEY, t CHAR(9) COLLATE utf8mb4_ja_0900_as_cs_ks, p POINT SRID 0)",
        f"CREATE TABLE {name}.embedded (id INT PRIMARY KEY, v VECTOR(3))",
        f"CREATE TABLE {name}.computed (id INT PRIMARY KEY, u CHAR(36) DEFAULT (BIN_TO_UUID(RANDOM_BYTES(16))))",
        f"CREATE TABLE {name}.sound (id INT PRIMARY KEY, t CHAR(9) CHARACTER SET latin1)",
    )
    migration = Migration(mysql, mariadb, name)
    missing, *refused = findings(migration)
    assert f"utf8mb4_ja_0900_as_cs of {name}.japanese; utf8mb4_ja_0900_as_cs_ks of {name}.places" in missing.message
    assert missing.instruction == (
        f"{ADD}collation-map: {{utf8mb4_ja_0900_as_cs: utf8mb4_uca1400_nopad_as_cs,"
        " utf8mb4_ja_0900_as_cs_ks: utf8mb4_uca1400_nopad_as_cs}"
    )
    told = "\n".join(result.message for result in refused)
    assert all(f"{name}.{table} as it is" in told for table in ("places", "embedded", "computed")), told
    assert "sound" not in told + missing.message
    assert "japanese" not in told, "but for its collation the target takes it"
    migration.task_lines = missing.instruction.removeprefix(ADD) + "\n"
    assert [result.message for result in findings(migration)] == [result.message for result in refused]
    assert scratches(mariadb) == []


def test_a_parent_may_have_any_name(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> None:
    """Also that of the place where tables are tried."""
    name = schema(upstream, target)
    for parent in ("t", "t_"):
        child = f"{name}.of_{parent}"
        upstream.execute(
            f"CREATE TABLE {name}.{parent} (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES {parent} (id))",
            f"CREATE TABLE {child} (n INT PRIMARY KEY, FOREIGN KEY (n) REFERENCES {parent} (id))",
        )
    assert findings(Migration(upstream, target, name)) == []


def test_types_of_mariadb(mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(mysql, mariadb)
    mariadb.execute(
        f"CREATE TABLE {name}.a (id UUID PRIMARY KEY)",
        f"CREATE TABLE {name}.b (id INT PRIMARY KEY, address INET6)",
        f"CREATE TABLE {name}.c (id CHAR(9) COLLATE utf8mb4_uca1400_as_cs PRIMARY KEY)",
        f"CREATE TABLE {name}.d (id CHAR(9) COLLATE utf8mb4_uca1400_swedish_ai_ci PRIMARY KEY)",
    )
    migration = Migration(mariadb, mysql, name)
    missing, *refused = findings(migration)
    assert missing.instruction == f"{ADD}collation-map: {{utf8mb4_uca1400_swedish_ai_ci: utf8mb4_0900_ai_ci}}"
    told = "\n".join(result.message for result in refused)
    assert f"{name}.a as it is" in told
    assert f"{name}.b as it is" in told
    (warning,) = findings(migration, "warning")
    assert f"utf8mb4_uca1400_as_cs becomes utf8mb4_0900_as_cs in {name}.c;" in warning.message


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("across", [False, True])
def test_engines_without_transactions(
    across: bool,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    mysql: ThrowawayServer,
    mariadb: ThrowawayServer,
    schema: SchemaFactory,
) -> None:
    if across:
        target = mariadb if upstream.flavor == "mysql" else mysql
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE {name}.a (id INT PRIMARY KEY, t CHAR(9)) ENGINE = MyISAM ROW_FORMAT = FIXED",
        f"CREATE TABLE {name}.b (id INT PRIMARY KEY) ENGINE = MEMORY",
        f"CREATE TABLE {name}.c (id INT PRIMARY KEY)",
        f"CREATE TABLE {name}.numbered (g INT, n INT AUTO_INCREMENT, PRIMARY KEY (g, n)) ENGINE = MyISAM",
    )
    engines = {"a": "MyISAM", "b": "MEMORY", "numbered": "MyISAM"}
    if upstream.flavor == "mariadb":
        options = "ENGINE = Aria TRANSACTIONAL = 1 ROW_FORMAT = PAGE"
        upstream.execute(f"CREATE TABLE {name}.aria (id INT PRIMARY KEY) {options}")
        engines = {"a": "MyISAM", "aria": "Aria", "b": "MEMORY", "numbered": "MyISAM"}
    listed = ": " + ", ".join(f"{name}.{table} ({engine})" for table, engine in engines.items())
    migration = Migration(upstream, target, name)
    (refused,) = findings(migration)
    (changed,) = (one for one in findings(migration, "warning") if "InnoDB" in one.message)
    assert f"{name}.numbered as it is: 1075 " in refused.message, "InnoDB counts otherwise"
    assert changed.message.endswith(f"and InnoDB at the target{listed}")
    _, _, pairs = changed.instruction.partition(ADD)
    migration.task_lines = pairs + "\n"
    assert findings(migration) == [refused]
    assert not [one for one in findings(migration, "warning") if "InnoDB" in one.message]
    migration.task_lines = "engine-map: {MyISAM: MyISAM, MEMORY: MEMORY, Aria: Aria}\n"
    kept, refused_still = findings(migration)
    assert (kept.message.endswith(listed), refused_still) == (True, refused)
    assert kept.instruction.startswith(f"{ADD}engine-map: {{")
    migration.task_lines = kept.instruction.removeprefix(ADD) + "\n"
    assert findings(migration) == [refused]
    upstream.execute(f"DROP TABLE {name}.numbered")
    assert findings(migration) == []


def test_what_a_killed_check_has_left_is_dropped(target: ThrowawayServer) -> None:
    with TargetConnection(endpoint_of(target)) as first, TargetConnection(endpoint_of(target)) as second:
        with scratch_schema(first, "dm_meta") as mine:
            target.execute("CREATE DATABASE dm_meta_check_4000000000", "CREATE DATABASE dm_meta_checked")
            with scratch_schema(second, "dm_meta") as other:
                assert {mine, other} <= set(scratches(target)), "both are in use"
                assert "dm_meta_check_4000000000" not in scratches(target), "its session is gone"
    assert scratches(target) == []
    assert target.query("SHOW DATABASES LIKE 'dm_meta_checked'") == (("dm_meta_checked",),)
    target.execute("DROP DATABASE dm_meta_checked")


def test_without_the_privilege_nothing_is_tried_and_that_is_said(
    target: ThrowawayServer, upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY)")
    migration = Migration(upstream, target, name)
    migration.target_user = migration.user(target, f"ALL ON `{name}`.*", "ALL ON dm_meta.*")
    (warning,) = findings(migration, "warning")
    assert "structures of 1 table were not tried" in warning.message
    put_right(target, warning.instruction)
    assert findings(migration, "warning") == []


def test_tables_that_differ_in_their_names_are_tried_once(
    target: ThrowawayServer, upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(*(f"CREATE TABLE {name}.t{number} (id INT AUTO_INCREMENT PRIMARY KEY)" for number in range(5)))
    upstream.execute(f"INSERT INTO {name}.t3 VALUES (), ()")
    counted = "SHOW GLOBAL STATUS LIKE 'Com_create_table'"
    before = int(target.query(counted)[0][1])
    assert findings(Migration(upstream, target, name)) == []
    assert int(target.query(counted)[0][1]) - before == 1
