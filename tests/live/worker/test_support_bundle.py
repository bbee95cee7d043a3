"""Passwords, tokens and values of rows, looked for in everything that a daemon leaves or shows.

| where | secrets | values of rows |
|---|---|---|
| support bundle, logs, metrics, audit log, arguments and environments of processes | no | no |
| answers of the API | no | in the error that a task rests on, for the one who asks for its status |
| the page | no | where it shows that error, and not in its logs and its timeline |
| state in $DM_HOME | where a file has them: the registry, the tokens' own files | in that error, in the registry |
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.page_reader import PageReader

pytestmark = [pytest.mark.live, pytest.mark.timeout(300), pytest.mark.ci_flavor("mariadb")]

SECRETS = {"DM_SOURCE_PASSWORD": "canary-secret-0a5f", "DM_TARGET_PASSWORD": "canary-secret-77d1"}
COMMENT = "canary-secret-e3b0"  # `config source` shows a file with the comments in it
VALUE, NUMBER = 'kanarie Ω 金糸雀\'s "x"', 4708154711
AT_SOURCE = "SELECT, RELOAD, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.*"


def forms(text: str) -> list[bytes]:
    """How a text may be written: as it is, in JSON, as Python or Java show it, in hexadecimal digits."""
    start = text[:12]  # before the quotes, which each form escapes otherwise
    escaped = json.dumps(start)[1:-1]
    return [
        start.encode(), escaped.encode(), escaped.replace("\\", "\\\\").encode(), start.encode("utf-16-le"),
        start.encode("unicode_escape"), repr(start.encode())[2:-1].encode(), start.encode().hex().encode(),
        start.encode().hex().upper().encode(), start.encode().decode("latin-1").encode(),
    ]  # fmt: skip


VALUES = [*forms(VALUE), str(NUMBER).encode()]


@pytest.fixture
def daemon(
    tmp_path: Path, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> Iterator[tuple[Daemon, str]]:
    """A task that has written values, executed DDL with values, and rests on a row that is missing."""
    name = schema(upstream, target, prefix="bundle")
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE `{name}`.t (k VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, n BIGINT"
            f" DEFAULT {NUMBER}, e ENUM('a', '{VALUE[:12]}')) COMMENT '{VALUE[:12]}'"
        )
    one = Daemon(tmp_path, SECRETS, fresh=True)
    users: list[str] = []
    for server, password in ((upstream, SECRETS["DM_SOURCE_PASSWORD"]), (target, SECRETS["DM_TARGET_PASSWORD"])):
        users.append(f"u{len(users)}_{name}")
        xa = ["XA_RECOVER_ADMIN ON *.*"] if server.flavor == "mysql" else []
        server.create_user(users[-1], password, *([AT_SOURCE, *xa] if server is upstream else ["ALL ON *.*"]))
    (tmp_path / "one.yaml").write_text(
        f"# once {COMMENT}\nsource-id: one\nfrom: {{host: 127.0.0.1, port: {upstream.port},"
        f" user: {users[0]}, password: '${{DM_SOURCE_PASSWORD}}'}}\n"
    )
    (tmp_path / "t.yaml").write_text(
        f"name: t\ntask-mode: incremental\nmeta-schema: meta_{name}\ntarget-database: {{host: 127.0.0.1,"
        f" port: {target.port}, user: {users[1]}, password: {SECRETS['DM_TARGET_PASSWORD']}}}\n"
        f"mysql-instances: [{{source-id: one, block-allow-list: b}}]\nblock-allow-list: {{b: {{do-dbs: [{name}]}}}}\n"
    )
    one.start("--listen", "127.0.0.1:0", **dict.fromkeys(SECRETS, ""))  # `dmctl` sends what the files name
    one.must("operate-source", "create", "one.yaml")
    one.must("start-task", "t.yaml")
    one.wait("t", lambda status: status["one"].get("sync", {}).get("synced") is True, "synced")
    for value in (VALUE, f"{VALUE} 2"):
        upstream.query(f"INSERT INTO `{name}`.t (k) VALUES (%s)", (value,))
    upstream.execute(
        "COMMIT",
        f"ALTER TABLE `{name}`.t ADD c VARCHAR(40) CHARACTER SET utf8mb4 DEFAULT '{VALUE[:12]}' COMMENT '{VALUE[:12]}'",
    )
    one.wait("t", lambda status: status["one"]["sync"].get("totalRows") == "2" and status["one"]["sync"]["synced"], "2")
    target.query(f"DELETE FROM `{name}`.t WHERE k = %s", (VALUE,))
    target.query(f"INSERT INTO `{name}`.t (k) VALUES (%s)", (f"{VALUE} 3",))
    target.execute("COMMIT")
    yield one, name
    one.stop()


def pause(daemon: Daemon, server: ThrowawayServer, statement: str, value: str, code: int) -> None:
    server.query(statement, (value,))
    server.execute("COMMIT")
    daemon.wait("t", lambda status: status["one"]["stage"] == "Paused", "an error")
    assert daemon.status("t")["one"]["result"]["errors"][0]["ErrCode"] == code


def no_value_in(places: dict[str, bytes], forbidden: list[bytes]) -> None:
    for place, content in places.items():
        for canary in forbidden:
            assert canary not in content, (place, canary, content[max(0, content.index(canary) - 300) :][:600])


def pages_of(daemon: Daemon, token: str) -> dict[str, bytes]:
    """What a browser gets that is logged in."""
    with PageReader(daemon.log, token) as reader:
        return {path: reader.read(path).encode() for path in
                ("", "tasks/t", "sources", "ddl", "timeline", "logs?task=t", "settings")}  # fmt: skip


def test_values_and_secrets_are_where_they_must_be_alone(
    daemon: tuple[Daemon, str], upstream: ThrowawayServer, target: ThrowawayServer
) -> None:
    one, name = daemon
    token = one.must("token", "create", "watcher").out.strip()
    pause(one, upstream, f"UPDATE `{name}`.t SET n = n + 1 WHERE k = %s", VALUE, 36921)
    error = json.dumps(one.status("t")["one"]["result"])
    assert any(form.decode() in error for form in forms(VALUE)[:2]), "who asks for the error learns of which row it is"
    target.query(f"INSERT INTO `{name}`.t (k) VALUES (%s)", (VALUE,))
    target.execute("COMMIT")
    one.must("resume-task", "t")
    pause(one, upstream, f"INSERT INTO `{name}`.t (k) VALUES (%s)", f"{VALUE} 3", 36924)

    said = one.must("support-bundle", "-o", "bundle.tar.gz").out
    assert said.startswith("bundle.tar.gz: ")
    with tarfile.open(fileobj=io.BytesIO((one.directory / "bundle.tar.gz").read_bytes())) as tar:
        bundle = {entry.name.partition("/")[2]: file.read() for entry in tar if (file := tar.extractfile(entry))}
    described = json.loads(bundle["servers/t/one.json"])
    for side in ("source", "target"):
        (structure,) = described[side]["structures"].values()
        assert "`k` varchar(40)" in structure, bundle["servers/t/one.json"]
        assert "`e` enum(?,?)" in structure
        assert described[side]["facts"]["version"] > 50000
    assert bundle["problems.txt"] == b""

    logs = {f"log/{path.name}": path.read_bytes() for path in (one.home / "log").iterdir()}
    assert any(b"36924" in content for content in logs.values()), "the log tells the error"
    processes = {
        f"{pid}/{file}": Path(f"/proc/{pid}/{file}").read_bytes()
        for pid in (one.pid, *one.hosts().values())
        for file in ("cmdline", "environ")
    }
    secrets = [value.encode() for value in SECRETS.values()] + [token.encode()]
    no_value_in(
        {**bundle, **logs, **processes, "daemon.out": one.log.read_bytes()}, [*VALUES, *secrets, COMMENT.encode()]
    )

    answers = {
        " ".join(words): one.said(*words, "--output", "json").out.encode()
        for words in (
            ("config", "show"), ("config", "task", "t"), ("config", "source", "one"), ("operate-source", "show"),
            ("query-status",), ("token", "list"), ("logs", "t"),
        )
    }  # fmt: skip
    assert all(answer.startswith(b"{") for answer in answers.values())
    no_value_in(answers, [*VALUES, *secrets])
    no_value_in({"query-status t": one.said("query-status", "t", "--output", "json").out.encode()}, secrets)

    pages = pages_of(one, token)
    no_value_in(pages, secrets)
    no_value_in({place: pages[place] for place in ("timeline", "logs?task=t", "settings", "sources")}, VALUES)

    for path in [path for path in one.home.rglob("*") if path.is_file()]:
        content, kept = path.read_bytes(), path.name.startswith("registry.sqlite")
        no_value_in({str(path): content}, [token.encode()] if kept else [*VALUES, *secrets])
