"""What the structures of source and target tell beforehand, on real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import DumpPlan, save_plan
from dm.dumpfiles.storage import LocalStorage
from dm.gtid import GtidSet
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, write_new
from dm.progress.load_parts import begin_run
from dm.progress.tables import SubtaskKey, create_tables
from dm.task.payload import dump_directory
from dm.task.precheck.context import CheckResult
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.migration import Migration, put_right
from tests.testbed.sync import endpoint_of
from tests.testbed.zones import globally, know_summer

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


@pytest.fixture
def migration(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Migration:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT)")
    return Migration(upstream, target, name)


def test_a_table_without_a_key_is_a_warning(migration: Migration) -> None:
    migration.upstream.execute(
        f"CREATE TABLE {migration.schema}.keyless (v INT)",
        f"CREATE TABLE {migration.schema}.nullable (v INT, UNIQUE KEY (v))",
        f"CREATE TABLE {migration.schema}.sound (v INT NOT NULL, UNIQUE KEY (v))",
    )
    finding = migration.only("table_schema")
    assert finding.state == "warning"
    assert f"{migration.schema}.keyless, {migration.schema}.nullable;" in finding.message
    scans = migration.target.flavor != "mysql"
    assert ("scans such a table for each row" in finding.message) is scans
    assert ("ADD KEY (..)" in finding.instruction) is scans


def test_foreign_keys_that_act_on_their_own(migration: Migration) -> None:
    name = migration.schema
    parent, child = f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT)", f"CREATE TABLE {name}.child"
    columns = f"(id INT PRIMARY KEY, p INT, CONSTRAINT f FOREIGN KEY (p) REFERENCES {name}.a (id) ON DELETE CASCADE)"
    migration.upstream.execute(f"{child} {columns}")

    def failures() -> list[str]:
        results = migration.check()["table_schema"]
        return [result.message for result in results if result.state == "failure"]

    if migration.upstream.flavor == "mysql":  # 9.6 and later write what cascades do to the binlog
        assert failures() == []
        return
    unlogged, moments = failures()
    assert f"{name}.child (f)" in unlogged
    assert "several moments" in moments, "what the way out of the first asks for is told with it"
    migration.target_session = "{foreign_key_checks: 1}"
    assert failures() == [moments]
    migration.mode = "incremental"
    migration.target.execute(parent, f"{child} (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {name}.a (id))")
    (lacking,) = (result for result in migration.check()["table_schema"] if result.state == "failure")
    assert "lack foreign keys" in lacking.message
    migration.target.execute(f"ALTER TABLE {name}.child DROP FOREIGN KEY child_ibfk_1")
    put_right(migration.target, lacking.instruction)
    assert failures() == []
    migration.target.execute(
        f"CREATE TABLE {name}.more (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {name}.a (id) ON DELETE CASCADE)"
    )
    migration.upstream.execute(f"CREATE TABLE {name}.more (id INT PRIMARY KEY)")
    (extra,) = failures()
    assert "that the source's do not" in extra
    migration.target.execute(f"DROP TABLE {name}.more")
    migration.upstream.execute(
        f"CREATE DATABASE {name}_2",
        f"CREATE TABLE {name}_2.far (id INT PRIMARY KEY)",
        f"ALTER TABLE {name}.child ADD FOREIGN KEY (id) REFERENCES {name}_2.far (id) ON DELETE CASCADE",
    )
    try:
        assert any(f"add {name}_2.far" in result.instruction for result in migration.check()["table_schema"])
    finally:
        migration.upstream.execute(f"DROP TABLE {name}.child", f"DROP DATABASE {name}_2")


def test_a_target_table_that_cannot_roll_back(migration: Migration) -> None:
    migration.target.execute(f"CREATE TABLE {migration.schema}.a (id INT PRIMARY KEY, v INT) ENGINE = MyISAM")
    finding = migration.only("table_schema")
    assert finding.state == "failure"
    assert f"{migration.schema}.a (myisam)" in finding.message


def test_a_target_table_that_lacks_a_column(migration: Migration) -> None:
    migration.target.execute(f"CREATE TABLE {migration.schema}.a (id INT PRIMARY KEY)")
    finding = migration.only("table_schema")
    assert finding.state == "failure"
    assert "lacks columns of" in finding.message


def test_unique_keys_that_the_target_alone_has(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(
        f"CREATE TABLE {name}.keyless (v INT NOT NULL)",
        f"CREATE TABLE {name}.same (id INT PRIMARY KEY, v INT, t TEXT, UNIQUE KEY v (v), UNIQUE KEY t (t(9)))",
    )
    same = "UNIQUE KEY v (v), UNIQUE KEY t (t(9)), UNIQUE KEY more (v, id)"
    migration.target.execute(
        f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT, UNIQUE KEY by_v (v))",
        f"CREATE TABLE {name}.same (id INT PRIMARY KEY, v INT, t TEXT, {same})",
    )
    other = "unique keys that the target has"
    (finding,) = (each for each in migration.check()["table_schema"] if other in each.message)
    assert finding.state == "warning"
    assert f"{other} and the source lacks: by_v of {name}.a. Two rows" in finding.message
    assert "alone" not in finding.message
    migration.target.execute(f"CREATE TABLE {name}.keyless (v INT NOT NULL PRIMARY KEY)")
    (finding,) = (each for each in migration.check()["table_schema"] if other in each.message)
    assert f"by_v of {name}.a, PRIMARY of {name}.keyless" in finding.message
    assert f"rows of {name}.keyless are found by such a key alone, and in safe mode" in finding.message


def test_columns_that_an_alter_after_the_checkpoint_may_bring(migration: Migration) -> None:
    migration.target.execute(f"CREATE TABLE {migration.schema}.a (id INT PRIMARY KEY)")
    migration.task_lines = f"meta-schema: {migration.schema}\n"
    with TargetConnection(endpoint_of(migration.target)) as connection:
        key = SubtaskKey(migration.schema, "t", "one")
        create_tables(connection, key)
        assert migration.only("table_schema").state == "failure", "tables of progress, but no progress in them"
        write_new(connection, key, Checkpoint(Position("u", "mysql-bin.000001", 4, GtidSet.empty("mysql"))))
    finding = migration.only("table_schema")
    assert finding.state == "warning"
    assert "lacks columns of" in finding.message
    (anew,) = migration.check(anew=True)["table_schema"]
    assert anew.state == "failure", "with --remove-meta that ALTER is after the start"
    migration.mode = "full"
    assert migration.only("table_schema").state == "failure", "no ALTER is replicated"


def test_columns_that_an_alter_after_the_start_may_bring(migration: Migration) -> None:
    """Each start that lies before what the source is now, and each that does not."""
    name = migration.schema
    migration.target.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY)")
    migration.task_lines = f"meta-schema: {name}\n"

    def state(*, anew: bool = False, at_time: bool = False) -> str:
        (finding,) = migration.check(anew=anew, at_time=at_time)["table_schema"]
        return finding.state

    migration.mode = "incremental"
    assert state() == "failure", "it begins at the source's end"
    assert state(at_time=True) == "warning"
    assert state(at_time=True, anew=True) == "warning", "the time says where, whatever is forgotten"
    migration.meta = "    meta: {binlog-name: mysql-bin.000001, binlog-pos: 4}\n"
    assert state() == "warning"
    migration.meta, migration.mode = "", "all"
    assert state() == "failure", "a copy that has not begun"
    with TargetConnection(endpoint_of(migration.target)) as connection:
        begin_run(connection, SubtaskKey(name, "t", "one"), "dump", migration.stop)
    assert state() == "warning"
    assert state(anew=True) == "failure", "the copy begins again"
    migration.mode = "full"
    assert state() == "failure", "no ALTER is replicated"


def test_a_dump_that_has_begun_is_behind_what_the_source_is_now(migration: Migration, tmp_path: Path) -> None:
    migration.target.execute(f"CREATE TABLE {migration.schema}.a (id INT PRIMARY KEY)")
    work, place = tmp_path / "work" / "t", Position("u", "mysql-bin.000001", 4)
    plan = DumpPlan("dump", "t", "one", migration.upstream.flavor, 80400, "u", place)

    def lacking() -> str:
        findings = migration.check(work=work)["table_schema"]
        return next(finding.state for finding in findings if "lacks columns of" in finding.message)

    assert lacking() == "failure"
    storage = LocalStorage(dump_directory(migration.subtask(), work))
    storage.prepare()
    save_plan(storage, plan)
    assert lacking() == "warning"


def test_a_target_column_that_may_change_values(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(f"ALTER TABLE {name}.a ADD COLUMN price DECIMAL(10,4), ADD COLUMN n INT")
    migration.target.execute(f"CREATE TABLE {name}.a (id BIGINT PRIMARY KEY, v INT, price DECIMAL(10,2), n TINYINT)")
    migration.mode = "incremental"
    finding = migration.only("table_schema")
    assert finding.state == "failure"
    assert finding.message.endswith("has: price (decimal(10,4) into decimal(10,2))")
    migration.task_lines = "syncers: {global: {narrower-columns: accept}}\n"
    migration.meta = "    syncer-config-name: global\n"
    assert migration.only("table_schema").state == "success"
    migration.task_lines = migration.meta = ""
    migration.target.execute(f"ALTER TABLE {name}.a MODIFY price DECIMAL(12,4)")
    assert migration.only("table_schema").state == "success"


def test_a_target_column_that_takes_null_for_the_present_moment(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(f"ALTER TABLE {name}.a ADD COLUMN ts TIMESTAMP NULL")
    migration.target.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT, ts TIMESTAMP NOT NULL)")
    migration.mode = "incremental"
    if migration.target.flavor == "mysql":  # MariaDB does so under either setting
        assert migration.only("table_schema").state == "success"
        migration.target_session = "{explicit_defaults_for_timestamp: '0'}"
    finding = migration.only("table_schema")
    assert finding.state == "failure"
    assert finding.message.endswith("ts (timestamp into timestamp NOT NULL: NULL becomes the present moment)")
    migration.target.execute(f"ALTER TABLE {name}.a MODIFY ts TIMESTAMP NULL")
    assert migration.only("table_schema").state == "success"


def test_triggers_of_the_target(migration: Migration) -> None:
    name = migration.schema
    migration.target.execute(
        f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT)",
        f"CREATE TABLE {name}.b (id INT PRIMARY KEY, v INT)",
        f"CREATE TRIGGER {name}.more BEFORE INSERT ON {name}.a FOR EACH ROW SET NEW.v = NEW.v + 1000",
        f"CREATE TRIGGER {name}.of_a_stranger BEFORE INSERT ON {name}.b FOR EACH ROW SET NEW.v = NEW.v + 1000",
    )
    finding = migration.only("table_schema")
    assert finding.state == "warning"
    assert finding.message.endswith(f": `{name}`.`more` (BEFORE INSERT ON {name}.a)")
    migration.mode = "dump"
    assert migration.only("table_schema").state == "success"
    migration.mode = "incremental"
    assert migration.only("table_schema").state == "warning"
    put_right(migration.target, finding.instruction)
    assert migration.only("table_schema").state == "success"


def test_columns_that_the_target_computes_otherwise(migration: Migration) -> None:
    name = migration.schema
    migration.mode = "incremental"  # a load would refuse the column that is computed there only
    migration.upstream.execute(f"ALTER TABLE {name}.a ADD G INT AS (v * 2) STORED, ADD h INT AS (v * 4), ADD p INT")
    migration.target.execute(
        f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT, g INT AS (v * 3) STORED, h INT AS (v * 4) STORED,"
        " p INT AS (v * 5))"
    )
    finding = migration.only("table_schema")
    assert finding.state == "warning"
    told = finding.message.partition(": ")[2].replace("(", "").replace(")", "").replace("`", "")
    assert f"{name}.a.p is v * 5, and stored at the source" in told
    assert f"{name}.a.g is v * 3, and v * 2 at the source" in told
    assert f"{name}.a.h" not in told
    migration.target.execute(
        f"ALTER TABLE {name}.a DROP g, DROP p", f"ALTER TABLE {name}.a ADD g INT AS (v * 2) STORED, ADD p INT"
    )
    assert migration.only("table_schema").state == "success"


def test_tables_that_a_load_would_refuse(migration: Migration) -> None:
    name = migration.schema
    there = {
        "computed_here": ("v INT AS (id + 1) STORED", "v INT"),
        "computed_there": ("v INT", "v INT AS (id + 1) STORED"),
        "wider_there": ("v INT", "v BIGINT"),
        "not_null_there": ("v INT", "v INT NOT NULL"),
        "demanding": ("v INT", "v INT, own INT NOT NULL"),
        "fitting": ("v INT", "own INT, v INT"),
    }
    for table, (here, columns) in there.items():
        migration.upstream.execute(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, {here})")
        migration.target.execute(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, {columns})")
    migration.upstream.execute(f"CREATE TABLE {name}.shown (id INT PRIMARY KEY)")
    migration.target.execute(f"CREATE VIEW {name}.shown AS SELECT 1 AS id")

    def refused(state: str) -> set[str]:
        found = [each for each in migration.check().get("table_schema", []) if "the load would refuse" in each.message]
        assert {each.state for each in found} <= {state}
        return {each.message.partition(f"table {name}.")[2].partition(" ")[0] for each in found}

    assert refused("failure") == {*there, "shown"} - {"fitting"}
    migration.mode = "incremental"
    assert refused("failure") == set()


def test_expressions_of_servers_that_print_them_otherwise_are_not_compared(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(mysql, mariadb)
    for server in (mysql, mariadb):
        server.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT AS (id * 2) STORED)")
    assert Migration(mysql, mariadb, name).only("table_schema").state == "success"


def test_an_incremental_task_whose_target_has_no_table(migration: Migration) -> None:
    migration.mode = "incremental"
    finding = migration.only("table_schema")
    assert finding.state == "warning"
    assert f"the target does not have {migration.schema}.a" in finding.message


def test_shards_that_differ_or_count_their_keys(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(
        f"CREATE TABLE {name}.s1 (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        f"CREATE TABLE {name}.s2 (id INT AUTO_INCREMENT PRIMARY KEY, v BIGINT)",
    )
    migration.meta = "    route-rules: [r]\n"
    routes = f"routes: {{r: {{schema-pattern: {name}, table-pattern: 's*', target-schema: {name}, target-table: t}}}}\n"
    migration.task_lines = routes
    assert not {"schema_of_shard_tables", "auto_increment_ID"} & set(migration.check())
    migration.task_lines = f"{routes}shard-mode: pessimistic\n"
    found = migration.check()
    (unlike,), (counted,) = found["schema_of_shard_tables"], found["auto_increment_ID"]
    assert unlike.state == "failure"
    assert f"{name}.s2 of one is not like {name}.s1 of one: column v is bigint" in unlike.message
    assert counted.state == "warning"
    migration.task_lines += "ignore-checking-items: [schema_of_shard_tables, auto_increment_ID]\n"
    assert not {"schema_of_shard_tables", "auto_increment_ID"} & set(migration.check())


def test_shards_whose_rows_no_table_takes_as_it_is(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(
        f"CREATE TABLE {name}.s1 (id INT PRIMARY KEY, v INT, w INT NOT NULL)",
        f"CREATE TABLE {name}.s2 (id INT PRIMARY KEY, v BIGINT)",
    )
    migration.meta = "    route-rules: [r]\n"
    migration.task_lines = (
        f"routes: {{r: {{schema-pattern: {name}, table-pattern: 's*', target-schema: {name}, target-table: t}}}}\n"
        "shard-mode: optimistic\n"
    )
    finding = migration.only("schema_of_shard_tables")
    assert finding.state == "failure"
    assert f"a load creates the table like the shard that comes first, and shards differ: {name}.s1" in finding.message
    assert not any(result.state == "failure" for result in migration.check()["table_schema"])
    put_right(migration.target, finding.instruction.removesuffix(" (at the target, before)"))
    assert migration.only("schema_of_shard_tables").state == "success"
    migration.target.execute(
        f"ALTER TABLE {name}.t ALTER COLUMN w DROP DEFAULT, MODIFY v INT, ADD COLUMN more INT NOT NULL"
    )
    for mode in ("all", "incremental"):
        migration.mode = mode
        found = migration.check()["schema_of_shard_tables"]
        assert [result.state for result in found] == ["failure", "failure"], mode
    migration.task_lines += "ignore-checking-items: [schema_of_shard_tables]\n"
    assert "schema_of_shard_tables" not in migration.check()
    migration.task_lines = migration.task_lines.partition("ignore-checking-items")[0]
    for _ in range(2):  # what one statement mends, the other shard's finding may name as well
        for result in migration.check()["schema_of_shard_tables"]:
            if result.state == "failure":
                put_right(migration.target, result.instruction)
    assert [result.state for result in migration.check()["schema_of_shard_tables"]] == ["success"]


def test_bigger_keys_in_ranges_do_not_meet(migration: Migration) -> None:
    name, source = migration.schema, migration.upstream
    for shard in ("s1", "s2"):
        source.execute(
            f"CREATE TABLE {name}.{shard} (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
            f"INSERT INTO {name}.{shard} (v) VALUES (1), (2)",
        )
    migration.meta = "    route-rules: [r]\n"
    migration.task_lines = (
        f"routes: {{r: {{schema-pattern: {name}, table-pattern: 's*', target-schema: {name}, target-table: t}}}}\n"
        "shard-mode: pessimistic\n"
    )
    for number, shard in enumerate(("s1", "s2"), 1):  # as the warning says
        first = number * 1_000_000_000_000
        widen, move = "ALTER TABLE .. MODIFY id BIGINT AUTO_INCREMENT", f"UPDATE .. SET id = id + {first}"
        (counted,) = migration.check()["auto_increment_ID"]
        assert f"`{widen}`" in counted.instruction
        assert str(first) in counted.instruction
        table = f"{name}.{shard}"
        source.execute(
            widen.replace("..", table),
            move.replace("..", table),
            f"ALTER TABLE {table} AUTO_INCREMENT = {first + 3}",
            f"INSERT INTO {table} (v) VALUES (3)",
        )
    keys = [row[0] for shard in ("s1", "s2") for row in source.query(f"SELECT id FROM {name}.{shard} ORDER BY id")]
    assert keys == [number * 1_000_000_000_000 + row for number in (1, 2) for row in (1, 2, 3)]


def test_a_target_table_of_shards_that_cannot_be_read(migration: Migration) -> None:
    """The other table's shards are judged all the same, and an item that is ignored reads nothing."""
    name = migration.schema
    for table in ("s1", "s2", "u1", "u2"):
        migration.upstream.execute(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT)")
    migration.target.execute(
        f"CREATE TABLE {name}.base (id INT PRIMARY KEY, v INT)",
        f"CREATE VIEW {name}.s AS SELECT * FROM {name}.base",
        f"CREATE TABLE {name}.u (id INT PRIMARY KEY)",
    )
    migration.meta = "    route-rules: [s, u]\n"
    rule = "{0}: {{schema-pattern: {1}, table-pattern: '{0}?', target-schema: {1}, target-table: {0}}}"
    routes = f"routes: {{{rule.format('s', name)}, {rule.format('u', name)}}}\nshard-mode: optimistic\n"
    migration.task_lines, migration.mode = routes, "incremental"
    found = migration.check()
    states = {result.subject: result.state for result in found["schema_of_shard_tables"]}
    assert states == {f"target table {name}.s": "warning", f"target table {name}.u": "failure"}
    assert not any(result.state == "failure" for result in found.get("block_allow_list", ()))
    migration.task_lines = f"{routes}ignore-checking-items: [schema_of_shard_tables]\n"
    assert "schema_of_shard_tables" not in migration.check()


