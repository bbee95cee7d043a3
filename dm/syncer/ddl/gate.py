"""The gate that every plan passes: it decides what is done, before anything of it is done.

A statement of a shard is not the source's alone: others have the same one before them, or another structure. A gate
reads what they have stored, may wait for them a moment, and answers with one verdict. The barrier does what that says:

    execute        the plan's steps, announced where the verdict says
    follow         steps that another source has executed for all (`at_target`)
    pass           other steps, which the target gets in place of the shard's
    hold           no steps: the table waits, and its event is read again by a second pass (`waiting`)
    refuse         there is no verdict, but a DMError

What others get to know of the steps is stored after them, by `tell`. Only then is it certain whether a new table is
like the other shards, since it is one of them from when the target has it (S6 of `dm.progress.shards.groups`): so
`tell` may give a table that is held all the same.
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
"""What is stored in the caller's transaction."""


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What is done about a plan."""

    planned: DdlPlan  # its steps are for the target now
    intent: Intent | None = None  # what an earlier run announced of them
    announcements: Announcements | None = None  # None: the source's own
    at_target: bool = False  # the steps are executed, and only followed
    waiting: TableName | None = None  # to be held
    tell: Callable[[], TableName | None] = _nothing  # others, of the steps; gives a table to be held
    beside: Act | None = None  # commits with the L after the event
    stored: Callable[[], None] = _nothing  # that L is stored

    @classmethod
    def held(cls, table: TableName, planned: DdlPlan) -> GateVerdict:
        """Nothing of the plan is done."""
        return cls(replace(planned, steps=(), online={}), waiting=table)


class DdlGate(Protocol):
    """Asked about each plan; belongs to the unit's own thread."""

    @property
    def singly(self) -> bool:
        """Whether L is stored before and after each statement."""
        ...

    @property
    def of_pass(self) -> frozenset[TableName]:
        """The tables that a second pass still has."""
        ...

    def decide(self, planned: DdlPlan, end: Position, intent: Intent | None) -> GateVerdict:
        """What is done about the plan of an event that ends at `end`; raises DMError, or Stopped.

        `intent` is what an earlier run of the source announced at this place.
        """
        ...

    def number_of_whole(self, planned: DdlPlan) -> int:
        """The number under which an ALTER is announced as a whole: no piece that may be announced has it."""
        ...

    def hold(self, table: TableName) -> Act:
        """The table waits from here on; gives what commits with the L after the event."""
        ...


@dataclass(frozen=True, slots=True)
class GateSides:
    """What a run lends its gate."""

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
        """All of it."""
        return GateVerdict(planned, intent)

    def number_of_whole(self, planned: DdlPlan) -> int:
        """The number after the last piece."""
        return len(planned.pieces)

    def hold(self, table: TableName) -> Act:
        """Nothing here waits."""
        raise AssertionError(table)
