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
        (1406, "Data too long for column 'error 28' at row 1"),
    ],
)
def test_other_refusals_do_not(number: int, words: str) -> None:
    error = failure(pymysql.err.OperationalError(number, words), "target:1", WRITE)
    assert (error.name, error.retryable) == ("statement-failed", False)
