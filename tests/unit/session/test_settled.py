"""What a session at a TiDB is told, whatever the server's defaults and a task's `session` are."""

from __future__ import annotations

from collections.abc import Mapping

from dm.mysql.dialect import dialect
from dm.session import state

SERVER = dialect("tidb")
FIXED = SERVER.settled


def corrections(found: Mapping[str, str]) -> str:
    return state.corrections(SERVER, found)


def test_what_is_as_it_has_to_be_is_left_alone() -> None:
    assert corrections(FIXED) == ""
    assert corrections({name: value.lower() for name, value in FIXED.items()}) == ""


def test_what_a_version_does_not_have_is_not_set() -> None:
    assert corrections({}) == ""
    assert corrections({"tidb_txn_mode": "optimistic"}) == "SET SESSION tidb_txn_mode = 'pessimistic'"


def test_all_that_differs_is_set_at_once() -> None:
    found = {**FIXED, "tidb_txn_mode": "", "tidb_read_staleness": "-5"}
    assert corrections(found) == "SET SESSION tidb_txn_mode = 'pessimistic', SESSION tidb_read_staleness = '0'"
