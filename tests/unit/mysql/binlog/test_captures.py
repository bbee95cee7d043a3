"""Files of server versions that can't be run here."""

from __future__ import annotations

import json
import struct
from collections import Counter

import pytest

from dm.errors import DMError
from dm.gtid import Gtid
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import (
    EventParser,
    FormatDescription,
    GtidEvent,
    GtidList,
    Query,
    Rows,
    StatementInput,
    TransactionPayload,
)
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column
from tests.unit.mysql.binlog.captures import capture, changes, typed_events
from tests.unit.mysql.binlog.sample import SAMPLES, TABLES

A_INT = Column("a", "int")
CHAR = (A_INT, Column("b", "char", 50, charset="latin1"))
ROWS = [
    ("t1", "insert", [(None, (0, b"one")), (None, (1, b"two"))]),
    ("t1", "update", [((0, b"one"), (1, b"one")), ((1, b"two"), (2, b"two"))]),
    ("t1", "delete", [((2, b"two"), None)]),
]

READABLE = {
    "std_data/bug40482-bin.000001": None,  # an INCIDENT
    "std_data/binlog_savepoint.000001": "5.1.43-debug-log",
    "std_data/mariadb-5.5-binlog.000001": "5.5.36-MariaDB-debug-log",
    "std_data/mdev6020-mysql-bin.000001": "10.0.11-MariaDB-debug-log",
    "std_data/mdev29078-mysql-bin.000001": "10.3.35-MariaDB-debug-log",
    "std_data/rpl/master-bin-seq_10.3.36.000001": "10.3.36-MariaDB-debug-log",
    "std_data/rpl/mysql-5.7.11-stm-temporal-round-binlog.000001": "5.7.11-debug-log",
    "std_data/rpl/mysql-8.0.13-stm-temporal-round-binlog.000001": "8.0.13-debug",
    "std_data/mdev35643_mysql_80_binlog.000001": "8.0.40-debug",
    "suite/binlog/std_data/update-partial-row.binlog": "5.1.37-ndb-6.2.19-debug-log",
    "suite/binlog/std_data/ver_5_1_23.001": "5.1.23-rc-debug-log",
    "suite/binlog/std_data/ver_trunk_row_v2.001": "5.6.4-m7-debug-log",
}


@pytest.mark.parametrize("name", READABLE)
def test_every_event_is_read_or_refused_by_name(name: str) -> None:
    version = READABLE[name]
    if version is None:
        with pytest.raises(DMError) as caught:
            typed_events(capture(name))
        assert caught.value.name == "event-unsupported"
        return
    first = typed_events(capture(name))[0]
    assert isinstance(first, FormatDescription)
    assert first.server_version == version


@pytest.mark.parametrize("name", ["ver_5_1_23.001", "ver_trunk_row_v2.001"])
def test_rows_of_mysql_5_1_and_5_6(name: str) -> None:
    assert changes(capture(f"suite/binlog/std_data/{name}"), {"t1": CHAR}) == ROWS


@pytest.mark.parametrize("name", ["ver_5_1_17.001", "ver_5_1-telco.001"])
def test_the_row_format_of_the_5_1_betas_is_refused(name: str) -> None:
    with pytest.raises(DMError) as caught:
        typed_events(capture(f"suite/binlog/std_data/{name}"))
    assert caught.value.name == "event-corrupt"


def test_the_inputs_of_statements_and_the_statement_of_a_load() -> None:
    events = typed_events(capture("suite/binlog/std_data/ver_trunk_row_v2.001"))
    assert Counter(event.type for event in events if isinstance(event, StatementInput)) == {
        5: 1,
        9: 1,
        13: 1,
        14: 1,
        17: 1,
    }
    load = [event for event in events if isinstance(event, Query)][-1]
    assert load.text.startswith("LOAD DATA INFILE 'big_file.dat' INTO TABLE `t3` ")
    assert (load.schema, load.error_code) == ("test", 0)


