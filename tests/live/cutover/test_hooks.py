"""The hooks of docs/cut-over.md: applications behind a ProxySQL, and those that use a name of a zone."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pymysql
import pytest

from dm.errors import DMError
from dm.tools.cutover.hook import call
from tests.live.cli.test_cut_over_verb import PASSWORD, grant, moving
from tests.live.cutover.test_kills import Ledger
from tests.testbed.bind import ZONE, NameServer, programs
from tests.testbed.fixtures import ServerFactory
from tests.testbed.proxysql import ProxySql
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live]

HOOKS = Path(__file__).parents[3] / "task-examples" / "hooks"
DIES = """#!/bin/sh
{hook} "$1"
status=$?
[ "$1" = switch ] && [ ! -e {hook}.died ] && touch {hook}.died && kill -9 $$
exit $status
"""


def copied(name: str, directory: Path, **settings: object) -> str:
    """A hook with settings of one's own, as its first lines tell a person to make it."""
    text = (HOOKS / name).read_text(encoding="utf-8")
    for setting, value in settings.items():
        text, number = re.subn(rf"^{setting}=\S+", f"{setting}={value}", text, flags=re.MULTILINE)
        assert number == 1, setting
    made = directory / name
    made.write_text(text, encoding="utf-8")
    made.chmod(0o700)
    return str(made)


def told(target: str, *sources: str) -> Mapping[str, str]:
    return {"DM_TARGET": target, "DM_SOURCE_ADDRESSES": " ".join(sources)}


# ProxySQL


@pytest.fixture
def proxysql() -> Iterator[ProxySql]:
    with ProxySql("radmin", PASSWORD, hostgroup=10) as found:
        yield found


def of_proxysql(proxysql: ProxySql, directory: Path, password: str = PASSWORD) -> str:
    admin = directory / "proxysql.cnf"
    admin.write_text(f"[client]\nhost=127.0.0.1\nport={proxysql.admin_port}\nuser=radmin\npassword={password}\n")
    return copied("proxysql.sh", directory, ADMINS=admin, HOSTGROUP=10)


def listed(proxysql: ProxySql, *servers: tuple[str, int, str], hostgroup: int = 10) -> None:
    for host, port, status in servers:
        proxysql.query(
            "INSERT INTO mysql_servers (hostgroup_id, hostname, port, status, max_connections)"
            f" VALUES ({hostgroup}, '{host}', {port}, '{status}', 77)"
        )
    proxysql.query("LOAD MYSQL SERVERS TO RUNTIME")


def online(proxysql: ProxySql, table: str = "runtime_mysql_servers") -> list[tuple[object, ...]]:
    return proxysql.query(f"SELECT hostname, port FROM {table} WHERE status = 'ONLINE' AND hostgroup_id = 10")[1]


def test_proxysql_lets_writes_wait_and_leads_to_the_target_or_back(proxysql: ProxySql, tmp_path: Path) -> None:
    hook = of_proxysql(proxysql, tmp_path)
    one, two, target = ("db-1", 3306), ("db-1", 3307), ("2001:db8::7", 3306)
    listed(proxysql, ("elsewhere", 3306, "ONLINE"), hostgroup=20)
    listed(proxysql, (*one, "ONLINE"), (*target, "OFFLINE_HARD"))
    names = told("[2001:db8::7]:3306", "db-1:3306")
    for _ in range(2):  # a daemon that was killed calls it again
        assert not call(hook, "stop-writes", names), "the read-only mode is left to dm"
        assert online(proxysql) == []
    for _ in range(2):
        assert call(hook, "start-writes", names)
        assert online(proxysql) == online(proxysql, "disk.mysql_servers") == [one]
    call(hook, "stop-writes", names)
    for _ in range(2):
        assert call(hook, "switch", names)
        assert online(proxysql) == online(proxysql, "disk.mysql_servers") == [target]
    back = told("db-1:3306", "[2001:db8::7]:3306")
    assert not call(hook, "stop-writes", back)
    assert call(hook, "switch", back)
    assert online(proxysql) == [one]
    listed(proxysql, (*two, "ONLINE"))
    assert call(hook, "switch", told("[2001:db8::7]:3306", "db-1:3306", "db-1:3307"))
    assert online(proxysql) == [target], "no source is left of several"
    assert proxysql.query("SELECT DISTINCT max_connections FROM mysql_servers WHERE hostgroup_id = 10")[1] == [(77,)]
    assert proxysql.query("SELECT status FROM runtime_mysql_servers WHERE hostgroup_id = 20")[1] == [("ONLINE",)]


