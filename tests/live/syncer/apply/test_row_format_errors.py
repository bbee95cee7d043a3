"""What the target refuses is the same error in both forms of rows; and when rows go as SQL, or as events again."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from dm.config.references import StartPoint
from dm.errors import DMError
from dm.mysql.binlog.header import CHECKSUM_SIZE, EventType
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.unit import JSON
from tests.live.relay.relaying import (
    end_of,
    flush_logs,
    has_reached,
    newest,
    read_to,
    relaying,
    source_of,
    wait_until,
)
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, running_sync
from tests.testbed.twins import TABLES, Twins, forms

pytestmark = [pytest.mark.live]

BROKEN = [
    ("row-missing", "DELETE FROM {0}.keyed WHERE id = 3", "UPDATE {0}.keyed SET v = 'y' WHERE id = 3"),
    ("row-missing", "DELETE FROM {0}.keyless WHERE id = 3", "UPDATE {0}.keyless SET v = 'y' WHERE id = 3"),
    ("duplicate-key", "INSERT INTO {0}.keyed VALUES (9, 'k', '')", "INSERT INTO {0}.keyed VALUES (9, 'z', '')"),
    ("duplicate-key", "INSERT INTO {0}.keyed VALUES (9, 'k', '')", "UPDATE {0}.keyed SET u = 'k' WHERE id = 3"),
    ("row-check-refused", "ALTER TABLE {0}.hot ADD CHECK (v < 5)", "INSERT INTO {0}.hot VALUES (9, 7)"),
    ("row-check-refused", "ALTER TABLE {0}.hot ADD CHECK (v < 5)", "UPDATE {0}.hot SET v = 7 WHERE id = 3"),
    (
        "row-check-refused",
        "ALTER TABLE {0}.keyless ADD CHECK (v <> 'y')",
        "UPDATE {0}.keyless SET v = 'y' WHERE id = 3",
    ),
]
ORPHANS = [
    "INSERT INTO {0}.child VALUES (9, 7)",
    "UPDATE {0}.child SET parent = 7 WHERE id = 3",
    "DELETE FROM {0}.parent WHERE id = 3",
]

Told = tuple[str, str | None, str, str]


def told(twins: Twins, form: str, relay_directory: Path | None = None) -> Told | None:
    """The error that the task of this form ends with; None if it comes to the end of the source."""
    try:
        with running_sync(twins.tasks[form], relay_directory) as sync:
            sync.wait_synced()
    except DMError as caught:
        error = caught
    else:
        return None
    message, cause = (text.replace(twins.by_sql, "S").replace(twins.name, "S") for text in (error.message, error.cause))
    return error.name, error.position, message, cause


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(("error", "at_target", "at_source"), BROKEN)
@pytest.mark.ci_sample(4)
def test_what_the_target_refuses_is_the_same_error(twins: Twins, error: str, at_target: str, at_source: str) -> None:
    twins.create(*TABLES)
    twins.begin()
    twins.upstream.execute(
        f"INSERT INTO {twins.name}.keyed VALUES (1, 'a', ''), (3, 'c', '')",
        f"INSERT INTO {twins.name}.keyless VALUES (1, 'a'), (3, 'c')",
        f"INSERT INTO {twins.name}.hot VALUES (1, 1), (3, 3)",
    )
    twins.follow_both()
    for schema in (twins.name, twins.by_sql):
        twins.target.execute(at_target.format(schema))
    twins.upstream.execute(f"UPDATE {twins.name}.keyed SET v = 'before' WHERE id = 1", at_source.format(twins.name))
    by_events, by_sql = told(twins, "auto"), told(twins, "sql")
    assert by_events == by_sql
    assert by_events is not None
    assert by_events[0] == error
    for schema in (twins.name, twins.by_sql):
        assert twins.target.query(f"SELECT v FROM {schema}.keyed WHERE id = 1") == (("before",),)


@pytest.mark.parametrize("flavor", ["mariadb"])
@pytest.mark.parametrize(
    ("at_source", "at_target"),
    [("LONGTEXT", "JSON"), ("VARCHAR(9)", "VARCHAR(9) CHECK (JSON_VALID(j))")],
)
@pytest.mark.ci_sample(1)
def test_a_text_that_only_the_target_wants_to_be_json_is_the_same_error(
    twins: Twins, at_source: str, at_target: str
) -> None:
    table = "CREATE TABLE {}.t (id INT PRIMARY KEY, j {}) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin"
    twins.upstream.execute(
        table.format(twins.name, at_source), table.replace(".t ", ".both ").format(twins.name, at_target)
    )
    for schema in (twins.name, twins.by_sql):
        twins.target.execute(table.format(schema, at_target), table.replace(".t ", ".both ").format(schema, at_target))
    twins.begin()
    twins.upstream.execute(
        *(f"INSERT INTO {twins.name}.{each} VALUES (1, '[]'), (2, '{{}}')" for each in ("t", "both"))
    )
    found = twins.follow_both()
    assert found["both"] == ("events", "")
    assert found["t"] == ("sql", "column j has a CHECK for JSON at the target alone, of which row events are not asked")
    twins.upstream.execute(f"UPDATE {twins.name}.t SET j = '[' WHERE id = 2")
    by_events, by_sql = told(twins, "auto"), told(twins, "sql")
    assert by_events == by_sql
    assert by_events is not None
    assert (by_events[0], "4025" in by_events[3]) == ("row-check-refused", True)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("at_source", ORPHANS)
@pytest.mark.ci_sample(1)
def test_an_orphan_is_the_same_error(twins: Twins, at_source: str) -> None:
    twins.check_foreign_keys()
    twins.create(
        "CREATE TABLE {}.parent (id INT PRIMARY KEY)", "CREATE TABLE {}.child (id INT PRIMARY KEY, parent INT)"
    )
    for schema in (twins.name, twins.by_sql):
        twins.target.execute(f"ALTER TABLE {schema}.child ADD FOREIGN KEY (parent) REFERENCES {schema}.parent (id)")
    twins.begin()
    twins.upstream.execute(
        f"INSERT INTO {twins.name}.parent VALUES (1), (3)", f"INSERT INTO {twins.name}.child VALUES (1, 1), (3, 3)"
    )
    assert twins.follow_both() == dict.fromkeys(("parent", "child"), ("events", ""))
    twins.upstream.execute(at_source.format(twins.name))
    by_events, by_sql = told(twins, "auto"), told(twins, "sql")
    assert by_events == by_sql
    if twins.target.flavor == "mysql":
        # Its binlog holds what its foreign keys did, so the target looks at none (from 9.6 on).
        assert by_events is None
        assert twins.rows(twins.target, twins.name) == twins.rows(twins.target, twins.by_sql)
    else:
        assert by_events is not None
        assert by_events[0] == "row-reference-refused"


def test_foreign_keys_that_the_source_does_not_log_act_at_the_target(
    server: ServerFactory, park: ServerPark, schema: SchemaFactory
) -> None:
    """As those of a MySQL before 9.6: the target's do the same, and refuse orphans, in both forms."""
    upstream = server("mysql", gtid=True, start=True, innodb_native_foreign_keys="ON")
    target = park.shared("mysql", "target")
    twins = Twins(upstream, target, schema(upstream, target, prefix="form"))
    try:
        twins.check_foreign_keys()
        twins.create(
            "CREATE TABLE {0}.parent (id INT PRIMARY KEY)",
            "CREATE TABLE {0}.child (id INT PRIMARY KEY, parent INT,"
            " FOREIGN KEY (parent) REFERENCES {0}.parent (id) ON DELETE CASCADE)",
            "CREATE TABLE {0}.orphan (id INT PRIMARY KEY, parent INT)",
        )
        for name in (twins.name, twins.by_sql):
            target.execute(f"ALTER TABLE {name}.orphan ADD FOREIGN KEY (parent) REFERENCES {name}.parent (id)")
        twins.begin()
        upstream.execute(
            f"INSERT INTO {twins.name}.parent VALUES (1), (2)",
            f"INSERT INTO {twins.name}.child VALUES (1, 1), (2, 2)",
            f"INSERT INTO {twins.name}.orphan VALUES (1, 2)",
            f"DELETE FROM {twins.name}.parent WHERE id = 1",
        )
        assert twins.follow_both() == dict.fromkeys(("parent", "child", "orphan"), ("events", ""))
        upstream.execute(f"INSERT INTO {twins.name}.orphan VALUES (2, 7)")
        by_events, by_sql = told(twins, "auto"), told(twins, "sql")
        assert by_events == by_sql
        assert by_events is not None
        assert by_events[0] == "row-reference-refused"
    finally:
        twins.close()


