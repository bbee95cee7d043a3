"""Where row events would come to something else than SQL: by a table's expressions, and by settings of the server.

Settings of the whole server are changed at servers of the tests' own, while rows flow.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, running_sync
from tests.testbed.twins import TABLES, Twins, forms

pytestmark = [pytest.mark.live]

COMPUTED = (
    "CREATE TABLE {}.bare (id INT PRIMARY KEY, v INT, w INT AS ({}) STORED, x INT AS ({}) VIRTUAL)",
    "CREATE TABLE {}.indexed (id INT PRIMARY KEY, v INT, w INT AS ({}) STORED, x INT AS ({}) VIRTUAL,"
    " KEY (w), KEY (x))",
)


@pytest.mark.ci_flavor("mysql")
def test_a_target_that_computes_otherwise_computes_in_both_forms(twins: Twins) -> None:
    name = twins.name
    twins.upstream.execute(*(table.format(name, "v + 1", "v + 2") for table in COMPUTED))
    for schema in (name, twins.by_sql):
        twins.target.execute(*(table.format(schema, "v * 2", "v * 3") for table in COMPUTED))
    twins.begin()
    twins.upstream.execute(
        *(f"INSERT INTO {name}.{table} (id, v) VALUES (1, 10), (2, 20)" for table in ("bare", "indexed")),
        *(f"UPDATE {name}.{table} SET v = 30 WHERE id = 2" for table in ("bare", "indexed")),
        f"CREATE TABLE {name}.same (id INT PRIMARY KEY, v INT, w INT AS (v + 1) STORED)",
        f"INSERT INTO {name}.same (id, v) VALUES (1, 10)",
    )
    found = forms(twins.follow(twins.tasks["auto"]))
    twins.follow(twins.tasks["sql"])
    rows = "SELECT id, v, w, x FROM {}.{} WHERE {} > 0 ORDER BY id"
    for schema in (name, twins.by_sql):
        for table in ("bare", "indexed FORCE INDEX (w)", "indexed FORCE INDEX (x)"):
            by = table[-2] if table.endswith(")") else "id"
            assert twins.target.query(rows.format(schema, table, by)) == ((1, 10, 20, 30), (2, 30, 60, 90)), table
    assert found["bare"] == found["indexed"] == ("sql", "column w is computed by another expression")
    assert found["same"] == ("events", ""), "as the statement has it, and as the target prints it"


@pytest.mark.ci_flavor("mysql")
def test_a_target_that_compares_otherwise_computes_in_both_forms(twins: Twins) -> None:
    table = (
        "CREATE TABLE {}.{} (id INT PRIMARY KEY, a VARCHAR(9) COLLATE {}, w INT AS (a = 'x') STORED)"
        " DEFAULT CHARSET utf8mb4"
    )
    twins.upstream.execute(*(table.format(twins.name, name, "utf8mb4_bin") for name in ("other", "same")))
    for schema in (twins.name, twins.by_sql):
        twins.target.execute(
            table.format(schema, "other", "utf8mb4_general_ci"), table.format(schema, "same", "utf8mb4_bin")
        )
    twins.begin()
    twins.upstream.execute(
        *(f"INSERT INTO {twins.name}.{name} (id, a) VALUES (1, 'X'), (2, 'x'), (3, 'y')" for name in ("other", "same"))
    )
    found = forms(twins.follow(twins.tasks["auto"]))
    twins.follow(twins.tasks["sql"])
    for schema in (twins.name, twins.by_sql):
        rows = {name: twins.target.query(f"SELECT w FROM {schema}.{name} ORDER BY id") for name in ("other", "same")}
        assert rows == {"other": ((1,), (1,), (0,)), "same": ((0,), (1,), (0,))}
    assert found["same"] == ("events", "")
    stores = twins.target.flavor == "mariadb"  # what the event says
    why = "column a has another collation, by which the source computes STORED columns"
    assert found["other"] == (("sql", why) if stores else ("events", ""))


def test_a_sql_mode_of_the_person_judges_values(twins: Twins) -> None:
    twins.create(*TABLES)
    plain = twins.tasks["auto"]
    session = endpoint_of(twins.target, sql_mode="NO_ENGINE_SUBSTITUTION,STRICT_ALL_TABLES,NO_ZERO_DATE")
    task = plain.model_copy(update={"target": session})
    twins.follow(task)
    with running_sync(task) as sync:
        twins.upstream.execute(f"INSERT INTO {twins.name}.hot VALUES (1, 1)")
        form, why = forms(sync.wait_synced())["hot"]
    assert (form, "sql_mode" in str(why)) == ("sql", True)


@pytest.fixture
def alone(server: ServerFactory, park: ServerPark, schema: SchemaFactory, flavor: Flavor) -> Iterator[Twins]:
    """Two tasks into a server that no other test uses."""
    upstream, target = park.shared(flavor, "upstream-1"), server(flavor)
    made = Twins(upstream, target, schema(upstream, target, prefix="form"))
    made.create(*TABLES)
    made.begin()
    yield made
    made.close()


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("at_target", "at_source", "error"),
    [
        ("DELETE FROM {} WHERE id = 1", "UPDATE {} SET v = 7", "row-missing"),
        ("INSERT INTO {} VALUES (4, 0)", "INSERT INTO {} VALUES (4, 4), (5, 5), (6, 6)", "duplicate-key"),
    ],
)
def test_a_target_that_passes_over_errors_is_given_no_events(
    server: ServerFactory,
    park: ServerPark,
    schema: SchemaFactory,
    flavor: Flavor,
    at_target: str,
    at_source: str,
    error: str,
) -> None:
    """After the row that fails it would pass over the others of the event, too."""
    upstream, target = park.shared(flavor, "upstream-1"), server(flavor, slave_skip_errors="1032,1062")
    twins = Twins(upstream, target, schema(upstream, target, prefix="form"))
    try:
        twins.create(*TABLES)
        twins.begin()
        hot = f"{twins.name}.hot"
        upstream.execute(f"INSERT INTO {hot} VALUES (1, 1), (2, 2), (3, 3)")
        form, why = forms(twins.follow(twins.tasks["auto"]))["hot"]
        assert (form, "skip_errors is 1032,1062 at the target" in str(why)) == ("sql", True)
        target.execute(at_target.format(hot))
        upstream.execute(at_source.format(hot))
        with pytest.raises(DMError) as caught:
            twins.follow(twins.tasks["auto"])
        assert caught.value.name == error
    finally:
        twins.close()


@pytest.mark.ci_flavor("mariadb")
def test_values_that_a_setting_would_cut_are_refused_while_the_task_runs(alone: Twins) -> None:
    hot, target = f"{alone.name}.hot", alone.target
    alone.upstream.execute(f"INSERT INTO {hot} VALUES (1, 1)")
    variable = "replica_type_conversions" if target.flavor == "mysql" else "slave_type_conversions"
    sync = RunningSync(alone.tasks["auto"], None)
    try:
        assert forms(sync.wait_synced())["hot"] == ("events", "")
        target.execute(f"SET GLOBAL {variable} = 'ALL_LOSSY'", f"ALTER TABLE {hot} MODIFY v TINYINT")
        alone.upstream.execute(f"UPDATE {hot} SET v = 300")
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert error.server_errno == 1264
    assert target.query(f"SELECT v FROM {hot}") == ((1,),)


@pytest.mark.parametrize("flavor", ["mariadb"])
def test_rows_that_a_setting_would_send_elsewhere_stay_while_the_task_runs(alone: Twins) -> None:
    hot, other, target = f"{alone.name}.hot", f"{alone.by_sql}.hot", alone.target
    alone.upstream.execute(f"INSERT INTO {hot} VALUES (1, 1)")
    target.execute(f"INSERT INTO {other} VALUES (1, 1)")
    with running_sync(alone.tasks["auto"]) as sync:
        assert forms(sync.wait_synced())["hot"] == ("events", "")
        target.execute(f"SET GLOBAL replicate_rewrite_db = '{alone.name}->{alone.by_sql}'")
        alone.upstream.execute(f"UPDATE {hot} SET v = 7")
        assert forms(sync.wait_synced())["hot"][0] == "sql"
    assert target.query(f"SELECT v FROM {hot}") == ((7,),)
    assert target.query(f"SELECT v FROM {other}") == ((1,),)
