"""The GTID set that belongs to the last complete transaction."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm.gtid import Gtid, GtidSet
from dm.mysql.binlog.gtid_history import empty_history
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    SERVER,
    format_description,
    gtid,
    mariadb_gtid,
    previous_gtids,
    query,
    rows,
    transaction,
    xid,
)


@given(st.lists(st.integers(1, 60), max_size=40))
def test_the_set_is_the_union_of_all_complete_transactions(numbers: list[int]) -> None:
    history = empty_history("mysql")
    expected = GtidSet.empty("mysql")
    for number in numbers:
        for event in transaction(number):
            history.feed(event)
        expected = expected.with_gtid(Gtid("mysql", SERVER, number))
        if number % 7 == 0:
            assert history.gtid_set == expected
    assert history.gtid_set == expected


def test_a_transaction_joins_when_it_has_ended() -> None:
    history = empty_history("mysql")
    *inside, last = transaction(1)
    for event in inside:
        history.feed(event)
        assert not history.gtid_set
    history.feed(last)
    assert str(history.gtid_set) == f"{SERVER}:1"


def test_a_file_says_what_came_before_it() -> None:
    history = empty_history("mysql")
    for event in (format_description(), previous_gtids(41), gtid(42), query(b"DROP TABLE t")):
        history.feed(event)
    assert str(history.gtid_set) == f"{SERVER}:1-42"


def test_mariadb_keeps_the_last_number_of_each_domain() -> None:
    history = empty_history("mariadb")
    for event in (mariadb_gtid(7, standalone=False), rows(), xid(), mariadb_gtid(8, standalone=True), query(b"DROP")):
        history.feed(event)
    assert str(history.gtid_set) == "0-1-8"


def test_a_restart_forgets_the_open_transaction() -> None:
    history = empty_history("mysql")
    for event in transaction(1)[:-1]:
        history.feed(event)
    history.restart(GtidSet.empty("mysql"))
    assert history.between
    history.feed(query(b"DROP TABLE t"))
    assert not history.gtid_set
