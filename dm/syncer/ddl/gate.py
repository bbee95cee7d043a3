"""The gate that every plan passes: it decides what is done, before anything is done.

A shard's statement is not its source's alone: other shards have the same statement, or another structure. A gate reads
what they have stored, may wait for them a moment, and returns one verdict, which the barrier carries out:

    execute        the plan's steps, announced where the verdict says
    track          steps that another source has executed for all (`at_target`)
    pass           other steps, which the target gets in place of the shard's
    hold           no steps: the table waits, and a second pass reads its event again (`waiting`)
    refuse         a DMError instead of a verdict

`tell` stores what the others must know of the steps, after them. Only then is it certain whether a new table is like
the other shards, since it becomes one of them once the target has it (S6 of `dm.progress.shards.numbered_ddls`). So
`tell` may still return a table that has to be held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.schema.tracker import SchemaTracker
from dm.position import Position
from dm.progress.intent import Intent
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.ddl.execution import Announcements
from dm.syncer.ddl.plan import DdlPlan
from dm.syncer.ddl.session import DdlSession

Act = Callable[[TargetConnection], None]
"""Stores something in the caller's transaction."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What is done of a plan."""

    planned: DdlPlan  # its steps are executed now
    intent: Intent | None = None  # what an earlier run announced of them
    announcements: Announcements | None = None  # None: the source's own
    at_target: bool = False  # the target has executed the steps; they are only tracked
    waiting: TableName | None = None  # the table to hold
    tell: Callable[[], TableName | None] = _nothing  # after the steps; returns a table to hold
    beside: Act | None = None  # commits with the L after the event
    stored: Callable[[], None] = _nothing  # called when L is stored

    @classmethod
    def held(cls, table: TableName, planned: DdlPlan) -> GateVerdict:
        """Nothing of the plan is done."""
        return cls(replace(planned, steps=(), online={}), waiting=table)


class DdlGate(Protocol):
    """Decides about each plan; belongs to the unit's own thread."""

    @property
    def singly(self) -> bool:
        """Whether L is stored before and after each statement."""
        ...

    @property
    def of_pass(self) -> frozenset[TableName]:
        """The tables that a second pass still has."""
        ...

    def decide(self, planned: DdlPlan, end: Position, intent: Intent | None) -> GateVerdict:
        """The verdict about the plan of an event that ends at `end`; raises DMError, or Stopped.

        `intent` is what an earlier run of the source announced at this place.
        """
        ...

    def number_of_whole(self, planned: DdlPlan) -> int:
        """The number under which an ALTER is announced as a whole: no piece that may be announced has it."""
        ...

    def hold(self, table: TableName) -> Act:
        """Hold the table from here on; returns what commits with the L after the event."""
        ...


@dataclass(frozen=True, slots=True)
class GateSides:
    """The parts of the run that a gate uses."""

    tracker: SchemaTracker
    schemas: TargetSchemas
    progress: ProgressWriter
    session: DdlSession
    clock: Clock


class OpenGate:
    """The gate of a stream without shards."""

    singly = False
    of_pass: frozenset[TableName] = frozenset()

    def decide(self, planned: DdlPlan, end: Position, intent: Intent | None) -> GateVerdict:
        """Everything is executed."""
        return GateVerdict(planned, intent)

    def number_of_whole(self, planned: DdlPlan) -> int:
        """The number after the last piece."""
        return len(planned.pieces)

    def hold(self, table: TableName) -> Act:
        """Never called: nothing waits here."""
        raise AssertionError(table)
