"""One step at the target: look whether its effect is there, check, announce, execute.

A piece whose effect the target already has counts as done: another source of a merged table, or the window of a dump,
has brought it. Two sources that alter their shards at the same moment must not both look first and execute then: of two
`ADD INDEX (a)` without a name neither is refused, and the table would get two indexes. So a session that looks at a
table holds its turn (`DdlSession.take_turn`) until the piece is executed, and longer if another piece follows at once.
The turn is a lock at the target. Crash safety does not need it: the intent is enough for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from dm import faults
from dm.clock import Clock
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema import effect
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.normal import key_form
from dm.mysql.schema.table import ForeignKey, TableSchema
from dm.mysql.schema.translation import inherits_charset, with_collations, with_inherited_charset
from dm.mysql.schema.visibility import with_visibility
from dm.mysql.schema.written_timestamps import with_written_timestamps
from dm.mysql.sql.operation import DropConstraint, DropForeignKey
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import Token, tokenize
from dm.position import Position
from dm.progress.intent import Intent, PieceOutcome
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.ddl.checks import CHECKS, creates_shard
from dm.syncer.ddl.plan import CheckedStep, DdlSource, DdlTarget, Execute
from dm.syncer.ddl.session import DdlSession

REFUSED_DDL = ("ddl-failed", "ddl-collation-unknown")
_REFUSED = ("statement-failed", "duplicate-key", "privilege-missing")
_UNKNOWN_COLLATION = (1273, 1115)  # ER_UNKNOWN_COLLATION, ER_UNKNOWN_CHARACTER_SET

Structures = Mapping[TableName, TableSchema | None]


@dataclass(frozen=True, slots=True)
class RunningStatement:
    """The running statement, and since when by the run's monotonic clock."""

    text: str
    since: float


RECENT: Final = 8  # statements that the status tells after their end


@dataclass(frozen=True, slots=True)
class ExecutedStatement:
    """A statement that the target has executed: the how-many-eth of the run, and when it ended."""

    number: int
    text: str
    ended: float  # seconds since the epoch
    seconds: float


class Announcements(Protocol):
    """Stores what is about to be executed."""

    def write_intent(self, intent: Intent) -> None:
        """Store the piece about to be executed; the one before it is done."""

    def write_refusal(self) -> None:
        """Store that the target refused it."""


