"""DM's OpenAPI over scripted units: what is answered, and what becomes of tasks."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.worker.home import TestHome, home
from tests.unit.worker.test_api import bearer, port

SECRET = "canary-51d0"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("openapi") / "home") as running:
        running.start("--listen", "127.0.0.1:0")
        yield running


@pytest.fixture(scope="module")
def client(one: TestHome) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{port(one, 'listen')}/api/v1", headers=bearer(one), timeout=60) as asking:
        assert asking.post("/sources", json=source("s1")).status_code == 201
        assert asking.post("/sources", json={"source": source("s2")}).status_code == 201
        yield asking


def source(name: str, **more: Any) -> dict[str, Any]:
    login = {"host": "127.0.0.1", "port": 3306, "user": "root", "password": SECRET}
    return {"source_name": name, **login, "enable": True, "enable_gtid": False, **more}


def task(name: str, *sources: str, **more: Any) -> dict[str, Any]:
    rules = [{"source": {"source_name": each, "schema": "db", "table": "t*"}} for each in sources]
    return {
        "name": name, "task_mode": "all", "enhance_online_schema_change": True, "on_duplicate": "error",
        "target_config": {"host": "127.0.0.1", "port": 4000, "user": "root", "password": SECRET},
        "table_migrate_rule": rules, "source_config": {"source_conf": [{"source_name": each} for each in sources]},
        **more,
    }  # fmt: skip


def stages(client: httpx.Client, name: str) -> dict[str, str]:
    data = client.get(f"/tasks/{name}/status").json()["data"]
    return {each["source_name"]: each["stage"] for each in data}


def refused(answer: httpx.Response, status: int, code: int) -> str:
    """The message of an error in DM's shape."""
    assert answer.status_code == status, answer.text
    said = answer.json()
    assert said.keys() == {"error_msg", "error_code"}
    assert said["error_code"] == code, said
    return str(said["error_msg"])


def test_a_task_is_created_started_stopped_and_deleted(one: TestHome, client: httpx.Client) -> None:
    created = client.post("/tasks", json={"task": task("life", "s1", "s2")})
    assert created.status_code == 201
    assert created.json()["task"]["name"] == created.json()["name"] == "life"
    assert created.json()["task"]["target_config"]["password"] == "******"
    refused(client.post("/tasks", json={"task": task("life", "s1")}), 400, 46014)
    assert stages(client, "life") == {"s1": "Stopped", "s2": "Stopped"}
    assert one.ok("query-status")["tasks"] == [], "nothing runs, so dmctl knows of none"
    assert client.post("/tasks/life/stop").status_code == 200
    assert client.post("/tasks/life/start", json={"source_name_list": ["s1"]}).status_code == 200
    assert stages(client, "life") == {"s1": "Running", "s2": "Stopped"}
    assert client.post("/tasks/life/start").status_code == 200
    assert stages(client, "life") == {"s1": "Running", "s2": "Running"}
    names = {each["name"] for each in client.get("/tasks", params={"stage": "Running"}).json()["data"]}
    assert names == {"life"}
    assert client.get("/tasks", params={"source_name_list": ["s1"]}).json()["total"] == 0
    assert "runs on s1, s2" in refused(client.delete("/tasks/life"), 400, 49001)
    assert "runs on s1, s2" in refused(client.post("/tasks/life/start", json={"remove_meta": True}), 400, 49001)
    assert client.post("/tasks/life/stop").status_code == 200
    assert stages(client, "life") == {"s1": "Stopped", "s2": "Stopped"}
    assert client.post("/tasks/life/start", json={"remove_meta": True}).status_code == 200
    assert (one.directory / "forgotten").read_text().split() == ["life/s1", "life/s2"]
    assert client.post("/tasks/life/stop").status_code == 200
    refused(client.post("/tasks/life/start", json={"start_time": "yesterday"}), 400, 20930)
    assert stages(client, "life") == {"s1": "Stopped", "s2": "Stopped"}
    assert client.delete("/tasks/life").status_code == 204
    refused(client.get("/tasks/life"), 404, 46018)
    assert one.ok("query-status")["tasks"] == []


def test_a_created_task_outlives_the_daemon(one: TestHome, client: httpx.Client) -> None:
    assert client.post("/tasks", json={"task": task("kept", "s1")}).status_code == 201
    one.kill()
    one.start("--listen", "127.0.0.1:0")
    with httpx.Client(headers=bearer(one), timeout=60) as again:
        log = (one.directory / "daemon.log").read_text()
        address = re.findall(r'"listen": "([0-9.:]+)"', log)[-1]
        client.base_url = httpx.URL(f"http://{address}/api/v1")
        assert again.get(f"{client.base_url}tasks/kept/status").json()["data"][0]["stage"] == "Stopped"
    assert client.post("/tasks/kept/start").status_code == 200
    assert stages(client, "kept") == {"s1": "Running"}
    assert client.delete("/tasks/kept", params={"force": True}).status_code == 204


