"""What a target computes of rows is what the source has stored, whatever zone and modes the two servers have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from dm.config.expression import ExpressionFilter
from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.twins import Twins
from tests.testbed.zones import BACK, SUMMER, globally, know_summer

pytestmark = [pytest.mark.live]

TABLES = (
    "CREATE TABLE {}.keyed (id INT PRIMARY KEY, ts TIMESTAMP(3) NULL, h INT AS (HOUR(ts)) STORED,"
    " d VARCHAR(40) AS (CONCAT(ts)) VIRTUAL, UNIQUE KEY (d, id), u DATETIME(3) AS (ts) STORED)",
    "CREATE TABLE {}.keyless (ts TIMESTAMP NULL, v INT, d VARCHAR(40) AS (CONCAT(ts)) STORED)",
    "CREATE TABLE {}.checked (id INT PRIMARY KEY, ts TIMESTAMP NOT NULL DEFAULT '2001-01-01', CHECK (HOUR(ts) < 12))",
    "CREATE TABLE {}.moments (ts TIMESTAMP PRIMARY KEY, v INT, h INT AS (HOUR(ts)) STORED)",
    "CREATE TABLE {}.met (id INT PRIMARY KEY, ts TIMESTAMP NULL, d DATE AS (DATE(ts)) VIRTUAL, UNIQUE KEY by_d (d))",
    "CREATE TABLE {}.plain (id INT PRIMARY KEY, ts TIMESTAMP NULL)",
)


def utc(server: PrivateServer, sql: str) -> list[tuple[object, ...]]:
    """The rows of a query in a session at UTC."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        cursor.execute(sql)
        return sorted(cursor.fetchall(), key=repr)


@pytest.fixture
def summer(twins: Twins) -> Iterator[Twins]:
    """The source's sessions are in a zone with summers, the target's in another one."""
    for server in (twins.upstream, twins.target):
        know_summer(server)
    with globally(twins.upstream, time_zone=f"'{SUMMER}'"), globally(twins.target, time_zone="'-05:00'"):
        twins.create(*TABLES)
        twins.begin()
        yield twins


def shown(moment: int) -> str:
    """A moment as a MySQL of any zone takes it."""
    return f"'{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S}+00:00'"


def write(name: str, *, twice: bool) -> tuple[str, ...]:
    """Changes of all kinds; with `twice`, also in the hour that local clocks show again."""
    moments = [BACK - 86400 * 120, BACK - 1800, BACK - 86400 * 300]
    if twice:
        moments.append(BACK + 1800)
    statements: list[str] = []
    for number, moment in enumerate(moments):
        now = shown(moment) if twice else f"FROM_UNIXTIME({moment})"
        statements += (
            f"INSERT INTO {name}.keyed (id, ts) VALUES ({number}, {now}), ({number + 100}, NULL)",
            f"INSERT INTO {name}.keyless (ts, v) VALUES ({now}, {number}), ({now}, {number})",
            f"INSERT INTO {name}.checked (id, ts) VALUES ({number}, {now})",
            f"INSERT INTO {name}.moments (ts, v) VALUES ({now}, {number})",
            f"INSERT INTO {name}.plain VALUES ({number}, {now})",
        )
    return (
        *statements,
        f"UPDATE {name}.keyless SET v = v + 10 WHERE v < 2 LIMIT 3",
        f"UPDATE {name}.moments SET v = v + 10",
        f"UPDATE {name}.keyed SET ts = ts + INTERVAL 90 MINUTE WHERE id = 0",
        f"DELETE FROM {name}.keyless WHERE v = 2 LIMIT 1",
        f"DELETE FROM {name}.moments WHERE v = 12",
        f"INSERT INTO {name}.checked (id) VALUES (77)",
    )


def demand_equal(twins: Twins) -> None:
    demand_equal_in(twins, "keyed", "keyless", "checked", "moments", "plain")


def demand_equal_in(twins: Twins, *tables: str) -> None:
    for table in tables:
        source = utc(twins.upstream, f"SELECT * FROM {twins.name}.{table}")
        assert source
        for schema in (twins.name, twins.by_sql):
            assert utc(twins.target, f"SELECT * FROM {schema}.{table}") == source, (schema, table)


