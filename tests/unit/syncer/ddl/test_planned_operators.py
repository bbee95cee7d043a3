"""What is planned where a person has decided about an event: skip, replace, inject."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.progress.operators import Operator
from dm.syncer.ddl.plan import Execute, Forget, TrackOnly
from dm.syncer.ddl.planner import plan_injection
from tests.unit.syncer.ddl.planning import TRANSACTION, Looking, Rules, query


def test_a_statement_that_an_operator_replaces_is_followed_and_its_own_are_executed() -> None:
    replacing = Operator("uuid", "binlog.000001", 100, "replace", ("ALTER TABLE d.t ADD COLUMN w INT",))
    own, followed = Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT"), TRANSACTION, replacing)
    assert isinstance(own, Execute)
    assert (own.piece.text, own.by_hand, own.track) == ("ALTER TABLE d.t ADD COLUMN w INT", True, "not")
    assert isinstance(followed, TrackOnly)
    assert (followed.piece.text, followed.track) == ("ALTER TABLE d.t ADD COLUMN v INT", "if possible")


def test_a_skipped_statement_that_failed_at_the_source_may_be_done_in_part() -> None:
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    (step,) = Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT", error=1317), TRANSACTION, skipping)
    assert isinstance(step, Forget)


def test_an_injection_is_planned_under_the_same_rules() -> None:
    injecting = Operator("uuid", "binlog.000001", 100, "inject", ("ALTER TABLE d.t ADD v INT", "DROP TABLE other.t"))
    known = Looking().known
    planned, left = plan_injection(injecting, TRANSACTION, known)
    assert (planned, left) == plan_injection(injecting, TRANSACTION, known)
    assert not left  # to nobody
    assert [step.piece.text for step in planned.pieces] == ["ALTER TABLE d.t ADD v INT"]


class Reading(Rules):
    """One of several readings: these tables are its own, or all but these."""

    def __init__(self, *tables: str, but: bool = False) -> None:
        self._tables = tables
        self._but = but

    def followed(self, table: TableName) -> bool:
        return table.schema == "d" and (table.table in self._tables) != self._but

    def in_another_stream(self, table: TableName) -> bool:
        return table.schema == "d" and not self.followed(table)


def test_each_reading_injects_what_is_its_own_and_no_other_has_done() -> None:
    words = ("ALTER TABLE d.a ADD v INT, ADD w INT", "ALTER TABLE d.t ADD v INT", "ALTER TABLE d.b ADD v INT")
    injecting = Operator("uuid", "binlog.000001", 100, "inject", (*words, "DROP TABLE other.t"))
    around = Looking().known

    def injected(rules: Rules) -> list[str]:
        nonlocal injecting
        planned, left = plan_injection(injecting, TRANSACTION, replace(around, rules=cast(Any, rules)))
        injecting = replace(injecting, done=True, left=left)
        return [str(step.piece.table) for step in planned.pieces]

    assert injected(Reading("a", "b", but=True)) == ["d.t"]
    assert injecting.left == frozenset({(0, 0), (0, 1), (2, 0)})
    assert injected(Reading("a")) == ["d.a", "d.a"]
    assert injected(Reading("a")) == []
    assert injecting.partly
    assert injected(Rules()) == ["d.b"]  # it is held no more
    assert not injecting.to_come


def test_what_breaks_over_a_statement_may_be_skipped_by_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str, context: SourceContext, *, singly: bool, replaces: bool) -> list[Piece]:
        raise IndexError(f"{text} {singly} {replaces}")

    monkeypatch.setattr("dm.syncer.ddl.planner.split", broken)
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    with pytest.raises(IndexError):
        Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT"))
    assert Looking().steps(query(b"ALTER TABLE d.t ADD COLUMN v INT"), TRANSACTION, skipping) == ()
