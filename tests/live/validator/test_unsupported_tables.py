"""Tables whose rows are not validated say why, and the others are validated all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.config.expression import ExpressionFilter
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.task.start_and_end import StartTime
from dm.task.validation import beginning
from dm.tools.validator.source_tables import FILTERED, PARTIAL, UNKNOWN
from tests.live.validator.test_beginnings_and_ends import next_second
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for
from tests.testbed.validation import errors_of, running_validator, tables_of, validated

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture
def tables(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> str:
    """Two alike, `t` and `other`."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(*(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT, w INT)" for table in ("t", "other")))
    return name


def begun(subtask: SubtaskConfig) -> SubtaskConfig:
    """The validator has its beginning."""
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
    return subtask


def stages(subtask: SubtaskConfig) -> dict[str, tuple[str, str]]:
    return {name: (each.stage, each.message) for name, each in tables_of(subtask).items()}


def wrong(subtask: SubtaskConfig) -> list[tuple[str, str]]:
    """Table and key of each error."""
    return sorted((each.row.source.table, each.row.message.partition(":")[0]) for each in errors_of(subtask))


@pytest.mark.ci_flavor("mysql")
def test_a_table_with_an_expression_filter(upstream: ThrowawayServer, target: ThrowawayServer, tables: str) -> None:
    rule = ExpressionFilter(name="small", schema_name=tables, table="t", insert_value_expr="v < 10")
    plain = subtask_for(upstream, target, tables, task=tables)
    subtask = begun(validated(plain.model_copy(update={"expression_filters": (rule,)})))
    with running_sync(subtask) as sync:
        upstream.execute(
            *(f"INSERT INTO {tables}.{table} VALUES (1, 1, 1), (2, 20, 2), (3, 30, 3)" for table in ("t", "other"))
        )
        sync.wait_synced()
        assert target.query(f"SELECT id FROM {tables}.t ORDER BY id") == ((2,), (3,)), "row 1 is not to be there"
        target.execute(*(f"DELETE FROM {tables}.{table} WHERE id = 2" for table in ("t", "other")))
        with running_validator(subtask) as validator:
            validator.wait("3/0/0")
    assert stages(subtask) == {"t": ("Stopped", FILTERED), "other": ("Running", "")}
    assert wrong(subtask) == [("other", "id=2")]


@pytest.mark.ci_flavor("mariadb")
def test_a_table_whose_rows_are_logged_in_part(upstream: ThrowawayServer, target: ThrowawayServer, tables: str) -> None:
    subtask = begun(validated(subtask_for(upstream, target, tables, task=tables)))
    with running_sync(subtask) as sync:
        upstream.execute(
            *(f"INSERT INTO {tables}.{table} VALUES (1, 1, 1), (2, 2, 2)" for table in ("t", "other")),
            "SET SESSION binlog_row_image = MINIMAL",
            f"UPDATE {tables}.t SET v = 10 WHERE id = 1",
            "SET SESSION binlog_row_image = FULL",
            f"UPDATE {tables}.t SET v = 20 WHERE id = 2",
            f"UPDATE {tables}.other SET v = 20 WHERE id = 2",
        )
        sync.wait_synced()
        assert target.query(f"SELECT id, v FROM {tables}.t ORDER BY id") == ((1, 10), (2, 20))
        target.execute(*(f"UPDATE {tables}.{table} SET w = -1 WHERE id = 2" for table in ("t", "other")))
        with running_validator(subtask) as validator:
            validator.wait("4/1/0")
    assert stages(subtask) == {"t": ("Stopped", PARTIAL), "other": ("Running", "")}
    # Rows of `t` that were read before wait no more: nobody knows what has become of them.
    assert wrong(subtask) == [("other", "id=2")]


@pytest.mark.ci_flavor("mysql")
def test_a_table_whose_structure_nobody_knows_any_more(
    upstream: ThrowawayServer, target: ThrowawayServer, tables: str, tmp_path: Path
) -> None:
    """The validator begins where the table still was."""
    subtask = validated(subtask_for(upstream, target, tables, task=tables))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        when = next_second(upstream)
        upstream.execute(
            *(f"INSERT INTO {tables}.{table} VALUES (1, 1, 1), (2, 2, 2)" for table in ("t", "other")),
            f"DROP TABLE {tables}.t",
        )
        sync.wait_synced()
        sync.stop()
    target.execute(f"DELETE FROM {tables}.other WHERE id = 2")
    place = beginning(subtask, StartTime.parse(when), tmp_path)
    with running_sync(subtask) as sync, running_validator(subtask, start=place.position) as validator:
        validator.wait("2/0/0")
    assert stages(subtask) == {"t": ("Stopped", UNKNOWN), "other": ("Running", "")}
    assert wrong(subtask) == [("other", "id=2")]
