"""What `dmctl` imports, which is most of the time it takes: a verb imports what it needs and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dm.verbs.every import VERBS
from tests.unit.worker.home import ROOT, home

SLOW = (
    "pyspark", "fastapi", "uvicorn", "starlette", "pymysql", "pymysqlreplication", "sqlglot", "pyarrow", "pydantic",
    "ruamel", "structlog", "cryptography", "httpx", "anyio", "asyncio", "rich", "http.client", "ssl", "email",
    "importlib.metadata", "sqlite3", "dm.config", "dm.task", "dm.demo", "dm.errors.catalogue", "dm.errors.general",
)  # fmt: skip

# Declarations take part in each call; the texts of verbs do not.
TEXTS_APART = {verb.__module__.replace("dm.verbs", "dm.cli.verbs") for verb in VERBS if verb.name}

_CODE = """
import sys
from dm.cli.dmctl import execute
status = execute(sys.argv[1:])
print(status, *sorted(sys.modules), file=sys.stderr)
"""


def imported(*words: str, **environment: str) -> set[str]:
    """The slow modules that one call has imported."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *words], capture_output=True, text=True, cwd=ROOT, env=environment, check=True
    )
    status, *modules = done.stderr.splitlines()[-1].split()
    assert status == "0", done.stderr
    return {slow for slow in (*SLOW, *TEXTS_APART) if slow in modules}


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["help"],
        ["query-status", "--help"],
        ["config", "--help"],
        ["config", "show", "--help"],
        ["pause-task", "--help"],
    ],
)
def test_help_imports_nothing_slow_and_no_text(words: list[str]) -> None:
    assert imported(*words) == set()


def test_completion_imports_its_own_text() -> None:
    assert imported("completion", "zsh") == {"dm.cli.verbs.program"}


def test_query_status_imports_a_client_and_a_table(tmp_path: Path) -> None:
    with home(tmp_path / "home") as one:
        one.start()
        one.ok("operate-source", "create", one.source("one"))
        one.ok("start-task", one.task("t"))
        client = {"dm.cli.verbs.status", "http.client", "ssl", "email"}
        assert imported("query-status", "t", "--output", "json", DM_HOME=str(one.directory)) == client
        assert imported("query-status", "t", DM_HOME=str(one.directory)) == {*client, "rich"}


@pytest.mark.parametrize("module", ["dm.worker.daemon", "dm.task.host"])
def test_a_process_that_stays_has_the_errors_from_the_start(module: str) -> None:
    """It may come to its first error when it has no file descriptor left to import anything with."""
    code = f"import sys, {module}; assert 'dm.errors.catalogue' in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
