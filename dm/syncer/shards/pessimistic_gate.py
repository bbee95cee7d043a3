"""The gate of the pessimistic mode: a shard's DDL is passed by number, executed once all shards are there, or waits.

`dm.progress.shards.numbered_ddls` has the rules. A gate belongs to the dispatcher. What it stores goes through the
progress writer, under the claims of the reading.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from dm import faults
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.merged_table import differing_values
from dm.mysql.schema.partition import losing_rows
from dm.mysql.schema.partition_rows import differing_rows
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.operation import CreateTable, RenameTable
from dm.mysql.sql.piece import Piece
from dm.position import Position
from dm.progress.intent import Intent
from dm.progress.lane_rows import LaneClaim
from dm.progress.shards.group import GOES_ON, GroupDdl, Shard, Standing
from dm.progress.shards.held_shards import HeldTable, hand_over, put_held
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.progress.shards.optimistic_structures import StoredStructures
from dm.rules.table_rules import OwnedTables
from dm.session.answers import reads_answers
from dm.syncer.apply.lanes import Stopped
from dm.syncer.ddl.gate import Act, GateSides, GateVerdict
from dm.syncer.ddl.plan import CutOver, DdlPlan, Execute, Forget, Step, TrackOnly
from dm.syncer.shards.statement_form import form_of

WAIT_SECONDS: Final = 5.0  # for other sources, before the table is held
_LOOK_SECONDS: Final = 0.2
_GATED: Final = ("ALTER TABLE", "CREATE INDEX", "DROP INDEX")
_REMOVING: Final = ("DROP TABLE", "TRUNCATE TABLE", "DROP DATABASE")


@dataclass(frozen=True, slots=True)
class ShardReading:
    """What a reading of a source's binlog (main or a second pass) knows of the source's shards."""

    groups: ShardGroups
    rules: OwnedTables
    main: LaneClaim | None  # in a second pass: main's claim, which it needs beside its own
    held: dict[TableName, HeldTable]  # of the source
    holding: Callable[[], None]  # called when a table is held
    undecided: Callable[[Position], tuple[str, ...]]  # XA transactions at L
    structures: StoredStructures

    @property
    def second(self) -> bool:
        """Whether this is a second pass."""
        return self.main is not None

    def claimed(self, connection: TargetConnection, act: Act) -> None:
        """Run `act` in an open transaction under the claims of the reading."""
        if self.main is not None:
            self.main.advance(connection, None)
        act(connection)


class GroupAnnouncements:
    """Announces the pieces of a group's DDL."""

    def __init__(self, gate: ShardGate, shard: Shard, *, by_hand: bool) -> None:
        self._gate = gate
        self._shard = shard
        self._by_hand = by_hand

    def write_intent(self, intent: Intent) -> None:
        """Store what is about to be executed; raises DMError if shards would differ in values after it."""
        if not self._by_hand:
            try:
                self._gate.demand_same_values(self._shard, intent)
            except DMError:
                # Earlier pieces are done. Store that now: a person may execute this one by hand, or skip it.
                self._announce(replace(intent, after=intent.before))
                self.write_refusal()
                raise
        faults.hit("shard.before_execute")
        self._announce(intent)

    def _announce(self, intent: Intent) -> None:
        groups = self._gate.reading.groups
        self._gate.store(lambda connection: groups.announce(connection, self._shard, intent))

    def write_refusal(self) -> None:
        """Store that the target refused the announced piece."""
        groups = self._gate.reading.groups
        self._gate.store(lambda connection: groups.store_refused(connection, self._shard))


