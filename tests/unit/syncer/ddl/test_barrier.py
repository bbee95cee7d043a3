"""An error that nobody foresaw is a pause with the statement, wherever on the way of a DDL it is raised."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.progress.operators import Operator
from dm.syncer.apply.lanes import Stopped
from dm.syncer.ddl.barrier import AroundSteps, DdlBarrier
from dm.syncer.ddl.gate import OpenGate
from dm.syncer.ddl.plan import CutOver, DdlPlan, Execute, PlanningState, SourceAnswers, StatementEvent, Step, TrackOnly
from dm.syncer.ddl.temporary_tables import TemporaryTables
from tests.unit.syncer.ddl.planning import PLACE, TRANSACTION, Looking, query

TEXT = "ALTER TABLE d.t ADD COLUMN v INT"
PIECE = Piece.of(TEXT, SourceContext("mysql", 90704, "d"))
T = TableName("d", "t")


def fail(*_: object) -> Any:
    raise LookupError("not where it should be")


class Breaking:
    """Execution, tracking and structures, all of which break; `error` is what they raise."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.tracker = self

    def changing(self) -> AbstractContextManager[dict[TableName, TableSchema | None]]:
        return nullcontext({})

    def get(self, *_: object) -> Any:
        raise self._error

    def announcing(self, *_: object) -> AbstractContextManager[None]:
        return nullcontext()

    run = follow = get


def barrier(known: PlanningState, error: Exception | None = None) -> DdlBarrier:
    """One whose lanes are drained, and nothing else goes well."""
    still = SimpleNamespace(drain=lambda: None)
    around = AroundSteps(cast(Any, still), cast(Any, still), cast(Any, still), lambda: None, lambda: None, OpenGate())
    breaking: Any = Breaking(error or LookupError("not where it should be"))
    return DdlBarrier(known, {}, None, breaking, breaking, around)


def broken_source() -> PlanningState:
    return replace(Looking().known, source=SourceAnswers(fail, fail, fail))


def test_planning_that_breaks_is_a_pause_with_the_statement() -> None:
    with pytest.raises(DMError) as caught:
        barrier(broken_source()).plan(StatementEvent(query(TEXT.encode()), TRANSACTION))
    assert (caught.value.name, caught.value.code) == ("ddl-defect", 36980)
    assert TEXT in caught.value.message
    assert "LookupError: not where it should be" in caught.value.message
    assert not caught.value.retryable
    assert "dmctl binlog skip" in caught.value.workaround
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize(
    "step",
    [
        Execute(PIECE, query(TEXT.encode())),
        TrackOnly(PIECE),
        CutOver(TableName("d", "_t_gho"), T, T, (PIECE,), TEXT),
    ],
)
def test_a_step_that_breaks_is_a_pause_with_the_statement(step: Step) -> None:
    planned = DdlPlan(TemporaryTables(), (step,))
    with pytest.raises(DMError) as caught:
        barrier(Looking().known).run(planned, PLACE, PLACE)
    assert caught.value.name == "ddl-defect"
    assert TEXT in caught.value.message


def test_an_injection_that_breaks_is_a_pause_with_the_statement() -> None:
    injecting = Operator("uuid", "binlog.000001", 100, "inject", (TEXT,))
    with pytest.raises(DMError) as caught:
        barrier(broken_source()).inject(injecting, TRANSACTION)
    assert caught.value.name == "ddl-defect"
    assert TEXT in caught.value.message


@pytest.mark.parametrize("error", [Stopped(), DMError("ddl-untrackable", statement=TEXT, why="no")])
def test_a_stop_and_an_error_of_the_catalogue_stay_what_they_are(error: Exception) -> None:
    planned = DdlPlan(TemporaryTables(), (TrackOnly(PIECE),))
    with pytest.raises(type(error)) as caught:
        barrier(Looking().known, error).run(planned, PLACE, PLACE)
    assert caught.value is error
