"""Sessions at a TiDB: pessimistic whatever a file says, and its DDL jobs, which outlive the sessions that sent them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from dm.downstream import ddl_jobs
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.local_data import LocalDataAdmission
from dm.mysql.dialect.tidb import TiDB
from dm.session import state
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of, wait_until
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.tidb]


@pytest.fixture
def sessions(tidb: TidbServer) -> Iterator[tuple[TargetConnection, TargetConnection]]:
    """Two, as DM's own files for TiDB ask for them."""
    optimistic = {"tidb_txn_mode": "optimistic", "innodb_lock_wait_timeout": "1"}
    endpoint = endpoint_of(tidb).model_copy(update={"session": optimistic})
    with ExitStack() as stack:
        one, two = (stack.enter_context(closing(TargetConnection(endpoint))) for _ in range(2))
        yield one, two


def test_a_row_that_is_written_is_locked_at_once(
    tidb: TidbServer, sessions: tuple[TargetConnection, TargetConnection], schema: SchemaFactory
) -> None:
    """The progress protocol rests on it: a new run waits at SELECT .. FOR UPDATE for a lane that has not committed."""
    one, two = sessions
    table = TableName(schema(tidb), "t").sql
    tidb.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {table} VALUES (1, 1)")
    one.begin()
    one.execute(f"UPDATE {table} SET v = 2 WHERE id = 1")
    two.begin()
    with pytest.raises(DMError) as refused:
        two.query(f"SELECT v FROM {table} WHERE id = 1 FOR UPDATE")
    assert refused.value.name == "transaction-aborted"
    one.commit()
    two.rollback()
    two.begin()
    assert two.query(f"SELECT v FROM {table} WHERE id = 1 FOR UPDATE") == [(2,)]
    with pytest.raises(DMError) as twice:  # by the statement, not at COMMIT
        two.execute(f"INSERT INTO {table} VALUES (1, 3)")
    assert twice.value.name == "duplicate-key"


def test_a_session_is_what_the_protocol_needs_whatever_a_file_asks_for(tidb: TidbServer) -> None:
    other = {
        "tidb_txn_mode": "optimistic", "tidb_constraint_check_in_place_pessimistic": "OFF", "tidb_dml_type": "bulk",
        "tidb_low_resolution_tso": "ON", "tidb_replica_read": "follower", "tidb_batch_insert": "ON",
        "tidb_guarantee_linearizability": "OFF", "transaction_isolation": "REPEATABLE-READ",
    }  # fmt: skip
    with closing(TargetConnection(endpoint_of(tidb).model_copy(update={"session": other}))) as session:
        found = {str(name): str(value) for name, value in session.query(state.question(TiDB()))}
        assert found.keys() == TiDB.settled.keys()
        assert {name: value.upper() for name, value in found.items()} == {
            name: value.upper() for name, value in TiDB.settled.items()
        }
        assert session.query("SELECT @@transaction_isolation") == [("READ-COMMITTED",)]


@pytest.mark.parametrize("operations", ["ADD COLUMN v INT", "ADD COLUMN v INT, ADD COLUMN w INT"])
def test_a_job_is_seen_until_it_has_ended(
    tidb: TidbServer, sessions: tuple[TargetConnection, TargetConnection], schema: SchemaFactory, operations: str
) -> None:
    one, two = sessions
    table = TableName(schema(tidb), "t")
    tidb.execute(f"CREATE TABLE {table.sql} (id INT PRIMARY KEY)", f"INSERT INTO {table.sql} VALUES (1)")
    alter = f"ALTER TABLE {table.sql} {operations}"
    one.begin()
    one.execute(f"DELETE FROM {table.sql} WHERE id = 1")  # for whose transaction the job waits
    thread = threading.Thread(target=tidb.execute, args=(alter,))
    thread.start()
    try:
        wait_until(lambda: ddl_jobs.job_for(two, alter), "the job is there")
        assert ddl_jobs.job_on(two, table)
        assert not ddl_jobs.job_for(two, f"{alter} DEFAULT 1")
        assert not ddl_jobs.job_on(two, TableName(table.schema, "other"))
    finally:
        one.commit()
        thread.join()
    assert not ddl_jobs.job_for(two, alter)
    assert not ddl_jobs.job_on(two, table)


def test_rows_never_come_by_load_data(sessions: tuple[TargetConnection, TargetConnection]) -> None:
    one, _ = sessions
    assert one.query("SELECT @@local_infile") == [(1,)]
    assert not LocalDataAdmission.ask(one).admitted


def test_what_the_sources_expressions_depend_on_is_not_corrected(tidb: TidbServer) -> None:
    source = {"div_precision_increment": "9", "default_week_format": "3"}
    with closing(TargetConnection(endpoint_of(tidb).model_copy(update={"expression_values": source}))) as session:
        assert session.query("SELECT @@div_precision_increment, @@default_week_format, @@max_execution_time") == [
            (9, 3, 0)
        ]