JUDGED = "CREATE TABLE {}.judged (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET utf8mb4, e ENUM('a', 'b'), d DATE)"
# Bytes of the row ('marker', 'a', '2024-01-01'), and what no server would have written there.
DAMAGE = {
    "half a character": (b"\6marker\1", b"\6marke\xc3\1"),
    "no member": (b"\6marker\1", b"\6marker\x09"),
    "no date": (b"\6marker\1\x21\xd0\x0f", b"\6marker\1\xff\xd1\x0f"),
    "no end": (b"\6marker\1", b"\x13marker\1"),
}


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_row_is_never_an_event(twins: Twins, tmp_path: Path, damage: str) -> None:
    """With a right checksum, as of a source that means harm: only the bytes themselves tell."""
    upstream, name = twins.upstream, twins.name
    twins.create(JUDGED)
    flush_logs(upstream)
    first, offset = end_of(upstream)
    rows = f"INSERT INTO {name}.judged VALUES"
    upstream.execute(f"{rows} (1, 'whole', 'a', '2024-01-01')", f"{rows} (2, 'marker', 'a', '2024-01-01')")
    with relaying(source_of(upstream, first=first), tmp_path):
        wait_until(lambda: has_reached(tmp_path, upstream), "the relay")
    before, after = DAMAGE[damage]
    _, file, end, *_, data = next(
        event
        for event in read_to(RelayEventSource(tmp_path, upstream.flavor), Position("", first), end_of(upstream))
        if event[3] in {EventType.WRITE_ROWS, EventType.WRITE_ROWS_V1} and b"marker" in event[5]
    )
    assert data.count(before) == 1
    made = data[:-CHECKSUM_SIZE].replace(before, after)
    with newest(tmp_path).file(file).open("r+b") as relay_file:
        relay_file.seek(end - len(data))
        relay_file.write(made + zlib.crc32(made).to_bytes(CHECKSUM_SIZE, "little"))
    for form, task in twins.tasks.items():
        start = StartPoint(binlog_name=first, binlog_pos=offset)
        twins.tasks[form] = task.model_copy(update={"meta": start})
    by_events, by_sql = told(twins, "auto", tmp_path), told(twins, "sql", tmp_path)
    assert by_events == by_sql
    rows_by_events, rows_by_sql = (twins.rows(twins.target, schema)["judged"] for schema in (name, twins.by_sql))
    assert rows_by_events == rows_by_sql
    # A MariaDB takes a day that no calendar has for 0000-00-00, whoever asks.
    zero = damage == "no date" and twins.target.flavor == "mariadb"
    assert (by_events is None, len(rows_by_events)) == ((True, 2) if zero else (False, 1))


