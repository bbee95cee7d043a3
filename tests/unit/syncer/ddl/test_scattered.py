"""A statement on a table whose rows go to several tables is executed for each of them, or pauses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.progress.operators import Operator
from dm.syncer.ddl.plan import Execute, TrackOnly
from tests.unit.syncer.ddl.planning import TRANSACTION, Looking, query

TABLES = [TableName("old", "t_1"), TableName("old", "t_2")]


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE d.scattered ADD COLUMN v INT AFTER id",
        "ALTER TABLE d.scattered DROP COLUMN v, COMMENT 'no shard'",
        "ALTER TABLE d.scattered RENAME COLUMN v TO w",
        "CREATE UNIQUE INDEX by_v ON d.scattered (v)",
        "DROP INDEX by_v ON d.scattered",
        "TRUNCATE TABLE d.scattered",
        "DROP TABLE d.scattered",
    ],
)
def test_what_means_the_same_for_each_is_executed_for_each_and_tracked_once(text: str) -> None:
    steps = Looking().steps(query(text.encode()))
    executed = [step for step in steps if isinstance(step, Execute)]
    assert executed == [*steps]
    assert [step.into for step in executed] == TABLES * (len(steps) // 2)
    assert [step.track for step in executed] == ["not", "exactly"] * (len(steps) // 2)
    rules = Looking().known.rules
    for step in executed:
        routed = step.piece.route(step.routing(rules))
        assert routed.tables == (step.into,)
        assert "d" not in {table.schema for table in routed.tables}


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE d.scattered ADD COLUMN v INT AFTER `Shard`",
        "ALTER TABLE d.scattered DROP COLUMN shard",
        "CREATE INDEX i ON d.scattered (id, SHARD)",
        "ALTER TABLE d.scattered PARTITION BY HASH (id) PARTITIONS 4",
        "ALTER TABLE d.scattered ADD FOREIGN KEY (id) REFERENCES d.u (id)",
        "ALTER TABLE d.u ADD FOREIGN KEY (id) REFERENCES d.scattered (id)",
        "RENAME TABLE d.scattered TO d.u",
        "RENAME TABLE d.u TO d.scattered",
        "CREATE TABLE d.scattered (id INT)",
        "CREATE TABLE d.u LIKE d.scattered",
    ],
)
def test_everything_else_pauses_and_a_person_decides(text: str) -> None:
    with pytest.raises(DMError) as caught:
        Looking().steps(query(text.encode()))
    assert (caught.value.name, caught.value.position) == ("ddl-scattered", str(TRANSACTION.end))
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    assert all(isinstance(step, TrackOnly) for step in Looking().steps(query(text.encode()), TRANSACTION, skipping))
    instead = Operator("uuid", "binlog.000001", 100, "replace", ("ALTER TABLE d.scattered ADD COLUMN v INT",))
    steps = Looking().steps(query(text.encode()), TRANSACTION, instead)
    assert [step.into for step in steps if isinstance(step, Execute)] == TABLES


def test_what_the_opposite_has_executed_is_tracked_once() -> None:
    transaction = replace(TRANSACTION, writer="opposite")
    (step,) = Looking().steps(query(b"ALTER TABLE d.scattered ADD COLUMN v INT"), transaction)
    assert isinstance(step, TrackOnly)
