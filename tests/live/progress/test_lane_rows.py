"""A transaction under a claim: what it tells, and what it leaves, when something in it fails."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.lane_rows import CONTROL, LaneClaim, claimed, raise_epoch, read_lanes
from dm.progress.tables import SubtaskKey, create_tables
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


def begun(connection: TargetConnection, name: str) -> LaneClaim:
    """A run, and a table `t` that it writes to."""
    key = SubtaskKey(name, "task", "source-1")
    create_tables(connection, key)
    connection.execute(f"CREATE TABLE {name}.t (v INT)")
    epoch, _ = raise_epoch(connection, key, [CONTROL])
    return LaneClaim(key, CONTROL, epoch)


@pytest.mark.parametrize("several", [True, False])
def test_a_lost_claim_is_told_and_not_what_a_statement_after_it_met(
    several: bool, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(target)
    with closing(TargetConnection(endpoint_of(target), several=several)) as connection:
        claim = begun(connection, name)
        raise_epoch(connection, claim.key, [CONTROL])
        statements = [f"INSERT INTO {name}.t VALUES (1)".encode(), f"INSERT INTO {name}.gone VALUES (1)".encode()]
        with pytest.raises(DMError) as caught, claimed(connection, claim, statements):
            pass
        assert caught.value.name == "fenced"
        connection.begin()
        assert connection.query(f"SELECT v FROM {name}.t") == []


def test_a_statement_that_fails_under_a_claim_that_holds_is_told(
    target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(target)
    with closing(TargetConnection(endpoint_of(target), several=True)) as connection:
        claim = begun(connection, name)
        with (
            pytest.raises(DMError, match="gone"),
            claimed(connection, claim, [f"INSERT INTO {name}.gone VALUES (1)".encode()]),
        ):
            pass
        assert [row.batch for row in read_lanes(connection, claim.key)] == [0]


def test_nothing_stays_open_after_an_error_of_ours(target: ThrowawayServer, schema: SchemaFactory) -> None:
    """The next transaction of the session would commit it."""
    name = schema(target)
    with closing(TargetConnection(endpoint_of(target), several=True)) as connection:
        claim = begun(connection, name)
        statement = f"INSERT INTO {name}.t VALUES (1)".encode()
        with pytest.raises(TypeError, match="a list"), claimed(connection, claim, [statement]):
            connection.execute(f"INSERT INTO {name}.t VALUES (%s)", ([2],))
        connection.begin()
        assert connection.query(f"SELECT v FROM {name}.t") == []
        assert [row.batch for row in read_lanes(connection, claim.key)] == [0]
