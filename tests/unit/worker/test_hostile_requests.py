"""Requests with texts that nothing is named by: each gets a clear no, and none an error of ours (500)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.unit.worker.home import TestHome, home, until

OFTEN = {
    "the half of a surrogate pair": "\ud800",
    "longer than a file's name": "x" * 300,
    "a NUL": "a\0b",
}
SELDOM = {
    "another half": "a\udfffb",
    "longer than a path": "x" * 5000,
    "out of a directory": "../../x",
    "an escape sequence": "\x1b[2J",
    "a digit that is no digit": "\u00b2",
    "lines": "a\nb\r\nc",
    "many digits": "9" * 5000,
    "letters of four bytes": "\U0001f980" * 100,
    "nothing": "",
}
HOSTILE = [
    *(pytest.param(text, id=name) for name, text in OFTEN.items()),
    *(pytest.param(text, id=name, marks=pytest.mark.chaos) for name, text in SELDOM.items()),
]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("hostile") / "home") as running:
        running.start("--listen", "127.0.0.1:0")
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task())
        yield running


@pytest.fixture(scope="module")
def client(one: TestHome) -> Iterator[httpx.Client]:
    found = until(lambda: re.search(r'"listen": "([^"]+)"', (one.directory / "daemon.log").read_text()))
    token = (one.directory / "token").read_text().strip()
    with httpx.Client(base_url=f"http://{found[1]}", headers={"authorization": f"Bearer {token}"}) as asking:
        yield asking


NAMED = {"task": "t", "source": "one", "task_name": "t", "source_name": "one", "schema_name": "s", "table_name": "t"}
# What a request says that is as it should be.
GOOD: dict[str, Any] = {
    "text": "source-id: new\nfrom: {host: 127.0.0.1, port: 3306, user: dm}\n", "name": "t.yaml", "task": "t",
    "sources": "one", "directory": "/", "filename": "mysql-bin.000001", "binlog_pos": "mysql-bin.000001:4",
    "sqls": "SELECT 1", "database": "s", "table": "s.t", "tables": "s.t", "source": "one", "lock": "t-`s`.`t`",
    "begin": "mysql-bin.000001:4", "log_level": "info", "log_max_size": "1M",
}  # fmt: skip


def _values(schema: dict[str, Any], schemas: dict[str, Any], text: str, name: str = "") -> Iterator[Any]:
    """Values of the schema: the text takes the place of one of the good ones after the other."""
    if "$ref" in schema:
        yield from _values(schemas[schema["$ref"].rpartition("/")[2]], schemas, text, name)
    elif "anyOf" in schema:
        yield from _values(schema["anyOf"][0], schemas, text, name)
    elif "properties" in schema:
        fields = schema["properties"]
        good = {each: _good(fields[each], schemas, each) for each in fields}
        good = {each: value for each, value in good.items() if value is not None}
        for each in fields:
            for value in _values(fields[each], schemas, text, each):
                yield {**good, each: value}
    elif schema.get("type") == "object":
        keys = schema.get("propertyNames", {}).get("enum", [text])
        yield {keys[0]: text}
    elif schema.get("type") == "array":
        for value in _values(schema["items"], schemas, text, name):
            yield [value]
    elif schema.get("type") == "string" and "enum" not in schema:
        yield text


def _good(schema: dict[str, Any], schemas: dict[str, Any], name: str) -> Any:
    """A value as it should be; None for what may be left out."""
    if "$ref" in schema:
        return _good(schemas[schema["$ref"].rpartition("/")[2]], schemas, name)
    if "properties" in schema:
        found = {each: _good(of, schemas, each) for each, of in schema["properties"].items()}
        return {each: value for each, value in found.items() if value is not None}
    if schema.get("type") == "array":
        return [_good(schema["items"], schemas, name)] if name in (*GOOD, "files") else []
    if "enum" in schema:
        return schema["enum"][0]
    return GOOD.get(name) if schema.get("type") == "string" else None


def requests_with(api: dict[str, Any], text: str) -> Iterator[tuple[str, str, Any]]:
    """Each request that the API knows, with the text in one of the places that take one."""
    schemas = api["components"]["schemas"]
    raw = quote(text.encode("utf-8", "surrogatepass"), safe="")
    for path, methods in api["paths"].items():
        for method, said in methods.items():
            if path.endswith(("/shutdown", "/metrics")):
                continue
            taken = said.get("parameters", [])
            good = re.sub(r"\{(\w+)\}", lambda place: NAMED.get(place[1], "1"), path)
            hostile = re.sub(r"\{(\w+)\}", lambda place: raw if place[1] in NAMED else "1", path)
            body = said.get("requestBody")
            wanted = None if body is None else body["content"]["application/json"]["schema"]
            if hostile != good:
                yield method.upper(), hostile, None if wanted is None else _good(wanted, schemas, "")
            for each in taken:
                if each["in"] == "query":
                    yield method.upper(), f"{good}?{each['name']}={raw}", None
            if wanted is not None:
                for content in _values(wanted, schemas, text):
                    yield method.upper(), good, content


def _told(address: str, answer: httpx.Response) -> bool:
    """Whether an answer says what became of its request, in the form of its API."""
    if not address.startswith("/api/v1/"):
        return isinstance(answer.json().get("result"), bool)
    return answer.status_code < 300 or isinstance(answer.json().get("error_code"), int)


@pytest.mark.parametrize("root", ["/api/v2/", pytest.param("/api/v1/", marks=pytest.mark.chaos)])
@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_that_names_nothing_gets_a_clear_no(one: TestHome, client: httpx.Client, text: str, root: str) -> None:
    asked, failed = 0, []
    for method, address, content in requests_with(client.get("/openapi.json").json(), text):
        if not address.startswith(root):
            continue
        body = None if content is None else json.dumps(content).encode()  # in JSON a half of a pair can be said
        headers = {} if body is None else {"content-type": "application/json"}
        answer = client.request(method, address, content=body, headers=headers)
        asked += 1
        if answer.status_code >= 500 or not _told(address, answer):
            failed.append(f"{method} {address[:80]} {str(content)[:300]}: {answer.status_code} {answer.text[:200]}")
    assert not failed, "\n".join(failed)
    assert asked > 60
    assert one.subtask()["name"] == "t"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_empty_name_is_not_taken_for_all_names(client: httpx.Client, method: str) -> None:
    for address in ("/api/v1/tasks/", "/api/v1/sources/", "/api/v1/tasks/templates/"):
        answer = client.request(method, address, headers={"content-type": "application/json"}, content=b"{}")
        assert answer.status_code in (404, 405), (address, answer.status_code)
        assert _told(address, answer)
