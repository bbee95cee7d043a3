"""No session is opened but by `dm.session.login`, and each that is opened there begins as `dm.session.state` says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import dm

ROOT = Path(dm.__file__).parent
_OPENING = {"connect", "Connect", "Connection", "BinLogStreamReader"}  # of a driver
_DRIVERS = ("pymysql", "pymysqlreplication", "MySQLdb", "mysql", "mariadb", "aiomysql", "asyncmy", "sqlalchemy")
_PASSED_ON = {"session/login.py", "sourcelog/upstream/connection.py", "downstream/connection.py"}
_OURS = "demo/private_server.py"  # to servers that dm has started itself, with statements of the demo's own


def bypasses(source: str) -> Iterator[str]:
    """What in a module opens a session by itself."""
    tree = ast.parse(source)
    names: dict[str, str] = {}  # what the module calls what it has imported
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("jdbc"):
            yield f"line {node.lineno}: Spark's JDBC"
        called = node.func if isinstance(node, ast.Call) else None
        bases = node.bases if isinstance(node, ast.ClassDef) else []
        for used in [called, *bases]:
            first, *rest = ast.unparse(used).split(".") if used is not None else [""]
            meant = ".".join([names.get(first, ""), *rest])
            if meant.split(".")[0] in _DRIVERS and meant.split(".")[-1] in _OPENING:
                yield f"line {node.lineno}: {meant}"  # type: ignore[attr-defined]
            if meant in ("dm.session.login.open_connection", "dm.session.login.ServerConnection"):
                yield f"line {node.lineno}: {meant}"  # type: ignore[attr-defined]


def test_no_module_opens_a_session_by_itself() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(bypasses(path.read_text()))
        for path in ROOT.rglob("*.py")
        if path.relative_to(ROOT).as_posix() not in _PASSED_ON
    }
    assert {file: lines for file, lines in found.items() if lines and file != _OURS} == {}
    assert found[_OURS]


def test_a_module_that_does_is_found() -> None:
    for source in (
        "import pymysql\npymysql.connect(host='a')",
        "import pymysql as driver\ndriver.connections.Connection(host='a')",
        "from pymysql.connections import Connection\nclass C(Connection): pass",
        "from pymysql import connect as c\nc(host='a')",
        "from pymysqlreplication import BinLogStreamReader\nBinLogStreamReader()",
        "from dm.session.login import open_connection\nopen_connection(e, connect_timeout=1, login_timeout=1)",
        "import mysql.connector\nmysql.connector.connect()",
        "spark.read.format('jdbc')",
    ):
        assert list(bypasses(source)), source
    assert not list(bypasses("from dm.sourcelog.upstream.connection import connect\nconnect(endpoint)"))
    assert not list(bypasses("from pymysql.connections import Connection\ndef f(c: Connection) -> None: ..."))


def test_both_ways_to_a_server_begin_alike() -> None:
    for file in ("sourcelog/upstream/connection.py", "downstream/connection.py"):
        text = (ROOT / file).read_text()
        assert text.count("open_connection(") == 1
        assert text.count("state.opening(") == 1
