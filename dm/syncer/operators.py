"""The operators of a run: which of them concern a transaction, and how a person's request changes them.

A person names an event by its start position. Any position inside a transaction is accepted. An inject runs before the
whole transaction: all rows of a transaction have the structure from before it, so the exact position makes no
difference. If a transaction has one statement, the position means that statement. The exact position only decides among
several statements, as in STATEMENT format.

Requests come from another thread while the dispatcher runs. A lock decides the order. A request is too late for an
event that the dispatcher has received. The dispatcher sees every stored request.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.split import split
from dm.mysql.sql.statement import classify
from dm.mysql.sql.token import tokenize
from dm.position import Position
from dm.progress.operators import Operator
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.unit import JSON

Verb = Literal["skip", "replace", "inject", "revert", "list"]
_PLACE = re.compile(r"\(?\s*([^\s,:()]+)\s*[:,]\s*(\d+)\s*\)?")
_RELAY_SUFFIX = re.compile(r"\|\d{6}(?=\.)")  # DM names a file of a relay sub-directory mysql-bin|000001.000003


@dataclass(frozen=True, slots=True)
class EventPlace:
    """Where an event begins."""

    server_uuid: str
    file: str
    offset: int
    statement: bool = False  # the event is a statement

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    def to_json(self) -> dict[str, str | int | bool]:
        """For the pipe between the processes."""
        return asdict(self)

    @classmethod
    def from_json(cls, wire: Mapping[str, Any]) -> EventPlace:
        """The inverse of `to_json`."""
        return cls(**wire)


def parse_place(text: str) -> tuple[str, int]:
    """File and offset of `--binlog-pos`, in DM's forms; raises DMError."""
    match = _PLACE.fullmatch(_RELAY_SUFFIX.sub("", text.strip().strip("\"'")))
    if match is None:
        raise DMError("operator-position-unreadable", text=repr(text[:80]))
    return match[1], int(match[2])


@dataclass(frozen=True, slots=True)
class Request:
    """A person's request."""

    verb: Verb
    task: str
    source: str
    binlog_pos: str = ""  # empty: the failing event
    statements: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JSON]:
        """For the pipe between the processes."""
        return {**asdict(self), "statements": list(self.statements)}

    @classmethod
    def from_json(cls, wire: Mapping[str, Any]) -> Request:
        """The inverse of `to_json`."""
        return cls(**{**wire, "statements": tuple(wire["statements"])})


@dataclass(frozen=True, slots=True)
class Change:
    """The outcome of a request: something to store, something to remove, or only a list."""

    put: Operator | None = None
    remove: Operator | None = None
    listed: tuple[Operator, ...] = ()


def decide(request: Request, known: Sequence[Operator], passed: Position, failing: EventPlace | None) -> Change:
    """What the request changes, if everything up to `passed` is applied or pending; raises DMError."""
    if request.verb == "list" and not request.binlog_pos:
        return Change(listed=tuple(known))
    place = _place_of(request, passed, failing)
    if request.verb == "list":
        start = Position(place.server_uuid, place.file, place.offset)
        later = (one for one in known if start.same_files(one.position) and one.position.order >= start.order)
        return Change(listed=tuple(later))
    if request.verb == "revert":
        for one in known:
            if (one.file, one.offset) == (place.file, place.offset) and one.to_come and not one.outdated(passed):
                return Change(remove=one)  # executed statements stay
        raise DMError("operator-missing", place=place, task=request.task)
    operator = Operator(place.server_uuid, place.file, place.offset, request.verb, request.statements)
    if operator.outdated(passed):
        raise DMError("operator-too-late", place=place, now=passed, task=request.task)
    return Change(put=operator)


def _place_of(request: Request, passed: Position, failing: EventPlace | None) -> EventPlace:
    if request.binlog_pos:
        file, offset = parse_place(request.binlog_pos)
        same_server = failing is not None and failing.file == file
        return EventPlace(
            failing.server_uuid if failing is not None and same_server else passed.server_uuid, file, offset
        )
    if failing is None:
        raise DMError("no-failing-event", source=request.source, task=request.task)
    if not failing.statement and request.verb in ("skip", "replace"):
        raise DMError("failing-event-without-statement", source=request.source, place=failing, task=request.task)
    return failing


def report(change: Change, task: str) -> JSON:
    """The answer to a request: the operators of a list, in words and in DM's form."""
    return [
        {
            "op": one.action, "task": task, "binlogPos": one.place, "sqls": list(one.statements),
            "state": "partly injected" if one.partly else "injected" if one.done else "waiting",
        }
        for one in change.listed
    ]  # fmt: skip