@pytest.mark.ci_flavor("mariadb")
def test_a_table_whose_events_are_refused_goes_as_sql(twins: Twins) -> None:
    twins.create(*TABLES)
    twins.begin()
    task = twins.tasks["auto"]
    with running_sync(task) as sync:
        twins.upstream.execute(
            f"INSERT INTO {twins.name}.hot VALUES (1, 1)", f"INSERT INTO {twins.name}.parts VALUES (1, 'a')"
        )
        assert forms(sync.wait_synced())["hot"] == ("events", "")
        # Somebody changes the target's table while the task runs: SQL does not mind, an event can't be converted.
        twins.target.execute(f"ALTER TABLE {twins.name}.hot MODIFY v BIGINT")
        for number in range(2, 6):
            twins.upstream.execute(
                f"INSERT INTO {twins.name}.hot VALUES ({number}, 1)", f"UPDATE {twins.name}.parts SET v = '{number}'"
            )
            status = sync.wait_synced()
        found = forms(status)
    assert found["hot"][0] == "sql"
    assert "1105" in str(found["hot"][1])
    assert found["parts"] == ("events", "")
    assert twins.target.query(f"SELECT COUNT(*), SUM(v) FROM {twins.name}.hot") == ((5, 5),)


@pytest.mark.ci_flavor("mysql")
def test_a_structure_that_fits_again_has_its_rows_go_as_events_again(twins: Twins) -> None:
    twins.create(*TABLES)
    twins.begin()
    hot = f"{twins.name}.hot"
    with running_sync(twins.tasks["auto"]) as sync:

        def form_after(*statements: str) -> tuple[JSON, str]:
            twins.upstream.execute(*statements)
            form, why = forms(sync.wait_synced())["hot"]
            return form, str(why)

        assert form_after(f"INSERT INTO {hot} (id, v) VALUES (1, 1)") == ("events", "")
        twins.target.execute(f"ALTER TABLE {hot} MODIFY v BIGINT")
        form, why = form_after(f"INSERT INTO {hot} (id, v) VALUES (2, 2)")
        assert (form, "1105" in why) == ("sql", True)
        # It is looked at anew after a DDL: the difference itself is the reason now.
        widened = f"ALTER TABLE {hot} ADD w INT", f"INSERT INTO {hot} (id, v) VALUES (3, 3)"
        assert form_after(*widened) == ("sql", "column v differs in types int and bigint")
        mended = f"ALTER TABLE {hot} MODIFY v BIGINT", f"INSERT INTO {hot} (id, v) VALUES (4, 4)"
        assert form_after(*mended) == ("events", "")
    twins.follow(twins.tasks["sql"])
    twins.demand_equal()


