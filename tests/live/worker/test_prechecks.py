"""Every finding is found on real servers, and the statement it names puts it right."""

from __future__ import annotations

import secrets
from contextlib import closing
from itertools import combinations, permutations

import pytest
from pydantic import SecretStr

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, TablePoint, write_new
from dm.progress.tables import SubtaskKey, create_tables
from dm.sourcelog.upstream.connection import Connection, connect, fetch
from dm.sourcelog.upstream.facts import read_facts
from dm.sourcelog.upstream.privilege import read_grants
from dm.task.precheck.context import CheckResult
from dm.task.precheck.not_migrated import ITEM as LISTS
from dm.task.precheck.run import ITEMS
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.migration import Migration, put_right
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


@pytest.fixture
def migration(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> Migration:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.a (id INT PRIMARY KEY, v INT)")
    return Migration(upstream, target, name)


def may_run(connection: Connection, statement: str) -> bool:
    """Whether the account may; other refusals are the test's fault."""
    try:
        fetch(connection, statement)
    except DMError as error:
        if error.name != "privilege-missing":
            raise
        return False
    return True


def test_a_sound_set_up_passes(migration: Migration) -> None:
    found = migration.check()
    without = {"validators", "target_session"}  # the file asks for nothing that they are about
    assert set(found) == {item.name for item in ITEMS} - without | {LISTS}
    bad = [result for results in found.values() for result in results if result.state == "failure"]
    assert bad == []


def test_missing_replication_privileges(migration: Migration) -> None:
    migration.source_user = migration.user(migration.upstream, "SELECT ON *.*")
    finding = migration.only("replication_privilege")
    assert finding.state == "failure"
    assert "REPLICATION SLAVE, REPLICATION CLIENT" in finding.message
    put_right(migration.upstream, finding.instruction)
    assert migration.only("replication_privilege").state == "success"


def test_an_online_ddl_that_is_under_way(migration: Migration) -> None:
    name, upstream = migration.schema, migration.upstream
    upstream.execute(f"CREATE TABLE {name}._a_gho LIKE {name}.a", f"CREATE TABLE {name}._a_ghc (id INT PRIMARY KEY)")
    found = migration.check()
    (finding,) = found["online_ddl"]
    assert (finding.state, f"{name}._a_gho" in finding.message, "_ghc" in finding.message) == ("failure", True, False)
    assert all("_a_" not in result.message for item in ("table_schema", "dump_privilege") for result in found[item])
    migration.mode = "incremental"
    assert migration.only("online_ddl").state == "warning"
    migration.task_lines = "online-ddl: false\n"
    assert migration.only("online_ddl").state == "success"


def test_missing_privileges_to_dump(migration: Migration) -> None:
    migration.source_user = migration.user(
        migration.upstream, "REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"INSERT ON `{migration.schema}`.*"
    )
    finding = migration.only("dump_privilege")
    assert finding.state == "failure"
    assert f"SELECT on {migration.schema}.a" in finding.message
    put_right(migration.upstream, finding.instruction)
    assert migration.only("dump_privilege").state == "success"


def test_a_table_without_a_key_needs_its_lock(migration: Migration) -> None:
    more = ", XA_RECOVER_ADMIN" if migration.upstream.flavor == "mysql" else ""
    privileges = f"SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT{more} ON *.*"
    migration.source_user = migration.user(migration.upstream, privileges)
    assert migration.only("dump_privilege").state == "warning", "a table without a key may come"
    migration.upstream.execute(f"CREATE TABLE {migration.schema}.keyless (v INT)")
    finding = migration.only("dump_privilege")
    assert (finding.state, f"{migration.schema}.keyless" in finding.message) == ("failure", True)
    put_right(migration.upstream, finding.instruction)
    assert migration.only("dump_privilege").state == "success"


def test_a_dump_of_one_moment_needs_the_lock_of_the_whole_server(migration: Migration) -> None:
    lock = f"SELECT, LOCK TABLES ON `{migration.schema}`.*"
    xa = ["XA_RECOVER_ADMIN ON *.*"] if migration.upstream.flavor == "mysql" else []
    follows = "REPLICATION SLAVE, REPLICATION CLIENT ON *.*"
    migration.source_user = migration.user(migration.upstream, lock, *xa, follows)
    assert migration.only("dump_privilege").state == "success", "the lock-free dump"
    migration.loader = "{on-duplicate-logical: error}"
    assert "RELOAD" in migration.only("dump_privilege").message
    migration.loader = "{}"

    migration.mode = "full"
    migration.source_user = migration.user(migration.upstream, lock, *xa)
    finding = migration.only("dump_privilege")
    assert finding.state == "failure"
    assert "RELOAD (for FLUSH TABLES WITH READ LOCK: all rows are read as of one moment;" in finding.message
    assert "REPLICATION CLIENT" in finding.message
    migration.source_user = migration.user(migration.upstream, lock, *xa, "REPLICATION CLIENT ON *.*")
    finding = migration.only("dump_privilege")
    assert (finding.state, "without it the tables are locked" in finding.message) == ("warning", True)
    put_right(migration.upstream, finding.instruction)
    assert migration.only("dump_privilege").state == "success"


def test_without_gtids_the_dump_begins_under_a_lock(server: ServerFactory, migration: Migration) -> None:
    if migration.upstream.flavor == "mariadb":
        return  # has GTIDs always
    migration.upstream = server("mysql", gtid=False)
    migration.upstream.execute(f"CREATE DATABASE {migration.schema}")
    migration.source_user = migration.user(
        migration.upstream, "SELECT, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.*"
    )
    finding = migration.only("dump_privilege")
    assert (finding.state, finding.instruction.partition(" ON ")[0]) == ("failure", "GRANT RELOAD")
    put_right(migration.upstream, finding.instruction)
    assert migration.only("dump_privilege").state == "success"


def test_missing_privileges_at_the_target(migration: Migration) -> None:
    migration.target_user = migration.user(migration.target, f"SELECT ON `{migration.schema}`.*")
    finding = migration.only("target_privilege")
    assert finding.state == "failure"
    put_right(migration.target, finding.instruction)
    assert migration.only("target_privilege").state == "success"


def with_two_tables(migration: Migration, *grants: str) -> None:
    """A second table, and an account that has these privileges beside those of the server."""
    upstream, schema = migration.upstream, migration.schema
    upstream.execute(f"CREATE TABLE {schema}.b (id INT PRIMARY KEY)")
    rest = ["RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.*"]
    rest += ["XA_RECOVER_ADMIN ON *.*"] if upstream.flavor == "mysql" else []
    migration.source_user = migration.user(upstream, *rest, *(grant.format(schema) for grant in grants))


@pytest.mark.parametrize("grants", [(), ("SELECT ON {0}.a",)])
@pytest.mark.parametrize("lists", ["", "{{do-tables: [{{db-name: {0}, tbl-name: '*'}}]}}"])
def test_tables_that_the_source_hides_from_the_account(
    migration: Migration, lists: str, grants: tuple[str, ...]
) -> None:
    with_two_tables(migration, *grants)
    migration.lists = lists.format(migration.schema)
    finding = migration.only("dump_privilege")
    assert (finding.state, f"tables of {migration.schema} that" in finding.message) == ("failure", True)
    put_right(migration.upstream, finding.instruction)
    assert migration.only("dump_privilege").state == "success"
    assert migration.check()["table_schema"][0].state == "success"


@pytest.mark.parametrize(
    ("lists", "grants", "told"),
    [
        ("{{do-tables: [{{db-name: {0}, tbl-name: a}}]}}", ("SELECT ON {0}.a",), ""),
        ("{{do-dbs: [{0}], do-tables: [{{db-name: '*', tbl-name: a}}]}}", ("SELECT ON {0}.a",), ""),
        ("{{do-tables: [{{db-name: {0}, tbl-name: b}}]}}", ("SELECT ON {0}.a",), "SELECT ON `{0}`.`b`"),
        ("{{do-dbs: ['{0}*']}}", ("SELECT ON {0}.*",), "SHOW DATABASES ON *.*"),
        ("{{do-dbs: ['{0}*']}}", ("SELECT ON `{0}%`.*",), ""),
        ("{{do-dbs: ['~^{0}$']}}", ("SELECT ON `{0}%`.*",), "SHOW DATABASES ON *.*"),
        ("{{do-dbs: ['~^{0}$']}}", ("SELECT ON {0}.*", "SHOW DATABASES ON *.*"), ""),
        ("{{ignore-dbs: ['~^[^t]']}}", ("SELECT ON *.*",), ""),
        ("{{do-dbs: [absent, {0}]}}", ("SELECT ON {0}.*", "SELECT ON absent.*"), ""),
        ("{{do-dbs: [absent, {0}]}}", ("SELECT ON {0}.*",), "SELECT ON `absent`.*"),
    ],
)
def test_what_the_lists_want_whole_is_to_be_seen_whole(
    migration: Migration, lists: str, grants: tuple[str, ...], told: str
) -> None:
    with_two_tables(migration, *grants)
    migration.lists = lists.format(migration.schema)
    finding = migration.only("dump_privilege")
    account = f"'{migration.source_user}'@'%'"
    expected = f"GRANT {told.format(migration.schema)} TO {account}" if told else ""
    assert (finding.state, finding.instruction) == ("failure" if told else "success", expected), finding.message


def test_a_schema_that_a_partial_revoke_hides(server: ServerFactory, migration: Migration) -> None:
    if migration.upstream.flavor == "mariadb":
        return  # has no partial revokes
    migration.upstream = server("mysql", partial_revokes="ON")
    migration.upstream.execute(
        "CREATE DATABASE open", "CREATE DATABASE shut", "CREATE TABLE open.a (id INT PRIMARY KEY)"
    )
    migration.source_user = migration.user(migration.upstream, "ALL ON *.*")
    migration.upstream.execute(f"REVOKE SELECT ON shut.* FROM {migration.source_user}")
    migration.lists = "{do-dbs: [open]}"
    assert migration.only("dump_privilege").state == "success"
    migration.lists = "{ignore-dbs: [other]}"
    finding = migration.only("dump_privilege")
    assert (finding.state, "tables of shut" in finding.message) == ("failure", True)
    put_right(migration.upstream, finding.instruction)
    assert migration.only("dump_privilege").state == "success"


def test_lists_that_lead_to_no_table(migration: Migration) -> None:
    migration.lists = "{do-dbs: [absent]}"
    assert migration.only("table_schema").state == "warning", "one may come"
    migration.mode = "full"
    finding = migration.only("table_schema")
    assert (finding.state, "no table that the lists want" in finding.message) == ("failure", True)


def test_a_dump_is_told_to_have_other_tables_than_are_followed(migration: Migration) -> None:
    schema = migration.schema
    migration.upstream.execute(f"CREATE TABLE {schema}.log_1 (id INT PRIMARY KEY)")
    migration.meta = f"    mydumper: {{extra-args: '-f {schema}.* -f !{schema}./^log_[0-9]$/'}}\n"
    finding = migration.only("dump_selection")
    assert (finding.state, f"{schema}.log_1" in finding.message) == ("failure", True)
    migration.lists = f"{{do-dbs: [{schema}], ignore-tables: [{{db-name: {schema}, tbl-name: log_*}}]}}"
    assert migration.only("dump_selection").state == "success"
    migration.meta = f"    mydumper: {{extra-args: '-B {schema}'}}\n"
    assert migration.only("dump_selection").state == "success", "the lists still take out of it"
    migration.meta = f"    mydumper: {{extra-args: '-f {schema}.*'}}\n"
    finding = migration.only("dump_selection")
    assert (finding.state, "1 table that the lists leave out" in finding.message) == ("warning", True)


@pytest.mark.parametrize("pattern", [r"{}\_x", "{}%", "{}__"])
def test_what_a_finding_grants_takes_nothing_away(migration: Migration, pattern: str) -> None:
    target, schema = migration.target, f"{migration.schema}_x"
    migration.upstream.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.a (id INT PRIMARY KEY)")
    target.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.a (id INT PRIMARY KEY)")
    named = pattern.format(migration.schema)
    migration.schema = schema
    migration.target_user = migration.user(target, f"SELECT, INSERT, CREATE ON `{named}`.*", "ALL ON dm_meta.*")
    finding = migration.only("target_privilege")
    assert (finding.state, f"`{named}`" in finding.instruction) == ("failure", True)
    put_right(target, finding.instruction)
    assert migration.only("target_privilege").state == "success"
    login = {"user": migration.target_user, "password": migration.passwords[migration.target_user]}
    with closing(target.connect(**login)) as ours:
        assert all(may_run(ours, statement.format(schema)) for statement in STATEMENTS.values())
    for server in {migration.upstream, target}:
        server.execute(f"DROP DATABASE {schema}")


PATTERNS = (r"{escaped}\_x", "{name}_x", "{escaped}%", "%", "_%", "%x")
STATEMENTS = {
    "SELECT": "SELECT id FROM {}.a",
    "INSERT": "INSERT IGNORE INTO {}.a VALUES (1)",
    "UPDATE": "UPDATE {}.a SET id = 1",
}


@pytest.mark.parametrize("privileges", list(permutations(("SELECT", "INSERT", "UPDATE"))))
def test_the_pattern_that_decides_is_the_servers(migration: Migration, privileges: tuple[str, ...]) -> None:
    """What an account with several patterns holds is what it may do."""
    server, schema = migration.upstream, f"{migration.schema}_x"
    server.execute(f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.a (id INT PRIMARY KEY)")
    escaped = migration.schema.replace("_", r"\_")
    for patterns in combinations(PATTERNS, 3):
        named = [pattern.format(name=migration.schema, escaped=escaped) for pattern in patterns]
        user = migration.user(server, *(f"{name} ON `{on}`.*" for name, on in zip(privileges, named, strict=True)))
        login = {"user": user, "password": SecretStr(migration.passwords[user])}
        with closing(connect(endpoint_of(server).model_copy(update=login))) as ours:
            grants = read_grants(ours, read_facts(ours))
            held = {name for name in privileges if grants.on_schema(name, schema)}
            may = {name for name, statement in STATEMENTS.items() if may_run(ours, statement.format(schema))}
        assert held == may or (len(grants.patterns(schema)) > 1 and held <= may), named
    server.execute(f"DROP DATABASE {schema}")


def test_privileges_through_a_role_count(migration: Migration) -> None:
    role = f"r{secrets.token_hex(4)}"
    user = migration.user(migration.upstream)
    migration.upstream.execute(
        f"CREATE ROLE {role}",
        f"GRANT SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {role}",
        *([f"GRANT XA_RECOVER_ADMIN ON *.* TO {role}"] if migration.upstream.flavor == "mysql" else []),
        f"GRANT {role} TO {user}@'%'",
        f"SET DEFAULT ROLE {role} {'TO' if migration.upstream.flavor == 'mysql' else 'FOR'} {user}@'%'",
    )
    migration.source_user = user
    assert migration.only("replication_privilege").state == "success"
    assert migration.only("dump_privilege").state == "success"
    migration.upstream.execute(f"DROP ROLE {role}")


def test_a_wrong_password_is_a_finding_and_not_shown(migration: Migration) -> None:
    migration.source_user = migration.user(migration.upstream)
    migration.passwords[migration.source_user] = "canary-6b1d"
    (finding,) = [result for result in migration.check()["connection"] if result.state == "failure"]
    assert f"refuses user {migration.source_user}" in finding.message
    assert "canary-6b1d" not in repr(finding)


def test_an_unreachable_target(migration: Migration, server: ServerFactory) -> None:
    migration.target = server(migration.upstream.flavor, start=False)
    migration.target.port = 1
    (finding,) = [result for result in migration.check()["connection"] if result.state == "failure"]
    assert finding.subject == "target (127.0.0.1:1)"


def test_settings_of_the_binlog(server: ServerFactory, migration: Migration) -> None:
    flavor = migration.upstream.flavor
    migration.upstream = server(
        flavor, binlog_format="STATEMENT", binlog_row_image="MINIMAL", binlog_row_metadata="MINIMAL"
    )
    for item, state in (
        ("binlog_format", "failure"),
        ("binlog_row_image", "failure"),
        ("binlog_row_metadata", "warning"),
    ):
        finding = migration.only(item)
        assert finding.state == state
        put_right(migration.upstream, finding.instruction.partition(";")[0])
        assert migration.only(item).state == "success"
    migration.task_lines = "ignore-checking-items: [binlog_format]\n"
    assert "binlog_format" not in migration.check()
    migration.task_lines = "ignore-checking-items: [all]\n"
    assert migration.check() == {}


def test_a_server_without_a_binlog(server: ServerFactory, migration: Migration) -> None:
    migration.upstream = server(migration.upstream.flavor, skip_log_bin=True)
    found = migration.check()
    assert found["binlog_enable"][0].state == "failure"
    migration.mode = "full"
    assert migration.only("binlog_enable").state == "failure", "a dump says where in the binlog it stands"
    migration.mode = "load"
    assert "binlog_enable" not in migration.check()


def test_too_few_connections(server: ServerFactory, migration: Migration) -> None:
    migration.target = server(migration.upstream.flavor, max_connections=12)
    (finding,) = [result for result in migration.check()["conn_number"] if result.state == "failure"]
    assert "target takes 12 connections" in finding.message
    put_right(migration.target, finding.instruction.partition(";")[0])
    assert migration.only("conn_number").state == "success"
    migration.others = ("two", "three", "four", "five", "six", "seven")  # each opens as many at the one target
    finding = migration.only("conn_number")
    assert (finding.state, "for its 7 sources" in finding.message) == ("warning", True)
    put_right(migration.target, finding.instruction.partition(";")[0])
    assert migration.only("conn_number").state == "success"


def test_gtid_is_asked_for_and_off(server: ServerFactory, migration: Migration) -> None:
    if migration.upstream.flavor == "mariadb":
        migration.source_lines = "enable-gtid: true\n"
        assert migration.only("gtid_mode").state == "success", "MariaDB has GTIDs always"
        return
    migration.upstream = server("mysql", gtid=False)
    assert migration.only("gtid_mode").state == "success"
    migration.source_lines = "enable-gtid: true\n"
    assert migration.only("gtid_mode").state == "failure"


def test_the_place_to_start_is_tried(migration: Migration) -> None:
    migration.mode = "incremental"
    status = "SHOW BINARY LOG STATUS" if migration.upstream.flavor == "mysql" else "SHOW MASTER STATUS"
    file, end = migration.upstream.query(status)[0][:2]

    def at(name: str, position: int) -> CheckResult:
        migration.meta = f"    meta: {{binlog-name: {name}, binlog-pos: {position}}}\n"
        return migration.only("meta_position")

    assert at(file, end).state == "success"
    assert at(file, 4).state == "success"
    assert "ends at" in at(file, end + 100_000).message
    assert "has no binlog file" in at("binlog.999999", 4).message


def _of_tables(migration: Migration, *, anew: bool = False) -> list[CheckResult]:
    """Without accounts: other tests leave some at the shared source, which the target lacks."""
    said = migration.check(anew=anew)["not_migrated"]
    return [each for each in said if "account " not in each.message]


def test_tables_that_a_checkpoint_of_a_full_load_does_not_know(migration: Migration) -> None:
    """Lists that were widened between two runs: nobody loads what the new tables have already."""
    schema = migration.schema
    migration.task_lines = f"meta-schema: {schema}\n"
    assert [each.state for each in _of_tables(migration)] == ["success"], "all of it is loaded"
    text = f"CREATE TABLE {schema}.a (id INT PRIMARY KEY, v INT)"
    known = parse_create_table(text, SourceContext("mysql", 90704, schema))
    position = Position("u", "mysql-bin.000001", 4, GtidSet.empty("mysql"))
    tables = {known.name: TablePoint(known), TableName(schema, "gone"): TablePoint(None)}
    with TargetConnection(endpoint_of(migration.target)) as connection:
        key = SubtaskKey(schema, "t", "one")
        create_tables(connection, key)
        write_new(connection, key, Checkpoint(position, tables=tables))
    assert [each.state for each in _of_tables(migration)] == ["success"]
    migration.target.execute(text, f"INSERT INTO {schema}.a VALUES (1, 1)")
    assert migration.only("downstream_table_empty").state == "success", "nothing is loaded any more"
    migration.upstream.execute(f"CREATE TABLE {schema}.added (id INT PRIMARY KEY)")
    warning, *_ = _of_tables(migration)
    assert warning.state == "warning"
    assert f"{schema}.added" in warning.message.replace("`", "")
    assert f"{schema}.a:" not in warning.message.replace("`", "")
    (listed,) = _of_tables(migration, anew=True)
    assert listed.state == "success", "with --remove-meta nothing goes on from the checkpoint: nothing is to be said"
    migration.mode = "incremental"
    assert [each.state for each in _of_tables(migration)] == ["success"], "such a task loads nothing, and says so"


def test_what_stays_behind_is_listed(migration: Migration) -> None:
    schema = migration.schema
    migration.upstream.execute(
        f"CREATE VIEW {schema}.seen AS SELECT 1",
        f"CREATE TRIGGER {schema}.trg BEFORE INSERT ON {schema}.a FOR EACH ROW SET NEW.v = 1",
        f"CREATE PROCEDURE {schema}.proc() SELECT 1",
        f"CREATE EVENT {schema}.evt ON SCHEDULE EVERY 1 YEAR DO SELECT 1",
    )
    warning, finding = migration.check()["not_migrated"]
    assert (warning.state, finding.state) == ("warning", "success")
    assert f"view {schema}.seen" in warning.message, "the target lacks it"
    migration.target.execute(f"CREATE VIEW {schema}.seen AS SELECT 1")
    warning, _ = migration.check()["not_migrated"]
    assert f"view {schema}.seen" not in warning.message
    app = f"app{schema[-8:]}"
    migration.upstream.execute(f"CREATE USER '{app}'@'%'", f"GRANT SELECT ON {schema}.* TO '{app}'@'%'")
    assert f"account {app}@%" in migration.check()["not_migrated"][0].message
    migration.target.execute(f"CREATE USER '{app}'@'%'")
    assert app not in migration.check()["not_migrated"][0].message
    for server in (migration.upstream, migration.target):
        server.execute(f"DROP USER '{app}'@'%'")
    for what in (f"{schema}.seen", f"{schema}.trg", f"{schema}.proc", f"{schema}.evt", "users"):
        assert what in finding.message
    for own in ("mysql.sys", "mysql.session", "mysql.infoschema", "mariadb.sys"):
        assert own not in finding.message


def test_progress_of_dm_itself_is_said_once(migration: Migration) -> None:
    meta = migration.schema
    migration.target.execute(
        f"CREATE TABLE {meta}.t_syncer_checkpoint (id VARCHAR(32), cp_schema VARCHAR(128), cp_table VARCHAR(128),"
        " binlog_name VARCHAR(128), binlog_pos INT UNSIGNED, binlog_gtid TEXT, table_info JSON, is_global BOOLEAN)",
        f"INSERT INTO {meta}.t_syncer_checkpoint VALUES ('one', '', '', 'binlog.000007', 466, '', 'null', 1)",
    )
    migration.task_lines = f"meta-schema: {meta}\n"
    bad = [result for results in migration.check().values() for result in results if result.state == "failure"]
    assert len(bad) == 1
    assert "binlog-name binlog.000007, binlog-pos 466" in bad[0].message
    assert "dmctl forgotten remove progress/t --file" in bad[0].instruction