def test_what_expressions_depend_on_is_compared_between_the_servers(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(
        f"CREATE TABLE {name}.zoned (id INT PRIMARY KEY, ts TIMESTAMP NULL, h INT AS (HOUR(ts)) STORED)",
        f"CREATE TABLE {name}.quotient (id INT PRIMARY KEY, q VARCHAR(40) AS (id / 3) STORED)",
        f"CREATE TABLE {name}.plain (id INT PRIMARY KEY, ts TIMESTAMP NULL, s INT AS (id + 1) STORED)",
    )

    def findings(state: str) -> list[CheckResult]:
        return [result for result in migration.check()["table_schema"] if result.state == state]

    (stored,) = findings("warning")
    assert f"{name}.zoned" in stored.message
    assert "36993" in stored.message
    assert not any(f"{name}.{other}" in stored.message for other in ("quotient", "plain"))
    zone = f"dm/{name}"
    know_summer(migration.upstream, zone)
    with globally(migration.upstream, time_zone=f"'{zone}'"), globally(migration.target, div_precision_increment="9"):
        (failure,) = findings("failure")
        assert f"{name}.zoned" in failure.message
        assert zone in failure.message
        know_summer(migration.target, zone)
        assert findings("failure") == []
        (digits,) = (each for each in findings("warning") if f"{name}.quotient" in each.message)
        assert "SET GLOBAL div_precision_increment = 4" in digits.instruction
        put_right(migration.target, digits.instruction.removesuffix(" (at the target)"))
        assert [each for each in findings("warning") if f"{name}.quotient" in each.message] == []


def test_weeks_without_a_mode_are_told_where_each_reader_computes_them(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(
        f"CREATE TABLE {name}.weeks (id INT PRIMARY KEY, d DATE, w INT AS (WEEK(d)) VIRTUAL)",
        f"CREATE TABLE {name}.given (id INT PRIMARY KEY, d DATE, w INT AS (WEEK(d, 3)) STORED)",
    )

    def findings() -> list[CheckResult]:
        return [found for found in migration.check()["table_schema"] if "default_week_format" in found.message]

    with globally(migration.upstream, default_week_format="3"), globally(migration.target, default_week_format="6"):
        if migration.upstream.flavor == "mysql":
            assert findings() == []  # the structure says which weeks
            return
        (found,) = findings()
        assert found.state == "warning"
        assert f"{name}.weeks" in found.message
        assert f"{name}.given" not in found.message
        put_right(migration.target, found.instruction.removesuffix(" (at the target)"))
        assert findings() == []


def test_expressions_that_backslashes_change_are_told(migration: Migration) -> None:
    name = migration.schema
    with globally(migration.upstream, sql_mode="'STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES'"):
        migration.upstream.execute(
            f"CREATE TABLE {name}.likes (id INT PRIMARY KEY, c VARCHAR(9), g INT AS (c LIKE 'a\\_b') STORED)",
            f"CREATE TABLE {name}.texts (id INT PRIMARY KEY, c VARCHAR(9), g VARCHAR(20) AS (CONCAT(c, '\\')) VIRTUAL)",
            f"CREATE TABLE {name}.checks (id INT PRIMARY KEY, c VARCHAR(9), CONSTRAINT {name} CHECK (c <> '\\'))",
            f"CREATE TABLE {name}.named (id INT PRIMARY KEY, c VARCHAR(9) DEFAULT '\\',"
            " g INT AS (c LIKE 'a|_b' ESCAPE '|'))",
        )
        found = [each for each in migration.check()["table_schema"] if "NO_BACKSLASH_ESCAPES" in each.message]
    if migration.upstream.flavor != "mysql":
        assert found == []  # it reads the expressions without the mode
        return
    (told,) = found
    assert told.state == "warning"
    assert "ESCAPE '|'" in told.instruction  # which the table has that is not named
    assert all(f"{name}.{table}" in told.message for table in ("likes", "texts", "checks"))
    assert f"{name}.named" not in told.message


def test_a_filter_without_a_zone_is_evaluated_in_the_targets(migration: Migration) -> None:
    name = migration.schema
    migration.upstream.execute(f"CREATE TABLE {name}.f (id INT PRIMARY KEY, ts TIMESTAMP NULL)")
    migration.task_lines = (
        f"expression-filter:\n  old: {{schema: {name}, table: f, insert-value-expr: \"ts < '2020-01-01 00:00:00'\"}}\n"
        f'  hour: {{schema: {name}, table: f, insert-value-expr: "HOUR(ts) = 3 AND ts < NOW()"}}\n'
    )
    migration.meta = "    expression-filters: [old, hour]\n"

    def told() -> list[CheckResult]:
        results = migration.check()["table_schema"]
        assert [result for result in results if result.state == "failure"] == []
        return [result for result in results if "global time zone" in result.message]

    with globally(migration.target, time_zone="'+02:00'"):
        found = told()
        assert [result.state for result in found] == ["warning", "warning"]
        assert all("+02:00" in result.message for result in found)
        with globally(migration.upstream, time_zone="'+02:00'"):
            assert [result.state for result in told()] == ["success", "success"]
