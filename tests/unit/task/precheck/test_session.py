"""Which variables of TiDB a target's sessions do not get."""

from __future__ import annotations

from dm.mysql.dialect import dialect
from dm.task.precheck.access import without_effect

ASKED = ("tidb_skip_utf8_check", "tidb_batch_insert")


def test_a_tidb_gets_all_but_those_that_sessions_rely_on() -> None:
    names, why = without_effect(ASKED, dialect("tidb"))
    assert names == ["tidb_batch_insert"]
    assert "rely on" in why


def test_other_servers_get_none() -> None:
    names, why = without_effect(ASKED, dialect("mysql"))
    assert names == list(ASKED)
    assert "no other server" in why
