"""The throw-away servers: private, restartable, killable, and gone when we are."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pymysql
import pytest

from dm.demo import servers
from dm.demo.installation import cache_directory, find
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory, ServerFactory

pytestmark = pytest.mark.live


def process_exists(pid: int) -> bool:
    """Whether the process runs; one that ended and was not collected yet does not count."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in {"Z", "X"}


def test_a_server_of_the_asked_flavour_answers_and_logs_whole_rows(upstream: ThrowawayServer, flavor: Flavor) -> None:
    ((version, log_bin, binlog_format, image),) = upstream.query(
        "SELECT @@version, @@log_bin, @@binlog_format, @@binlog_row_image"
    )
    assert ("MariaDB" in version) == (flavor == "mariadb")
    assert (log_bin, binlog_format, image) == (1, "ROW", "FULL")


def test_a_new_server_has_an_empty_gtid_set(server: ServerFactory, flavor: Flavor) -> None:
    fresh = server(flavor)
    variable = "@@GLOBAL.gtid_executed" if flavor == "mysql" else "@@GLOBAL.gtid_binlog_pos"
    found = fresh.query(f"SELECT {variable}")
    # It failed once, at a load of 13 to 25, and nobody saw what a new server had written.
    assert found == (("",),), (fresh.query("SHOW BINLOG EVENTS"), fresh.log_tail(60))


def test_two_servers_have_different_identities(upstreams: tuple[ThrowawayServer, ThrowawayServer]) -> None:
    first, second = upstreams
    assert first.port != second.port
    assert first.query("SELECT @@server_id") != second.query("SELECT @@server_id")
    if first.flavor == "mysql":
        assert first.query("SELECT @@server_uuid") != second.query("SELECT @@server_uuid")


@pytest.mark.ci_flavor("mysql")
def test_options_go_over_the_defaults(server: ServerFactory, flavor: Flavor) -> None:
    special = server(flavor, gtid=False, binlog_row_metadata="FULL", lower_case_table_names=1)
    assert special.query("SELECT @@binlog_row_metadata, @@lower_case_table_names") == (("FULL", 1),)
    if flavor == "mysql":
        assert special.query("SELECT @@gtid_mode") == (("OFF",),)


@pytest.mark.ci_flavor("mysql")
def test_what_was_committed_survives_a_sigkill_and_the_address_stays(
    server: ServerFactory, schema: SchemaFactory, flavor: Flavor
) -> None:
    victim = server(flavor)
    name = schema(victim)
    victim.execute(f"CREATE TABLE {name}.t (a INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1), (2)")
    port = victim.port
    victim.kill()
    assert not victim.running
    with pytest.raises(pymysql.err.OperationalError):
        victim.connect()
    victim.start()
    assert victim.port == port
    assert victim.query(f"SELECT COUNT(*) FROM {name}.t") == ((2,),)


@pytest.mark.ci_flavor("mariadb")
def test_a_frozen_server_accepts_nothing_until_it_is_thawed(server: ServerFactory, flavor: Flavor) -> None:
    sleeper = server(flavor)
    sleeper.freeze()
    with pytest.raises(pymysql.err.OperationalError):
        sleeper.connect(connect_timeout=1, read_timeout=1)
    sleeper.thaw()
    assert sleeper.query("SELECT 1") == ((1,),)


def test_users_get_what_they_are_granted_and_no_more(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    open_to_all, closed = schema(upstream), schema(upstream)
    upstream.create_user(f"r_{closed}", "its 'password'", f"SELECT ON {open_to_all}.*")
    connection = upstream.connect(user=f"r_{closed}", password="its 'password'")
    with connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        visible = {row[0] for row in cursor.fetchall()}
    connection.close()
    assert open_to_all in visible
    assert closed not in visible


@pytest.mark.ci_flavor("mariadb")
def test_a_server_that_cannot_start_says_why(server: ServerFactory, flavor: Flavor) -> None:
    broken = server(flavor, start=False, no_such_variable=1)
    with pytest.raises(DMError) as raised:
        broken.start()
    assert raised.value.name == "server-not-started"
    assert "no_such_variable" in str(raised.value) or "no-such-variable" in str(raised.value)


@pytest.mark.ci_flavor("mysql")
def test_no_server_outlives_a_killed_parent(tmp_path: Path, flavor: Flavor) -> None:
    program = textwrap.dedent(f"""
        import sys, threading
        from pathlib import Path
        from dm.demo.servers import ThrowawayServer
        server = ThrowawayServer({flavor!r}, Path({str(tmp_path / "orphan")!r}), server_id=7)
        # Started from a thread that ends: the server must outlive the thread, and only the thread.
        thread = threading.Thread(target=server.start)
        thread.start()
        thread.join()
        server.query("SELECT 1")
        print(server.pid, flush=True)
        sys.stdin.read()
    """)
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert process_exists(pid)
    pidfd = os.pidfd_open(pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    # A pidfd becomes readable when its process ends.
    assert select.select([pidfd], [], [], 60)[0]
    os.close(pidfd)
    assert not process_exists(pid)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_initialising_leaves_the_temporary_tables_of_others_alone(
    flavor: Flavor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    other = shared / "#sql-temptable-1-2-3.MAI"
    other.touch()
    monkeypatch.setenv("TMPDIR", str(shared))
    (tmp_path / "mysql").symlink_to(cache_directory() / "mysql")
    monkeypatch.setenv("DM_CACHE", str(tmp_path))
    servers.create(find(flavor), tmp_path / "data", {})
    assert other.exists()