def separated(texts: Sequence[str], context: SourceContext) -> list[str]:
    """The statements in a command's arguments: one or more in each, or one text over all arguments, as in DM."""
    if any(not text.strip().partition(" ")[2] for text in texts):
        texts = [" ".join(texts)]
    found: list[str] = []
    for text in texts:
        begin = 0
        for token in tokenize(text, context):
            if token.kind == "symbol" and token.text == ";":
                found.append(text[begin : token.start].strip())
                begin = token.end
        found.append(text[begin:].strip())
    return [text for text in found if text]


def checked(texts: Sequence[str], context: SourceContext, task: str) -> tuple[str, ...]:
    """The statements that replace or precede an event: DDL that names every table with its schema; raises DMError."""
    try:
        statements = separated(texts, context)
    except DMError as error:
        why = error.details.get("why", error.message)
        raise DMError("operator-statement-unreadable", why=why, statement=" ".join(texts)) from error
    if not statements:
        raise DMError("operator-statement-unreadable", why="there is none", statement=" ".join(texts))
    for statement in statements:
        try:
            kind = classify(statement, context).kind
            pieces = split(statement, context) if kind == "ddl" else []
        except DMError as error:
            why = error.details.get("why", error.message)
            raise DMError("operator-statement-unreadable", why=why, statement=statement) from error
        if kind != "ddl":
            raise DMError("operator-not-ddl", statement=statement, task=task)
        if any(not ref.name.schema for piece in pieces for ref in piece.names):
            raise DMError("operator-without-schema", statement=statement)
    return tuple(statements)


class Operators:
    """The operators that a run knows, and how far its dispatcher has got."""

    def __init__(
        self,
        task: str,
        stored: Iterable[Operator],
        start: Position,
        floor: Callable[[Position], Position] = lambda position: position,
    ) -> None:
        self.task = task
        self._floor = floor  # from where events are still read, with this checkpoint
        self._known = list(stored)
        self._passed = start
        self._changed: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def of(self, transaction: SourceTransaction) -> list[Operator]:
        """The operators for this transaction, by place; from now on, new ones are too late for it."""
        with self._lock:
            self._passed = transaction.end
            if not self._known:
                return []
            there = (one for one in self._known if one.server_uuid == transaction.end.server_uuid)
            return [one for one in there if _within(one.file, one.offset, transaction)]

    def passes(self, end: Position) -> bool:
        """Whether there are none up to here, and no other meaning of an event; then new ones are too late for it."""
        with self._lock:
            if self._known or self._changed:
                return False
            self._passed = end
            return True

    def changed_in(self, transaction: SourceTransaction) -> bool:
        """Whether the meaning of the transaction's events was changed during this run."""
        if not self._changed:  # a request from now on is too late for this transaction
            return False
        with self._lock:
            return any(_within(file, offset, transaction) for file, offset in self._changed)

    def outdated(self, checkpoint: Position) -> list[Operator]:
        """Those not needed after this checkpoint."""
        floor = self._floor(checkpoint)
        with self._lock:
            return [one for one in self._known if one.outdated(floor)]

    def forget(self, operators: Sequence[Operator]) -> None:
        """These are no longer stored."""
        with self._lock:
            self._known = [one for one in self._known if one not in operators]

    def injected(self, operator: Operator) -> None:
        """The operator's statements, or some of them, were executed."""
        with self._lock:
            self._known = [operator if one.same_event(operator) else one for one in self._known]

    def change(self, request: Request, store: Callable[[Change], None]) -> Change:
        """Carry out a request; `store` makes the change durable. Raises DMError."""
        with self._lock:
            change = decide(request, self._known, self._floor(self._passed), None)
            if change.put is None and change.remove is None:
                return change
            store(change)
            new = change.put or change.remove
            assert new is not None
            self._known = [one for one in self._known if not one.same_event(new)]
            if change.put is not None:
                self._known.append(change.put)
                self._known.sort(key=lambda one: (one.server_uuid, one.position.order))
            self._changed.add((new.file, new.offset))
            return change


def first_byte(transaction: SourceTransaction) -> int:
    """Where a transaction begins, in the file where it ends."""
    begin, end = transaction.begin, transaction.end
    if begin.server_uuid == end.server_uuid and begin.file == end.file:
        return begin.offset
    return max(0, end.offset - transaction.size)


def _within(file: str, offset: int, transaction: SourceTransaction) -> bool:
    end = transaction.end
    return file == end.file and first_byte(transaction) <= offset < end.offset