def test_a_proxysql_that_lacks_the_target_refuses_or_hangs_is_an_error(proxysql: ProxySql, tmp_path: Path) -> None:
    listed(proxysql, ("db-1", 3306, "ONLINE"))
    with pytest.raises(DMError, match=r"mysql_servers lacks the target: .*db-7"):
        call(of_proxysql(proxysql, tmp_path), "stop-writes", told("db-7:3306", "db-1:3306"))
    assert online(proxysql) == [("db-1", 3306)], "and nothing was changed"
    with pytest.raises(DMError, match="Access denied"):
        call(of_proxysql(proxysql, tmp_path, password="wrong"), "switch", told("db-7:3306", "db-1:3306"))
    hook = of_proxysql(proxysql, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        (tmp_path / "proxysql.cnf").write_text(f"[client]\nhost=127.0.0.1\nport={silent.getsockname()[1]}\n")
        with pytest.raises(DMError, match=r"did not end within 0\.5 s"):
            call(hook, "switch", told("db-7:3306", "db-1:3306"), 0.5)


def test_applications_behind_proxysql_go_on_at_the_target_though_the_hook_dies_first(
    server: ServerFactory, proxysql: ProxySql, tmp_path: Path
) -> None:
    """It has moved them when it dies: only a second call tells dm so."""
    with moving(server("mysql"), server("mysql"), tmp_path) as move:
        grant(move)
        for each in (move.source, move.target):
            each.create_user("app", PASSWORD, "SELECT, INSERT ON move.*")
        listed(
            proxysql,
            ("127.0.0.1", move.source.port, "ONLINE"), ("127.0.0.1", move.target.port, "OFFLINE_HARD"),
        )  # fmt: skip
        hook = of_proxysql(proxysql, tmp_path)
        program = tmp_path / "dies"
        program.write_text(DIES.format(hook=hook))
        program.chmod(0o700)
        ledger = Ledger(lambda: application(proxysql), count(10))
        with ledger.writing():
            wait_until(lambda: len(ledger.committed) > 20, "it writes")
            words = ("cut-over", "move", "--yes", "--no-way-back", "--prove", "none", "--max-lag", "1000")
            died = move.daemon.said(*words, "--hook", str(program))
            assert (died.status, "it ended with -9" in died.out) == (1, True), str(died)
            assert "44072" in move.daemon.said("cut-over", "move", "--abort").err, "applications are at the target"
            assert move.state()["state"] == "switching"
            again = move.daemon.said(*words)
            assert (again.status, "move: switched" in again.out) == (0, True), str(again)
            written = len(ledger.committed)
            wait_until(lambda: len(ledger.committed) > written, "it goes on")
        assert ledger.is_at(move.target), "what was written before and after"
        assert not ledger.is_at(move.source)
        move.open()


def application(proxysql: ProxySql) -> pymysql.Connection[pymysql.cursors.Cursor]:
    return pymysql.connect(
        host="127.0.0.1", port=proxysql.applications.port, user="app", password=PASSWORD, autocommit=True
    )


# A name server


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    monkeypatch.setenv("PATH", f"{programs()}:{os.environ['PATH']}")
    with NameServer(tmp_path / "bind") as found:
        yield found


def of_dns(names: NameServer, directory: Path, key: Path | None = None) -> str:
    return copied(
        "dns.sh", directory, SERVER="127.0.0.1", PORT=names.port, ZONE=ZONE, NAME=f"db.{ZONE}", KEY=key or names.key
    )


def test_a_name_points_to_the_target_whatever_kind_of_address_it_has(names: NameServer, tmp_path: Path) -> None:
    hook = of_dns(names, tmp_path)
    for word in ("stop-writes", "start-writes"):
        assert not call(hook, word, told("192.0.2.7:3306", "192.0.2.1:3306")), "left to dm"
    assert names.found("db") == ["192.0.2.1"]
    kinds = (("192.0.2.7:3306", "A", "192.0.2.7"), ("[2001:db8::7]:3306", "AAAA", "2001:db8::7"),
             ("db-7.example.com:3306", "CNAME", "db-7.example.com."), ("192.0.2.1:3306", "A", "192.0.2.1"))  # fmt: skip
    for target, kind, value in (kinds[0], *kinds):
        assert call(hook, "switch", told(target, "192.0.2.1:3306"))
        assert names.found("db", kind) == [value]
    assert names.found("db", "AAAA") == names.found("db", "CNAME") == [], "what it was before is gone"


def test_a_name_server_that_refuses_or_is_away_is_an_error_and_a_second_call_helps(
    names: NameServer, tmp_path: Path
) -> None:
    given = told("192.0.2.7:3306", "192.0.2.1:3306")
    with pytest.raises(DMError, match=r"BADSIG|NOTAUTH"):
        call(of_dns(names, tmp_path, names.wrong_key), "switch", given)
    assert names.found("db") == ["192.0.2.1"]
    hook = of_dns(names, tmp_path)
    names.kill()
    with pytest.raises(DMError, match=r"the hook .* failed at `switch`"):
        call(hook, "switch", given)
    names.start()
    program = tmp_path / "dies"
    program.write_text(DIES.format(hook=hook))
    program.chmod(0o700)
    with pytest.raises(DMError, match="it ended with -9"):
        call(str(program), "switch", given)
    assert names.found("db") == ["192.0.2.7"], "it has moved the name when it dies"
    assert call(str(program), "switch", given)
    assert names.found("db") == ["192.0.2.7"]


@pytest.mark.chaos  # the machine is that of every hook
def test_a_cut_over_moves_the_name(server: ServerFactory, names: NameServer, tmp_path: Path) -> None:
    with moving(server("mariadb"), server("mariadb"), tmp_path) as move:
        grant(move)
        move.daemon.must("cut-over", "move", "--yes", "--no-way-back", "--hook", of_dns(names, tmp_path))
        assert names.found("db") == ["127.0.0.1"]
        move.open()
