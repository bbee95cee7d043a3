"""The parts of a relay that the feed reads: the same rows however they are cut, and an end where it can't go on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.tools.feed.reading import FeedRow
from dm.tools.feed.source import Offset, RelayStreamReader
from tests.live.relay.relaying import end_of, flush_logs, has_reached, relaying, replicate, source_of, wait_until
from tests.testbed.fixtures import SchemaFactory, ServerFactory

pytestmark = pytest.mark.live


class Feed:
    """One table of a source whose relay is read."""

    def __init__(self, upstream: ThrowawayServer, name: str, relay: Path) -> None:
        self.upstream, self.name, self.relay = upstream, name, relay
        self.first, self.begin = end_of(upstream)
        self.structure = (
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(30), b BIT(9), g INT AS (id + 1) STORED)"
        )
        upstream.execute(self.structure, f"CREATE TABLE {name}.other (id INT)")

    @contextmanager
    def relayed(self) -> Iterator[None]:
        """The relay grows meanwhile, and has everything at the end."""
        with relaying(source_of(self.upstream, first=self.first), self.relay):
            yield
            wait_until(lambda: has_reached(self.relay, self.upstream), "the relay")

    def reader(self, **options: str) -> RelayStreamReader:
        given = {"path": str(self.relay), "table": f"{self.name}.t", "structure": self.structure}
        return RelayStreamReader(given | {"start": f"{self.first}:{self.begin}"} | options)


def part(reader: RelayStreamReader, start: Offset, end: Offset) -> list[FeedRow]:
    return [change for each in reader.partitions(start, end) for change in reader.read(each)]


def batches(reader: RelayStreamReader, start: Offset, size: int) -> Iterator[tuple[Offset, list[FeedRow]]]:
    """Until nothing comes any more."""
    while (end := reader.latestOffset(start, ReadMaxBytes(size))) != start:
        yield end, part(reader, start, end)
        start = end


def shown(change: FeedRow) -> tuple[object, ...]:
    return (
        change.number,
        change.op,
        *(image and (image["id"], image["v"], image["b"]) for image in (change.before, change.after)),
    )


@pytest.mark.ci_flavor("mysql")
def test_rows_are_the_same_however_the_relay_is_cut(
    upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory, tmp_path: Path
) -> None:
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    with feed.relayed():
        upstream.execute(
            f"USE {feed.name}",
            "BEGIN",
            "INSERT INTO t (id, v, b) VALUES (1, 'é', 257), (2, NULL, NULL)",
            "INSERT INTO other VALUES (1)",
            "UPDATE t SET v = 'x' WHERE id = 1",
            "COMMIT",
        )
        flush_logs(upstream)
        upstream.execute(
            f"USE {feed.name}",
            "SET SESSION time_zone = '+05:00', timestamp = 1700000000.25",
            "ALTER TABLE t ADD INDEX (v)",
            "DELETE FROM t WHERE id = 2",
        )
        upstream.execute(*(f"INSERT INTO {feed.name}.t (id) VALUES ({number})" for number in range(10, 40)))
    reader = feed.reader()
    first = reader.initialOffset()
    whole = part(reader, first, reader.latestOffset(first, ReadAllAvailable()))
    bits = b"\x01\x01"
    assert [shown(change) for change in whole[:4]] == [
        (1, "insert", None, (b"1", "é".encode(), bits)),
        (2, "insert", None, (b"2", None, None)),
        (3, "update", (b"1", "é".encode(), bits), (b"1", b"x", bits)),
        (1, "delete", (b"2", None, None), None),
    ]
    assert len(whole) == 34
    assert all(
        set(image) == {"id", "v", "b"}
        for change in whole
        for image in (change.before, change.after)
        if image is not None
    )
    assert all(change.gtid and (change.schema, change.table) == (feed.name, "t") for change in whole)
    assert len({change.file for change in whole}) == 2
    moments = [change.committed for change in whole]
    assert moments[3] == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "as the source's session had it"
    assert moments[:3] == [moments[0]] * 3, "of the transaction"
    assert moments[0] <= moments[4] <= moments[-1]
    for size in (1, 700, 5000):
        small = feed.reader(taskBytes="400")
        found = list(batches(small, first, size))
        assert [change for _, rows in found for change in rows] == whole
        assert len(found) > 1
        ends = [first, *(end for end, _ in found)]
        again = feed.reader()  # a restart: it has planned none of these
        assert [change for one, two in itertools.pairwise(ends) for change in part(again, one, two)] == whole


def test_a_stream_ends_where_it_cannot_go_on(
    upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory, tmp_path: Path
) -> None:
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    with feed.relayed():
        upstream.execute(f"INSERT INTO {feed.name}.t (id) VALUES (1)")
    reader = feed.reader()
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    with feed.relayed():
        upstream.execute(
            f"INSERT INTO {feed.name}.t (id) VALUES (2)",
            f"ALTER TABLE {feed.name}.t ADD COLUMN w INT",
            f"INSERT INTO {feed.name}.t (id, w) VALUES (3, 3)",
        )
    limit = reader.latestOffset(start, ReadAllAvailable())
    assert [change.after and change.after["id"] for change in part(reader, start, limit)] == [b"1"], "as it was then"
    assert reader.latestOffset(limit, ReadAllAvailable()) == limit

    following = feed.reader()
    before = following.latestOffset(limit, ReadAllAvailable())
    assert [change.after and change.after["id"] for change in part(following, limit, before)] == [b"2"]
    with pytest.raises(DMError) as raised:
        following.latestOffset(before, ReadAllAvailable())
    assert raised.value.name == "feed-ddl"
    assert "ADD COLUMN w INT" in raised.value.message

    (place,) = [word for word in raised.value.workaround.split() if word.startswith(f"{end_of(upstream)[0]}:")]
    wider = feed.structure.replace(" STORED)", " STORED, w INT)")
    altered = feed.reader(structure=wider, start=place)
    begin = altered.initialOffset()
    rows = part(altered, begin, altered.latestOffset(begin, ReadAllAvailable()))
    assert [change.after and (change.after["id"], change.after["w"]) for change in rows] == [(b"3", b"3")]
    with pytest.raises(DMError) as raised:
        part(feed.reader(), before, altered.latestOffset(begin, ReadAllAvailable()))
    assert raised.value.name == "feed-ddl", "a batch that somebody else has planned"


def xa(xid: str, *statements: str) -> tuple[str, ...]:
    return (f"XA START '{xid}'", *statements, f"XA END '{xid}'", f"XA PREPARE '{xid}'")


def ids(changes: list[FeedRow]) -> list[bytes | None]:
    return [change.after["id"] for change in changes if change.after is not None]


def delivered_until(feed: Feed, begin: Offset, name: str, **options: str) -> list[bytes | None]:
    """What comes before the error of that name, in batches of any size the same."""
    found = []
    for size in (1, 700, 1 << 20):
        rows: list[FeedRow] = []
        with pytest.raises(DMError) as raised:
            rows.extend(row for _, each in batches(feed.reader(**options), begin, size) for row in each)
        assert raised.value.name == name
        found.append(ids(rows))
    assert found[0] == found[1] == found[2]
    return found[0]


def test_xa_transactions_of_other_tables_pass(
    upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory, tmp_path: Path
) -> None:
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    name = feed.name
    mine, other = f"INSERT INTO {name}.t (id) VALUES ", f"INSERT INTO {name}.other VALUES (1)"
    names = [f"{name}-{letter}" for letter in "abcd"]
    with feed.relayed():
        for xid in names[:3]:
            upstream.execute(*xa(xid, other))
        upstream.execute(f"{mine}(1)", f"XA COMMIT '{names[0]}'", f"{mine}(2)", f"XA ROLLBACK '{names[2]}'")
        flush_logs(upstream)
        upstream.execute(f"{mine}(3)", f"XA COMMIT '{names[1]}'", f"{mine}(4)")
        file, middle = end_of(upstream)
        upstream.execute(*xa(names[3], f"{mine}(5)"))
        upstream.execute(f"{mine}(6)", f"XA COMMIT '{names[3]}'", f"{mine}(7)")
    start = feed.reader().initialOffset()
    assert delivered_until(feed, start, "feed-xa") == [b"1", b"2", b"3", b"4"]
    reader = feed.reader()
    end, rows = next(batches(reader, start, 1 << 20))
    assert (end["file"], end["offset"]) == (file, middle)
    assert ids(part(feed.reader(taskBytes="1"), start, end)) == ids(rows), "each task by itself"


def test_the_decision_of_an_xa_transaction_with_rows_or_an_unknown_one_is_refused(
    upstream: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    mine, xid = f"INSERT INTO {feed.name}.t (id) VALUES ", f"{feed.name}-x"
    upstream.execute(*xa(f"{xid}0", f"INSERT INTO {feed.name}.other VALUES (1)"))
    flush_logs(upstream)
    feed.first, feed.begin = end_of(upstream)
    with feed.relayed():
        upstream.execute(*xa(xid, f"{mine}(1)"))
        _, prepared = end_of(upstream)
        upstream.execute(f"{mine}(2)", f"XA COMMIT '{xid}'")
        _, later = end_of(upstream)
        upstream.execute(f"{mine}(3)", f"XA COMMIT '{xid}0'")
    for place, rows in ((prepared, [b"2"]), (later, [b"3"])):
        start = feed.reader(start=f"{feed.first}:{place}").initialOffset()
        assert delivered_until(feed, start, "feed-xa") == rows


def test_rows_before_a_partial_image_are_delivered(
    upstream: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    with feed.relayed():
        upstream.execute(
            f"INSERT INTO {feed.name}.t (id) VALUES (1), (2)",
            "SET SESSION binlog_row_image = MINIMAL",
            f"UPDATE {feed.name}.t SET v = 'x' WHERE id = 1",
        )
    assert delivered_until(feed, feed.reader().initialOffset(), "feed-partial-image") == [b"1", b"2"]


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("create", ["CREATE TABLE", "CREATE TABLE IF NOT EXISTS"])
def test_a_table_that_is_made_with_other_columns_ends_the_stream(
    upstream: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, create: str
) -> None:
    """Its rows would be read with the structure of later."""
    flush_logs(upstream)
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    flush_logs(upstream)
    feed.first, _ = end_of(upstream)
    name = feed.name
    made = "{} {}.e (id INT PRIMARY KEY, v INT UNSIGNED, w TEXT, e ENUM({}))"
    with feed.relayed():
        upstream.execute(
            made.format(create, name, "'x', 'y'"), f"INSERT INTO {name}.e VALUES (1, 1, 'é', 'x')",
            made.format("CREATE TABLE IF NOT EXISTS", name, "'no', 'such', 'members'"),
        )  # fmt: skip
        before = upstream.query(f"SHOW CREATE TABLE {name}.e")[0][1]
        upstream.execute(
            f"INSERT INTO {name}.e VALUES (2, 4294967295, NULL, 'y')",
            f"ALTER TABLE {name}.e MODIFY e ENUM('a', 'x', 'y')",
        )
        after = upstream.query(f"SHOW CREATE TABLE {name}.e")[0][1]
    options = {"table": f"{name}.e", "start": "earliest"}
    start = feed.reader(**options, structure=before).initialOffset()
    assert delivered_until(feed, start, "feed-ddl", **options, structure=before) == [b"1", b"2"]
    for wrong in (after, before.replace(" unsigned", ""), before.replace("`w` text", "`w` text CHARACTER SET latin1")):
        assert delivered_until(feed, start, "feed-ddl", **options, structure=wrong) == []


def test_a_table_that_takes_the_place_of_another_ends_the_stream(
    upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory, tmp_path: Path
) -> None:
    """The binlog does not name the rows that go."""
    flush_logs(upstream)
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    flush_logs(upstream)
    feed.first, _ = end_of(upstream)
    table = f"TABLE {feed.name}.e (id INT PRIMARY KEY)"
    create, *replace = f"CREATE OR REPLACE {table}", f"CREATE OR REPLACE {table}"
    if flavor == "mysql":  # it has two statements for that
        create, *replace = f"CREATE {table}", f"DROP TABLE {feed.name}.e", f"CREATE {table}"
    with feed.relayed():
        upstream.execute(create, f"INSERT INTO {feed.name}.e VALUES (1)", *replace)
        upstream.execute(f"INSERT INTO {feed.name}.e VALUES (2)")
    options = {"table": f"{feed.name}.e", "start": "earliest", "structure": f"CREATE {table}"}
    assert delivered_until(feed, feed.reader(**options).initialOffset(), "feed-ddl", **options) == [b"1"]


@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_where_a_stream_begins(upstream: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, start: str) -> None:
    flush_logs(upstream)
    feed = Feed(upstream, schema(upstream), tmp_path / "relay")
    with feed.relayed():
        upstream.execute(f"INSERT INTO {feed.name}.t (id) VALUES (1)")
    reader = feed.reader(start=start)
    begin = reader.initialOffset()
    rows = part(reader, begin, reader.latestOffset(begin, ReadAllAvailable()))
    assert [change.after and change.after["id"] for change in rows] == ([b"1"] if start == "earliest" else [])


def test_what_it_is_not_told_it_asks_for(tmp_path: Path) -> None:
    (tmp_path / "relay").mkdir()
    with pytest.raises(DMError) as raised:
        RelayStreamReader({"path": str(tmp_path / "relay"), "table": "s.t"})
    assert raised.value.name == "feed-without-relay"
    with pytest.raises(DMError) as raised:
        RelayStreamReader({"path": "", "table": "s.t"})
    assert raised.value.name == "feed-option"


@pytest.mark.ci_flavor("mysql")
def test_a_batch_ends_where_files_are_those_of_another_server(
    server: ServerFactory, flavor: Flavor, tmp_path: Path
) -> None:
    """So file, position and number are the order of its changes, though the new server's files have lower numbers."""
    old = server(flavor)
    new = server(flavor) if flavor == "mysql" else server(flavor, log_slave_updates=True)
    old.execute("CREATE DATABASE x")
    feed = Feed(old, "x", tmp_path)
    replicate(old, new)
    flush_logs(old)
    with feed.relayed():
        for number in range(3):
            old.execute(f"INSERT INTO x.t (id, v) VALUES ({number}, 'old')")
            flush_logs(old)
    reader = feed.reader()
    start = reader.initialOffset()
    wait_until(lambda: new.query("SELECT COUNT(*) FROM x.t") == ((3,),), "the replica")
    new.execute("STOP REPLICA", "UPDATE x.t SET v = 'new'")
    assert end_of(new)[0] < end_of(old)[0], "names begin anew"
    with relaying(source_of(old, new.port, first=feed.first), tmp_path):
        wait_until(lambda: has_reached(tmp_path, new), "the relay")
    reader.prepareForTriggerAvailableNow()
    found: list[list[FeedRow]] = []
    if flavor == "mysql":
        found += [rows for _, rows in batches(reader, start, 1 << 20)]
    else:
        with pytest.raises(DMError) as raised:  # numbers don't tell what the new server repeats
            found.extend(rows for _, rows in batches(reader, start, 1 << 20))
        assert raised.value.name == "feed-source-switched"
        assert "task" not in raised.value.workaround, "there is none"
    changes = [change for rows in found for change in rows]
    told = ["insert"] * 3 + ["update"] * 3 if flavor == "mysql" else ["insert"] * 3
    assert [shown(change)[1] for change in changes] == told
    for rows in found:
        assert rows == sorted(rows, key=lambda change: (change.file, change.position, change.number))
