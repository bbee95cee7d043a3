"""The sessions of a run at the target: a wrong password is tried once, and none is left behind."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.syncer.apply.lanes import Stopped
from dm.syncer.apply.target_sessions import TargetSessions
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

LANES = [f"worker-{number}" for number in range(8)]


def refused_logins(server: ThrowawayServer) -> int:
    return int(server.query("SHOW GLOBAL STATUS LIKE 'Aborted_connects'")[0][1])


def sessions_of(server: ThrowawayServer) -> int:
    count = server.query("SELECT COUNT(*) FROM information_schema.processlist WHERE command <> 'Daemon'")[0][0]
    return int(count)


@pytest.fixture
def subtask(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> SubtaskConfig:
    name = schema(upstream, target)
    return subtask_for(upstream, target, name, task=name)


def test_a_wrong_password_is_tried_once_and_not_by_each_lane(subtask: SubtaskConfig, target: ThrowawayServer) -> None:
    wrong = subtask.model_copy(update={"target": subtask.target.model_copy(update={"password": SecretStr("wrong")})})
    before = refused_logins(target)
    with pytest.raises(DMError, match="refuses user"), running_sync(wrong) as running:
        running.wait_synced()
    assert refused_logins(target) - before == 1


def test_what_fails_meanwhile_is_raised_with_all_sessions_known(
    subtask: SubtaskConfig, target: ThrowawayServer
) -> None:
    before = sessions_of(target)
    sessions = TargetSessions(subtask.target)

    def meanwhile() -> None:
        raise DMError("stopped-while-waiting", what="this")

    with pytest.raises(DMError, match="this"):
        sessions.open_all(LANES, meanwhile)
    assert len(sessions.numbers) == len(LANES) + 1  # a spare one
    sessions.close()
    wait_until(lambda: sessions_of(target) <= before, "the sessions end")


def test_none_is_opened_once_they_were_cut_off(subtask: SubtaskConfig, target: ThrowawayServer) -> None:
    before = sessions_of(target)
    sessions = TargetSessions(subtask.target)
    sessions.cut_off()
    with pytest.raises(Stopped):
        sessions.open_all(LANES, lambda: None)
    wait_until(lambda: sessions_of(target) <= before, "the sessions end")
