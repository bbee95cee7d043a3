"""Who runs a task is stored with the epoch, and a run that was ended tells it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from dm.config.subtask import RunBy
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.checkpoint import no_other_run
from dm.progress.lane_rows import CONTROL, LaneClaim, transaction
from dm.progress.load_parts import begin_run, finish_run, load_fenced
from dm.progress.owner import OwnRun, fenced_by, note_owner, read_owner
from dm.progress.tables import SubtaskKey, create_tables, remove_progress
from dm.progress.takeover import Fence, take_over
from dm.progress.validator import ValidatorProgress, create_validator_tables, demand_epoch
from tests.testbed.fake_clock import FakeClock
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

ONE = RunBy(host="one.example", home="/one", member="m1", cluster="c")
TWO = RunBy(host="two.example", home="/two", member="m2", cluster="c")
STRANGER = RunBy(host="three.example", home="/three")
TOLD = re.compile(r"member m2 on host two\.example \(/two\) has it since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


@pytest.fixture
def key(target: ThrowawayServer, schema: SchemaFactory) -> SubtaskKey:
    return SubtaskKey(schema(target), "task", "source-1")


@pytest.fixture
def connection(target: ThrowawayServer, key: SubtaskKey) -> Iterator[TargetConnection]:
    with closing(TargetConnection(endpoint_of(target))) as found:
        create_tables(found, key)
        yield found


def begin(target: ThrowawayServer, key: SubtaskKey, by: RunBy) -> LaneClaim:
    """A syncer's run takes over, and ends."""
    with closing(TargetConnection(endpoint_of(target))) as control:
        fence = Fence(key, FakeClock(), threading.Event(), lambda _: None, by)
        return take_over({CONTROL: control}, fence).claims[CONTROL]


def told(connection: TargetConnection, claim: LaneClaim, by: RunBy) -> DMError:
    return fenced_by(connection, claim.key, OwnRun("Sync", claim.epoch, by), claim.fenced)


def test_a_syncer_tells_the_member_its_host_and_since_when(
    target: ThrowawayServer, connection: TargetConnection, key: SubtaskKey
) -> None:
    claim = begin(target, key, ONE)
    assert "has not said" in told(connection, claim, ONE).message, "nobody has taken over"
    later = begin(target, key, TWO)
    error = told(connection, claim, ONE)
    assert (error.name, bool(TOLD.search(error.message))) == ("fenced", True), error.message
    found = read_owner(connection, key, "Sync")
    assert found is not None
    assert (found.run_by, found.epoch) == (TWO, later.epoch)
    begin(target, key, STRANGER)
    error = told(connection, claim, ONE)
    assert (error.name, error.retryable) == ("fenced-by-others", False)
    assert "dm-worker on host three.example (/three) has it" in error.message
    remove_progress(connection, key)
    assert read_owner(connection, key, "Sync") is None


def test_what_is_stored_goes_with_the_epoch(connection: TargetConnection, key: SubtaskKey) -> None:
    begin_run(connection, key, "dump", threading.Event(), ONE)
    connection.begin()
    note_owner(connection, key, "Load", 7, TWO)
    connection.rollback()
    found = read_owner(connection, key, "Load")
    assert found is not None
    assert (found.run_by, found.epoch) == (ONE, 1)
    connection.execute(f"UPDATE {key.owner.sql} SET run_by = '[' WHERE id = %s", (key.source_id,))
    connection.commit()
    with pytest.raises(DMError, match=r"24901|can't be read"):
        read_owner(connection, key, "Load")


def test_loads_and_validators_tell_it_as_well(connection: TargetConnection, key: SubtaskKey) -> None:
    first = begin_run(connection, key, "dump", threading.Event(), ONE)
    begin_run(connection, key, "dump", threading.Event(), TWO)
    with pytest.raises(DMError) as caught:
        finish_run(connection, first)
    assert (caught.value.name, bool(TOLD.search(caught.value.message))) == ("load-fenced", True)
    begin_run(connection, key, "dump", threading.Event(), STRANGER)
    assert load_fenced(connection, first).name == "fenced-by-others"

    create_validator_tables(connection, key)
    older = ValidatorProgress(connection, key, ONE)
    older.claim()
    ValidatorProgress(connection, key, TWO).claim()
    with pytest.raises(DMError) as caught, transaction(connection):
        demand_epoch(connection, key, older.own)
    assert (caught.value.name, bool(TOLD.search(caught.value.message))) == ("validator-fenced", True)


def test_who_is_in_the_way_of_a_start_is_told(
    target: ThrowawayServer, connection: TargetConnection, key: SubtaskKey
) -> None:
    with closing(TargetConnection(endpoint_of(target))) as control:
        take_over({CONTROL: control}, Fence(key, FakeClock(), threading.Event(), lambda _: None, TWO))
        with pytest.raises(DMError) as caught, no_other_run(connection, key):
            pass
    assert caught.value.name == "task-runs-elsewhere"
    assert TOLD.search(caught.value.message), caught.value.message
