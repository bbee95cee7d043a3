"""Which errors auto-resume tries again: none of those that DM never does, and all that heal without a person."""

from __future__ import annotations

import pymysql
import pytest

from dm.downstream.failure import failure
from dm.errors import CATALOGUE

# dm/pkg/retry/errors.go of DM: its codes, and the numbers of server errors in its lists of messages.
NEVER_CODES = {36008, 32001, 36027, 34020, 34021, 30001, 30002, 30004, 30005, 30008}
NEVER_NUMBERS = (1059, 1062, 1069, 1117, 1366, 1406, 8025)
# DM stops at 32004 because the privilege for its lock may be missing, which is an error of its own here; what is left
# is a lock that others hold, for a while.
HEALS_HERE = {32004}


def test_no_code_that_dm_never_tries_again_is_tried_again() -> None:
    tried = {kind.code for kind in CATALOGUE.values() if kind.retryable}
    assert tried & (NEVER_CODES | HEALS_HERE) == HEALS_HERE


@pytest.mark.parametrize("number", NEVER_NUMBERS)
def test_no_server_error_that_dm_never_tries_again_is_tried_again(number: int) -> None:
    assert not failure(pymysql.err.DataError(number, "said the server"), "target:3306").retryable


@pytest.mark.parametrize("number", [1205, 1213, 1290, 1040, 1053, 2006, 2013, 1927])
def test_what_heals_is_tried_again(number: int) -> None:
    assert failure(pymysql.err.OperationalError(number, "said the server"), "target:3306").retryable


@pytest.mark.parametrize(
    "name", ["source-binlog-purged", "ddl-failed", "statement-dml", "ddl-not-understood", "fenced"]
)
def test_what_needs_a_person_waits_for_one(name: str) -> None:
    assert not CATALOGUE[name].retryable
    assert CATALOGUE[name].workaround
