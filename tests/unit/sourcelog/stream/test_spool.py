"""What is too large for the quota comes back from the spool as it went in, and the spool forgets it in time."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm.clock import Clock
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.query import Query, QuerySession
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap
from dm.position import Position
from dm.sourcelog.stream import spool as spool_module
from dm.sourcelog.stream.assembler import TransactionAssembler
from dm.sourcelog.stream.spool import UNLINK_SECONDS, OpenItems, QuotaClosed, Spool
from dm.sourcelog.stream.spool_file import ItemWriter, SpoolReader, SpoolWriter, read_items
from dm.sourcelog.stream.transaction import Item, RowsItem, SourceTransaction, StatementItem, TransactionItems
from tests.testbed.fake_clock import FakeClock
from tests.testbed.peak_quota import PeakQuota
from tests.unit.sourcelog.stream.test_assembler import NO_XA, Stream, everything, start

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(offset: int) -> Position:
    return Position(UUID, "bin.000001", offset, GtidSet.empty("mysql"))


def table_map(number: int) -> TableMap:
    """One as the parser makes it."""
    assembler = TransactionAssembler(start(), everything, NO_XA)
    stream = Stream()
    for event in [stream.format, *stream.insert(1, f"t{number}")]:
        transaction = assembler.feed(event)
    assert transaction is not None
    (item,) = transaction.items
    assert isinstance(item, RowsItem)
    return item.table_map


MAPS = [table_map(number) for number in range(3)]


@st.composite
def rows_items(draw: st.DrawFn) -> RowsItem:
    count = draw(st.integers(1, 300))
    width = (count + 7) // 8
    present = draw(st.binary(min_size=width, max_size=width))
    after = draw(st.binary(min_size=width, max_size=width))
    before, body, following = (draw(st.binary(max_size=30)) for _ in range(3))
    return RowsItem(
        draw(st.sampled_from(MAPS)),
        Rows(
            draw(st.sampled_from(["insert", "update", "delete"])),
            draw(st.integers(0, (1 << 48) - 1)),
            count,
            present,
            after,
            before + body + following,
            len(before),
            len(before) + len(body),
            draw(st.integers(0, 0xFFFF)),
            draw(st.booleans()),
        ),
    )


sessions = st.builds(
    QuerySession,
    sql_mode=st.none() | st.integers(0, 1 << 60),
    charset=st.none() | st.tuples(*[st.integers(0, 999)] * 3),
    time_zone=st.none() | st.text(max_size=5),
    invoker=st.none() | st.tuples(st.text(max_size=4), st.text(max_size=4)),
    updated_schemas=st.none() | st.lists(st.text(max_size=4), max_size=3).map(tuple),
    charset_collations=st.just(()) | st.just(((1, 2), (3, 4))),
    complete=st.booleans(),
)
u32 = st.integers(0, (1 << 32) - 1)
statement_items = st.builds(
    StatementItem,
    st.builds(Query, st.text(max_size=6), st.binary(max_size=50), sessions, u32, u32, u32, st.integers(0, 0xFFFF)),
    st.integers(0, 1 << 60),
)
items_of_a_transaction = st.lists(st.one_of(rows_items(), statement_items), max_size=12)


def plain(item: Item) -> object:
    """What must be equal: everything a reader of the item can see."""
    if isinstance(item, StatementItem):
        return (item.query, item.start)
    rows = item.rows
    return (str(item.table_map), bytes(rows.body), rows.timestamp, rows._replace(data=b"", start=0, end=0))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(items_of_a_transaction)
def test_items_come_back_as_they_were(tmp_path: Path, items: list[Item]) -> None:
    path = tmp_path / "a"
    path.unlink(missing_ok=True)
    writer = SpoolWriter(path)
    written = ItemWriter(writer)
    for item in items:
        written.append(item)
    writer.flush()
    reader = SpoolReader(path)
    again = list(read_items(reader.records(0, writer.end), written.maps))
    stored = list(read_items(reader.records(0, writer.end)))  # as another process reads them
    reader.close()
    writer.close()
    expected = [plain(item) for item in items]
    assert [plain(item) for item in again] == expected
    assert [plain(item) for item in stored] == expected
    ours = [item.table_map for item in items if isinstance(item, RowsItem)]
    assert [item.table_map for item in again if isinstance(item, RowsItem)] == ours  # the same objects
    theirs = [item.table_map.columns for item in stored if isinstance(item, RowsItem)]
    assert theirs == [table.columns for table in ours]


def test_a_record_knows_every_field() -> None:
    # A field that is added there must be written here too.
    assert list(Rows._fields) == [
        "kind", "table_id", "column_count", "present", "present_after", "data", "start", "end", "flags", "partial"
    ]  # fmt: skip
    assert [field.name for field in fields(Query)] == [
        "schema", "sql", "session", "timestamp", "thread_id", "exec_time", "error_code", "uses_temporary",
        "in_transaction",
    ]  # fmt: skip


@dataclass
class Opened:
    """Items under a quota, with a spool."""

    quota: PeakQuota
    spool: Spool
    items: OpenItems

    @classmethod
    def under(cls, total: int, directory: Path, clock: Clock | None = None) -> Opened:
        quota, spool = PeakQuota(total), Spool(directory, clock or FakeClock())
        spool.wipe()
        return cls(quota, spool, OpenItems(quota, spool))

    def transaction(self, items: list[Item], end: int) -> TransactionItems:
        for item in items:
            self.add(item)
        return self.items.finish(at(end), 1000)

    def add(self, item: Item) -> None:
        if isinstance(item, RowsItem):
            self.items.add_rows(item, len(item.rows.data))
        else:
            self.items.add_statement(item)


def rows_item(size: int, seed: int) -> RowsItem:
    data = random.Random(seed).randbytes(size)
    return RowsItem(MAPS[seed % 3], Rows("insert", 9, 2, b"\3", b"\3", data, 0, size, 1, False))


def test_a_small_transaction_stays_in_memory_and_gives_it_back(tmp_path: Path) -> None:
    opened = Opened.under(64 << 10, tmp_path)
    given_items: list[Item] = [rows_item(100, seed) for seed in range(5)]
    items = opened.transaction(given_items, 100)
    assert list(items) == given_items
    assert opened.quota.used == items.size > 500
    assert opened.spool.bytes == 0
    items.release()
    assert opened.quota.used == 0
    assert list(items) == []


def test_a_transaction_beyond_the_quota_is_spooled_and_read_any_number_of_times(tmp_path: Path) -> None:
    opened = Opened.under(64 << 10, tmp_path)
    given_items: list[Item] = [rows_item(1000, seed) for seed in range(300)]
    items = opened.transaction(given_items, 100)
    assert opened.quota.peak <= opened.quota.total + 4096 + 2000  # a step, an item
    assert opened.spool.bytes > 200_000
    assert len(items) == 300
    expected = [plain(item) for item in given_items]
    readers = [iter(items) for _ in range(3)]  # side by side, each at another place
    next(readers[1])
    for reader, rest in zip(readers, (expected, expected[1:], expected), strict=True):
        assert [plain(item) for item in reader] == rest
    items.hold()
    items.release()
    assert len(list(items)) == 300
    items.release()
    assert opened.quota.used == 0


def test_while_others_are_on_their_way_a_transaction_waits_for_them_and_not_for_the_disk(tmp_path: Path) -> None:
    opened = Opened.under(64 << 10, tmp_path)
    first = opened.transaction([rows_item(1000, seed) for seed in range(30)], 100)
    found: list[TransactionItems] = []
    second: list[Item] = [rows_item(1000, seed) for seed in range(35)]
    reading = threading.Thread(target=lambda: found.append(opened.transaction(second, 200)), daemon=True)
    reading.start()
    first.release()
    reading.join(10)
    assert [plain(item) for item in found[0]] == [plain(item) for item in second]
    assert opened.spool.transactions == 0


def test_a_run_that_ends_does_not_leave_its_reader_waiting(tmp_path: Path) -> None:
    opened = Opened.under(64 << 10, tmp_path)
    opened.transaction([rows_item(1000, seed) for seed in range(30)], 100)
    ended: list[str] = []

    def read() -> None:
        try:
            opened.transaction([rows_item(1000, seed) for seed in range(35)], 200)
        except QuotaClosed:
            ended.append("closed")

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    opened.quota.close()
    reading.join(10)
    assert ended == ["closed"]


def test_one_event_larger_than_everything_goes_to_the_file(tmp_path: Path) -> None:
    opened = Opened.under(64 << 10, tmp_path)
    item = rows_item(1 << 20, 1)
    items = opened.transaction([item], 100)
    assert [plain(each) for each in items] == [plain(item)]
    assert opened.quota.peak <= opened.quota.total


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    opened = Opened.under(64 << 10, tmp_path)
    for seed in range(300):
        opened.add(rows_item(1000, seed))
    opened.items.discard()
    assert (opened.quota.used, len(opened.items)) == (0, 0)
    opened.spool.passed(at(4))
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1 << 32))
def test_any_quota_gives_the_same_transactions(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    stream = Stream()
    events = [stream.format]
    for number in range(1, 6):
        events += [stream.gtid(number), stream.query("BEGIN")]
        for _ in range(chance.choice([0, 1, 40, 200])):
            table = chance.randrange(3)
            events += [stream.table_map(table, f"t{table}"), stream.write_rows(table)]
            if chance.random() < 0.05:
                events.append(stream.query(f"CREATE TABLE x{number} (a INT)"))
        events.append(stream.xid())

    def wanted(table: object) -> bool:
        return "t2" not in str(table)

    def transactions(items: OpenItems | None, spool: Spool | None) -> Iterator[object]:
        assembler = TransactionAssembler(start(), wanted, NO_XA, items)
        for event in events:
            found: SourceTransaction | None = assembler.feed(event)
            if found is not None:
                yield (found.begin, found.end, found.gtid, found.timestamp, [plain(item) for item in found.items])
                found.items.release()
                if spool is not None and chance.random() < 0.5:
                    spool.passed(found.end)

    opened = Opened.under(chance.choice([4096, 20_000, 90_000]), tmp_path)
    assert list(transactions(opened.items, opened.spool)) == list(transactions(None, None))
    assert opened.quota.used == 0
    opened.spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_goes_when_the_checkpoint_has_passed_its_last_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "FILE_BYTES", 150_000)
    clock = FakeClock()
    opened = Opened.under(64 << 10, tmp_path, clock)
    large: list[Item] = [rows_item(1000, seed) for seed in range(160)]
    for end in (100, 200, 300):  # two in the first file, one in the second
        opened.transaction(large, end).release()
    names = sorted(tmp_path.iterdir())
    assert len(names) == 2
    opened.spool.passed(at(100))
    clock.now += UNLINK_SECONDS
    opened.spool.passed(at(199))
    assert sorted(tmp_path.iterdir()) == names
    opened.spool.passed(at(200))
    assert sorted(tmp_path.iterdir()) == names[1:]
    opened.spool.passed(at(300))  # a moment later: not yet
    assert sorted(tmp_path.iterdir()) == names[1:]
    clock.now += UNLINK_SECONDS
    opened.spool.passed(at(300))
    assert list(tmp_path.iterdir()) == []
    assert opened.spool.rounds == 2
    items = opened.transaction(large, 400)  # a file was deleted under the writer's feet: it begins another
    assert len(list(items)) == len(large)


def test_ten_thousand_transactions_are_no_stream_of_unlinks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "FILE_BYTES", 50_000)
    clock = FakeClock()
    opened = Opened.under(2048, tmp_path, clock)
    began = clock.now
    large: list[Item] = [rows_item(2000, 1)]
    for number in range(10_000):
        opened.transaction(large, 100 + number).release()
        clock.now += 0.013
        opened.spool.passed(at(100 + number))
    assert opened.spool.transactions == 10_000
    assert 0 < opened.spool.rounds <= (clock.now - began) / UNLINK_SECONDS + 1
    opened.spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_spool_of_an_earlier_run_is_deleted_unread(tmp_path: Path) -> None:
    crashed = Opened.under(64 << 10, tmp_path / "spool")
    crashed.transaction([rows_item(1000, seed) for seed in range(300)], 100)
    (tmp_path / "spool" / "000007.spool").write_bytes(b"of an older version")
    opened = Opened.under(64 << 10, tmp_path / "spool")
    assert list((tmp_path / "spool").iterdir()) == []
    assert opened.spool.bytes == 0


def test_a_byte_that_the_disk_changed_is_an_error_and_nothing_after_it_is_given(tmp_path: Path) -> None:
    opened = Opened.under(64 << 10, tmp_path)
    given_items: list[Item] = [rows_item(1000, seed) for seed in range(300)]
    items = opened.transaction(given_items, 100)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    found: list[Item] = []
    with pytest.raises(DMError, match="checksum is wrong") as caught:
        found.extend(items)
    assert caught.value.retryable
    assert [plain(item) for item in found] == [plain(item) for item in given_items[: len(found)]]
    assert 0 < len(found) < 300
