"""Where transactions end, for every form in which the servers write them."""

from __future__ import annotations

import pytest

from dm.mysql.binlog.header import EventType
from dm.mysql.binlog.transaction import TransactionBoundary
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    event,
    format_description,
    gtid,
    mariadb_gtid,
    query,
    rotate,
    rows,
    table_map,
    transaction,
    xid,
)

PAYLOAD = event(EventType.TRANSACTION_PAYLOAD, b"compressed")
XA_PREPARE = event(EventType.XA_PREPARE, b"\x00" * 20)
ANNOTATE = event(EventType.MARIADB_ANNOTATE_ROWS, b"INSERT ..")

FORMS = {
    "rows and xid": transaction(1),
    "a DDL": [gtid(1), query(b"CREATE TABLE t (id INT)")],
    "a DDL whose text begins like COMMIT": [gtid(1), query(b"COMMITMENT")],
    "a payload": [gtid(1), PAYLOAD],
    "MyISAM rows and COMMIT": [gtid(1), query(b"BEGIN"), table_map(), rows(), query(b"COMMIT")],
    "rolled back": [gtid(1), query(b"BEGIN"), table_map(), rows(), query(b"ROLLBACK")],
    "with savepoints": [
        gtid(1),
        query(b"BEGIN"),
        query(b"SAVEPOINT `a`"),
        query(b"ROLLBACK TO `a`"),
        table_map(),
        rows(),
        xid(),
    ],
    "XA to its prepare": [gtid(1), query(b"XA START X'61',X'',1"), rows(), query(b"XA END X'61',X'',1"), XA_PREPARE],
    "XA COMMIT": [gtid(2), query(b"XA COMMIT X'61',X'',1")],
    "XA ROLLBACK": [gtid(2), query(b"XA ROLLBACK X'61',X'',1")],
    "CREATE .. SELECT": [gtid(1), query(b"BEGIN"), query(b"CREATE TABLE t (id INT) START TRANSACTION"), rows(), xid()],
    "without GTIDs": [query(b"BEGIN"), table_map(), rows(), xid()],
    "anonymous": [event(EventType.ANONYMOUS_GTID, bytes(42)), query(b"BEGIN"), rows(), xid()],
    "tagged": [event(EventType.GTID_TAGGED, bytes(42)), query(b"BEGIN"), rows(), xid()],
    "MariaDB rows": [mariadb_gtid(1, standalone=False), ANNOTATE, table_map(), rows(), xid()],
    "MariaDB DDL": [mariadb_gtid(1, standalone=True), query(b"CREATE TABLE t (id INT)")],
    "MariaDB compressed DDL": [
        mariadb_gtid(1, standalone=True),
        event(EventType.MARIADB_QUERY_COMPRESSED, b"\x00" * 40),
    ],
    "MariaDB MyISAM": [mariadb_gtid(1, standalone=False), rows(), query(b"COMMIT")],
    "MariaDB XA COMMIT": [mariadb_gtid(1, standalone=False), query(b"XA COMMIT X'61',X'',1")],
    "MariaDB CREATE .. SELECT": [mariadb_gtid(1, standalone=False), query(b"CREATE TABLE t (id INT)"), rows(), xid()],
}


@pytest.mark.parametrize("form", FORMS)
def test_only_the_last_event_of_a_transaction_ends_it(form: str) -> None:
    boundary = TransactionBoundary()
    assert boundary.feed(format_description())
    for _ in range(2):
        *inside, last = FORMS[form]
        assert [boundary.feed(data) for data in inside] == [False] * len(inside)
        assert boundary.feed(last)
        assert boundary.feed(rotate("mysql-bin.000002"))


def test_events_between_transactions_open_none() -> None:
    boundary = TransactionBoundary()
    for kind in (EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST, EventType.STOP, EventType.IGNORABLE, 240):
        assert boundary.feed(event(kind, b"body"))
