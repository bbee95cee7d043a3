"""Progress of a newer dm is refused, whoever reads it; tables of before there were numbers get theirs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from dm.config import SubtaskConfig, read_source, read_task
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.checkpoint import has_checkpoint
from dm.progress.tables import SubtaskKey, create_tables, existing_tables, remove_progress
from dm.stored_format import CUT_OVER, PROGRESS
from dm.task.forgotten import remove_task
from dm.tools.cutover.record import CutOverRow

pytestmark = pytest.mark.live


@pytest.fixture
def key(target: ThrowawayServer) -> Iterator[SubtaskKey]:
    one = SubtaskKey(f"meta_{secrets.token_hex(4)}", "t", "one")
    yield one
    target.execute(f"DROP DATABASE IF EXISTS {one.meta_schema}")


@pytest.fixture
def connection(target: ThrowawayServer, key: SubtaskKey) -> Iterator[TargetConnection]:
    with closing(TargetConnection(_subtask(target, key).target)) as opened:
        create_tables(opened, key)
        yield opened


def _subtask(target: ThrowawayServer, key: SubtaskKey) -> SubtaskConfig:
    login = f"{{host: 127.0.0.1, port: {target.port}, user: root, password: '{target.password}'}}"
    source = read_source(f"source-id: one\nfrom: {login}\n")
    text = (
        f"name: t\ntask-mode: incremental\nmeta-schema: {key.meta_schema}\ntarget-database: {login}\n"
        "mysql-instances: [{source-id: one, meta: {binlog-name: b.000001, binlog-pos: 4}}]\n"
    )
    return read_task(text, {"one": source}).subtask("one")


@pytest.mark.parametrize("read", [create_tables, existing_tables, has_checkpoint, remove_progress])
def test_newer_progress_is_refused_by_name(
    connection: TargetConnection, key: SubtaskKey, read: Callable[[TargetConnection, SubtaskKey], object]
) -> None:
    connection.execute(f"INSERT INTO {key.stored_format.sql} (format) VALUES ({PROGRESS.number + 1})")
    connection.commit()
    with pytest.raises(DMError) as refused:
        read(connection, key)
    assert refused.value.name == "stored-format-newer"
    assert f"the progress in {key.stored_format} has format {PROGRESS.number + 1}" in str(refused.value)


def test_tables_of_before_there_were_numbers_get_theirs(connection: TargetConnection, key: SubtaskKey) -> None:
    connection.execute(f"DROP TABLE {key.stored_format.sql}")
    assert key.checkpoint in existing_tables(connection, key)
    create_tables(connection, key)
    assert connection.query(f"SELECT format FROM {key.stored_format.sql}") == [(PROGRESS.number,)]


def test_the_number_stays_as_long_as_the_tables(connection: TargetConnection, key: SubtaskKey) -> None:
    remove_progress(connection, key)
    assert connection.query(f"SELECT format FROM {key.stored_format.sql}") == [(PROGRESS.number,)]
    remove_task(connection, key.meta_schema, "t")
    assert connection.query(f"SHOW TABLES FROM {key.meta_schema}") == []


def test_a_newer_row_of_a_cut_over_is_refused_by_name(target: ThrowawayServer, key: SubtaskKey) -> None:
    target.execute(
        f"CREATE DATABASE {key.meta_schema}",
        f"CREATE TABLE {key.cut_over.sql} (id VARCHAR(32), version INT, epoch BIGINT, state LONGTEXT)",
        f"INSERT INTO {key.cut_over.sql} VALUES ('', {CUT_OVER.number + 1}, 1, '')",
    )
    with pytest.raises(DMError, match=rf"the row of a cut-over in {key.cut_over} has format 2") as refused:
        CutOverRow(_subtask(target, key)).read()
    assert refused.value.name == "stored-format-newer"
