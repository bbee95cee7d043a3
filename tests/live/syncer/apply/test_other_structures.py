"""Target tables that are not like the source's: more or fewer columns, another order, other keys."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

SOURCE = "id INT PRIMARY KEY, v INT, w VARCHAR(20), UNIQUE KEY by_w (w)"
# What the target has instead, and what its own columns hold after all.
SHAPES = {
    "more": "id INT PRIMARY KEY, v INT, own INT NOT NULL DEFAULT 7, w VARCHAR(20), UNIQUE KEY by_w (w), late DATE",
    "needed": "id INT PRIMARY KEY, v INT, w VARCHAR(20), UNIQUE KEY by_w (w), own INT, more VARCHAR(9) DEFAULT 'd'",
    "other_order": "w VARCHAR(20), v INT, id INT PRIMARY KEY, UNIQUE KEY by_w (w)",
    "other_case": "ID INT PRIMARY KEY, V INT, W VARCHAR(20), UNIQUE KEY by_w (W)",
    "wider": "id BIGINT UNSIGNED PRIMARY KEY, v BIGINT, w TEXT, UNIQUE KEY by_w (w(20))",
    "key_of_two": "id INT, v INT NOT NULL, w VARCHAR(20), PRIMARY KEY (v, id)",
    "only_unique": "id INT, v INT, w VARCHAR(20) NOT NULL, UNIQUE KEY by_w (w)",
    "own_key": "own INT AUTO_INCREMENT PRIMARY KEY, id INT NOT NULL, v INT, w VARCHAR(20), UNIQUE KEY by_id (id)",
    "only_own_key": "own INT AUTO_INCREMENT PRIMARY KEY, id INT, v INT, w VARCHAR(20)",
    "no_key": "id INT, v INT, w VARCHAR(20)",
    "computed": "id INT PRIMARY KEY, v INT, w VARCHAR(20), twice INT AS (v * 2) STORED, UNIQUE KEY u (twice, id)",
    "computes_ours": "id INT PRIMARY KEY, v INT, w VARCHAR(20) AS (CONCAT('row ', id)) STORED",
}
WITHOUT_KEY = "id INT, v INT, w VARCHAR(20)"
ROWS = "SELECT id, v, w FROM {s}.{t} ORDER BY id, v, w"


def changes(schema: str, table: str) -> list[str]:
    """Every kind of change; `w` always follows `id`, so that a target may compute it."""
    name = f"{schema}.{table}"
    values = ", ".join(f"({number}, {number % 5}, 'row {number}')" for number in range(30))
    return [
        f"INSERT INTO {name} VALUES {values}",
        f"UPDATE {name} SET v = v + 10 WHERE id % 3 = 0",
        f"UPDATE {name} SET id = id + 500, w = CONCAT('row ', id) WHERE id < 4",
        f"DELETE FROM {name} WHERE id % 7 = 1",
        f"REPLACE INTO {name} VALUES (10, 99, 'row 10')",
    ]


@pytest.mark.parametrize("safe", [pytest.param(False, marks=pytest.mark.chaos), True])
def test_rows_meet_their_columns_by_name_in_and_out_of_safe_mode(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, safe: bool
) -> None:
    name = schema(upstream, target)
    for table, definition in SHAPES.items():
        upstream.execute(f"CREATE TABLE {name}.{table} ({SOURCE})")
        target.execute(f"CREATE TABLE {name}.{table} ({definition})")
    upstream.execute(f"CREATE TABLE {name}.gets_key ({WITHOUT_KEY})")
    target.execute(f"CREATE TABLE {name}.gets_key ({SOURCE})")
    tables = [*SHAPES, "gets_key"]
    with running_sync(subtask_for(upstream, target, name, task=name, safe_mode=safe)) as sync:
        sync.wait_synced()
        for table in tables:
            statements = changes(name, table)
            # Where the source has no key, its REPLACE adds a row.
            upstream.execute(*(statements[:-1] if table == "gets_key" else statements))
        sync.wait_synced()
        for table in tables:
            query = ROWS.format(s=name, t=table)
            assert target.query(query) == upstream.query(query), table
        target.execute(f"UPDATE {name}.more SET own = id", f"UPDATE {name}.own_key SET own = id + 100000")
        upstream.execute(*(f"UPDATE {name}.{table} SET v = v + 1" for table in ("more", "own_key")))
        sync.wait_synced()
    # Columns that only the target has keep what stands in them, also where rows are replaced.
    assert target.query(f"SELECT COUNT(*) FROM {name}.more WHERE own <> id") == ((0,),)
    assert target.query(f"SELECT COUNT(*) FROM {name}.own_key WHERE own <> id + 100000") == ((0,),)
    assert target.query(f"SELECT DISTINCT late FROM {name}.more") == ((None,),)
    assert target.query(f"SELECT DISTINCT own, more FROM {name}.needed") == ((None, "d"),)
    assert target.query(f"SELECT COUNT(*) FROM {name}.computed WHERE twice <> v * 2") == ((0,),)


def test_ddl_goes_on_beside_the_targets_own_columns(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t ({SOURCE})")
    target.execute(f"CREATE TABLE {name}.t (own INT DEFAULT 1, w VARCHAR(20), id INT PRIMARY KEY, v INT, ready INT)")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.t VALUES (1, 1, 'a')",
            f"ALTER TABLE {name}.t ADD COLUMN x INT DEFAULT 4 AFTER id, MODIFY v BIGINT",
            f"DROP INDEX by_w ON {name}.t",  # the target never had it: done
            f"ALTER TABLE {name}.t ADD COLUMN ready INT",  # it is there: done
            f"INSERT INTO {name}.t VALUES (2, 5, 5000000000, 'b', 6)",
            f"ALTER TABLE {name}.t CHANGE w text VARCHAR(30), DROP COLUMN x",
            f"UPDATE {name}.t SET text = 'c' WHERE id = 1",
        )
        status = sync.wait_synced()
    assert status["ddlAlreadyEffective"] == 2  # the key that was never there, and the column
    assert target.query(f"SELECT * FROM {name}.t ORDER BY id") == (
        (1, "c", 1, 1, None),
        (1, "b", 2, 5000000000, 6),
    )


@pytest.mark.parametrize(
    ("definition", "code", "remedy"),
    [
        ("id INT PRIMARY KEY, w VARCHAR(20)", 36920, "ALTER TABLE {s}.t ADD COLUMN v INT"),
        pytest.param(
            "", 36070, "CREATE TABLE {s}.t (id INT PRIMARY KEY, v INT, w VARCHAR(20))", marks=pytest.mark.chaos
        ),
        pytest.param(
            "id INT PRIMARY KEY, v INT, w VARCHAR(20), UNIQUE KEY u (v)",
            36924,
            "ALTER TABLE {s}.t DROP KEY u",
            marks=pytest.mark.chaos,
        ),
    ],
)
def test_what_has_no_place_at_the_target_pauses_until_it_has(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, definition: str, code: int, remedy: str
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t ({SOURCE})")
    if definition:
        target.execute(f"CREATE TABLE {name}.t ({definition})")
    subtask = subtask_for(upstream, target, name, task=name)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 1, 'a'), (2, 1, 'b')")
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.code == code
    target.execute(remedy.format(s=name))
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT id, v, w FROM {name}.t ORDER BY id") == ((1, 1, "a"), (2, 1, "b"))