def test_a_disabled_source_starts_no_task(client: httpx.Client) -> None:
    assert client.post("/tasks", json={"task": task("held", "s1", "s2")}).status_code == 201
    assert client.post("/tasks/held/start").status_code == 200
    assert client.post("/sources/s1/disable").status_code == 200
    assert client.get("/sources/s1").json()["enable"] is False
    assert stages(client, "held") == {"s1": "Stopped", "s2": "Running"}
    assert "source s1 is disabled" in refused(client.post("/tasks/held/start"), 400, 49902)
    assert client.post("/sources/s1/enable").status_code == 200
    assert stages(client, "held") == {"s1": "Running", "s2": "Running"}
    in_use = refused(client.delete("/sources/s1"), 400, 46010)
    assert "held" in in_use
    assert client.delete("/tasks/held", params={"force": True}).status_code == 204


def test_an_update_keeps_what_answers_hide(one: TestHome, client: httpx.Client) -> None:
    shown = client.get("/sources/s2").json()
    assert shown["password"] == "******"
    assert client.put("/sources/s2", json={"source": {**shown, "port": 3307}}).json()["port"] == 3307
    assert client.post("/tasks", json={"task": task("edited", "s2")}).status_code == 201
    shown = client.get("/tasks/edited").json()
    answer = client.put("/tasks/edited", json={"task": {**shown, "meta_schema": "other"}})
    assert answer.json()["meta_schema"] == "other"
    assert b"password: '******'" not in b"".join(file.read_bytes() for file in one.directory.glob("registry*"))
    refused(client.put("/tasks/edited", json={"task": {**shown, "name": "another"}}), 400, 49001)
    refused(client.put("/tasks/nothing", json={"task": {**shown, "name": "nothing"}}), 400, 46018)
    assert client.delete("/tasks/edited").status_code == 204


def test_what_dms_openapi_cannot_say_is_shown_and_kept(one: TestHome, client: httpx.Client) -> None:
    one.ok(
        "start-task",
        one.file("fancy.yaml", (one.directory / one.task("fancy", sources=("s1",))).read_text() + "timezone: UTC\n"),
    )
    shown = client.get("/tasks/fancy").json()
    assert shown["keys_without_field"] == ["timezone"]
    text = refused(client.put("/tasks/fancy", json={"task": {**shown, "keys_without_field": None}}), 400, 49900)
    assert "timezone" in text
    imported = client.post("/tasks/templates/import", json={"overwrite": False}).json()
    assert imported["success_task_list"] == []
    assert "timezone" in imported["failed_task_list"][0]["error_msg"]
    file = (one.directory / "fancy.yaml").read_text()
    text = refused(client.post("/tasks/converters", json={"task_config_file": file}), 400, 49900)
    assert "timezone" in text
    one.ok("stop-task", "fancy")


def test_a_task_that_lost_its_source_is_told_apart_and_can_be_deleted(one: TestHome, client: httpx.Client) -> None:
    assert client.post("/sources", json=source("going")).status_code == 201
    assert client.post("/tasks", json={"task": task("lost", "going")}).status_code == 201
    refused(client.delete("/sources/going"), 400, 46010)
    one.ok("operate-source", "stop", "going")
    listed = client.get("/tasks").json()
    assert "lost" not in [each["name"] for each in listed["data"]]
    assert ["lost" in each and "going" in each for each in listed["not_understood"]] == [True]
    assert client.get("/tasks/lost").status_code == client.delete("/tasks/lost").status_code == 400
    assert client.delete("/tasks/lost", params={"force": True}).status_code == 204
    assert "not_understood" not in client.get("/tasks").json()


def test_a_template_is_kept_without_its_sources(client: httpx.Client) -> None:
    template = task("model", "not-there-yet")
    assert client.post("/tasks/templates", json=template).status_code == 201
    refused(client.post("/tasks/templates", json=template), 400, 49002)
    shown = client.get("/tasks/templates/model").json()
    assert shown["target_config"]["password"] == "******"
    assert client.put("/tasks/templates/model", json={**shown, "meta_schema": "m"}).json()["meta_schema"] == "m"
    assert client.get("/tasks/templates").json()["total"] == 1
    assert client.delete("/tasks/templates/model").status_code == 204
    refused(client.get("/tasks/templates/model"), 400, 49003)


def test_both_forms_of_a_task_are_turned_into_each_other(client: httpx.Client) -> None:
    there = client.post("/tasks/converters", json={"task": task("turned", "s1")})
    assert there.status_code == 201
    back = client.post("/tasks/converters", json={"task_config_file": there.json()["task_config_file"]})
    assert back.json() == there.json()
    assert SECRET not in str(back.json()["task"])
    refused(client.post("/tasks/converters", json={}), 400, 49001)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/cluster/masters/master1", None),
        ("DELETE", "/cluster/workers/worker1", None),
        ("POST", "/sources/s1/transfer", {"worker_name": "worker-1"}),
        ("POST", "/sources/s1/relay/enable", {"worker_name_list": ["worker-1"]}),
    ],
)
def test_what_one_host_cannot_do_is_said(client: httpx.Client, method: str, path: str, body: Any) -> None:
    text = refused(client.request(method, path, json=body), 400, 49901)
    assert "the only process there is" in text