@pytest.mark.ci_flavor("mariadb")
def test_expressions_over_moments_are_those_of_the_sources_zone(summer: Twins) -> None:
    summer.upstream.execute(*write(summer.name, twice=summer.upstream.flavor == "mysql"))
    for task in summer.tasks.values():
        summer.follow(task)
    demand_equal(summer)
    # A new column and a new index are computed in the zone of the statement.
    summer.upstream.execute(
        f"ALTER TABLE {summer.name}.keyed ADD COLUMN x INT AS (HOUR(ts)) STORED, ADD y INT AS (HOUR(ts)) VIRTUAL",
        f"ALTER TABLE {summer.name}.keyed ADD INDEX (y)",
        f"UPDATE {summer.name}.keyed SET ts = ts + INTERVAL 1 HOUR WHERE id < 2",
    )
    for task in summer.tasks.values():
        summer.follow(task)
    stored = utc(summer.upstream, f"SELECT id, ts, h, x FROM {summer.name}.keyed")
    for schema in (summer.name, summer.by_sql):
        assert utc(summer.target, f"SELECT id, ts, h, x FROM {schema}.keyed") == stored
        in_index = utc(summer.target, f"SELECT y FROM {schema}.keyed FORCE INDEX (y) WHERE y >= 0")
        assert in_index == sorted((x,) for *_, x in stored if x is not None)


# MariaDB takes few such expressions but in a CHECK.
OTHERS = {
    "mysql": "minus BIGINT AS (a - b) STORED, quotient VARCHAR(40) AS (a / b) STORED,"
    " word VARCHAR(40) AS (DAYNAME(d)) STORED, bytes INT AS (LENGTH(c)) STORED, CHECK (a - b < 5)",
    "mariadb": "CHECK (a - b < 5), CHECK (c IS NULL OR LENGTH(c) = 5)",
}


def test_expressions_are_computed_by_the_sources_modes_words_and_digits(twins: Twins, flavor: Flavor) -> None:
    settings = {
        "sql_mode": "'STRICT_TRANS_TABLES,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
        "div_precision_increment": "7",
        "lc_time_names": "'de_DE'",
    }
    with globally(twins.upstream, **settings):
        twins.create(
            "CREATE TABLE {}.others (id INT PRIMARY KEY, a INT UNSIGNED, b INT UNSIGNED, d DATE, c CHAR(5) COLLATE"
            f" utf8mb4_general_ci, e ENUM('x'), {OTHERS[flavor]})",
        )
        twins.begin()
        name = f"{twins.name}.others"
        twins.upstream.execute(
            f"INSERT INTO {name} (id, a, b, d, c) VALUES (1, 1, 3, '2021-01-03', 'ab'), (2, 1, 7, NULL, 'abc')",
            f"UPDATE {name} SET c = 'a', d = '2021-01-04' WHERE id = 2",
            # The error value of an ENUM needs a statement without strict modes, and only without these.
            "SET SESSION sql_mode = 'NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
            f"INSERT INTO {name} (id, a, b, d, c, e) VALUES (3, 2, 9, '2021-01-05', 'ac', 'none')",
            f"UPDATE {name} SET e = 'none' WHERE id = 2",
        )
        for task in twins.tasks.values():
            twins.follow(task)
    source = utc(twins.upstream, f"SELECT * FROM {name}")
    assert flavor == "mariadb" or [row[-4:] for row in source[::2]] == [
        (-2, "0.3333333", "Sonntag", 5),
        (-7, "0.2222222", "Dienstag", 5),
    ]
    for schema in (twins.name, twins.by_sql):
        assert utc(twins.target, f"SELECT * FROM {schema}.others") == source


@pytest.mark.ci_flavor("mysql")
def test_weeks_are_counted_as_the_sources_server_counts_them(twins: Twins, flavor: Flavor) -> None:
    """A MySQL writes into the structure which weeks the session has that makes the table."""
    if flavor != "mysql":
        pytest.skip("only VIRTUAL columns have them there, and each reader computes them anew")
    with globally(twins.upstream, default_week_format="3"), globally(twins.target, default_week_format="6"):
        twins.begin()
        name = f"{twins.name}.weeks"
        twins.upstream.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, d DATE, w INT AS (WEEK(d)) STORED, v INT AS (WEEK(d)) VIRTUAL,"
            " UNIQUE KEY (v), KEY ((WEEK(d) + 1)), CHECK (WEEK(d) <> 1))",
            # 3 counts the 53rd week of the year before, 6 and 0 the first one or none.
            f"INSERT INTO {name} (id, d) VALUES (1, '2021-01-03'), (2, '2021-01-11')",
            f"UPDATE {name} SET d = '2021-02-01' WHERE id = 2",
        )
        for task in twins.tasks.values():
            twins.follow(task)
    assert utc(twins.upstream, f"SELECT id, w, v FROM {name}") == [(1, 53, 53), (2, 5, 5)]
    twins.demand_equal()


