"""A session of a DM user: the requests of DM's page "Maintain DM Clusters Using OpenAPI", one after the other.

Paths, headers and keys are those of the page. Names, addresses and places are those of the servers here. Of the page's
task the keys of TiDB's physical import are left out, which dm refuses, and the place to begin is given where it counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.worker.test_daemon_on_servers import AT_SOURCE, AT_TARGET, PASSWORD
from tests.testbed.fixtures import SchemaFactory
from tests.unit.worker.home import REAL_DAEMON, TestHome, home, until
from tests.unit.worker.test_api import bearer, port

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.ci_flavor("mysql")]

NO_TLS = {"ssl_ca_content": "", "ssl_cert_content": "", "ssl_key_content": "", "cert_allowed_cn": ["string"]}
PURGE = {"interval": 3600, "expires": 0, "remain_space": 15}
FULL = {"export_threads": 4, "import_threads": 16, "data_dir": "./exported_data", "consistency": "auto"}
ANY, JSON = {"accept": "*/*"}, {"accept": "application/json"}


@dataclass
class Session:
    """A port of a daemon, and the servers that it is told of."""

    home: TestHome
    client: httpx.Client
    upstream: ThrowawayServer
    target: ThrowawayServer
    schema: str

    @property
    def user(self) -> str:
        return f"openapi_{self.schema}"

    def place(self) -> tuple[str, int]:
        status = "SHOW BINARY LOG STATUS" if self.upstream.flavor == "mysql" else "SHOW MASTER STATUS"
        file, end = self.upstream.query(status)[0][:2]
        return str(file), int(str(end))

    def get(self, path: str) -> Any:
        answer = self.client.get(path, headers=JSON)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def done(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.client.request(method, path, headers=ANY, json=body)
        assert answer.status_code == status, (method, path, answer.text)
        return answer.json() if answer.content else None

    def rows(self) -> list[tuple[object, ...]]:
        return sorted(self.target.query(f"SELECT id, v FROM `{self.schema}`.moved"))

    @property
    def source(self) -> dict[str, Any]:
        login = {"host": "127.0.0.1", "port": self.upstream.port, "user": self.user, "password": PASSWORD}
        return {
            "source_name": "mysql-01",
            **login,
            "enable": True,
            "enable_gtid": False,
            "security": NO_TLS,
            "purge": PURGE,
        }

    def task(self, mode: str) -> dict[str, Any]:
        login = {"host": "127.0.0.1", "port": self.target.port, "user": self.user, "password": PASSWORD}
        ignored = {"ignore_event": ["truncate table"], "ignore_sql": ["^Drop"]}
        file, end = self.place()
        start = {} if mode == "all" else {"binlog_name": file, "binlog_pos": end}
        return {
            "name": "task-1", "task_mode": mode, "meta_schema": f"meta_{self.schema}",
            "enhance_online_schema_change": True, "on_duplicate": "overwrite",
            "target_config": {**login, "security": NO_TLS},
            "binlog_filter_rule": {"rule-1": ignored, "rule-2": ignored, "rule-3": ignored},
            "table_migrate_rule": [
                {
                    "source": {"source_name": "mysql-01", "schema": self.schema, "table": "table*"},
                    "target": {"schema": self.schema, "table": "moved"},
                    "binlog_filter_rule": ["rule-1", "rule-2", "rule-3"],
                }
            ],
            "source_config": {
                "full_migrate_conf": FULL,
                "incr_migrate_conf": {"repl_threads": 16, "repl_batch": 100},
                "source_conf": [{"source_name": "mysql-01", **start}],
            },
        }  # fmt: skip


@pytest.fixture
def session(
    tmp_path: Path, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> Iterator[Session]:
    name = schema(upstream, target)
    upstream.execute(
        f"CREATE TABLE `{name}`.table1 (id INT PRIMARY KEY, v VARCHAR(40))",
        f"CREATE TABLE `{name}`.other (id INT PRIMARY KEY)",
        f"INSERT INTO `{name}`.table1 VALUES (1, 'a')",
        "FLUSH BINARY LOGS",
    )
    with home(tmp_path / "home") as one:
        one.program = REAL_DAEMON
        one.start("--listen", "127.0.0.1:0")
        with httpx.Client(base_url=f"http://{port(one, 'listen')}/api/v1", headers=bearer(one), timeout=120) as client:
            found = Session(one, client, upstream, target, name)
            xa = ["XA_RECOVER_ADMIN ON *.*"] if upstream.flavor == "mysql" else []
            upstream.create_user(found.user, PASSWORD, f"{AT_SOURCE} ON *.*", *xa)
            target.create_user(found.user, PASSWORD, *(f"{AT_TARGET} ON `{each}`.*" for each in (name, f"meta_{name}")))
            yield found
    target.execute(f"DROP DATABASE IF EXISTS `meta_{name}`", f"DROP USER IF EXISTS `{found.user}`")


@pytest.mark.parametrize("mode", ["incremental", pytest.param("all", marks=[pytest.mark.chaos, pytest.mark.spark])])
def test_the_requests_of_dms_page_work_path_by_path(session: Session, mode: str) -> None:
    worker = _cluster(session)
    _sources(session, worker)
    _relay(session, worker)
    _tasks(session, mode)
    _structures(session)
    session.done("POST", "/tasks/task-1/stop")
    session.done("DELETE", "/tasks/task-1", status=204)
    session.done("DELETE", "/sources/mysql-01", status=204)
    assert session.get("/sources")["total"] == session.get("/tasks")["total"] == 0
    assert not session.target.query(f"SHOW TABLES FROM `meta_{session.schema}`")
    for file in session.home.directory.rglob("*"):
        if file.is_file() and not file.name.startswith("registry"):
            assert PASSWORD.encode() not in file.read_bytes(), file


def _cluster(session: Session) -> str:
    master = session.get("/cluster/masters")["data"][0]
    assert (master["alive"], master["leader"]) == (True, True)
    assert session.done("DELETE", "/cluster/masters/master1", status=400)["error_code"] == 49901
    worker = session.get("/cluster/workers")["data"][0]
    assert worker["addr"] == master["addr"]
    assert session.done("DELETE", "/cluster/workers/worker1", status=400)["error_code"] == 49901
    return str(worker["name"])


def _sources(session: Session, worker: str) -> None:
    created = session.done("POST", "/sources", session.source, 201)
    assert (created["source_name"], created["purge"], created["password"]) == ("mysql-01", PURGE, "******")
    assert session.get("/sources/mysql-01?with_status=true")["status_list"][0]["worker_name"] == worker
    session.done("DELETE", "/sources/mysql-01?force=true", status=204)
    session.done("POST", "/sources", session.source, 201)
    put = {**session.source, "enable": False, "flavor": session.upstream.flavor, "task_name_list": ["task1"]}
    relay = {"enable_relay": False, "relay_binlog_name": "", "relay_binlog_gtid": "", "relay_dir": "./relay_log"}
    updated = session.done("PUT", "/sources/mysql-01", {"source": {**put, "relay_config": relay}})
    assert (updated["enable"], updated["flavor"]) == (False, session.upstream.flavor)
    session.done("POST", "/sources/mysql-01/enable")
    session.done("POST", "/sources/mysql-01/disable")
    assert session.get("/sources?with_status=true")["data"][0]["enable"] is False
    session.done("POST", "/sources/mysql-01/enable")
    assert session.get("/sources/mysql-01/status")["data"][0]["source_name"] == "mysql-01"


def _relay(session: Session, worker: str) -> None:
    first, _ = session.place()
    asked = {"worker_name_list": [worker], "relay_binlog_name": first, "relay_dir": "./relay_log"}
    session.done("POST", "/sources/mysql-01/relay/enable", asked)
    session.upstream.execute("FLUSH BINARY LOGS")
    second, _ = session.place()
    until(lambda: second in session.get("/sources/mysql-01/status")["data"][0]["relay_status"]["master_binlog"])
    until(lambda: session.get("/sources/mysql-01/status")["data"][0]["relay_status"]["relay_catch_up_master"])
    assert list((session.home.directory / "relay_log" / "mysql-01").glob(f"*/{second}"))
    assert session.get("/sources?enable_relay=true")["total"] == 1
    session.done("POST", "/sources/mysql-01/relay/disable", {"worker_name_list": [worker]})
    purge = {"relay_binlog_name": second}

    def purged() -> bool:
        """The page calls the end of a relay asynchronous: it has the directory until then, and ends with its purge."""
        answered = session.client.post("/sources/mysql-01/relay/purge", json=purge).status_code == 200
        return answered and not list((session.home.directory / "relay_log" / "mysql-01").glob(f"*/{first}"))

    until(purged)
    assert session.done("POST", "/sources/mysql-01/transfer", {"worker_name": "worker-1"}, 400)["error_code"] == 49901
    session.done("POST", "/sources/mysql-01/transfer", {"worker_name": worker})
    assert session.schema in session.get("/sources/mysql-01/schemas")
    assert session.get(f"/sources/mysql-01/schemas/{session.schema}") == ["other", "table1"]


def _tasks(session: Session, mode: str) -> None:
    if mode == "incremental":
        session.target.execute(f"CREATE TABLE `{session.schema}`.moved (id INT PRIMARY KEY, v VARCHAR(40))")
    created = session.done("POST", "/tasks", {"task": session.task(mode)}, 201)
    assert created["task"]["target_config"]["password"] == "******"
    assert session.get("/tasks/task-1?with_status=true")["status_list"][0]["stage"] == "Stopped"
    session.done("DELETE", "/tasks/task-1", status=204)
    session.done("POST", "/tasks", {"task": session.task(mode)}, 201)
    session.done("PUT", "/tasks/task-1", {"task": session.task(mode)})
    session.done("POST", "/tasks/task-1/start")
    until(lambda: _synced(session))
    session.upstream.execute(
        f"INSERT INTO `{session.schema}`.table1 VALUES (2, 'b')", f"TRUNCATE TABLE `{session.schema}`.table1",
        f"INSERT INTO `{session.schema}`.table1 VALUES (3, 'c')",
    )  # fmt: skip
    until(lambda: (3, "c") in session.rows())
    assert (2, "b") in session.rows(), "the filters leave the TRUNCATE out"
    status = until(lambda: _synced(session))
    assert (status["unit"], status["stage"]) == ("Sync", "Running")
    assert status["sync_status"]["syncer_binlog"]
    session.done("POST", "/tasks/task-1/stop")
    assert session.get("/tasks/task-1/status?stage=running")["data"][0]["stage"] == "Stopped"
    session.upstream.execute(f"INSERT INTO `{session.schema}`.table1 VALUES (4, 'd')")
    session.done("POST", "/tasks/task-1/start")
    until(lambda: (4, "d") in session.rows())
    session.done("POST", "/tasks/task-1/stop")
    assert [each["name"] for each in session.get("/tasks")["data"]] == ["task-1"]


def _synced(session: Session) -> Any:
    status = session.get("/tasks/task-1/status")["data"][0]
    return status if status.get("sync_status", {}).get("synced") else None


def _structures(session: Session) -> None:
    at = "/tasks/task-1/sources/mysql-01"
    goes = {
        "source_schema": session.schema,
        "source_table": "table1",
        "target_schema": session.schema,
        "target_table": "moved",
    }
    assert session.get(f"{at}/migrate_targets") == {"total": 1, "data": [goes]}
    assert session.get(f"{at}/migrate_targets?table_pattern=o*")["total"] == 0
    assert session.get(f"{at}/schemas") == [session.schema]
    assert session.get(f"{at}/schemas/{session.schema}") == ["table1"]
    table = f"{at}/schemas/{session.schema}/table1"
    told = session.get(table)
    assert (told["schema_name"], told["table_name"]) == (session.schema, "table1")
    assert "`v` varchar(40)" in told["schema_create_sql"].lower()
    text = told["schema_create_sql"].replace("40", "50")
    session.done("PUT", table, {"sql_content": text, "flush": True, "sync": True})
    assert "50" in session.get(table)["schema_create_sql"]
    assert session.done("PUT", table, {"sql_content": text, "flush": False}, 400)["error_code"] == 49001
    session.done("DELETE", table, status=204)