@pytest.mark.ci_flavor("mysql")
def test_without_the_privilege_rows_go_as_sql(twins: Twins, flavor: Flavor) -> None:
    twins.create(*TABLES)
    user = f"u_{twins.name}"
    privileges = "CREATE, SELECT, INSERT, UPDATE, DELETE, ALTER, DROP, INDEX, REFERENCES"
    applier = {"mysql": "REPLICATION_APPLIER", "mariadb": "BINLOG REPLAY"}[flavor]
    twins.target.execute(f"CREATE USER {user} IDENTIFIED BY 'pw'", f"GRANT {privileges} ON *.* TO {user}")
    plain = twins.tasks["auto"]
    secret = type(plain.target.password)("pw")
    task = plain.model_copy(update={"target": plain.target.model_copy(update={"user": user, "password": secret})})
    try:
        twins.follow(task)
        twins.target.execute(
            f"CREATE TRIGGER {twins.name}.unseen BEFORE INSERT ON {twins.name}.hot FOR EACH ROW SET NEW.v = 7"
        )
        steps = (("USAGE ON *.*", applier), (f"{applier} ON *.*", "TRIGGER"), (f"TRIGGER ON {twins.name}.*", ""))
        for number, (granted, lacking) in enumerate(steps):
            twins.target.execute(f"GRANT {granted} TO {user}")
            if not lacking:
                twins.target.execute(f"DROP TRIGGER {twins.name}.unseen")
            with running_sync(task) as sync:
                twins.upstream.execute(f"INSERT INTO {twins.name}.hot VALUES ({number}, 1)")
                status = sync.wait_synced()
            form, why = forms(status)["hot"]
            assert (form, f"lacks {lacking}" in str(why)) == (("sql", True) if lacking else ("events", False))
            assert status["eventRows"] == int(not lacking)
        rows = twins.target.query(f"SELECT id, v FROM {twins.name}.hot ORDER BY id")
        assert rows == ((0, 7), (1, 7), (2, 1)), "what the account may not see fires"
    finally:
        twins.target.execute(f"DROP USER {user}")


def test_mariadb_that_passes_over_what_is_missing_is_noticed_while_the_task_runs(
    park: ServerPark, schema: SchemaFactory
) -> None:
    upstream, target = park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target")
    twins = Twins(upstream, target, schema(upstream, target, prefix="form"))
    twins.create(*TABLES)
    twins.begin()
    upstream.execute(f"INSERT INTO {twins.name}.hot VALUES (1, 1), (2, 2)")
    sync = RunningSync(twins.tasks["auto"], None)
    try:
        assert forms(sync.wait_synced())["hot"] == ("events", "")
        target.execute("SET GLOBAL slave_exec_mode = 'IDEMPOTENT'", f"DELETE FROM {twins.name}.hot WHERE id = 1")
        upstream.execute(f"UPDATE {twins.name}.hot SET v = 7")
        error = sync.wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "row-missing"
    finally:
        target.execute("SET GLOBAL slave_exec_mode = 'STRICT'")
        sync.stop()
        twins.close()
