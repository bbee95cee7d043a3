"""`dmctl diff --resume` after a kill of the comparison or of its target, and the exit statuses of comparisons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_kills import RETRYABLE, TidbKill

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(600)]

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE filtered (id INT PRIMARY KEY)",
    "INSERT INTO t WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, i FROM n",
)
SMALL = ("--rows", "100", "--threads", "1")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """One that is not started yet."""
    one = Daemon(tmp_path)
    yield one
    one.stop()


def prepare(daemon: Daemon, name: str, upstream: PrivateServer, target: PrivateServer) -> None:
    """The same tables on both sides, and the files of a task."""
    login = "host: 127.0.0.1, user: {0.user}, password: '{0.password}', port: {0.port}"
    for server in (upstream, target):
        server.execute(f"USE `{name}`", *TABLES)
    (daemon.directory / "one.yaml").write_text(f"source-id: one\nfrom: {{{login.format(upstream)}}}\n")
    (daemon.directory / "t.yaml").write_text(
        f"name: t\ntask-mode: full\ntarget-database: {{{login.format(target)}}}\n"
        "mysql-instances: [{source-id: one, block-allow-list: b, filter-rules: [f]}]\n"
        f"block-allow-list: {{b: {{do-dbs: [{name}]}}}}\n"
        f"filters: {{f: {{schema-pattern: {name}, table-pattern: filtered, events: [delete], action: Ignore}}}}\n"
    )


def test_a_comparison_goes_on_after_a_kill_of_it_and_of_the_daemon(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, daemon: Daemon
) -> None:
    name = schema(upstream, target)
    prepare(daemon, name, upstream, target)
    daemon.start(DM_FAULTS="diff.chunk_equal=kill@3")
    daemon.must("operate-source", "create", "one.yaml")
    said = daemon.said("diff", "t.yaml", *SMALL)
    assert (said.status, "SIGKILL" in said.err) == (2, True), str(said)
    daemon.kill()
    (done,) = daemon.home.rglob(".diff/*")
    equal = [json.loads(line) for line in done.read_text(encoding="ascii").splitlines()[1:]]
    assert len(equal) == 3
    daemon.start()
    target.execute(f"UPDATE `{name}`.t SET v = -1")
    said = daemon.said("diff", "t.yaml", *SMALL, "--resume", "--output", "json")
    (filtered, table) = said.json()["report"]
    assert (said.status, table["differingRows"]) == (1, 900 - sum(rows for _, rows, *_ in equal)), str(said)
    assert "delete" in filtered["notCompared"]
    assert daemon.said("diff", "t.yaml", "--output", "json").json()["report"][1]["differingRows"] == 900
    target.execute(f"UPDATE `{name}`.t SET v = id")
    assert daemon.said("diff", "t.yaml").status == 2
    assert daemon.said("diff", "t.yaml", "--tables", f"{name}.t").status == 0


@pytest.mark.tidb
def test_a_comparison_whose_target_is_killed_ends_with_one_error_and_is_gone_on_with(
    upstream: ThrowawayServer, own_tidb: TidbServer, schema: SchemaFactory, daemon: Daemon, tmp_path: Path
) -> None:
    """Its status is not that of rows that differ: it has told of none, also not of the one that does."""
    name = schema(upstream, own_tidb)
    prepare(daemon, name, upstream, own_tidb)
    own_tidb.execute(f"UPDATE `{name}`.t SET v = -1 WHERE id = 900")
    kill = TidbKill(own_tidb, "diff.session_open", tmp_path, 20)  # each side answers three times; here the fourth chunk
    daemon.start(DM_FAULTS=kill.faults, DM_FAULTS_LOG=str(kill.log))
    daemon.must("operate-source", "create", "one.yaml")
    only = ("--tables", f"{name}.t")
    with ThreadPoolExecutor(1) as beside:
        comparison = beside.submit(daemon.dmctl, "diff", "t.yaml", *SMALL, *only, "--output", "json")
        kill.strike(comparison.done)
        said = comparison.result()
    answer = said.json()
    assert (said.status, answer["result"], "report" in answer) == (2, False, False), str(said)
    assert answer["error"]["ErrCode"] in RETRYABLE, str(said)
    assert said.err.count("Error ") == 1, str(said)
    (done,) = daemon.home.rglob(".diff/*")
    equal = [json.loads(line) for line in done.read_text(encoding="ascii").splitlines()[1:]]
    assert 0 < len(equal) < 9
    own_tidb.execute(f"UPDATE `{name}`.t SET v = -2")
    (table,) = daemon.said("diff", "t.yaml", *SMALL, *only, "--resume", "--output", "json").json()["report"]
    assert table["differingRows"] == 900 - sum(rows for _, rows, *_ in equal)
    own_tidb.execute(f"UPDATE `{name}`.t SET v = id")
    said = daemon.said("diff", "t.yaml", *SMALL, *only, "--resume")
    assert (said.status, list(daemon.home.rglob(".diff/*"))) == (0, []), str(said)
