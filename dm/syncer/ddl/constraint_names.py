"""Which constraint of the target a DROP means.

A server names a constraint that the statement did not name: after the table, which routes rename, and by its flavour's
own pattern (`t_chk_1`, `CONSTRAINT_1`). So the name that the source drops may be nobody's at the target while the
constraint is there, and a DROP of a name that is not there counts as done. Here the constraint is looked for by what it
is: a foreign key by its columns, its parent and what it does, a CHECK by the columns that it speaks of, since every
server prints expressions its own way. The statement gets the name that it has at the target.

What is not certain pauses: a key that stays would go on changing rows, or refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.position import Position
from dm.schema.normal import key_form
from dm.schema.table import ForeignKey, TableSchema
from dm.sql.operation import DropConstraint, DropForeignKey
from dm.sql.piece import Piece
from dm.sql.token import Token, tokenize
from dm.syncer.ddl.session import DdlSession


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
    """The routed piece, each constraint that it drops under its name at the target; raises DMError.

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
        unknown_verb = isinstance(operation, DropConstraint) and operation.check and session.context.flavor == "mariadb"
        if own != operation.name or unknown_verb:
            target_piece = _renamed(target_piece, operation, own, "CONSTRAINT" if unknown_verb else "")
    return target_piece


class _UnclearError(Exception):
    """It can't be told, in words."""


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
        return operation.name  # what the source will have is all that is left
    raise _UnclearError(f"it may be {' or '.join(one.name for one in equal)}")


def _candidates(
    operation: DropForeignKey | DropConstraint,
    schema: TableSchema,
    source: TableSchema,
    route: Callable[[TableName], TableName] | None,
) -> list[_Constraint]:
    """What the operation may drop of a table."""
    found = []
    if isinstance(operation, DropForeignKey) or not operation.check:
        found += _keys(schema, route)
    if isinstance(operation, DropConstraint):
        found += _checks(schema, source)
    return found


# The form of a CHECK of which no structure tells what it speaks of.
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
    """Whether the name is that of a unique index, which has no other one at the target."""
    return isinstance(operation, DropConstraint) and any(
        index.name.lower() == operation.name.lower() for index in schema.unique_indexes
    )


def _hidden(dropped: _Constraint, target: TableSchema, session: DdlSession) -> bool:
    """Whether a column of the target has a CHECK of its own about no other: to MySQL it is one of the table's."""
    kind, columns, *_ = dropped.form if isinstance(dropped.form, tuple) else ("", ())
    return kind == "check" and len(columns) == 1 and bool(columns & session.column_checks(target.name))


def _renamed(piece: Piece, operation: DropForeignKey | DropConstraint, own: str, verb: str) -> Piece:
    """The piece with the constraint's name at the target, and another word for what it is where `verb` is given."""
    tokens = tokenize(piece.text, piece.context)
    at = next((at for at, token in enumerate(tokens) if _names(tokens[:at], token, operation)), None)
    if at is None:
        raise DMError("ddl-splice-mismatch", statement=piece.text, why="the name of the constraint is not found")
    text = f"{piece.text[: tokens[at].start]}{Ident(own).sql}{piece.text[tokens[at].end :]}"
    if verb:
        text = f"{text[: tokens[at - 1].start]}{verb}{text[tokens[at - 1].end :]}"  # CHECK is never IF EXISTS
    return Piece.of(text, piece.context)


def _names(before: Sequence[Token], token: Token, operation: DropForeignKey | DropConstraint) -> bool:
    """Whether this is the name behind DROP FOREIGN KEY, DROP CONSTRAINT or DROP CHECK."""
    words = [one.upper for one in before[-5:]]
    if words[-2:] == ["IF", "EXISTS"]:
        words = words[:-2]
    return (
        (words[-3:] == ["DROP", "FOREIGN", "KEY"] or words[-2:] in (["DROP", "CONSTRAINT"], ["DROP", "CHECK"]))
        and token.kind in ("word", "name")
        and token.text == operation.name
    )
