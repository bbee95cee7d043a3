"""A source that no task could follow is told when it is created, with the statement that puts it right."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dm.demo.servers import Option
from dm.mysql.dialect import FLAVORS, Flavor
from tests.live.cli.newcomer import AT_SOURCE, FAILED, OK, Newcomer
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


@pytest.fixture(scope="module", params=FLAVORS)
def newcomer(
    request: pytest.FixtureRequest, park: ServerPark, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Newcomer]:
    flavor: Flavor = request.param
    upstream, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    one = Newcomer(upstream, target, tmp_path_factory.mktemp("unfit"))
    with one.daemon:
        yield one
        one.close()


def test_an_account_that_may_not_read_the_binlog(newcomer: Newcomer) -> None:
    poor = newcomer.user(newcomer.upstream, "SELECT ON *.*")
    file = newcomer.file("poor.yaml", newcomer.source_text("poor", poor))
    created = newcomer.daemon.said("operate-source", "create", file)
    assert created.status == OK, str(created)
    account = f"'{poor}'@'%'"
    grant = f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {account}"
    assert created.err.splitlines() == [
        f"warning: source poor (127.0.0.1:{newcomer.upstream.port}): {account} lacks REPLICATION SLAVE, REPLICATION "
        f"CLIENT; no task can follow it until this is put right: {grant}"
    ]
    newcomer.upstream.execute(grant)
    updated = newcomer.daemon.said("operate-source", "update", file)
    assert (updated.status, updated.err) == (OK, ""), str(updated)
    newcomer.must("operate-source", "stop", "poor")


def test_a_relay_that_could_not_pull(newcomer: Newcomer) -> None:
    poor = newcomer.user(newcomer.upstream, "SELECT, REPLICATION CLIENT ON *.*")
    text = newcomer.source_text("relayed", poor, more="enable-relay: true\n")
    says = "its binlog can't be pulled: 'new_[0-9a-f]+'@'%' lacks REPLICATION SLAVE\n  workaround: GRANT REPLICATION"
    refused = newcomer.refused(
        FAILED, "operate-source", "create", newcomer.file("relayed.yaml", text), says="Error 26901: source relayed"
    )
    assert re.search(says, refused.err), str(refused)


def test_servers_without_rows_in_their_binlog(newcomer: Newcomer, park: ServerPark) -> None:
    off: dict[str, Option] = {"log_bin": False, "binlog_format": "STATEMENT"}
    off |= {"skip_log_bin": None} if newcomer.upstream.flavor == "mysql" else {"log_slave_updates": False}
    server = park.own(newcomer.upstream.flavor, gtid=False, options=off)
    del server.options["log_bin"]
    with server:
        user = newcomer.user(server, f"{AT_SOURCE} ON *.*")
        text = newcomer.source_text("nolog", user, port=server.port)
        created = newcomer.daemon.said("operate-source", "create", newcomer.file("nolog.yaml", text))
        assert created.status == OK, str(created)
        findings = [line.partition("): ")[2].partition(";")[0] for line in created.err.splitlines()]
        assert findings == ["log_bin is OFF: the server writes no binlog", "binlog_format is STATEMENT"]
        assert "SET GLOBAL binlog_format = 'ROW'" in created.err
        newcomer.must("operate-source", "stop", "nolog")
