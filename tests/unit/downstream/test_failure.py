"""What the words of a server mean for a task."""

from __future__ import annotations

import pymysql
import pytest

from dm.downstream.failure import failure

WRITE = b"LOAD DATA LOCAL INFILE '' INTO TABLE t"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        # The first two were seen on a full file system (MariaDB, MySQL); the others are the servers' texts filled in.
        (3, "Error writing file '/d/tmp/#sql/fd=57' (Errcode: 28 \"No space left on device\")"),
        (3, "Error writing file '/d/tmp/MLfd=39' (OS errno 28 - No space left on device)"),
        (1026, "Error writing file './s/t.MYD' (errno: 28 \"No space left on device\")"),
        (1026, "Error writing file './s/t.sdi' (errno: 122 - Disk quota exceeded)"),
        (1030, 'Got error 28 "No space left on device" from storage engine InnoDB'),
        (1030, "Got error 28 - 'No space left on device' from storage engine"),
        (1005, 'Can\'t create table `s`.`t` (errno: 28 "No space left on device")'),
        (1114, "The table 't' is full"),
        (1878, "Temporary file write failure."),
    ],
)
def test_a_full_disk_of_the_target_heals(number: int, words: str) -> None:
    error = failure(pymysql.err.OperationalError(number, words), "target:1", WRITE)
    assert (error.name, error.retryable) == ("target-unavailable", True)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (3, "Error writing file '/d/tmp/MLfd=28' (OS errno 13 - Permission denied)"),
        (1030, 'Got error 1 "Operation not permitted" from storage engine InnoDB'),
        (1054, "Unknown column 'error 28' in 'field list'"),
    ],
)
def test_other_refusals_do_not(number: int, words: str) -> None:
    error = failure(pymysql.err.OperationalError(number, words), "target:1", WRITE)
    assert (error.name, error.retryable) == ("statement-failed", False)


@pytest.mark.parametrize(
    ("number", "words", "name", "way_out"),
    [
        (1406, "Data too long for column 'error 28' at row 1", "row-value-refused", "`ALTER TABLE` it at the target"),
        (1048, "Column 'v' cannot be null", "row-value-refused", "`ALTER TABLE` it at the target"),
        (1364, "Field 'v' doesn't have a default value", "row-value-refused", "`ALTER TABLE` it at the target"),
        (1526, "Table has no partition for value 7", "row-partition-missing", "ADD PARTITION"),
        (1452, "Cannot add or update a child row", "row-reference-refused", "foreign_key_checks"),
        (1690, "BIGINT UNSIGNED value is out of range in '(a - b)'", "row-expression-failed", "sql_mode"),
        (3819, "Check constraint 't_chk_1' is violated.", "row-check-refused", "NOT ENFORCED"),
    ],
)
def test_a_row_is_refused_by_what_does_not_take_it(number: int, words: str, name: str, way_out: str) -> None:
    error = failure(pymysql.err.DataError(number, words), "target:1", WRITE)
    assert (error.name, error.retryable, way_out in error.workaround) == (name, False, True)
    statement = failure(pymysql.err.DataError(number, words), "target:1", b"ALTER TABLE t MODIFY v INT")
    assert statement.name == "statement-failed", "of a statement that is no row the table's rows are judged"


@pytest.mark.parametrize(
    ("number", "words", "name"),
    [
        (9007, "Write conflict, txnStartTS=1, conflictStartTS=2, conflictCommitTS=3, key={..}", "transaction-aborted"),
        (8027, "Information schema is out of date: schema failed to update in 1 lease", "transaction-aborted"),
        (8028, "Information schema is changed during the execution of the statement", "transaction-aborted"),
        (9005, "Region is unavailable", "target-unavailable"),
        (1105, "context canceled", "target-unavailable"),
        (1105, "rpc error: code = Unavailable desc = connection error", "target-unavailable"),
    ],
)
def test_what_passes_by_itself_at_a_tidb(number: int, words: str, name: str) -> None:
    error = failure(pymysql.err.OperationalError(number, words), "target:1", WRITE)
    assert (error.name, error.retryable) == (name, True)


@pytest.mark.parametrize(
    ("number", "words", "limit"),
    [
        (8004, "Transaction is too large, size: 104857601", "txn-total-size-limit"),
        (
            8025,
            "entry too large, the max entry size is 6291456, the size of data is 7000000",
            "tidb_txn_entry_size_limit",
        ),
        (8175, "Your query has been cancelled due to exceeding the allowed memory limit", "tidb_mem_quota_query"),
    ],
)
def test_a_limit_of_a_tidb_is_named(number: int, words: str, limit: str) -> None:
    error = failure(pymysql.err.InternalError(number, words), "target:1", WRITE)
    assert (error.name, error.retryable) == ("target-limit", False)
    assert limit in error.workaround


def test_other_errors_without_a_number_of_their_own_do_not_pass() -> None:
    error = failure(pymysql.err.OperationalError(1105, "unsupported charset introducer"), "target:1", WRITE)
    assert (error.name, error.retryable) == ("statement-failed", False)
