"""Row changes of a live source reach the target exactly."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dm.changes.plan import TablePlan, build_plan
from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.syncer.apply import learned_tables
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, u INT UNIQUE, note VARCHAR(40), amount DECIMAL(20,6), at DATETIME(6))",
    "CREATE TABLE keyless (a INT, b VARCHAR(20), c DOUBLE)",
)


def identical(upstream: ThrowawayServer, target: PrivateServer, schema: str) -> None:
    report = compare(pair_tables([upstream], [schema]), target)
    assert report.identical, str(report)


def create(name: str, *servers: ThrowawayServer) -> None:
    for server in servers:
        for table in TABLES:
            server.execute(table.replace("CREATE TABLE ", f"CREATE TABLE {name}."))


def test_inserts_updates_deletes_and_key_moves_arrive(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.keyed VALUES (1, 10, 'eins', 1.5, '2026-01-02 03:04:05.678'), (2, 20, NULL, -2, NULL)",
            f"INSERT INTO {name}.keyless VALUES (1, 'x', 0.1), (1, 'x', 0.1), (NULL, NULL, NULL)",
            f"UPDATE {name}.keyed SET u = 11, note = 'müde' WHERE id = 1",
            f"UPDATE {name}.keyed SET id = 3 WHERE id = 2",
            f"DELETE FROM {name}.keyless WHERE a = 1 LIMIT 1",
            f"INSERT INTO {name}.keyed VALUES (2, 10, 'reused', 0, NULL)",
            f"DELETE FROM {name}.keyed WHERE id = 3",
        )
        status = sync.wait_synced()
        assert status["totalRows"] == 10
        assert status["eventRows"] == 10 - int(str(status["compactedRows"]))
        form = {"rowFormat": "events", "rowFormatReason": ""}
        found = {"rowHash": "in use: 64 rows and more are found together, by SQL"} if target.flavor == "mariadb" else {}
        keyless = {"inserts": 3, "updates": 0, "deletes": 1, "ddl": 0, **form, **found}
        assert status["tables"] == [
            {"table": f"{name}.keyed", "schema": name, "inserts": 3, "updates": 2, "deletes": 1, "ddl": 0, **form},
            {"table": f"{name}.keyless", "schema": name, **keyless},
        ]
        assert (status["queuedTransactions"], status["queuedRows"], status["queuedBytes"]) == (0, 0, 0)
        assert status["readBinlog"] == status["syncerBinlog"]
        wait_until(lambda: sync.unit.status()["timeShares"] != {}, "it has looked at what it does")
        shares = cast("dict[str, float]", sync.unit.status()["timeShares"])
        assert shares["readerWaitsForSource"] > 0
        assert all(0 <= share <= 1 for share in shares.values())
        assert status["secondsBehindMaster"] == 0
    identical(upstream, target, name)


def test_a_table_that_the_source_opens_again_is_not_learned_again(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = []

    def counted(*given: Any) -> TablePlan:
        learned.append(given)
        return build_plan(*given)

    monkeypatch.setattr(learned_tables, "build_plan", counted)
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for number in range(5):
            upstream.execute(
                f"INSERT INTO {name}.keyed VALUES ({number}, {number}, 'again', 1.5, NULL)",
                f"INSERT INTO {name}.keyless VALUES ({number}, 'x', 0.1)",
                "FLUSH LOCAL TABLES",  # the next row of each has another table id
            )
            sync.wait_synced()
    assert len(learned) == 2
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mariadb")
def test_an_idle_source_is_synced_after_a_rotation_and_a_restart(
    flavor: Flavor, server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    upstream = server(flavor)
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute("FLUSH BINARY LOGS")
        sync.wait_synced()
        upstream.restart()
        sync.wait_synced()