@pytest.mark.ci_flavor("mysql")
def test_an_expression_with_an_escape_of_its_own_is_the_same_without_backslashes(twins: Twins) -> None:
    """What `check-task` says to write where the source has NO_BACKSLASH_ESCAPES."""
    modes = "'STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES'"
    with globally(twins.upstream, sql_mode=modes), globally(twins.target, sql_mode="'STRICT_TRANS_TABLES'"):
        twins.create(
            "CREATE TABLE {}.escapes (id INT PRIMARY KEY, c VARCHAR(20), g INT AS (c LIKE 'a|_b' ESCAPE '|') STORED)"
        )
        twins.begin()
        twins.upstream.execute(
            f"INSERT INTO {twins.name}.escapes (id, c) VALUES (1, 'a_b'), (2, 'axb'), (3, 'a\\_b'), (4, 'a|_b')",
            f"UPDATE {twins.name}.escapes SET c = 'a_b' WHERE id = 2",
        )
        for task in twins.tasks.values():
            twins.follow(task)
    assert [g for _, g in utc(twins.upstream, f"SELECT id, g FROM {twins.name}.escapes")] == [1, 1, 0, 0]
    twins.demand_equal()


@pytest.mark.ci_flavor("mysql")
def test_what_a_session_of_another_zone_has_stored_is_compared(summer: Twins) -> None:
    name, task = summer.name, summer.tasks["sql"]
    summer.upstream.execute(
        "SET SESSION time_zone = '+09:00'", f"INSERT INTO {name}.keyed (id, ts) VALUES (1, '2020-01-01 00:00:00')"
    )
    with pytest.raises(DMError) as caught:
        summer.follow(task)
    assert (caught.value.name, caught.value.retryable) == ("computed-value-differs", False)
    assert all(part in caught.value.message for part in ("keyed", "id = 1", "h = 0")), caught.value.message
    # The way out that it names.
    summer.target.execute(f"ALTER TABLE {summer.by_sql}.keyed MODIFY h INT, MODIFY u DATETIME(3)")
    summer.follow(task)
    found = utc(summer.target, f"SELECT id, ts, h, u FROM {summer.by_sql}.keyed")
    assert found == utc(summer.upstream, f"SELECT id, ts, h, u FROM {name}.keyed")


@pytest.mark.ci_flavor("mysql")
def test_what_a_session_of_another_zone_has_stored_is_compared_without_a_key(summer: Twins) -> None:
    name = summer.name
    now = "'2020-01-01 00:00:00'"
    summer.upstream.execute(
        f"INSERT INTO {name}.keyless (ts, v) VALUES ({now}, 1), ({now}, 1), (NULL, 2)",
        f"DELETE FROM {name}.keyless WHERE v = 1 LIMIT 1",
        f"UPDATE {name}.keyless SET v = 3 WHERE v = 2",
    )
    for task in summer.tasks.values():
        summer.follow(task)
    demand_equal_in(summer, "keyless")
    summer.upstream.execute("SET SESSION time_zone = '+09:00'", f"INSERT INTO {name}.keyless (ts, v) VALUES ({now}, 4)")
    for form, task in summer.tasks.items():
        if form == "auto" and summer.target.flavor == "mariadb":
            summer.follow(task)  # its row events bring what is stored
            continue
        error = refused(summer, task)
        assert error.name == "computed-value-differs"
        assert all(part in error.message for part in ("keyless", "v = 4", "d = '2020-01-01 00:00:00'")), error.message
        # The way out that it names.
        schema = summer.by_sql if form == "sql" else name
        summer.target.execute(f"ALTER TABLE {schema}.keyless MODIFY d VARCHAR(40)")
        summer.follow(task)
    demand_equal_in(summer, "keyless")