def test_a_compressed_transaction_and_partial_json_of_mysql_8_0() -> None:
    path = capture("std_data/mdev35643_mysql_80_binlog.000001")
    (payload,) = (event for event in typed_events(path) if isinstance(event, TransactionPayload))
    assert payload.uncompressed_size == 20188
    wide = (A_INT, Column("b", "int"), Column("c", "varchar", 1024, charset="latin1"))
    found = changes(path, {"t1": wide, "t2": (A_INT, Column("b", "json"))})
    inserted = [after[:2] for table, _, rows in found if table == "t1" for _, after in rows if after is not None]
    before_it, after_it = [(1, 0), (2, 0), (3, 0), (4, 0)], [(5, 0)]
    assert inserted == [*before_it, *((1000 + number, number) for number in range(100)), *after_it]
    ((table, kind, [(before, after)]),) = [each for each in found if each[0] == "t2"]
    assert (table, kind) == ("t2", "update")
    assert before is not None
    assert after is not None
    old, new = json.loads(str(before[1])), json.loads(str(after[1]))
    assert (old["a"], old["c"]) == ("hulu", "bulu")
    assert {key for key in old if old[key] != new.get(key)} | (new.keys() - old.keys())


@pytest.mark.parametrize(
    ("name", "committed"), [("rpl/mysql-5.7.11-stm-temporal-round-binlog", False), ("mdev35643_mysql_80_binlog", True)]
)
def test_commit_times_came_with_mysql_8(name: str, committed: bool) -> None:
    found = [event for event in typed_events(capture(f"std_data/{name}.000001")) if isinstance(event, GtidEvent)]
    assert found
    assert all((event.commit_timestamp_us is not None) is committed for event in found)
    assert [event.sequence_number for event in found] == list(range(1, len(found) + 1))


def test_gtids_of_mariadb_10() -> None:
    events = typed_events(capture("std_data/rpl/master-bin-seq_10.3.36.000001"))
    gtids = [event.gtid for event in events if isinstance(event, GtidEvent)]
    assert gtids == [Gtid("mariadb", "0", number, 1) for number in (1, 100, 101, 102)]
    many = typed_events(capture("std_data/mdev6020-mysql-bin.000001"))
    assert sum(isinstance(event, GtidEvent) for event in many) == 1381
    assert sum(isinstance(event, Rows) for event in many) == 2488
    assert any(isinstance(event, GtidList) for event in many)


def test_mariadb_11() -> None:
    path = SAMPLES / "mariadb-11.8.binlog"
    first = typed_events(path)[0]
    assert isinstance(first, FormatDescription)
    assert first.server_version.startswith("11.8.9-MariaDB")
    assert all(event.session.complete for event in typed_events(path) if isinstance(event, Query))
    vector = (Column("id", "int"), Column("v", "vector", 2))
    wide = (*TABLES["wide"], Column("z", "int"))
    found = changes(path, {**TABLES, "wide": wide, "vec": vector})
    assert [rows for table, _, rows in found if table == "vec"] == [[(None, (1, struct.pack("<2f", 1, 2)))]]
    older = changes(SAMPLES / "mariadb.binlog", TABLES)  # 10.11, the same statements
    assert [each for each in found if each[0] != "vec"][: len(older)] == older
    # binlog_row_image=FULL_NODUP: the whole row before, and after it what is not the same.
    (before, after) = found[-1][2][0]
    assert before == (20, 1, *[None] * 24)
    assert after == (ABSENT, 5, *[ABSENT] * 24)


def read(name: str) -> None:
    data, parser, end = capture(name).read_bytes(), EventParser(), 4
    for at, header in frames(data, 4, len(data)):
        end = at + header.size
        parser.parse(RawEvent(header, data[at:end]))
    assert end < len(data), "the file is whole"


@pytest.mark.parametrize("name", ["std_data/binlog_before_20574.bin", "std_data/corrupt-relay-bin.000624"])
def test_damaged_files_are_refused(name: str) -> None:
    with pytest.raises(DMError) as caught:
        read(name)
    assert caught.value.name in ("event-corrupt", "event-unsupported", "event-unknown")


def test_the_events_before_a_torn_end_are_read() -> None:
    read("std_data/bug11747416_32228_binlog.000001")
