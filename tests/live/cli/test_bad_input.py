"""Every mistake of a new user: one clear message, the right exit status, nothing half-done."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import FLAVORS, Flavor
from tests.live.cli.newcomer import AT_SOURCE, BAD_USAGE, FAILED, OK, PRECHECK_FAILED, Newcomer, version_of
from tests.testbed.park import ServerPark
from tests.testbed.proxy import FaultProxy

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

_USERS = re.compile(r"[0-9]+ users: .+")  # accounts of other tests are at the shared servers as well
_GRANT = re.compile(r"GRANT [^;]+? TO '[^']+'@'%'")
# What the servers have no part in is tried on one flavour.
once = pytest.mark.parametrize("newcomer", ["mariadb"], indirect=True, scope="module")


@pytest.fixture(scope="module", params=FLAVORS)
def newcomer(
    request: pytest.FixtureRequest, park: ServerPark, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Newcomer]:
    """One daemon with one good source, `here`, for all mistakes."""
    flavor: Flavor = request.param
    upstream, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    one = Newcomer(upstream, target, tmp_path_factory.mktemp("newcomer"))
    with one.daemon:
        one.daemon.must(
            "operate-source", "create", one.file("here.yaml", one.source_text("here", one.good_source_user()))
        )
        yield one
        one.close()


# files


@once
@pytest.mark.parametrize(
    ("verb", "name", "content", "says"),
    [
        pytest.param("operate-source create", "absent.yaml", None, "No such file or directory", id="missing"),
        pytest.param("check-task", ".", None, "Is a directory", id="directory"),
        pytest.param("start-task", "picture.yaml", b"\x89PNG\r\n\x1a\n\x00\x00", "not text in UTF-8", id="binary"),
        pytest.param("start-task", "prose.yaml", "Dear reader: this is: no YAML\n", "prose.yaml:1:", id="not YAML"),
        pytest.param("operate-source create", "list.yaml", "- one\n- two\n", "list.yaml", id="no mapping"),
    ],
)
def test_files_of_another_kind(
    newcomer: Newcomer, verb: str, name: str, content: str | bytes | None, says: str
) -> None:
    if content is not None:
        newcomer.file(name, content)
    newcomer.refused(BAD_USAGE, *verb.split(), name, says=says)


@once
def test_a_typo_in_a_key_of_a_source(newcomer: Newcomer) -> None:
    text = newcomer.source_text("typo", "dm", more="enable-gtd: true\n")
    newcomer.refused(
        BAD_USAGE,
        "operate-source", "create", newcomer.file("typo.yaml", text),
        says="typo.yaml:2:1", also="did you mean `enable-gtid`?",
    )  # fmt: skip


@once
def test_a_typo_in_a_key_of_a_task(newcomer: Newcomer) -> None:
    text = newcomer.task_text("typo", "here", "dm").replace("block-allow-list: shop", "blok-allow-list: shop")
    newcomer.refused(
        BAD_USAGE,
        "start-task", newcomer.file("typo.yaml", text),
        says="typo.yaml:11:5", also="did you mean `block-allow-list`?",
    )  # fmt: skip


@once
def test_all_mistakes_of_a_file_come_in_one_message(newcomer: Newcomer) -> None:
    text = newcomer.task_text("many", "nowhere", "dm").replace("task-mode: incremental", "task-mod: everything")
    answer = newcomer.refused(BAD_USAGE, "start-task", newcomer.file("many.yaml", text), says="many.yaml:2:1")
    assert "did you mean `task-mode`?" in answer.err
    assert "nowhere" in answer.err


@once
@pytest.mark.parametrize("name", ["../escape", "/etc/passwd"])
def test_names_that_lead_elsewhere(newcomer: Newcomer, name: str) -> None:
    task = newcomer.file("named.yaml", newcomer.task_text(name, "here", "dm"))
    newcomer.refused(BAD_USAGE, "start-task", task, says="named.yaml:1:7")
    source = newcomer.file("named.yaml", newcomer.source_text(name, "dm"))
    newcomer.refused(BAD_USAGE, "operate-source", "create", source, says="named.yaml:1:12")


@once
@pytest.mark.parametrize("verb", ["query-status", "stop-task"])
def test_names_that_lead_elsewhere_in_place_of_a_task(newcomer: Newcomer, verb: str) -> None:
    newcomer.refused(BAD_USAGE, verb, "../escape", says="can't read ../escape")
    newcomer.refused(FAILED, verb, "..", says="there is no task ..")


@once
def test_a_password_variable_that_is_not_set(newcomer: Newcomer) -> None:
    text = newcomer.source_text("unset", "dm", password="${NOT_SET_ANYWHERE}")
    newcomer.refused(BAD_USAGE, "operate-source", "create", newcomer.file("unset.yaml", text), says="NOT_SET_ANYWHERE")


# sources


@once
def test_an_unknown_source(newcomer: Newcomer) -> None:
    task = newcomer.file("unknown.yaml", newcomer.task_text("unknown", "her", "dm"))
    newcomer.refused(BAD_USAGE, "start-task", task, says="unknown.yaml:10:", also="her")
    newcomer.refused(BAD_USAGE, "check-task", task, says="unknown.yaml:10:", also="her")
    newcomer.refused(FAILED, "operate-source", "stop", "her", says="there is no source her")
    newcomer.refused(FAILED, "start-relay", "-s", "her", says="there is no source her")


def test_a_wrong_password_of_a_source(newcomer: Newcomer) -> None:
    user = newcomer.good_source_user()
    text = newcomer.source_text("wrong", user, password="canary-71fe-wrong")
    answer = newcomer.refused(
        FAILED, "operate-source", "create", newcomer.file("wrong.yaml", text), says="refuses user"
    )
    newcomer.told("source-wrong-password", answer, user=user)


def test_a_source_that_is_not_there(newcomer: Newcomer) -> None:
    text = newcomer.source_text("gone", "dm", port=1)
    answer = newcomer.refused(
        FAILED, "operate-source", "create", newcomer.file("gone.yaml", text), says="can't connect to"
    )
    newcomer.told("source-not-there", answer)


@once
def test_a_host_that_does_not_exist(newcomer: Newcomer) -> None:
    text = newcomer.source_text("nohost", "dm").replace("host: 127.0.0.1", "host: no-such-host.invalid")
    answer = newcomer.refused(
        FAILED, "operate-source", "create", newcomer.file("nohost.yaml", text), says="can't connect to"
    )
    with pytest.raises(socket.gaierror) as unknown:  # in the words of this machine's resolver
        socket.getaddrinfo("no-such-host.invalid", newcomer.upstream.port)
    newcomer.told("source-unknown-host", answer, resolver=str(unknown.value))


def test_the_other_flavour(newcomer: Newcomer) -> None:
    other = "mariadb" if newcomer.upstream.flavor == "mysql" else "mysql"
    text = newcomer.source_text("other", newcomer.good_source_user(), more=f"flavor: {other}\n")
    newcomer.refused(BAD_USAGE, "operate-source", "create", newcomer.file("other.yaml", text), says=f"flavor: {other}")


@once
def test_a_source_that_exists(newcomer: Newcomer) -> None:
    newcomer.refused(FAILED, "operate-source", "create", "here.yaml", says="source here already exists")


@once
def test_one_bad_file_of_two_adds_no_source(newcomer: Newcomer) -> None:
    good = newcomer.file("good.yaml", newcomer.source_text("good", newcomer.good_source_user()))
    bad = newcomer.file("bad.yaml", newcomer.source_text("bad", "dm", port=1))
    newcomer.refused(FAILED, "operate-source", "create", good, bad, says="can't connect to")


# servers, when a task is to start


def test_a_wrong_password_of_the_target(newcomer: Newcomer) -> None:
    user = newcomer.good_target_user()
    task = newcomer.file("t.yaml", newcomer.task_text("t", "here", user, password="canary-71fe-wrong"))
    answer = newcomer.refused(PRECHECK_FAILED, "start-task", task, says="refuses user")
    newcomer.told("target-wrong-password", answer, user=user)


def test_a_target_that_is_not_there(newcomer: Newcomer) -> None:
    text = newcomer.task_text("t", "here", "dm", port=1)
    answer = newcomer.refused(
        PRECHECK_FAILED, "start-task", newcomer.file("t.yaml", text), says="can't connect to target 127.0.0.1:1"
    )
    newcomer.told("target-not-there", answer)


@once
def test_a_source_that_is_gone_by_now(newcomer: Newcomer) -> None:
    with FaultProxy(newcomer.upstream.host, newcomer.upstream.port) as proxy:
        name = newcomer.new_name("gone")
        user = newcomer.good_source_user()
        text = newcomer.source_text(name, user, port=proxy.port)
        newcomer.must("operate-source", "create", newcomer.file("gone.yaml", text))
        proxy.refuse()
        task = newcomer.file("t.yaml", newcomer.task_text("t", name, newcomer.good_target_user()))
        answer = newcomer.refused(PRECHECK_FAILED, "start-task", task, says=f"source {name} (127.0.0.1:{proxy.port})")
        newcomer.told("source-gone-by-now", answer, source=name, source_port=proxy.port, user=user)
        newcomer.must("operate-source", "stop", name)


def test_no_binlog(newcomer: Newcomer, park: ServerPark) -> None:
    off: dict[str, bool | None] = {"log_bin": False, "skip_log_bin": None}
    if newcomer.upstream.flavor == "mariadb":
        off = {"log_bin": False, "log_slave_updates": False}
    server = park.own(newcomer.upstream.flavor, gtid=False, options=off)
    del server.options["log_bin"]
    with server:
        server.execute(
            f"CREATE DATABASE {newcomer.schema}",
            f"CREATE TABLE {newcomer.schema}.orders (id INT PRIMARY KEY, v VARCHAR(20))",
        )
        user = newcomer.user(server, f"{AT_SOURCE} ON *.*")
        name = newcomer.new_name("nolog")
        text = newcomer.source_text(name, user, port=server.port)
        newcomer.must("operate-source", "create", newcomer.file("nolog.yaml", text))
        target_user = newcomer.good_target_user()
        task = newcomer.file("t.yaml", newcomer.task_text("t", name, target_user))
        answer = newcomer.refused(PRECHECK_FAILED, "start-task", task, says="log_bin is OFF")
        newcomer.told(
            f"no-binlog-{server.flavor}",
            answer,
            source=name,
            source_port=server.port,
            server_id=server.server_id,
            source_version=version_of(server),
            source_user=user,
            target_user=target_user,
        )
        newcomer.must("operate-source", "stop", name)


@once
def test_no_such_table_in_the_list(newcomer: Newcomer) -> None:
    lists = f"    do-tables:\n      - {{db-name: {newcomer.schema}, tbl-name: custmers}}\n"
    user = newcomer.good_target_user()
    text = newcomer.task_text("t", "here", user).replace(f"    do-dbs: [{newcomer.schema}]\n", lists)
    newcomer.upstream.execute(f"CREATE TABLE {newcomer.schema}.customers (id INT PRIMARY KEY)")
    answer = newcomer.refused(PRECHECK_FAILED, "start-task", newcomer.file("t.yaml", text), says="custmers")
    newcomer.upstream.execute(f"DROP TABLE {newcomer.schema}.customers")
    newcomer.told("no-such-table", answer, target_user=user, users=_USERS)


def test_a_missing_privilege_to_replicate(newcomer: Newcomer) -> None:
    _granted_by_what_is_said(newcomer, newcomer.upstream, ["SELECT ON *.*"], "privilege-to-replicate")


def test_a_missing_privilege_to_read(newcomer: Newcomer) -> None:
    grants = ["REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"INSERT ON {newcomer.schema}.*"]
    _granted_by_what_is_said(newcomer, newcomer.upstream, grants, "privilege-to-read")


def test_a_missing_privilege_at_the_target(newcomer: Newcomer) -> None:
    _granted_by_what_is_said(newcomer, newcomer.target, [f"SELECT ON {newcomer.schema}.*"], "privilege-at-target")


def _granted_by_what_is_said(newcomer: Newcomer, server: ThrowawayServer, grants: list[str], snapshot: str) -> None:
    """What is printed can be copied to the server, and then the check passes."""
    at_source = server is newcomer.upstream
    poor = newcomer.user(server, *grants)
    name = newcomer.new_name("poor")
    source_user = poor if at_source else newcomer.good_source_user()
    newcomer.must("operate-source", "create", newcomer.file("poor.yaml", newcomer.source_text(name, source_user)))
    user = newcomer.good_target_user() if at_source else poor
    task = newcomer.file("t.yaml", newcomer.task_text("t", name, user, mode="all"))
    refused = newcomer.refused(PRECHECK_FAILED, "start-task", task, says=poor)
    newcomer.told(
        f"{snapshot}-{server.flavor}", refused, source=name, source_user=source_user, target_user=user, users=_USERS
    )
    # What is printed for the other account at the other server is only for speed.
    statements = [grant for grant in _GRANT.findall(refused.out) if f"'{poor}'" in grant]
    assert statements, str(refused)
    server.execute(*statements)
    assert newcomer.daemon.said("check-task", task).status == OK
    newcomer.must("operate-source", "stop", name)


# tasks that are there already


@once
def test_a_name_that_is_taken_and_a_task_that_runs(newcomer: Newcomer) -> None:
    target_user = newcomer.good_target_user()
    taken = newcomer.file("taken.yaml", newcomer.task_text("taken", "here", target_user))
    newcomer.must("start-task", taken)
    newcomer.daemon.wait("taken", lambda status: status["here"].get("sync", {}).get("synced"), "follows")

    newcomer.refused(FAILED, "start-task", taken, says="task taken already exists on source here")
    other = newcomer.file("other.yaml", newcomer.task_text("taken", "here", target_user, mode="all"))
    newcomer.refused(FAILED, "start-task", other, says="task taken already exists on source here")
    newcomer.refused(FAILED, "start-task", taken, "--remove-meta", says="task taken already exists on source here")
    newcomer.refused(FAILED, "resume-task", "taken", says="its stage is Running")
    newcomer.refused(FAILED, "pause-task", "taken", "-s", "there", says="task taken does not run on source there")
    newcomer.refused(FAILED, "operate-source", "stop", "here", says="task taken uses source here")
    newcomer.refused(FAILED, "operate-source", "update", "here.yaml", says="task taken uses source here")

    newcomer.upstream.execute(f"INSERT INTO {newcomer.schema}.orders VALUES (3, 'after all that')")
    newcomer.daemon.wait("taken", lambda _: _has(newcomer, 3), "goes on")
    newcomer.must("pause-task", "taken")
    newcomer.refused(FAILED, "pause-task", "taken", says="its stage is Paused")
    newcomer.must("stop-task", "taken")
    newcomer.refused(FAILED, "stop-task", "taken", says="there is no task taken")


def _has(newcomer: Newcomer, row: int) -> bool:
    return bool(newcomer.target.query(f"SELECT 1 FROM {newcomer.schema}.orders WHERE id = %s", [row]))
