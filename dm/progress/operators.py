"""Operators: a person's decisions about single events of the binlog (`dmctl binlog skip | replace | inject`).

An operator decides which statements are executed for an event. Every run that may read the event must find it: a run
after a crash, on another host, or from an earlier place. Hence these rules (I8 of `protocol.py`).

- It is stored before it is acknowledged. The transaction that stores a checkpoint after its event deletes it.
- An intent belongs to the statements of one reading of its event. If an operator changes what the event stands for, the
  same transaction deletes the intent: the numbers of its pieces would mean other statements.
- An inject is executed before its event. That it is done is stored together with the structures that it left.
- If shards are merged, a source's stream leaves the statements on held tables, and no others, to the second pass. Their
  numbers are stored. A table may be held again at the same event; then one more pass reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.lane_rows import LaneClaim, read_position, transaction
from dm.progress.tables import SubtaskKey, reads
from dm.session.answers import reads_answers

Action = Literal["skip", "replace", "inject"]
PieceNumber = tuple[int, int]  # the statement's number, and the piece's in the statement
_ACTIONS: Final[dict[str, Action]] = {"skip": "skip", "replace": "replace", "inject": "inject"}


@dataclass(frozen=True, slots=True)
class Operator:
    """What to do with the event that begins at a place."""

    server_uuid: str
    file: str
    offset: int
    action: Action
    statements: tuple[str, ...] = ()
    done: bool = False  # an inject whose statements were executed, before its event
    left: frozenset[PieceNumber] = frozenset()  # pieces of a done inject that were not executed

    @property
    def partly(self) -> bool:
        """Whether some pieces were executed, and others are left to another reading of the binlog."""
        return self.done and bool(self.left)

    @property
    def to_come(self) -> bool:
        """Whether a reading may still have something to execute before the event."""
        return not self.done or self.partly

    @property
    def place(self) -> str:
        """File and offset, as in `--binlog-pos`."""
        return f"{self.file}:{self.offset}"

    @property
    def position(self) -> Position:
        """The place as a position without a GTID set."""
        return Position(self.server_uuid, self.file, self.offset)

    def same_event(self, other: Operator) -> bool:
        """Whether the two are for one event."""
        return (self.server_uuid, self.file, self.offset) == (other.server_uuid, other.file, other.offset)

    def outdated(self, checkpoint: Position) -> bool:
        """Whether its event is before a checkpoint, so that no run reads it again."""
        return self.position.same_files(checkpoint) and self.position.order < checkpoint.order


@reads(lambda key: key.operator)
def read_operators(connection: TargetConnection, key: SubtaskKey) -> list[Operator]:
    """All stored operators, by file and offset; the table exists (`create_tables`)."""
    rows = connection.query(
        f"SELECT server_uuid, binlog_name, binlog_pos, action, statements, done FROM {key.operator.sql} WHERE id = %s",
        (key.source_id,),
    )
    found = [
        _loaded(Operator(str(uuid), str(file), int(offset), _ACTIONS[str(action)], done=bool(done)), str(text))
        for uuid, file, offset, action, text, done in rows
    ]
    return sorted(found, key=lambda operator: (operator.server_uuid, operator.position.order))


def _loaded(operator: Operator, text: str) -> Operator:
    stored = json.loads(text)
    if isinstance(stored, list):
        return replace(operator, statements=tuple(stored))
    left = frozenset((int(statement), int(piece)) for statement, piece in stored["left"])
    return replace(operator, statements=tuple(stored["statements"]), left=left)


def _text(operator: Operator) -> str:
    """The statements as a list; with the left pieces, if there are any."""
    if not operator.partly:
        return json.dumps(operator.statements)
    return json.dumps({"statements": operator.statements, "left": sorted(operator.left)})


def put_operator(connection: TargetConnection, key: SubtaskKey, operator: Operator) -> None:
    """Store an operator inside the open transaction; replaces one for the same event."""
    connection.execute(
        f"REPLACE INTO {key.operator.sql} (id, server_uuid, binlog_name, binlog_pos, action, statements, done)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (
            key.source_id,
            operator.server_uuid,
            operator.file,
            operator.offset,
            operator.action,
            _text(operator),
            int(operator.done),
        ),
    )


def remove_operators(connection: TargetConnection, key: SubtaskKey, operators: Iterable[Operator]) -> None:
    """Remove operators inside the open transaction."""
    for operator in operators:
        connection.execute(
            f"DELETE FROM {key.operator.sql}"
            " WHERE id = %s AND server_uuid = %s AND binlog_name = %s AND binlog_pos = %s",
            (key.source_id, operator.server_uuid, operator.file, operator.offset),
        )


@reads_answers
def forget_intent_of(connection: TargetConnection, key: SubtaskKey, operator: Operator) -> None:
    """Remove the event's intent, if an operator changes the event's statements; inside the open transaction.

    An intent's position is the end of its event's transaction, and L covers everything before that transaction. So a
    place after L and before the intent's position is inside the transaction.
    """
    rows = connection.query(
        f"SELECT server_uuid, binlog_name, binlog_pos, binlog_gtid FROM {key.intent.sql} WHERE id = %s",
        (key.source_id,),
    )
    end = read_position(*rows[0]) if rows else None
    if end is not None and end.same_files(operator.position) and operator.position.order < end.order:
        connection.execute(f"DELETE FROM {key.intent.sql} WHERE id = %s", (key.source_id,))


def copy_operators(connection: TargetConnection, giving: SubtaskKey, taking: SubtaskKey) -> None:
    """Give another reading of the binlog the same operators, inside the open transaction."""
    columns = "server_uuid, binlog_name, binlog_pos, action, statements, done"
    connection.execute(f"DELETE FROM {taking.operator.sql} WHERE id = %s", (taking.source_id,))
    connection.execute(
        f"INSERT INTO {taking.operator.sql} (id, {columns}) SELECT %s, {columns} FROM {giving.operator.sql}"
        " WHERE id = %s",
        (taking.source_id, giving.source_id),
    )


def tell_done(connection: TargetConnection, telling: SubtaskKey, told: SubtaskKey) -> None:
    """Tell another reading what one has done, so that it is not done again; inside the open transaction."""
    news = read_operators(connection, telling)
    for known in read_operators(connection, told):
        for new in news:
            if new.same_event(known) and new.done:
                left = known.left & new.left if known.done else new.left
                put_operator(connection, told, replace(known, done=True, left=left))


def change_operators(
    connection: TargetConnection,
    keys: Iterable[SubtaskKey],
    *,
    put: Operator | None = None,
    remove: Operator | None = None,
    claim: LaneClaim | None = None,
) -> None:
    """Store one change in its own transaction, under a run's claim, or by the holder of the lock.

    Several keys are readings of one binlog: the change is made for all of them.
    """
    with transaction(connection):
        if claim is not None:
            claim.advance(connection, None)
        for key in keys:
            if put is not None:
                put_operator(connection, key, put)
                forget_intent_of(connection, key, put)
            if remove is not None:
                remove_operators(connection, key, [remove])
                forget_intent_of(connection, key, remove)