@pytest.mark.parametrize("zone", ["+00:00", pytest.param("-03:00", marks=pytest.mark.ci_flavor("mysql"))])
def test_the_way_out_where_all_applications_set_a_zone_of_their_own(zone: str, summer: Twins) -> None:
    """The server's zone is not theirs; what they have stored is compared all the same."""
    name = summer.name
    summer.upstream.execute(
        f"SET SESSION time_zone = '{zone}'",
        f"INSERT INTO {name}.keyed (id, ts) VALUES (1, '2020-07-01 23:30:00'), (2, NULL)",
        # In the zone of the server they would be of one day.
        f"INSERT INTO {name}.met (id, ts) VALUES (1, '2020-07-01 23:30:00'), (2, '2020-07-02 01:00:00')",
        f"INSERT INTO {name}.checked (id, ts) VALUES (1, '2020-07-01 11:30:00')",
    )
    error = refused(summer, summer.tasks["sql"])
    assert error.name == "computed-value-differs"
    assert "application-time-zone" in error.workaround
    summer.upstream.execute(
        f"SET SESSION time_zone = '{zone}'",
        f"INSERT INTO {name}.keyless (ts, v) VALUES ('2020-07-01 23:30:00', 1)",
    )
    tasks = {form: task.model_copy(update={"application_zone": zone}) for form, task in summer.tasks.items()}
    for task in tasks.values():
        summer.follow(task)
    for table in ("keyed", "keyless", "met", "checked"):
        columns = {"keyed": "id, ts, h, u", "keyless": "ts, v, d"}.get(table, "id, ts")
        source = utc(summer.upstream, f"SELECT {columns} FROM {name}.{table}")
        for schema in (name, summer.by_sql):
            assert utc(summer.target, f"SELECT {columns} FROM {schema}.{table}") == source, (schema, table)
    summer.upstream.execute(
        "SET SESSION time_zone = '+09:00'", f"INSERT INTO {name}.keyed (id, ts) VALUES (3, '2020-01-01 00:00:00')"
    )
    assert refused(summer, tasks["sql"]).name == "computed-value-differs"


def refused(summer: Twins, task: SubtaskConfig) -> DMError:
    with pytest.raises(DMError) as caught:
        summer.follow(task)
    assert not caught.value.retryable
    return caught.value


@pytest.mark.ci_flavor("mariadb")
def test_the_way_out_of_a_key_or_check_that_a_session_of_another_zone_has_passed(summer: Twins) -> None:
    name, there, task = summer.name, summer.by_sql, summer.tasks["sql"]
    summer.upstream.execute(
        f"INSERT INTO {name}.met (id, ts) VALUES (1, '2020-07-01 23:30:00')",
        "SET SESSION time_zone = '+09:00'",
        f"INSERT INTO {name}.met (id, ts) VALUES (2, '2020-07-02 06:00:00')",
        f"INSERT INTO {name}.checked (id, ts) VALUES (1, '2020-07-01 05:00:00')",
    )
    met = refused(summer, task)
    assert met.name == "computed-key-met"
    assert f"ALTER TABLE {there}.met DROP INDEX by_d" in met.workaround
    summer.target.execute(f"ALTER TABLE {there}.met DROP INDEX by_d")
    assert refused(summer, task).name == "row-check-refused"
    if summer.target.flavor == "mysql":
        summer.target.execute(f"ALTER TABLE {there}.checked ALTER CHECK checked_chk_1 NOT ENFORCED")
    else:
        session = task.target.model_copy(update={"session": {"check_constraint_checks": "0"}})
        task = task.model_copy(update={"target": session})
    summer.follow(task)
    for table in ("met", "checked"):
        rows = f"SELECT id, ts FROM {{}}.{table}"
        assert utc(summer.target, rows.format(there)) == utc(summer.upstream, rows.format(name))


@pytest.mark.parametrize("form", ["auto", "sql"])
@pytest.mark.ci_flavor("mysql")
def test_the_way_out_of_an_expression_that_another_mode_of_a_session_has_passed(
    form: str, twins: Twins, flavor: Flavor
) -> None:
    mode = "STRICT_TRANS_TABLES,NO_UNSIGNED_SUBTRACTION"
    computed = {"mysql": "m BIGINT AS (a - b) STORED", "mariadb": "CHECK (a - b < 5)"}[flavor]
    twins.create(f"CREATE TABLE {{}}.minus (id INT PRIMARY KEY, a INT UNSIGNED, b INT UNSIGNED, {computed})")
    twins.begin()
    task, schema = twins.tasks[form], twins.by_sql if form == "sql" else twins.name
    twins.upstream.execute(
        f"INSERT INTO {twins.name}.minus (id, a, b) VALUES (1, 3, 2)",
        f"SET SESSION sql_mode = '{mode}'",
        f"FLUSH TABLES {twins.name}.minus",  # the server keeps how the first session that opens it computes
        f"INSERT INTO {twins.name}.minus (id, a, b) VALUES (2, 1, 2)",
        f"UPDATE {twins.name}.minus SET b = 4 WHERE id = 1",
    )
    error = refused(twins, task)
    assert (error.name, error.server_errno) == ("row-expression-failed", 1690)
    # Its words, one after the other.
    written, stopped, flushed, started = (
        error.workaround.index(words)
        for words in ("`session: {sql_mode: ..}`", "stop-task", "FLUSH TABLES", "start-task")
    )
    assert written < stopped < flushed < started
    task = task.model_copy(update={"target": task.target.model_copy(update={"session": {"sql_mode": mode}})})
    twins.target.execute(f"FLUSH TABLES {schema}.minus")
    twins.follow(task)
    rows = "SELECT * FROM {}.minus"
    assert utc(twins.target, rows.format(schema)) == utc(twins.upstream, rows.format(twins.name))


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("form", ["auto", "sql"])
def test_safe_mode_replaces_no_row_by_a_key_that_the_source_has_not(form: str, summer: Twins) -> None:
    """Both rows are there, of one day to the target alone: a REPLACE of the one would take the other away."""
    name, task = summer.name, summer.tasks[form]
    task = task.model_copy(update={"syncer": task.syncer.model_copy(update={"safe_mode": True})})
    summer.upstream.execute(
        f"INSERT INTO {name}.met (id, ts) VALUES (1, '2020-07-01 23:30:00')",
        "SET SESSION time_zone = '+09:00'",
        f"INSERT INTO {name}.met (id, ts) VALUES (2, '2020-07-02 06:00:00')",
    )
    error = refused(summer, task)
    assert (error.name, "id = 2" in error.message) == ("computed-key-differs", True), error.message
    # The way out that it names.
    schema = summer.by_sql if form == "sql" else name
    summer.target.execute(f"ALTER TABLE {schema}.met DROP INDEX by_d, ADD INDEX by_d (d)")
    summer.follow(task)
    assert utc(summer.target, f"SELECT id FROM {schema}.met") == [(1,), (2,)]