class ShardGate:
    """The gate of the pessimistic mode, and the base of `OptimisticGate`."""

    singly = True

    def __init__(self, reading: ShardReading, sides: GateSides) -> None:
        self.reading = reading
        self._tracker = sides.tracker
        self._schemas = sides.schemas
        self._progress = sides.progress
        self._session = sides.session
        self._clock = sides.clock
        self._rules = reading.rules

    @property
    def of_pass(self) -> frozenset[TableName]:
        """The tables that a second pass still owns."""
        return self._rules.of_pass

    def number_of_whole(self, planned: DdlPlan) -> int:
        """After the last executed piece: only executed pieces, which come first, are the same for all shards."""
        return planned.after_executed

    def store(self, act: Act) -> None:
        """Run `act` in a transaction under the claims of the reading."""
        self._progress.beside(lambda connection: self.reading.claimed(connection, act))

    # -- The verdict

    def decide(self, planned: DdlPlan, end: Position, intent: Intent | None) -> GateVerdict:
        """The verdict about a plan, which may concern one shard or a whole group; raises DMError, or Stopped."""
        original, planned = planned, self._of_one_shard(planned)
        if not planned.steps:
            return GateVerdict(planned)
        if (like := self._like_held(planned)) is not None:
            self._wait_with(*like)
            return GateVerdict.held(like[0].table, planned)
        ddl = self._ddl(planned)
        if ddl is not None:
            self._ensure([ddl.shard.target])
            return self._altered(ddl, planned) or self._with_all(ddl, planned, end)
        made = self._made(planned)
        return self._of_one(planned, original) or GateVerdict(
            planned, intent, tell=lambda: self._created(made), beside=self._beside(planned)
        )

    def _with_all(self, ddl: GroupDdl, planned: DdlPlan, end: Position) -> GateVerdict:
        """Execute a DDL that all shards have arrived at, or that is begun; track one that is executed; else hold.

        It is executed in the turn of the target's table, which ends when that is stored.
        """
        shard = ddl.shard
        kept = frozenset(self._tracker.kept_columns(shard.table))
        standing = self._arrive(ddl, planned)
        if standing in GOES_ON:
            standing = self._begin(shard)
        if standing not in GOES_ON:
            return GateVerdict.held(shard.table, planned)

        def passed() -> None:
            self._restore_kept(shard.table, kept)

        if standing is Standing.EXECUTED:
            return GateVerdict(planned, at_target=True, tell=passed, beside=self._passed(shard))

        def executed() -> None:
            faults.hit("shard.after_execute")
            self.store(partial(self._executed, shard, self._tracker.get(shard.table)))
            faults.hit("shard.executed")
            self._session.end_turn()
            passed()

        groups = self.reading.groups
        intent = self._progress.ask(lambda connection: groups.announced_piece(connection, shard, end))
        faults.hit("shard.begun")
        self._schemas.invalidate_all()
        by_hand = any(isinstance(step, Execute) and step.by_hand for step in planned.steps)
        announcements = GroupAnnouncements(self, shard, by_hand=by_hand)
        return GateVerdict(planned, intent, announcements, tell=executed, beside=self._passed(shard))

    # -- What the optimistic mode does differently

    _enters = False  # whether a new table becomes a shard with the L after its CREATE TABLE, whatever its structure

    def _altered(self, ddl: GroupDdl, planned: DdlPlan) -> GateVerdict | None:
        """The verdict about a group's DDL that passes; None if all shards have to arrive at it."""
        return None

    def _of_one(self, planned: DdlPlan, original: DdlPlan) -> GateVerdict | None:
        """The verdict about a shard that is created or dropped; None if the target's table stays as it is."""
        return None

    def _arrival(self, planned: DdlPlan, shard: Shard) -> tuple[TableSchema | None, TableSchema | None]:
        """The shard's structure after its statement, and the target's as `undergone` needs it; None: not needed."""
        return None, None

    def _following(self, planned: DdlPlan) -> Act | None:
        """What commits with the L after an event that changed shards' structures without a decision."""
        return None

    def _restore_kept(self, table: TableName, kept: frozenset[str]) -> None:
        """Reset the tracker's kept columns: the target has dropped the columns, or the group remembers them."""

    def _has_others(self, table: TableName) -> bool:
        """Whether the target's table has, or had, other shards: then it exists, with their structure."""
        if not self._rules.wanted(table):
            return False
        groups, target = self.reading.groups, self._rules.route(table)
        members = self._progress.ask(lambda connection: groups.group(connection, target)).members
        if any((each.source_id, each.table) != (groups.key.source_id, table) for each in members):
            return True
        known = self._progress.ask(lambda connection: groups.known(connection, target))
        return known and self._schemas.read(target) is not None

    def _created(self, made: list[Shard]) -> TableName | None:
        """Store that the target has new tables; returns one that must wait, since its structure is not the group's."""
        groups, fits = self.reading.groups, list[bool]()

        def act(shard: Shard, schema: TableSchema | None, connection: TargetConnection) -> None:
            fits.append(groups.created(connection, shard, schema))

        self._ensure([shard.target for shard in made])
        for shard in made:
            self.store(partial(act, shard, self._tracker.get(shard.table)))
        early = next((shard.table for shard, like in zip(made, fits, strict=True) if not like), None)
        if early is not None:
            faults.hit("shard.early")
        return early

    # -- What a plan is about

    def _of_one_shard(self, planned: DdlPlan) -> DdlPlan:
        """The plan without executing what concerns one shard only.

        A shard is dropped, alone or with its schema, gets another name in its group, or is created. The target's schema
        stays, since it holds rows of other shards, and of those that were dropped. A CREATE TABLE IF NOT EXISTS of an
        existing shard, which a binlog also has, is left out.
        """
        steps = tuple(self._milder(step) for step in planned.steps if not self._is_there(step))
        return replace(planned, steps=steps)

    def _is_there(self, step: Step) -> bool:
        """Whether a step is a CREATE TABLE IF NOT EXISTS of a shard that exists."""
        operation = None if isinstance(step, CutOver) else step.piece.operation
        if not isinstance(operation, CreateTable) or not operation.if_not_exists:
            return False
        if not self._rules.wanted(operation.table):
            return False
        groups, shard = self.reading.groups, Shard(operation.table, self._rules.route(operation.table))
        # The statement that created a shard is read again after a crash, when no structure is known yet, and by the
        # second pass of an early shard.
        known = self._tracker.get(shard.table) is not None
        return self._progress.ask(lambda connection: groups.takes_part(connection, shard, waived=not known))

    def _milder(self, step: Step) -> Step:
        if not isinstance(step, Execute):
            return step
        operation = step.piece.operation
        joins = isinstance(operation, CreateTable) and self._has_others(operation.table)
        mild = joins or self._renames_inside(step.piece) or step.piece.verb in _REMOVING
        return TrackOnly(step.piece, step.track, step.kept) if mild else step

    def _renames_inside(self, piece: Piece) -> bool:
        """Whether a statement only gives shards other names in their groups."""
        if not piece.renames or not all(isinstance(one, RenameTable) for one in piece.operations):
            return False
        return all(self._inside(old, new) for old, new in piece.renames)

    def _inside(self, old: TableName, new: TableName) -> bool:
        """Whether both are names of shards of one group."""
        rules = self._rules
        return rules.wanted(old) and rules.wanted(new) and rules.route(old) == rules.route(new)

    def _ddl(self, planned: DdlPlan) -> GroupDdl | None:
        """The group's DDL of an event, if it has one; raises DMError if the event is not supported."""
        executed = [step for step in planned.steps if isinstance(step, Execute)]
        gated = [step for step in executed if step.piece.verb in _GATED]
        for step in executed:
            if step.piece.renames:
                raise _unsupported(step, "a shard gets another name")
        if not gated:
            return None
        if self._renamed(planned):
            raise _unsupported(gated[0], "it gives a shard another name as well")
        shards = {Shard(step.piece.table, self._rules.route(step.piece.table)) for step in gated}
        if len(shards) > 1 or len(gated) < len(executed):
            raise _unsupported(gated[0], "it is about several tables")
        pieces = [step.piece.route(self._rules.route) for step in gated]
        return GroupDdl(shards.pop(), form_of(pieces), tuple(piece.text for piece in pieces))

    def _like_held(self, planned: DdlPlan) -> tuple[Shard, Shard] | None:
        """A new shard that copies the structure of a held one, and the held one; raises DMError."""
        for step in planned.pieces:
            operation = step.piece.operation
            if (
                not isinstance(operation, CreateTable)
                or not operation.like
                or not self._rules.elsewhere(operation.like)
            ):
                continue
            shard, model = (Shard(table, self._rules.route(table)) for table in (operation.table, operation.like))
            if shard.target != model.target:
                raise DMError("ddl-partly-wanted", statement=step.piece.text)
            if self._rules.second and model.table not in self.reading.held:
                # The model is main's again, with another structure, or is gone.
                why = f"{model.table} does not wait any more, and its structure here in the binlog is not known"
                raise DMError("shard-ddl-unsupported", why=why, statement=step.piece.text)
            return shard, model
        return None

    # -- The way through

    def _arrive(self, ddl: GroupDdl, planned: DdlPlan) -> Standing:
        """Store that the shard is at its DDL; waits for other sources a moment. Raises DMError, or Stopped."""
        groups, structures, found = self.reading.groups, self.reading.structures, list[Standing]()
        differing = self._other_partitions(ddl.shard, planned)
        after, target = self._arrival(planned, ddl.shard)

        def act(connection: TargetConnection) -> None:
            found.append(groups.arrive(connection, ddl, after, target))
            if differing is not None and found[0] is not Standing.EXECUTED:  # nor skipped by a person
                raise differing
            structures.arrived(connection, ddl.shard, after, target)

        self.store(act)
        faults.hit("shard.ready")
        standing = found[0]
        until = self._clock.monotonic() + (0.0 if self.reading.second else WAIT_SECONDS)
        while standing is Standing.OTHERS_MISSING and self._clock.monotonic() < until:
            if self._session.pause(_LOOK_SECONDS):
                raise Stopped
            standing = self._look(ddl.shard)
        return standing

    def _other_partitions(self, shard: Shard, planned: DdlPlan) -> DMError | None:
        """The error if a partition that loses its rows may hold other rows at the target.

        Each shard is compared with the target's table when it arrives. Until all have arrived, that table keeps its
        partitions, and only gets more: above those of a RANGE, or beside those of a LIST.
        """
        for step in planned.steps:
            if not isinstance(step, Execute) or step.by_hand or not (names := losing_rows(step.piece)):
                continue
            target = self._schemas.read(shard.target)
            if target is None:
                continue
            own = self._tracker.get(shard.table) or replace(target, partitions=(), placing=())
            if why := differing_rows(own, target, names, self._number):
                statement = step.piece.text
                return DMError(
                    "shard-partitions-differ", statement=statement, shard=shard.table, target=shard.target, why=why
                )
        return None

    @reads_answers
    def _number(self, expression: str) -> int | None:
        found = self._progress.ask(lambda connection: connection.query(f"SELECT {expression}"))
        value = found[0][0]
        return value if isinstance(value, int) else None

    def _ensure(self, targets: list[TableName]) -> None:
        self._progress.ask(lambda connection: self.reading.groups.ensure(connection, targets))

    def _look(self, shard: Shard) -> Standing:
        return self._progress.ask(lambda connection: self.reading.groups.look(connection, shard))

    def _begin(self, shard: Shard) -> Standing:
        """Where a DDL stands, in the turn of the target's table; if all have arrived, begin it and keep the turn."""
        groups = self.reading.groups
        self._session.take_turn(shard.target)
        standing = self._look(shard)
        if standing is not Standing.EXECUTED:
            begun = list[Standing]()
            self.store(lambda connection: begun.append(groups.begin(connection, shard)))
            standing = begun[0]  # a shard may have joined or changed in between
        # A begun DDL can't be skipped any more, so nothing changes between this look and the execution.
        if standing is Standing.COMPLETE and self._progress.ask(
            lambda connection: groups.is_skipped(connection, shard)
        ):
            self.store(lambda connection: groups.store_executed(connection, shard, None))
            faults.hit("unlock.skipped")
            standing = Standing.EXECUTED
        if standing is not Standing.COMPLETE:
            self._session.end_turn()
        return standing

    def _executed(self, shard: Shard, schema: TableSchema | None, connection: TargetConnection) -> None:
        self.reading.structures.store_executed(connection, shard)
        self.reading.groups.store_executed(connection, shard, schema)

    def demand_same_values(self, shard: Shard, intent: Intent) -> None:
        """Raise DMError if shards may differ in the values of a new column."""
        before, after = intent.before.get(shard.target), intent.after.get(shard.target)
        if before is None or after is None:
            return
        new = [column for column in after.columns if before.column(column.name) is None]
        differing = next(filter(None, map(differing_values, new)), "")
        if not differing or not self._session.has_rows(shard.target, 1):
            return
        if len(self._progress.ask(lambda connection: self.reading.groups.group(connection, shard.target)).members) > 1:
            raise DMError("ddl-values-differ", what=differing, statement=intent.statement, position=intent.position)

    def _wait_with(self, shard: Shard, model: Shard) -> None:
        """Hold a new shard together with its model; they go on together."""
        groups = self.reading.groups
        self.store(lambda connection: groups.like(connection, shard, model))
        faults.hit("shard.early")

    # -- What commits with L

    def hold(self, table: TableName) -> Act:
        """Hold the table from here on; returns what is stored with the L after the event."""
        place = self._progress.stored
        held = HeldTable(table, place, self._tracker.get(table), self.reading.undecided(place))
        self.reading.held[table] = held
        self._rules.hold(table)
        self._tracker.forget(table)
        self.reading.holding()
        key, second = self.reading.groups.key, self.reading.second

        def store(connection: TargetConnection) -> None:
            put_held(connection, key, held)
            if second:
                hand_over(connection, key.second, key, lambda name: self._rules.online.real(name) == table != name)

        return lambda connection: self.reading.claimed(connection, store)

    def _passed(self, shard: Shard) -> Act:
        """Returns what stores that the shard has passed a DDL that all arrived at."""
        groups, structures = self.reading.groups, self.reading.structures

        def passed(connection: TargetConnection) -> None:
            groups.store_passed(connection, shard)
            structures.store_passed(connection, shard, self._tracker.get(shard.table))

        return lambda connection: self.reading.claimed(connection, passed)

    def _beside(self, planned: DdlPlan) -> Act | None:
        """Returns what stores which shards are created, dropped or renamed, and structures."""
        groups, structures = self.reading.groups, self.reading.structures
        made = self._made(planned) if self._enters else []
        gone, renamed = self._gone(planned), self._renamed(planned)
        if not (made or gone or renamed):
            return self._following(planned)
        self._ensure([shard.target for shard in (*made, *gone, *(shard for shard, _ in renamed))])

        def changed(connection: TargetConnection) -> None:
            for shard in gone:  # first: another shard may get the name
                groups.leave(connection, shard)
                faults.hit("shard.left")
            for shard, name in renamed:
                groups.rename(connection, shard, name)
                faults.hit("shard.renamed")
            for shard in made:
                groups.enter(connection, shard)
            tables = [*(shard.table for shard in made), *(name for _, name in renamed)]
            structures.learn(connection, [schema for table in tables if (schema := self._tracker.get(table))])

        return lambda connection: self.reading.claimed(connection, changed)

    def _gone(self, planned: DdlPlan) -> list[Shard]:
        """Shards that an event drops, with a schema or alone, or renames out of their group."""
        gone = list[TableName]()
        for step in planned.steps:
            if isinstance(step, CutOver | Forget):
                continue
            if step.piece.verb == "DROP TABLE":
                gone += step.piece.tables
            elif isinstance(step, TrackOnly) and step.piece.verb == "DROP DATABASE":
                shards = self._progress.ask(self.reading.groups.shards)
                tables = [shard.table for shard in shards if shard.table.schema == step.piece.table.schema]
                gone += [table for table in tables if table not in step.kept]
            elif isinstance(step, TrackOnly) and not step.piece.passes_through:
                for old, new in step.piece.renames:
                    replaced = self._rules.online.real(new) == old  # by an online DDL tool's copy
                    if not (replaced or self._inside(old, new)):
                        gone.append(old)
        return [
            Shard(table, self._rules.route(table))
            for table in gone
            if self._rules.wanted(table) and self._rules.owned(table)
        ]

    def _renamed(self, planned: DdlPlan) -> list[tuple[Shard, TableName]]:
        """Shards that an event renames within their groups, with their new names."""
        return [
            (Shard(old, self._rules.route(old)), new)
            for step in planned.pieces
            if isinstance(step, TrackOnly) and (not step.piece.passes_through or self._renames_inside(step.piece))
            for old, new in step.piece.renames
            if self._inside(old, new)
        ]

    def _made(self, planned: DdlPlan) -> list[Shard]:
        """Shards that an event creates."""
        operations = (step.piece.operation for step in planned.pieces)
        tables = [each.table for each in operations if isinstance(each, CreateTable)]
        return [Shard(table, self._rules.route(table)) for table in tables if self._rules.wanted(table)]


def _unsupported(step: Execute, why: str) -> DMError:
    return DMError("shard-ddl-unsupported", why=why, statement=step.piece.text)
