"""One reading of a source's binlog in a task that merges shards: main, or a second pass over held shards.

Main is the source's stream. When a held table may go on, main applies what it was given and ends; then a second pass
begins. A pass ends at main's place and gives its tables back. `dm.progress.shards.held_shards` says what is stored at
each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from dm import faults
from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.progress.checkpoint import has_checkpoint, read_checkpoint
from dm.progress.lane_rows import CONTROL, LaneClaim, claimed
from dm.progress.shards.group import READ_AGAIN, Shard, ShardGroup, Standing, create_shard_tables, lock_id
from dm.progress.shards.held_shards import HeldTable, begin_second, earliest, read_held, return_second, undecided_before
from dm.progress.shards.members import expect_sources
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.progress.shards.optimistic_structures import NoStructures, ShardStructures
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.rules.table_rules import OwnedTables
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.source_server import SourceServer
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.ddl.gate import DdlGate, GateSides
from dm.syncer.resources import RunParts
from dm.syncer.shards.optimistic_gate import OptimisticGate
from dm.syncer.shards.pessimistic_gate import ShardGate, ShardReading
from dm.syncer.state_found import StateFound
from dm.syncer.stream_role import Beside, BesideWatch
from dm.unit import JSON


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A group that holds a table back."""

    source_id: str
    table: TableName
    target: TableName
    statements: tuple[str, ...]
    since: datetime
    place: Position
    group: ShardGroup
    optimistic: bool

    def to_json(self) -> dict[str, JSON]:
        """As DM shows it, and what the other sources lack."""
        members = self.group.members
        number = next((each.ready for each in members if (each.source_id, each.table) == self._own), 0)
        missing = self.group.missing(number)
        own = [each for each in members if each.source_id == self.source_id]
        executed = self.group.executed >= number
        unknown: list[JSON] = [
            f"{each.source_id} {each.table.sql}" for each in members if not (self.statements or each.known)
        ]
        return {
            "target": self.target.sql,
            "DDLs": list[JSON](self.statements),
            "firstLocation": str(self.place),
            "synced": [each.table.sql for each in own if each not in missing],
            "unsynced": [each.table.sql for each in own if each in missing],
            "othersUnsynced": [f"{each.source_id} {each.table.sql}" for each in missing if each not in own],
            "sourcesMissing": not self.group.joined,
            "since": self.since.isoformat(sep=" ", timespec="seconds"),
            "executed": executed,
            **({"structuresUnknown": unknown} if unknown and self.optimistic else {}),
        }

    @property
    def _own(self) -> tuple[str, TableName]:
        return self.source_id, self.table