@pytest.mark.ci_flavor("mysql")
def test_safe_mode_takes_a_key_of_the_zone_that_all_applications_set(summer: Twins) -> None:
    name, task = summer.name, summer.tasks["sql"]
    task = task.model_copy(update={"syncer": task.syncer.model_copy(update={"safe_mode": True})})
    summer.upstream.execute(
        "SET SESSION time_zone = '+09:00'",
        f"INSERT INTO {name}.met (id, ts) VALUES (1, '2020-07-01 23:30:00'), (2, '2020-07-02 06:00:00')",
    )
    error = refused(summer, task)
    assert error.name == "computed-key-differs"
    assert "`application-time-zone`" in error.workaround
    summer.follow(task.model_copy(update={"application_zone": "+09:00"}))
    assert utc(summer.target, f"SELECT id, ts FROM {summer.by_sql}.met") == utc(
        summer.upstream, f"SELECT id, ts FROM {name}.met"
    )


@pytest.mark.ci_flavor("mysql")
def test_safe_mode_replaces_no_row_by_an_index_over_an_expression(summer: Twins) -> None:
    """No image has the source's value of such a key: a row that would go is a reason to pause."""
    if summer.target.flavor != "mysql":
        pytest.skip("MariaDB has no such indexes")
    summer.create("CREATE TABLE {}.over (id INT PRIMARY KEY, ts TIMESTAMP NULL, UNIQUE KEY by_d ((DATE(ts))))")
    name, task = summer.name, summer.tasks["sql"]
    task = task.model_copy(update={"syncer": task.syncer.model_copy(update={"safe_mode": True})})
    summer.upstream.execute(
        f"INSERT INTO {name}.over (id, ts) VALUES (1, '2020-07-01 23:30:00')",
        f"UPDATE {name}.over SET ts = '2020-07-01 23:00:00' WHERE id = 1",
        "SET SESSION time_zone = '+09:00'",
        f"INSERT INTO {name}.over (id, ts) VALUES (2, '2020-07-02 06:00:00')",
    )
    assert refused(summer, task).name == "computed-key-met"
    assert utc(summer.target, f"SELECT id FROM {summer.by_sql}.over") in ([], [(1,)])


@pytest.mark.ci_flavor("mysql")
def test_expression_filters_of_a_task_without_a_zone_are_in_the_targets(summer: Twins) -> None:
    """The target's global zone is five hours behind UTC: two o'clock there is seven."""
    rules = tuple(
        ExpressionFilter(schema_name=summer.name, table="plain", insert_value_expr=text, name=text[:4])
        for text in ("ts = '2020-06-01 02:00:00'", "HOUR(ts) = 3")
    )
    task = summer.tasks["sql"].model_copy(update={"expression_filters": rules})
    summer.upstream.execute(
        "SET SESSION time_zone = '+00:00'",
        f"INSERT INTO {summer.name}.plain VALUES (1, '2020-06-01 07:00:00'), (2, '2020-06-01 02:00:00'),"
        " (3, '2020-06-01 08:00:00'), (4, '2020-06-01 03:00:00')",
    )
    summer.follow(task)
    assert utc(summer.target, f"SELECT id FROM {summer.by_sql}.plain") == [(2,), (4,)]