class DdlExecution:
    """Executes steps; the barrier has drained the lanes before."""

    def __init__(
        self,
        source: DdlSource,
        target: DdlTarget,
        progress: ProgressWriter,
        clock: Clock,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._target = target
        self._session = target.session
        self._announcements: Announcements = progress
        self.executed = 0
        self.already_effective = 0
        self._clock = clock
        self._meanwhile = meanwhile  # starts work that can be done while the target executes a statement
        self.running: RunningStatement | None = None  # for the status
        self.recent: deque[ExecutedStatement] = deque(maxlen=RECENT)
        self._told: Callable[[Piece, Structures], None] = lambda _piece, _now: None

    @contextmanager
    def announcing(self, announcements: Announcements) -> Iterator[None]:
        """Meanwhile, announce pieces there: they are not this source's alone."""
        own, self._announcements = self._announcements, announcements
        try:
            yield
        finally:
            self._announcements = own

    def tell(self, told: Callable[[Piece, Structures], None]) -> None:
        """From now on, call `told` with each piece about to be executed, and the target's structures before it."""
        self._told = told

    def run(self, step: Execute, number: int, end: Position, intent: Intent | None) -> None:
        """Execute one step of the event that ends at `end`, unless its effect is there; raises DMError or Stopped.

        `intent` is what an earlier run announced at this place; pieces before the announced one are done.
        """
        if intent is not None and number < intent.piece:
            return  # a later piece was announced, so this one is done
        if self._renames_views(step.piece):
            return
        target_piece = self._routed(step)
        if step.piece.operations and not target_piece.operations:
            return  # it only hides or shows a column, which this target can't
        self.running = RunningStatement(target_piece.text, self._clock.monotonic())
        try:
            self._session.take_turn(target_piece.table)
            self._in_turn(step, target_piece, number, end, intent)
        finally:
            self.running = None

    def done(self, intent: Intent, pieces: Sequence[Piece]) -> bool:
        """Whether the target executed an announced statement whose operations are now in these pieces.

        It executed all of them or none. Raises DMError if that is unclear, or Stopped.
        """
        self.running = RunningStatement(intent.statement, self._clock.monotonic())
        try:
            self._session.take_turn(next(table for table in intent.before if table.table))
            self._session.await_end_of(intent.statement)
            outcome = intent.outcome(self._now(intent.before))
        finally:
            self.running = None
        if outcome is PieceOutcome.DONE:
            return True
        told = all(map(effect.shows_in_structure, pieces)) or all(map(effect.idempotent, pieces))
        if outcome is PieceOutcome.UNCLEAR or not told:
            raise DMError("ddl-outcome-unclear", statement=intent.statement, position=intent.position)
        return False

    def rest(self) -> None:
        """No statement follows: end the turn."""
        self._session.end_turn()

    def _renames_views(self, piece: Piece) -> bool:
        """Whether a RENAME TABLE is about views, which are not replicated; the event does not say so.

        It is if no old name is a table that is known or that the target has, and no new name is a table of the source
        now. If one was a table after all, it never had replicated rows; if its rows come, the task pauses.
        """
        if piece.verb != "RENAME TABLE":
            return False
        left: set[TableName] = set()
        for old, new in piece.renames:
            if self._source.tracker.get(old) is not None or self._session.has_table(self._source.rules.route(old)):
                return False
            left.discard(old)
            left.add(new)
        return not any(map(self._source.has_table, left))

    def _routed(self, step: Execute) -> Piece:
        """The piece under the target's names and in its words, with collations of the source or of the maps."""
        piece, route = step.piece, step.routing(self._source.rules)
        if self._target.strict_collations:
            piece = with_collations(piece, self._session.context)
        piece = self._source.rules.translation.piece(piece, self._session.context)
        piece = with_visibility(piece, self._session.context)
        piece = with_written_timestamps(piece, self._session.context, lambda: self._source_after(piece))
        return self._with_inherited_charset(piece, route).route(route)

    def _source_after(self, piece: Piece) -> TableSchema | None:
        """The source's table after the piece; None if it is not known."""
        before = {piece.table: self._source.tracker.get(piece.table)}
        return effect.expected_after(before, piece)[piece.table]

    def _with_inherited_charset(self, piece: Piece, route: Callable[[TableName], TableName]) -> Piece:
        if not inherits_charset(piece):
            return piece
        there = self._session.database(route(piece.table).schema)
        if there is None or there.charset is None or there.collation is None:
            return piece
        return with_inherited_charset(
            piece,
            self._source.tracker.told_charset(piece.table.schema),
            Collated(there.charset, there.collation),
            self._session.context,
            strict=self._target.strict_collations,
            translation=self._source.rules.translation,
        )

    def _in_turn(self, step: Execute, routed: Piece, number: int, end: Position, intent: Intent | None) -> None:
        if intent is not None and number == intent.piece:
            self._session.await_end_of(intent.statement)
        announced = intent.before if intent is not None and number == intent.piece else None
        now = self._structures_of(routed, announced)
        if intent is not None and number == intent.piece and not intent.refused:
            outcome = intent.outcome(now)
            if outcome is PieceOutcome.DONE:
                return
            visible = effect.shows_in_structure(step.piece)
            if outcome is PieceOutcome.UNCLEAR and visible and self._checked(step, routed, now, end).effective:
                # Meanwhile another source of the merged table executed this piece and later ones.
                self.already_effective += 1
                return
            if outcome is PieceOutcome.UNCLEAR or (not visible and not effect.idempotent(step.piece)):
                raise DMError("ddl-outcome-unclear", statement=routed.text, position=end)
        try:
            checked = self._checked(step, routed, now, end)
            for check in CHECKS:
                check(checked)
        except DMError:
            # Earlier pieces are done. Store that now: a person may change the table that they left.
            self._announcements.write_intent(Intent(end, number, routed.text, self._session.connection_id, now, now))
            self._announcements.write_refusal()
            raise
        if checked.effective:
            self.already_effective += 1
        else:
            self._execute(checked, number)

    def _checked(self, step: Execute, routed: Piece, now: Structures, end: Position) -> CheckedStep:
        """The step in the form that checks take; raises DMError."""
        piece, tracker, rules = step.piece, self._source.tracker, self._source.rules
        source = tracker.get(piece.table)
        if not step.by_hand:
            target = now.get(routed.table)
            routed = with_own_names(
                piece, routed, source, target, route=step.routing(rules), session=self._session, position=end
            )
        effective = (
            self._target.names.only_respelt(piece)
            or creates_shard(piece, rules)
            or effect.already_effective(now, routed, source)
        )
        return CheckedStep(step, routed, now, effective, end, self._source, self._target)

    def _execute(self, checked: CheckedStep, number: int) -> None:
        target_piece, end = checked.target_piece, checked.position
        after = effect.expected_after(checked.now, target_piece)
        self._told(target_piece, checked.now)
        self._announcements.write_intent(
            Intent(end, number, target_piece.text, self._session.connection_id, checked.now, after)
        )
        faults.hit("syncer.before_ddl")
        self._meanwhile()
        try:
            self._session.execute(target_piece.text, checked.step.query)
        except DMError as error:
            if error.name not in _REFUSED:
                raise
            # Store the refusal: if a person changes the target, its structure matches neither before nor after.
            self._announcements.write_refusal()
            if self._effective_meanwhile(checked.piece, target_piece):
                self.already_effective += 1
                return
            if error.name == "privilege-missing":
                error.position = str(end)
                raise
            kind = "ddl-collation-unknown" if error.server_errno in _UNKNOWN_COLLATION else "ddl-failed"
            failed = DMError(kind, statement=target_piece.text, position=end, cause=error.cause)
            raise failed.numbered(error.server_errno) from error
        self.executed += 1
        if self.running is not None:
            seconds = self._clock.monotonic() - self.running.since
            self.recent.append(ExecutedStatement(self.executed, target_piece.text, self._clock.time(), seconds))
        faults.hit("syncer.after_ddl")

    def _effective_meanwhile(self, piece: Piece, target_piece: Piece) -> bool:
        """Whether another session has executed the same, between our look at the target and our statement."""
        self._target.schemas.invalidate_all()
        now = self._structures_of(target_piece)
        return effect.already_effective(now, target_piece, self._source.tracker.get(piece.table))

    def _structures_of(
        self, target_piece: Piece, announced: Structures | None = None
    ) -> dict[TableName, TableSchema | None]:
        """The tables that the piece names, and the schemas whose defaults they inherit.

        With `announced`, also the schemas of an earlier run's intent, for the comparison.
        """
        tables = target_piece.tables
        schemas = dict.fromkeys(TableName(table.schema, "") for table in tables)
        if not effect.depends_on_schema_defaults(target_piece):
            schemas = {schema: None for schema in schemas if schema in (announced or {})}
        return self._now([*schemas, *(table for table in tables if table.table)])

    def _now(self, names: Iterable[TableName]) -> dict[TableName, TableSchema | None]:
        """These tables and schemas of the target; a schema's name has an empty table."""
        read = self._target.schemas.read
        return {name: read(name) if name.table else self._session.database(name.schema) for name in names}


@dataclass(frozen=True, slots=True)
class _Constraint:
    """A foreign key or a CHECK: its name, and what makes it the same on another server."""

    name: str
    form: object


def with_own_names(
    piece: Piece,
    target_piece: Piece,
    source: TableSchema | None,
    target: TableSchema | None,
    *,
    route: Callable[[TableName], TableName],
    session: DdlSession,
    position: Position,
) -> Piece:
    """The routed piece, with the target's names of the constraints that it drops; raises DMError.

    If a statement does not name a constraint, the server does: after the table, which routes rename, and by its
    flavour's own pattern (`t_chk_1`, `CONSTRAINT_1`). So the source's name may not exist at the target, and a DROP of a
    name that does not exist counts as done. So the constraint is looked up by what it is: a foreign key by its columns,
    its parent and its actions, a CHECK by the columns that it mentions, since every server prints expressions in its
    own way. If it is not certain, the task pauses: a key that stayed would go on changing rows, or refuse them.

    `source` and `target` are the tables before the piece.
    """
    if target is None:
        return target_piece
    for operation in target_piece.operations:
        if not isinstance(operation, DropForeignKey | DropConstraint):
            continue
        try:
            own = _own_name(operation, source, target, route, session)
        except _UnclearError as unclear:
            raise DMError(
                "ddl-constraint-unclear",
                constraint=operation.name,
                target=target.name,
                why=str(unclear),
                statement=piece.text,
                position=position,
            ) from None
        unknown_verb = (
            isinstance(operation, DropConstraint)
            and operation.check
            and session.context.dialect.drops_checks_as_constraints
        )
        if own != operation.name or unknown_verb:
            target_piece = _renamed(target_piece, operation, own, "CONSTRAINT" if unknown_verb else "")
    return target_piece


class _UnclearError(Exception):
    """Why it is not certain which constraint is meant."""


def _own_name(
    operation: DropForeignKey | DropConstraint,
    source: TableSchema | None,
    target: TableSchema,
    route: Callable[[TableName], TableName],
    session: DdlSession,
) -> str:
    name = operation.name.lower()
    there = _candidates(operation, target, source or target, None)
    named = any(one.name.lower() == name for one in there)
    theirs = [] if source is None else _candidates(operation, source, source, route)
    dropped = next((one for one in theirs if one.name.lower() == name), None)
    if dropped is None or dropped.form == _UNTOLD:
        if there and not (named or operation.if_exists or _unique(operation, source or target)):
            raise _UnclearError("the source's structure is not known so far")
        return operation.name
    equal = [one for one in there if one.form == dropped.form]
    if any(one.name.lower() == name for one in equal):
        return operation.name
    before = sum(one.form == dropped.form for one in theirs)
    if not equal:
        if not named and _hidden(dropped, target, session):
            raise _UnclearError("it may be the CHECK of a column's definition, which no DROP can name")
        return operation.name
    if len(equal) == before == 1:
        return equal[0].name
    if len(equal) < before and not named:
        return operation.name  # dropped already: the source keeps as many as the target has
    raise _UnclearError(f"it may be {' or '.join(one.name for one in equal)}")


def _candidates(
    operation: DropForeignKey | DropConstraint,
    schema: TableSchema,
    source: TableSchema,
    route: Callable[[TableName], TableName] | None,
) -> list[_Constraint]:
    """The table's constraints that the operation may mean."""
    found = []
    if isinstance(operation, DropForeignKey) or not operation.check:
        found += _keys(schema, route)
    if isinstance(operation, DropConstraint):
        found += _checks(schema, source)
    return found


# The form of a CHECK whose columns are not known.
_UNTOLD = ("check", frozenset[str]())


def _keys(schema: TableSchema, route: Callable[[TableName], TableName] | None) -> list[_Constraint]:
    return [_Constraint(key.name, ("key", *key_form(_at_target(key, route)))) for key in schema.foreign_keys]


def _at_target(key: ForeignKey, route: Callable[[TableName], TableName] | None) -> ForeignKey:
    parent = key.parent if route is None else route(key.parent)
    return replace(key, parent=TableName(parent.schema.lower(), parent.table.lower()))


def _checks(schema: TableSchema, columns_of: TableSchema) -> list[_Constraint]:
    columns = {column.name.lower() for column in columns_of.columns}
    told = [*schema.check_words, *[()] * (len(schema.checks) - len(schema.check_words))]
    return [
        _Constraint(name, ("check", columns.intersection(words)))
        for name, words in zip(schema.checks, told, strict=True)
    ]


def _unique(operation: DropForeignKey | DropConstraint, schema: TableSchema) -> bool:
    """Whether a unique index has the name, which is the same at the target."""
    return isinstance(operation, DropConstraint) and any(
        index.name.lower() == operation.name.lower() for index in schema.unique_indexes
    )


def _hidden(dropped: _Constraint, target: TableSchema, session: DdlSession) -> bool:
    """Whether the target's CHECK is in a column's definition; MySQL has no such CHECKs, only the table's."""
    kind, columns, *_ = dropped.form if isinstance(dropped.form, tuple) else ("", ())
    return kind == "check" and len(columns) == 1 and bool(columns & session.column_checks(target.name))


def _renamed(piece: Piece, operation: DropForeignKey | DropConstraint, own: str, verb: str) -> Piece:
    """The piece with the constraint's name at the target, and with `verb` in place of CHECK if given."""
    tokens = tokenize(piece.text, piece.context)
    at = next((at for at, token in enumerate(tokens) if _names(tokens[:at], token, operation)), None)
    if at is None:
        raise DMError("ddl-splice-mismatch", statement=piece.text, why="the name of the constraint is not found")
    text = f"{piece.text[: tokens[at].start]}{Ident(own).sql}{piece.text[tokens[at].end :]}"
    if verb:
        text = f"{text[: tokens[at - 1].start]}{verb}{text[tokens[at - 1].end :]}"  # CHECK is never IF EXISTS
    return Piece.of(text, piece.context)


def _names(before: Sequence[Token], token: Token, operation: DropForeignKey | DropConstraint) -> bool:
    """Whether this is the name after DROP FOREIGN KEY, DROP CONSTRAINT or DROP CHECK."""
    words = [one.upper for one in before[-5:]]
    if words[-2:] == ["IF", "EXISTS"]:
        words = words[:-2]
    return (
        (words[-3:] == ["DROP", "FOREIGN", "KEY"] or words[-2:] in (["DROP", "CONSTRAINT"], ["DROP", "CHECK"]))
        and token.kind in ("word", "name")
        and token.text == operation.name
    )