class ShardRun(Beside):
    """One reading. For a second pass, `main` is main's claim, and `end` is its end; main has neither."""

    def __init__(self, subtask: SubtaskConfig, main: LaneClaim | None = None, end: PassEnd | None = None) -> None:
        super().__init__(subtask)
        self._subtask = subtask
        self._main = main
        self._end = end
        self._own = self.key
        self.key = self._own if main is None else self._own.second
        self.optimistic = subtask.shard_mode == "optimistic"  # then structures are stored
        self._groups = ShardGroups(self._own, optimistic=self.optimistic)
        self._structures = ShardStructures(self._own)
        self.held: dict[TableName, HeldTable] = {}
        self.rules: OwnedTables = OwnedTables(subtask)
        self.claim: LaneClaim | None = None
        self.prepared: PreparedTransactions | None = None  # of the unit
        self.due = False  # of main: a second pass is due
        self.place: Position | None = None  # where main waits
        self.returned = False  # of a second pass: main has its tables back
        self._watch: BesideWatch | None = None
        self._unresolved: tuple[Unresolved, ...] = ()
        self._finish: Callable[[], None] = lambda: None
        self._log = structlog.get_logger()

    @property
    def second(self) -> bool:
        """Whether this is a second pass."""
        return self._main is not None

    @property
    def main_key(self) -> SubtaskKey | None:
        """Main's key, in a second pass."""
        return self._own if self.second else None

    def attend(self, prepared: PreparedTransactions) -> None:
        """Keep the unit's XA transactions."""
        self.prepared = prepared

    def create_tables(self, connection: TargetConnection) -> None:
        """Create the tables of shard merge."""
        create_shard_tables(connection, self._own)

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Read the held tables; False if main has to wait for a second pass. Raises DMError."""
        self.claim = taken.claims[CONTROL]
        if self._main is None:
            with claimed(control, self.claim):
                expect_sources(control, self._own, self._subtask.shard_sources)
        if self._main is None and has_checkpoint(control, self._own.second):
            assert taken.checkpoint is not None
            self.due, self.place = True, taken.checkpoint.position
            return False
        self.held = {each.table: each for each in read_held(control, self._own)}
        if self._main is None:
            self.rules = OwnedTables(self._subtask, held=self.held)
        else:
            stored = read_checkpoint(control, self.key)
            self.rules = OwnedTables(self._subtask, only=() if stored is None else stored.tables)
        return True

    def join(self, control: TargetConnection, state: StateFound, server: SourceServer, clock: Clock) -> None:
        """Store which shards the source has, unless that is done, and their structures; raises DMError."""
        if self._main is not None:
            if self._end is not None:
                self._end.check_server(server, state.start)
            if self.prepared is not None:
                xids = undecided_before(control, self._own)
                self.prepared.begin_without(xids, state.start, int(clock.time()))
            self._learn(control, state)
            return
        stored, present = state.checkpoint.tables, server.tables(self.rules.wanted)
        shards = [Shard(each, self.rules.route(each)) for each in {*stored, *present} if self.rules.wanted(each)]
        structures: Callable[[TableName], TableSchema | None] = (
            (lambda _: None) if self.optimistic else state.tracker.get
        )
        # A table that is at the source but not stored may be created, or renamed, after L.
        there = [each for each in shards if each.table in stored and each.table not in self.held]
        known = [each for each in there if stored[each.table].schema is not None]
        # In the optimistic mode, an unknown structure would block every decision.
        unknown = [] if self.optimistic else [each for each in there if each not in known and each.table in present]
        self._groups.ensure(control, (shard.target for shard in shards))
        with claimed(control, state.claims[CONTROL]):
            self._groups.join(control, shards, structures)
            self._groups.join_later(control, known, unknown, structures)
        self._learn(control, state)
        faults.hit("shard.joined")

    def _learn(self, control: TargetConnection, state: StateFound) -> None:
        """Store the structures at L: the source may have just joined, or a person may have set one."""
        schemas = [
            point.schema
            for table, point in state.checkpoint.tables.items()
            if point.schema is not None and self.rules.wanted(table) and self.rules.owned(table)
        ]
        if self.optimistic and schemas:
            with claimed(control, state.claims[CONTROL]):
                self._learned(control, schemas)

    def structure_found(self, progress: ProgressWriter, schema: TableSchema) -> None:
        """Store it for the others, under the claim of this reading."""
        if self.optimistic:
            progress.beside(lambda connection: self._learned(connection, [schema]))

    def _learned(self, connection: TargetConnection, schemas: Iterable[TableSchema]) -> None:
        self.reading().claimed(connection, lambda one: self._structures.learn(one, schemas))

    def others_have(self, progress: ProgressWriter, table: TableName, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Ask the stored structures; in the pessimistic mode all shards have the same."""
        if not self.optimistic:
            return ()
        shard = Shard(table, self.rules.route(table))
        return progress.ask(lambda connection: self._structures.others_have(connection, shard, columns))

    def reading(self) -> ShardReading:
        """This reading, for the gate."""
        structures = self._structures if self.optimistic else NoStructures()
        return ShardReading(self._groups, self.rules, self._main, self.held, self._holding, self._undecided, structures)

    def gate(self, sides: GateSides) -> DdlGate:
        """The gate of the task's mode."""
        reading, strict = self.reading(), self._subtask.strict_optimistic
        if self.optimistic:
            return OptimisticGate(reading, self._structures, sides, strict=strict)
        return ShardGate(reading, sides)

    def bound(self, found: Position | None) -> Position | None:
        """Every run of a pass ends at the pass's end, so nothing is done after it."""
        return found if found is None or self._end is None else self._end.bound(found)

    def _undecided(self, position: Position) -> tuple[str, ...]:
        return () if self.prepared is None else self.prepared.undecided_at(position)

    def floor(self, position: Position) -> Position:
        """The earliest place of the checkpoint and the held tables."""
        return earliest([position, *(each.place for each in list(self.held.values()))])

    def _holding(self) -> None:
        """Called when a table is held."""
        if self._watch is not None:
            self._watch.wake()
        elif not self.rules.left:
            self._finish()  # the pass has nothing left to do

    def waiting(self) -> dict[str, JSON]:
        """DM's fields of the status: the groups that wait, their statements and tables."""
        groups = self._unresolved
        return {
            "unresolvedGroups": [group.to_json() for group in groups],
            "blockingDDLs": [text for group in groups for text in group.statements],
            "unresolvedDDLLockID": lock_id(self._own.task, groups[0].target) if groups else "",
        }

    def _read_waiting(self, connection: TargetConnection) -> None:
        found = dict[TableName, Unresolved]()
        for table, held in sorted(self.held.items()):
            target = self.rules.route(table)
            if target not in found:
                statements, since, group = self._groups.waits_for(connection, Shard(table, target))
                found[target] = Unresolved(
                    self._own.source_id, table, target, statements, since, held.place, group, self.optimistic
                )
        self._unresolved = tuple(found.values())

    # -- Around the run

    def follow(
        self,
        parts: RunParts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run, then give tables to a second pass or back to main; raises DMError."""
        control = state.writer.connection
        if self._main is not None:
            queue = parts.reader.queue
            self._finish = queue.break_off  # once no table is left, nothing remains to be done
            if not self.rules.left:
                self._finish()
            run()
            if (queue.exhausted or queue.broken_off) and parts.completions.under_way == 0:
                self._return(control, state.claims[CONTROL])
            return

        if self._caught_up(state, parts.progress.stored) and self._going(control, self.held):
            self._begin(control, state.claims[CONTROL], parts.progress.stored)
            return  # before going on: main's next event may be the one at which the last run failed

        def look(connection: TargetConnection) -> bool:
            self._read_waiting(connection)
            mark = parts.completions.mark.position
            return self._caught_up(state, mark) and bool(self._going(connection, dict(self.held)))

        watch = self._watch = BesideWatch(sessions.open, look, parts.reader.queue.break_off, failed, clock)
        watch.start()
        if self.held:
            watch.wake()
        try:
            run()
        finally:
            watch.stop()
        if parts.completions.under_way == 0 and self._caught_up(state, parts.progress.stored):
            self._begin(control, state.claims[CONTROL], parts.progress.stored)

    def _going(self, connection: TargetConnection, held: Mapping[TableName, HeldTable]) -> list[HeldTable]:
        """The held tables that can go on: their group has arrived, or never will; raises DMError."""

        def standing(table: TableName) -> Standing:
            return self._groups.look(connection, Shard(table, self.rules.route(table)))

        return [each for table, each in held.items() if standing(table) in READ_AGAIN]

    @staticmethod
    def _caught_up(state: StateFound, position: Position) -> bool:
        """Whether main is past everything that any run did. (Lanes' rows say nothing about held tables.)"""
        done = (state.checkpoint.bound, state.done.ordered, state.ordered.reached, state.ordered.done)
        return all(other is None or position.covers(other) for other in done)

    def _begin(self, control: TargetConnection, claim: LaneClaim, place: Position) -> None:
        able = self._going(control, self.held)
        if not able:
            return
        faults.hit("shard.before_pass")
        begin_second(control, claim, able, self.rules.online.real)
        self.due, self.place = True, place
        faults.hit("shard.pass_begun")
        self._log.info("a second pass begins", tables=[str(each.table) for each in able], until=str(place))

    def _return(self, control: TargetConnection, claim: LaneClaim) -> None:
        assert self._main is not None
        faults.hit("shard.before_return")
        return_second(control, self._main, claim, self.rules.online.real)
        self.returned = True
        faults.hit("shard.returned")
        self._log.info("the second pass is over")


@dataclass(slots=True)
class PassEnd:
    """Where a second pass ends (`dm.sourcelog.stream.until`): exactly at the place where main waits and goes on.

    On one server, file and offset tell. But another server may have replaced the source since main came to wait, or
    since the tables of the pass were held. Then GTIDs tell: the pass takes the transactions that main has read, and no
    others. On that server, all of main's must precede the others. If the pass left out a transaction in between, it
    would be lost as soon as a table is held again after it, since the place counts it as read.
    """

    place: Position
    told: bool = True  # whether GTIDs tell what is read: MariaDB's may be out of order without its strict mode

    def check_server(self, server: SourceServer, start: Position) -> None:
        """Check that the server has all up to the place, before anything is read from `start`; raises DMError."""
        server.switch_bound(self.place)
        self.told = server.facts.gtid_ordered and bool(start.gtid_set)
        self.place = server.here(self.place)

    def reached(self, position: Position) -> bool:
        """Whether a position is at the place or after it, with all that main has read.

        Main may have read some transactions on another server, and this server may have them after the place. The
        server on which this run began does not tell: an earlier run of the pass may have reached the place.
        """
        if position.same_files(self.place) and (not position.reaches(self.place) or not self._tells):
            return position.reaches(self.place)
        return self._has_all(position)

    def admits(self, transaction: SourceTransaction) -> bool:
        """Whether main has read the transaction; raises DMError if the server has another one in between."""
        end, gtid = transaction.end, transaction.gtid
        if end.same_files(self.place) and (end.order <= self.place.order or not self._tells):
            return end.order <= self.place.order
        if self._has_all(transaction.begin):
            return False
        if end.same_files(self.place):
            raise self._elsewhere(end, self.place.gtid_set - transaction.begin.gtid_set)
        if transaction.moves or (self._tells and gtid is not None and gtid.ordered and gtid in self.place.gtid_set):
            return True
        raise self._elsewhere(end, gtid)

    def bound(self, found: Position) -> Position:
        """The earlier of the two: after a switch to another server, `found` is that server's end."""
        return self.place if found.covers(self.place) else found

    def demand_ahead(self, start: Position, bound: Position | None) -> None:
        """Nothing to check: main waits after all held places, and every run of the pass ends here."""

    def passed(self, source_time: float) -> bool:
        """Only events reach a place."""
        return False

    def to_json(self) -> dict[str, JSON]:
        """The place, with the server that has the file."""
        place = self.place
        return {"kind": "position", "server": place.server_uuid, "file": place.file, "offset": place.offset}

    def _has_all(self, position: Position) -> bool:
        return self._tells and position.gtid_set >= self.place.gtid_set

    @property
    def _tells(self) -> bool:
        return self.told and bool(self.place.gtid_set) and not self.place.gtid_set.anonymous

    def _elsewhere(self, now: Position, gtids: Gtid | GtidSet | None) -> DMError:
        return DMError(
            "shard-pass-elsewhere",
            place=self,
            server=self.place.server_uuid,
            now=now.server_uuid,
            gtid=gtids or "without a GTID",
        )

    def __str__(self) -> str:
        return str(self.place)
