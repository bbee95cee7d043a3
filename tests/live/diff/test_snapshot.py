"""`dmctl diff --snapshot`: a chunk is read as of one moment, and a TiDB as of one that is past."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.tools.diff.chunk import _Comparison
from tests.testbed.diffing import compared
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for, wait_until
from tests.testbed.tidb import TidbServer

pytestmark = pytest.mark.live

# A TiDB with its store in it collects no garbage, and so does not know how far that has come.
NO_GARBAGE = "REPLACE INTO mysql.tidb VALUES ('tikv_gc_safe_point', '20240101-00:00:00 +0000', '')"


def both(source: PrivateServer, target: PrivateServer, name: str) -> None:
    for server in (source, target):
        server.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.t VALUES (1, 1), (2, 2), (3, 3)"
        )


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Has something happen between a chunk's checksum and the next query."""
    buckets = _Comparison._bucket_sums

    def arrange(act: Callable[[], None]) -> None:
        def acting(self: _Comparison) -> object:
            act()
            return buckets(self)

        monkeypatch.setattr(_Comparison, "_bucket_sums", acting)

    return arrange


def test_all_queries_of_a_chunk_see_one_moment(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    meanwhile: Callable[[Callable[[], None]], None],
) -> None:
    name = schema(upstream, target)
    both(upstream, target, name)
    target.execute(f"UPDATE {name}.t SET v = -1 WHERE id = 2")
    subtask = subtask_for(upstream, target, name, task=name)

    def write() -> None:
        upstream.execute(f"UPDATE {name}.t SET v = v + 100 WHERE id = 3", f"INSERT INTO {name}.t SELECT MAX(id) + 1, 0"
                         f" FROM {name}.t")  # fmt: skip

    meanwhile(write)
    (outcome,) = compared(subtask, "now")
    assert [(each.key, each.source and each.source["v"]) for each in outcome.differences] == [("id=2", "2")]
    assert (outcome.source_rows, outcome.target_rows) == (3, 3)
    # Each look sees what is there when it begins; without snapshots what was written in its middle, too.
    (outcome,) = compared(subtask, "now")
    assert [each.key for each in outcome.differences] == ["id=2", "id=3", "id=4"]
    (outcome,) = compared(subtask)
    assert [each.key for each in outcome.differences] == ["id=2", "id=3", "id=4", "id=5", "id=6"]
    # One side alone.
    (outcome,) = compared(subtask, "target=now")
    assert [each.key for each in outcome.differences] == ["id=2", "id=3", "id=4", "id=5", "id=6", "id=7"]


def test_a_server_without_history_is_not_read_as_of_the_past(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    both(upstream, target, name)
    subtask = subtask_for(upstream, target, name, task=name)
    for word in ("target=2026-01-01 10:00:00", "449999999999999999"):
        with pytest.raises(DMError) as raised:
            compared(subtask, word)
        assert raised.value.name == "diff-snapshot-refused"
    for word in ("yesterday", "nobody=now", "12", "=now"):
        with pytest.raises(DMError) as raised:
            compared(subtask, word)
        assert raised.value.name == "diff-snapshot-unknown"


@pytest.mark.tidb
def test_a_tidb_is_read_as_of_the_past(mysql: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory) -> None:
    name = schema(mysql, tidb)
    both(mysql, tidb, name)
    subtask = subtask_for(mysql, tidb, name, task=name)
    tidb.execute(NO_GARBAGE)
    tso = str(tidb.query("SHOW MASTER STATUS")[0][1])
    began = tidb.query("SELECT UNIX_TIMESTAMP()")[0][0]
    wait_until(lambda: tidb.query("SELECT UNIX_TIMESTAMP()")[0][0] > began, "the next second")
    time = str(tidb.query("SELECT NOW()")[0][0])
    wait_until(lambda: tidb.query("SELECT UNIX_TIMESTAMP()")[0][0] > began + 1, "the second is over")
    tidb.execute(f"DELETE FROM {name}.t WHERE id = 2", f"ALTER TABLE {name}.t ADD COLUMN w INT")
    for moment in (f"target={tso}", f"target={time}"):
        (outcome,) = compared(subtask, moment)
        assert (outcome.equal, outcome.source_rows, outcome.target_rows) == (True, 3, 3), moment
    (outcome,) = compared(subtask, "now")
    assert ([each.key for each in outcome.differences], outcome.target_rows) == (["id=2"], 2)
    with pytest.raises(DMError) as raised:
        compared(subtask, tso)  # MySQL, too
    assert raised.value.name == "diff-snapshot-refused"


@pytest.mark.tidb
def test_a_chunk_of_a_tidb_sees_one_moment(
    tidb: TidbServer,
    mysql: ThrowawayServer,
    schema: SchemaFactory,
    meanwhile: Callable[[Callable[[], None]], None],
) -> None:
    name = schema(mysql, tidb)
    both(mysql, tidb, name)
    tidb.execute(NO_GARBAGE, f"UPDATE {name}.t SET v = -1 WHERE id = 2")
    meanwhile(lambda: tidb.execute(f"DELETE FROM {name}.t WHERE id = 3"))
    (outcome,) = compared(subtask_for(mysql, tidb, name, task=name), "now")
    assert [each.key for each in outcome.differences] == ["id=2"]