def test_each_kind_of_refusal_has_dms_shape(one: TestHome, client: httpx.Client) -> None:
    url = str(client.base_url)
    refused(httpx.get(f"{url}tasks"), 401, 40918)
    refused(client.get("/nothing"), 404, 49001)
    refused(client.delete("/tasks"), 405, 49001)
    refused(client.post("/sources", json={"source": {"source_name": SECRET}}), 400, 49001)
    refused(client.post("/sources", content=b"{", headers={"content-type": "text/plain"}), 415, 49001)
    address = client.base_url.netloc.decode()
    large = http.client.HTTPConnection(address)
    large.putrequest("POST", "/api/v1/sources")
    for name, value in {**bearer(one), "content-type": "application/json", "content-length": str(17 << 20)}.items():
        large.putheader(name, value)
    large.endheaders()
    with closing(large):
        answer = large.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["error_code"] == 40950
    assert SECRET not in (one.directory / "log" / "audit.log").read_text()
    assert SECRET not in (one.directory / "daemon.log").read_text()


def test_the_cluster_is_this_process(one: TestHome, client: httpx.Client) -> None:
    workers = client.get("/cluster/workers").json()["data"]
    assert [each["bound_source_name"] for each in workers] == ["s1", "s2"]
    assert client.get("/cluster/masters").json()["data"][0]["leader"] is True
    topology = {"grafana_topology": {"host": "g", "port": 3000}}
    number = client.get("/cluster/info").json()["cluster_id"]
    assert client.put("/cluster/info", json=topology).json() == {"cluster_id": number, "topology": topology}
    assert client.get("/cluster/info").json()["topology"] == topology


ORIGINS = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://127.0.0.1:1"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "empty"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "origin": "http://127.0.0.1:3000"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document", "origin": "null"},
]


@pytest.mark.parametrize("headers", ORIGINS, ids=str)
def test_a_page_of_another_origin_reads_and_changes_nothing(client: httpx.Client, headers: dict[str, str]) -> None:
    host = str(client.base_url).removesuffix("api/v1/")
    for method, path in (
        ("GET", "api/v1/sources"), ("GET", "api/v2/tasks"), ("GET", "metrics"), ("GET", "openapi.json"),
        ("POST", "api/v1/sources/s1/disable"), ("DELETE", "api/v1/sources/s1"), ("POST", "api/v2/daemon/shutdown"),
        ("OPTIONS", "api/v2/tasks"),
    ):  # fmt: skip
        answer = client.request(method, host + path, headers=headers)
        assert answer.status_code == 403, (method, path, answer.text)
        assert "access-control-allow-origin" not in answer.headers
        assert "s1" not in answer.text
    assert client.get("/sources/s1").json()["enable"] is True
    own = {"origin": host.rstrip("/"), "sec-fetch-site": "same-origin"}
    assert client.get(f"{host}api/v2/tasks", headers=own).status_code == 200


# pingcap/tiflow, dm/openapi/spec/dm.yaml of release 8.5, but for its two pages of documentation.
OF_DM = """
POST GET sources; GET PUT DELETE sources/{}; GET sources/{}/status; POST sources/{}/enable; POST sources/{}/disable;
POST sources/{}/transfer; POST sources/{}/relay/enable; POST sources/{}/relay/disable; POST sources/{}/relay/purge;
GET sources/{}/schemas; GET sources/{}/schemas/{}; POST GET tasks; GET PUT DELETE tasks/{}; GET tasks/{}/status;
POST tasks/{}/start; POST tasks/{}/stop; GET tasks/{}/sources/{}/migrate_targets; GET tasks/{}/sources/{}/schemas;
GET tasks/{}/sources/{}/schemas/{}; GET PUT DELETE tasks/{}/sources/{}/schemas/{}/{}; POST tasks/converters;
POST GET tasks/templates; POST tasks/templates/import; GET PUT DELETE tasks/templates/{}; GET PUT cluster/info;
GET cluster/masters; DELETE cluster/masters/{}; GET cluster/workers; DELETE cluster/workers/{}
"""


def test_its_document_has_each_request_of_dms(client: httpx.Client) -> None:
    document = client.get("/dm.json").json()
    found = {
        f"{method.upper()} {re.sub('{.*?}', '{}', path)}" for path, said in document["paths"].items() for method in said
    }
    words = [part.split() for part in OF_DM.split(";")]
    assert found == {f"{method} /api/v1/{path}" for *methods, path in words for method in methods}
    named = {*re.findall(r"#/components/schemas/([\w.-]+)", json.dumps(document))}
    assert named == document["components"]["schemas"].keys()


def test_dmctl_asks_for_paths_of_v2_only() -> None:
    from dm.verbs.every import VERBS

    assert all(verb.path.startswith("/api/v2/") for verb in VERBS if verb.path)
    files = (Path(__file__).parents[4] / "dm" / "cli").rglob("*.py")
    assert not [file for file in files if "/api/v1" in file.read_text(encoding="utf-8")]
