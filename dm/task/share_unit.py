"""The unit of tables that are not in their task's stream, until they join it (`dm.progress.joining.table_joining`).

It finds out what to do from the row at the target, does one step, and looks again. Dump, load and sync are those of any
task: the share is one of its own name, in mode `all`, whose lists want these tables alone.

A branch (`dm.progress.joining.branches`) only follows. Main holds the relay files that it needs. An error that a person
has to mend does not pause the unit: the branch rests with it, as one that has just left.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

import structlog

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import Share, SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import remove_files
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.joining.branches import rest
from dm.progress.joining.table_joining import (
    EMPTYING,
    Joining,
    begin_emptying,
    begin_loading,
    end_share,
    find_all,
    find_joining,
    take_away,
)
from dm.progress.lane_rows import DDL
from dm.progress.opposite import announce
from dm.progress.tables import share_name
from dm.progress.takeover import Fence
from dm.sourcelog.stream.reader import concerns_event
from dm.syncer.returning_run import ShareRun
from dm.syncer.unit import SyncUnit
from dm.task.pace import task_governor
from dm.task.payload import UnitPayload
from dm.task.progress import first_unit, key_of
from dm.unit import JSON, Unit, UnitName

_LOOK_SECONDS: Final = 0.2
_AFTER: Final[Mapping[UnitName, tuple[UnitName, ...]]] = {"Dump": ("Dump", "Load"), "Load": ("Load",), "Sync": ()}

Copy = Callable[[UnitName, UnitPayload], Unit]
"""Makes a dump or a load."""


def share_config(config: SubtaskConfig, share: Share) -> SubtaskConfig:
    """The task that the share is."""
    # Its places are its own, whatever other sources the task has or gets.
    places = {"clean_dump_file": True, "sole_source": False}
    return config.model_copy(
        update={"task": share_name(config.task), "mode": "all", "meta": None, "share": share, **places}
    )


class JoinUnit:
    """Brings a share from being asked for to where main takes it."""

    name: UnitName = "Join"

    def __init__(self, payload: UnitPayload, copy: Copy, clock: Clock | None = None) -> None:
        self._payload = payload
        self._main = payload.config
        self._key = key_of(payload.config)
        self._copy = copy
        self._clock = clock or SystemClock()
        self._part: Unit | None = None  # the dump, load or sync under way
        self._waiting = "starting"
        self._log = structlog.get_logger()

    def status(self) -> Mapping[str, JSON]:
        """Which of its units works, and that one's status."""
        part = self._part
        if part is None:
            return {"unit": "", "waiting": self._waiting}
        return {"unit": part.name, **part.status()}

    def refresh(self, timeout: float) -> None:
        """Read the source's end now, where the share follows."""
        part = self._part
        if isinstance(part, SyncUnit):
            part.refresh(timeout)

    def run(self, stop: threading.Event) -> None:
        """Work until the tables are main's, or nobody wants them any more; raises DMError."""
        while not stop.is_set():
            joining = self._found()
            if joining is None:
                self._leave()
                return
            if joining.kind != "branch":
                self._step(joining, stop)
            elif joining.rests or joining.phase == "asked":
                return
            elif joining.phase == "ready":
                self._rest("for the task's own stream", stop)
            else:
                self._follow_branch(joining, self._payload_of(joining), stop)

    def _found(self) -> Joining | None:
        """The row that it works on: the share's, or that of its branch."""
        with closing(TargetConnection(self._main.target)) as connection:
            branch = self._payload.branch
            if not branch:
                return find_joining(connection, self._key)
            return next((one for one in find_all(connection, self._key) if one.number == branch), None)

    def _follow_branch(self, branch: Joining, payload: UnitPayload, stop: threading.Event) -> None:
        """Follow, and rest where a person has to do something; raises DMError for what passes by itself."""
        try:
            self._follow(branch, replace(payload, hold_in=None), stop)
        except DMError as error:
            if stop.is_set() or error.retryable or not concerns_event(error):
                raise
            self._log.warning("tables rest", tables=", ".join(map(str, branch.names)), error=error)
            with closing(TargetConnection(self._main.target)) as connection:
                if not rest(connection, self._key, branch, error) and self._found() == branch:
                    raise  # nobody has decided otherwise
        finally:
            self._part = None

    def _step(self, joining: Joining, stop: threading.Event) -> None:
        payload = self._payload_of(joining)
        has_new_list = joining.kind == "reload" or self._main.block_allow_list != joining.share.older
        if not has_new_list and joining.phase != "cancelled":
            self._rest("for the task's new list", stop)
        elif joining.phase == "cancelled":
            self._take_away(joining, stop)
        elif joining.phase in ("out", "emptying"):
            self._hold(payload)
            self._empty(joining, payload, stop)
        elif joining.phase in ("loading", "undo"):
            self._hold(payload)
            self._load(joining, payload, stop)
        elif joining.phase in ("near", "until"):
            self._follow(joining, payload, stop)
        else:
            self._rest("for the task's own stream", stop)

    def _rest(self, why: str, stop: threading.Event) -> None:
        self._waiting = why
        self._clock.wait(stop, _LOOK_SECONDS)

    def _payload_of(self, joining: Joining) -> UnitPayload:
        # What an earlier time has left on disk says nothing about this one.
        work = self._payload.work_directory / joining.number
        config = share_config(self._main, joining.share)
        if joining.kind == "branch":  # as a replica of the source it needs a name of its own, beside other branches
            config = config.model_copy(update={"task": f"{self._main.task}~{joining.number[:8]}"})
        return replace(self._payload, config=config, work_directory=work, until=None)

    @staticmethod
    def _hold(payload: UnitPayload) -> None:
        """Before the dump takes its place, as every task that is about to begin."""
        if payload.hold is not None and not payload.hold.exists():
            payload.hold.create()

    def _leave(self) -> None:
        """The tables are main's, or nobody's."""
        work = self._payload.work_directory
        if self._payload.branch:
            shutil.rmtree(work / self._payload.branch, ignore_errors=True)
            return
        payload = replace(self._payload, config=share_config(self._main, Share()), work_directory=work / "none")
        if payload.hold is not None:
            payload.hold.remove()
        remove_files(payload.dump_storage)
        for left in work.glob("*/.sync"):
            shutil.rmtree(left, ignore_errors=True)

    def _alone(self, connection: TargetConnection, stop: threading.Event, *lanes: str) -> bool:
        """End who else may be emptying, removing or making tables; False where it is stopped meanwhile."""
        fence = Fence(self._key.share, self._clock, stop, self._wait)
        try:
            for lane in (EMPTYING, *lanes):
                fence.take(connection, lane)
        except DMError as error:
            if stop.is_set() and error.name == "stopped-while-waiting":
                return False
            raise
        return True

    def _wait(self, what: str) -> None:
        self._waiting = what

    def _empty(self, joining: Joining, payload: UnitPayload, stop: threading.Event) -> None:
        """The load finds empty tables, or none; raises DMError."""
        self._waiting = "emptying the target's tables"
        with closing(TargetConnection(self._main.target)) as connection:
            if not self._alone(connection, stop):
                return
            found = find_joining(connection, self._key)
            if found is None or found.number != joining.number or found.phase not in ("out", "emptying"):
                return
            if found.phase == "out" and not begin_emptying(connection, self._key, found, ["out"]):
                return
            faults.hit("join.emptying")
            remove_files(payload.dump_storage)  # of an earlier beginning
            shutil.rmtree(payload.sync_directory, ignore_errors=True)
            if found.kind == "reload":
                announce(connection, self._key)
                for table in found.targets:
                    _empty(connection, table, drop=found.anew)
            faults.hit("join.emptied")
            begin_loading(connection, self._key, found)

    def _take_away(self, joining: Joining, stop: threading.Event) -> None:
        """Nobody wants the added tables any more; raises DMError."""
        self._waiting = "removing what was loaded"
        with closing(TargetConnection(self._main.target)) as connection:
            # A statement of an older process that makes a table must not come after the DROP.
            if not self._alone(connection, stop, DDL):
                return
            end_share(connection, self._key)
            faults.hit("join.forgotten")
            found = find_joining(connection, self._key)  # nobody adds to what it names any more
            if found is None or (found.number, found.phase) != (joining.number, "cancelled"):
                return
            announce(connection, self._key)
            for table in found.targets:
                connection.execute(f"DROP TABLE IF EXISTS {table.sql}")
                faults.hit("join.dropped")
            take_away(connection, self._key, found)
        self._log.info("tables are not added", tables=", ".join(map(str, found.targets)))

    def _load(self, joining: Joining, payload: UnitPayload, stop: threading.Event) -> None:
        """Dump and load what is missing, then follow until it is where main waits."""
        unit = first_unit(payload.config)
        assert unit is not None
        if unit != "Sync" and not self._is_still(joining):
            return  # an older process has come to its end, and main has taken the tables with the share's progress
        for name in _AFTER[unit]:
            self._part = self._copy(name, payload)
            self._part.run(stop)
            if stop.is_set():
                return
        self._follow(joining, payload, stop)

    def _is_still(self, joining: Joining) -> bool:
        """Whether the row says what it said; raises DMError."""
        with closing(TargetConnection(self._main.target)) as connection:
            found = find_joining(connection, self._key)
        return found is not None and (found.number, found.phase) == (joining.number, joining.phase)

    def _follow(self, joining: Joining, payload: UnitPayload, stop: threading.Event) -> None:
        sync = SyncUnit(
            payload.config,
            relay_directory=payload.relay_directory,
            work_directory=payload.sync_directory,
            hold=payload.hold,
        )
        sync.attend(ShareRun(payload.config, self._key, joining))
        sync.keep_pace(task_governor(payload.config, payload.work_directory))
        self._part = sync
        sync.run(stop)
        self._part = None


def _empty(connection: TargetConnection, table: TableName, *, drop: bool) -> None:
    """Remove a table, or its rows; it may be gone already."""
    if drop:
        connection.execute(f"DROP TABLE IF EXISTS {table.sql}")
        return
    query = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    if connection.query(query, (table.schema, table.table)):
        connection.execute(f"TRUNCATE TABLE {table.sql}")
