"""A name that one session holds until it ends, on every kind of target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.migration import Migration
from tests.testbed.sync import endpoint_of, wait_until
from tests.testbed.tidb import TidbServer

pytestmark = pytest.mark.live

Sessions = tuple[TargetConnection, TargetConnection, TargetConnection]


@pytest.fixture(params=["mysql", "mariadb", pytest.param("tidb", marks=pytest.mark.tidb)])
def kind(request: pytest.FixtureRequest) -> PrivateServer:
    server: PrivateServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def sessions(kind: PrivateServer) -> Iterator[Sessions]:
    with ExitStack() as stack:
        one, two, three = (stack.enter_context(closing(TargetConnection(endpoint_of(kind)))) for _ in range(3))
        yield one, two, three


def test_one_session_holds_a_name_and_everybody_sees_which(sessions: Sessions) -> None:
    one, two, _ = sessions
    assert session_lock.holders(one, ["dm:a:1", "dm:a:2"]) == frozenset()
    assert session_lock.take(one, "dm:a:1")
    assert not session_lock.take(two, "dm:a:1")
    assert session_lock.take(two, "dm:a:2")
    assert session_lock.holders(two, ["dm:a:1"]) == {one.connection_id}
    assert session_lock.holders(one, ["dm:a:1", "dm:a:2"]) == {one.connection_id, two.connection_id}


def test_who_holds_it_may_take_it_again(sessions: Sessions) -> None:
    one, two, _ = sessions
    assert session_lock.take(one, "dm:b")
    assert session_lock.take(one, "dm:b")
    assert not session_lock.take(two, "dm:b")


def test_a_name_is_free_when_it_is_given_back_or_its_session_is_gone(sessions: Sessions) -> None:
    one, two, three = sessions
    assert session_lock.take(one, "dm:c")
    session_lock.release(one, "dm:c")
    assert session_lock.take(two, "dm:c")
    three.kill(two.connection_id)
    wait_until(lambda: session_lock.take(three, "dm:c"), "the killed session is gone")


def test_a_session_that_holds_one_can_make_sure_of_another(sessions: Sessions) -> None:
    one, two, three = sessions
    assert session_lock.take(one, "dm:d:control")
    assert session_lock.take(one, "dm:d:worker")
    assert session_lock.holders(two, ["dm:d:control"]) == {one.connection_id}
    assert session_lock.take(two, "dm:e:worker")
    assert not session_lock.take(one, "dm:e:worker")
    assert session_lock.take(three, "dm:e:other")


@pytest.mark.tidb
def test_a_list_of_sessions_that_lacks_a_server_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mysql: ThrowawayServer, schema: SchemaFactory
) -> None:
    """A TiDB without its status port tells no session, and only warns of it: two would hold one name."""
    monkeypatch.setattr(session_lock, "_CLUSTER_SECONDS", 1)
    server = TidbServer(tmp_path / "tidb", status={"report-status": False}).start()
    try:
        with closing(TargetConnection(endpoint_of(server))) as connection:
            for ask in (
                lambda: session_lock.take(connection, "dm:f"),
                lambda: session_lock.holders(connection, ["dm:f"]),
                lambda: session_lock.runs_statement(connection, 7),
                lambda: session_lock.demand_all_seen(connection),
            ):
                with pytest.raises(DMError) as caught:
                    ask()
                assert (caught.value.name, caught.value.retryable) == ("tidb-sessions-unseen", True)
                assert "`report-status`" in caught.value.workaround
                assert "10080" in caught.value.cause, "which server has not answered"
            assert "status ports" in session_lock.words_while_asking(connection)
        migration = Migration(mysql, server, schema(mysql), mode="incremental")
        (finding,) = migration.check()["target_session"]
        assert (finding.state, "`status-port` (10080)" in finding.instruction) == ("failure", True)
    finally:
        server.destroy()


@pytest.mark.tidb
def test_a_list_of_sessions_that_takes_too_long_proves_nothing(
    tidb: TidbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the statement by another clock than the questions to its cluster, with an error of its own."""
    monkeypatch.setattr(session_lock, "_CLUSTER_SECONDS", 1)
    with closing(TargetConnection(endpoint_of(tidb))) as connection, pytest.raises(DMError) as caught:
        session_lock._of_cluster(connection, "id", "SLEEP(20) = 1", ())
    assert (caught.value.name, caught.value.server_errno) == ("tidb-sessions-unseen", 3024)
    assert caught.value.retryable
