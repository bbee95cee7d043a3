"""A name that one session holds until it ends, on every kind of target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from dm.demo.private_server import PrivateServer
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from tests.testbed.sync import endpoint_of, wait_until

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
