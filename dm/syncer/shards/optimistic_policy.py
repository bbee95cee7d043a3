"""Optimistic shard merge: what the target gets of one shard's DDL, decided from structures alone.

Nothing is written here. The target's table is kept so that it accepts the rows of every shard as that shard is now (the
joined structure):

    a column     is there while any shard has it; it is optional while any lacks it
    its type     holds the values of each shard's type
    NULL         is allowed while any shard allows it
    an index     that is no key is there where all have it
    a partition  of a RANGE or LIST is there once a shard has got it, if the target's table has partitions

So a statement that makes the target accept more is executed when the first shard brings it, and one that makes it
accept less when the last shard does; for the shards in between it is passed over. `statement_form.py` says which
statements wait for all shards. If no structure is right for all, that is a conflict, and the task pauses.

A column is optional with the default of its definition. A column that is NOT NULL without a DEFAULT gets the value with
which servers fill it as a default: it is *loose* until all shards have it.

A column that one shard has dropped and others still have is *kept*: it holds that shard's old values. That shard can't
add it again before it is gone from the target: it would be unknown which of its rows have old values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.draft import OperationRefused
from dm.mysql.schema.merged_table import (
    column_change,
    filling,
    finds_rows,
    fits,
    implicit_default,
    keys_for_rows,
    lacking,
    needs_value,
    undergone,
    unfilled,
    untaken,
)
from dm.mysql.schema.normal import index_form, same_column, same_structure
from dm.mysql.schema.partition import added_by_values
from dm.mysql.schema.show import column_text, index_text
from dm.mysql.schema.table import Column, TableSchema, widens
from dm.mysql.schema.tracker import SchemaState, interpret, untrackable
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause
from dm.mysql.sql.operation import AddColumn, ChangeColumn, ModifyColumn
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import separate
from dm.syncer.shards.statement_form import gated

Databases = Callable[[str], Collated]


@dataclass(frozen=True, slots=True)
class OtherShard:
    """Another shard of the target table."""

    name: str  # for people
    schema: TableSchema
    kept: frozenset[str] = frozenset()
    early: bool = False  # the target has no row of it yet, and may lack its columns


@dataclass(frozen=True, slots=True)
class Surrounding:
    """A target table and its shards at one moment, except the shard at hand. Column names are in lower case."""

    target: TableSchema | None
    others: tuple[OtherShard, ...]
    loose: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()  # of the shard at hand
    left: frozenset[str] = frozenset()  # of it, too: columns whose DROP a filter or a person has left out
    extracted: frozenset[str] = frozenset()  # columns of the target that hold parts of names


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is done about one event."""

    gate: str = ""  # why it waits for all shards; empty: it passes
    statements: tuple[tuple[str, ...], ...] = ()  # the target's for each piece, under the shard's name
    narrowing: tuple[str, ...] = ()  # the target's, after those
    loose_meanwhile: frozenset[str] = frozenset()  # stored before them
    loose: frozenset[str] = frozenset()  # stored after them
    kept: frozenset[str] = frozenset()


def decide(pieces: Sequence[Piece], before: TableSchema, around: Surrounding, databases: Databases) -> Verdict:
    """The verdict about one shard's DDL; raises DMError if the structures can't be joined."""
    states, parts = [before], list[tuple[Piece, ...]]()
    for piece in pieces:
        parts.append(_parts(piece, states[-1], databases))
        for part in parts[-1]:
            states.append(_followed(part, states[-1], databases))
            why = gated(part, states[-2], states[-1], around.target, around.extracted)
            if why:
                return Verdict(why)
    joining, steps = _Joining(around, before, databases), pairwise(states)
    statements = tuple(tuple(text for part in each for text in joining.piece(part, *next(steps))) for each in parts)
    meanwhile = frozenset(joining.loose) | around.loose
    narrowing = tuple(joining.narrow(states[-1], pieces[-1].context))
    return Verdict("", statements, narrowing, meanwhile, frozenset(joining.loose), frozenset(joining.kept))


def alone(pieces: Sequence[Piece], before: TableSchema, around: Surrounding, databases: Databases) -> Verdict | None:
    """The verdict about a DDL that would wait for all shards, if all others already have its result; else None."""
    after = before
    for piece in pieces:
        after = _followed(piece, after, databases)
    target = None if around.target is None else keys_for_rows(around.target, around.extracted)
    if not around.others or not all(undergone(before, after, other.schema, target) for other in around.others):
        return None
    return Verdict("", tuple((piece.text,) for piece in pieces), (), around.loose, around.loose, around.kept)


def admit(created: TableSchema, around: Surrounding) -> Verdict:
    """The verdict about a new shard of a target table that exists already; raises DMError."""
    joining = _Joining(around, created, lambda _: Collated("", ""))
    return Verdict(
        statements=(tuple(joining.admit(created)),),
        loose_meanwhile=frozenset(joining.loose) | around.loose,
        loose=frozenset(joining.loose),
    )


def dismiss(leaving: TableSchema, around: Surrounding, context: SourceContext, databases: Databases) -> Verdict:
    """What the target need not accept any more when a shard is dropped; nothing if it was the last."""
    if not around.others:
        return Verdict(loose=around.loose)
    first, *others = around.others  # as if it had arrived at a statement without any effect
    joining = _Joining(replace(around, others=tuple(others), kept=first.kept), leaving, databases)
    statements = [*joining.narrow(first.schema, context), *joining.indexes_of_all(first.schema)]
    return Verdict(narrowing=tuple(statements), loose_meanwhile=around.loose, loose=frozenset(joining.loose))


def _parts(piece: Piece, schema: TableSchema, databases: Databases) -> tuple[Piece, ...]:
    """The operations of a piece one by one, if that leads to the same structure."""
    if len(piece.operations) < 2:
        return (piece,)
    parts, state = tuple(separate(piece)), schema
    for part in parts:
        try:
            state = _interpreted(part, state, databases)
        except OperationRefused:
            return (piece,)
    return parts if same_structure(state, _followed(piece, schema, databases)) else (piece,)


def _followed(piece: Piece, schema: TableSchema, databases: Databases) -> TableSchema:
    """The shard after a piece; raises DMError if its known structure does not allow the piece."""
    try:
        return _interpreted(piece, schema, databases)
    except OperationRefused as refusal:
        raise untrackable(piece, str(refusal)) from None


def _interpreted(piece: Piece, schema: TableSchema, databases: Databases, *, lenient: bool = True) -> TableSchema:
    found = interpret(piece, SchemaState({schema.name: schema}.get, databases, lenient=lenient)).get(schema.name)
    return schema if found is None else found


@dataclass
class _Joining:
    """The target's table while the pieces of one event are decided."""

    around: Surrounding
    shard: TableSchema
    databases: Databases
    target: TableSchema = field(init=False)
    loose: set[str] = field(init=False)
    kept: set[str] = field(init=False)

    def __post_init__(self) -> None:
        if self.around.target is None:
            raise DMError("target-table-missing", table=str(self.shard.name), unread="", position="")
        self.target = replace(self.around.target, name=self.shard.name)
        self.loose, self.kept = set(self.around.loose), set(self.around.kept)

    @property
    def _others(self) -> tuple[OtherShard, ...]:
        return self.around.others

    def _lacking(self, name: str) -> bool:
        return any(other.schema.column(name) is None for other in self._others)

    def _holders(self, name: str) -> list[tuple[OtherShard, Column]]:
        return [(other, column) for other in self._others if (column := other.schema.column(name)) is not None]

    def _all_have(self, name: str, form: tuple[object, ...]) -> bool:
        """Whether all others have an index; early shards don't count: they may be past its removal."""
        return all(_has_index(other.schema, name, form) for other in self._others if not other.early)

    def conflict(self, why: str, *shown: tuple[str, Column | None]) -> DMError:
        """The error for structures that can't be joined, with the definitions that show it."""
        texts = [f"{whose} has {'no such column' if one is None else column_text(one)}" for whose, one in shown]
        return DMError(
            "shard-structures-differ", shard=self.shard.name, why=why, structures="; ".join(texts) or "see above"
        )

    def _execute(self, text: str, context: SourceContext) -> None:
        """Apply a statement to the target's structure."""
        try:
            self.target = _interpreted(Piece.of(text, context), self.target, self.databases, lenient=False)
        except OperationRefused as refusal:
            raise self.conflict(f"the target does not allow {text} ({refusal})") from refusal

    # -- One piece

    def piece(self, piece: Piece, before: TableSchema, after: TableSchema) -> tuple[str, ...]:
        """The statements for a piece that needs no gate."""
        found: list[str] = []
        for column in before.columns:
            there = after.column(column.name)
            found += self._dropped(piece, column) if there is None else self._changed(piece, column, there)
        for column in after.columns:
            if before.column(column.name) is None:
                found += self._added(piece, column)
        found += self._indexes(piece, before, after)
        found += self._partitions(piece, before, after)
        for text in found:
            self._execute(text, piece.context)
        return tuple(dict.fromkeys(found))

    def _added(self, piece: Piece, column: Column) -> list[str]:
        name, there = column.name.lower(), self.target.column(column.name)
        if there is not None:
            if name in self.kept | self.around.left:
                raise DMError("shard-column-kept", shard=self.shard.name, column=column.name, statement=piece.text)
            self._demand_same(column, there)
            return []
        holder = next((found for found in self._holders(name) if not found[0].early), None)
        if holder is not None:
            raise self.conflict("the target lacks a column", (holder[0].name, holder[1]), ("the target", None))
        self.kept.discard(name)
        if not self._lacking(name) or not needs_value(column):
            return [piece.text]
        self.loose.add(name)
        return [_rewritten(_definition(piece), default=implicit_default(column) or "")]

    def _demand_same(self, column: Column, there: Column) -> None:
        """Raise DMError unless the shard's rows, with the target's default there, get the same from the source."""
        shown = ((str(self.shard.name), column), ("the target", there))
        if there.generated is not None or not fits(column, there):
            raise self.conflict("the target's column does not hold all values of the new one", *shown)
        if column.nullable and not there.nullable:
            raise self.conflict("the target's column is NOT NULL", *shown)
        if filling(there) is None or filling(column) != filling(there):
            raise self.conflict("existing rows have another value in the column there", *shown)

    def _dropped(self, piece: Piece, column: Column) -> list[str]:
        name, there = column.name.lower(), self.target.column(column.name)
        if not self._holders(name):
            self.loose.discard(name)
            return [] if there is None else [piece.text]
        self.kept.add(name)
        return [] if there is None else self._optional(there)

    def _optional(self, there: Column) -> list[str]:
        """Give a column of the target a default, since rows without it will come."""
        if not needs_value(there):
            return []
        literal = implicit_default(there)
        if literal is None:
            raise self.conflict("rows that lack the column get no value", ("the target", there))
        self.loose.add(there.name.lower())
        return [f"ALTER TABLE {self.shard.name.sql} ALTER COLUMN {Ident(there.name).sql} SET DEFAULT {literal}"]

    def _changed(self, piece: Piece, before: Column, after: Column) -> list[str]:
        change, there = column_change(before, after), self.target.column(after.name)
        if there is None:
            raise self.conflict("the target lacks a column", (str(self.shard.name), after), ("the target", None))
        if change.nothing:
            # Structures have no comments. If all agree, repeating the definition is harmless.
            again = _is_about(piece, after.name) and same_column(there, after)
            return [piece.text] if again and not self._lacking(after.name) else []
        if change.to_not_null:
            return self._to_not_null(piece, after, there)
        if fits(after, there) and (there.nullable or not after.nullable):
            return []
        for other, column in self._holders(after.name):
            if not (other.early or fits(column, after)):  # an early shard's statements are still to come
                raise self.conflict(
                    "neither type holds the values of the other", (str(self.shard.name), after), (other.name, column)
                )
        if not widens(there, after) and not fits(there, after):
            raise self.conflict(
                "the target's type holds more than the new one", (str(self.shard.name), after), ("the target", there)
            )
        default = there.default if after.default is None and there.default is not None else None
        return [_rewritten(_definition(piece), default=default, null=there.nullable and not after.nullable)]

    def _to_not_null(self, piece: Piece, after: Column, there: Column) -> list[str]:
        holders = self._holders(after.name)
        if not there.nullable or self._lacking(after.name) or any(column.nullable for _, column in holders):
            return []
        return [piece.text] if fits(there, after) else []

    def _indexes(self, piece: Piece, before: TableSchema, after: TableSchema) -> list[str]:
        found = []
        old, new = ({index.name.lower(): index for index in schema.indexes} for schema in (before, after))
        there = {index.name.lower() for index in self.target.indexes}
        for name in old.keys() - new.keys():
            if name in there:
                found.append(piece.text)
        for name in new.keys() - old.keys():
            form = index_form(new[name], after)
            if self._all_have(name, form):
                found += [] if _has_index(self.target, name, form) else [piece.text]
        return found

    def _partitions(self, piece: Piece, before: TableSchema, after: TableSchema) -> list[str]:
        """The statement for partitions that the target lacks; a table without partitions takes all rows."""
        added = added_by_values(piece)
        if added is None or not self.target.partitions or before.partitions == after.partitions:
            return []
        there = {name.lower() for name in self.target.partitions}
        lacking = [name for name in added.definitions if name.lower() not in there]
        if len(lacking) == len(added.definitions):
            return [piece.text]
        return [added.statement(lacking)] if lacking else []

    # -- After the pieces

    def narrow(self, own: TableSchema, context: SourceContext) -> Iterable[str]:
        """Statements that narrow the target, beside those of this shard's pieces."""
        head = f"ALTER TABLE {self.shard.name.sql}"
        for name in sorted({*self.kept, *(name for other in self._others for name in other.kept)}):
            there = self.target.column(name)
            if there is not None and own.column(name) is None and not self._holders(name):
                yield f"{head} DROP COLUMN {Ident(there.name).sql}"
                self.loose.discard(name)
                self._execute(f"{head} DROP COLUMN {Ident(there.name).sql}", context)
        self.kept = {name for name in self.kept if self.target.column(name) is not None}
        for name in sorted(self.loose):
            there, mine = self.target.column(name), own.column(name)
            if there is None:
                self.loose.discard(name)
            elif mine is not None and not self._lacking(name):
                self.loose.discard(name)
                if there.default is not None and all(
                    column.default is None for column in (mine, *(one for _, one in self._holders(name)))
                ):
                    end = "SET DEFAULT NULL" if there.nullable else "DROP DEFAULT"
                    yield f"{head} ALTER COLUMN {Ident(there.name).sql} {end}"

    def indexes_of_all(self, own: TableSchema) -> Iterable[str]:
        """Indexes that all others have, and that only the leaving shard lacked."""
        for index in own.indexes:
            name, form = index.name.lower(), index_form(index, own)
            lacking = not (_has_index(self.shard, name, form) or _has_index(self.target, name, form))
            if self._all_have(name, form) and lacking and not index.unique and not index.functional:
                yield f"ALTER TABLE {self.shard.name.sql} ADD {index_text(index)}"

    # -- A new table

    def admit(self, created: TableSchema) -> Iterable[str]:
        """Statements that let the target take the rows of a new shard; raises DMError if none can."""
        refused = list(untaken(created, self.target))
        for one in refused:
            if one.there is not None:
                shown = ((str(created.name), one.column), ("the target", one.there))
                raise self.conflict("the target's table does not take the rows of the new shard", *shown)
        if refused:  # another source may still bring these columns
            columns = ", ".join(column_text(one.column) for one in refused)
            raise DMError("shard-target-behind", shard=created.name, columns=columns)
        if not finds_rows(created, self.target, self.around.extracted):
            self._demand_all_columns(created)
        # A DDL that waits for all shards may bring other keys: the new shard waits for that.
        known = (other.schema for other in self._others if not other.early)
        like = map(_keys, (unfilled(self.target, self.around.extracted), *known))
        if created.unique_indexes and _keys(created) not in like:
            raise self.conflict("the new shard has other keys than the target's table and the other shards")
        for there in lacking(created, self.target, self.around.extracted):
            yield from self._optional(there)

    def _demand_all_columns(self, created: TableSchema) -> None:
        """Raise DMError if the shard lacks a column: rows without a key are found by all values, and others match."""
        for there in self.target.columns:
            column = created.column(there.name)
            if there.name.lower() not in self.around.extracted and (column is None or not same_column(column, there)):
                shown = ((str(created.name), column), ("the target", there))
                raise self.conflict(
                    "no key there finds its rows, so it has to have all columns of the target's", *shown
                )


def _keys(schema: TableSchema) -> list[str]:
    """The keys in a form that compares."""
    return sorted(repr(index_form(index, schema)) for index in schema.unique_indexes)


def _has_index(schema: TableSchema, name: str, form: tuple[object, ...]) -> bool:
    return any(index.name.lower() == name and index_form(index, schema) == form for index in schema.indexes)


def _is_about(piece: Piece, column: str) -> bool:
    return any(
        isinstance(one, ModifyColumn | ChangeColumn) and one.column.lower() == column.lower()
        for one in piece.operations
    )


def _definition(piece: Piece) -> Clause:
    (operation,) = piece.operations
    assert isinstance(operation, AddColumn | ModifyColumn | ChangeColumn)
    assert operation.definition.text == piece.text
    return operation.definition


def _rewritten(definition: Clause, *, default: str | None = None, null: bool = False) -> str:
    """The statement with another definition of its column: with a DEFAULT, or with NULL in place of NOT NULL."""
    text, tokens = definition.text, definition.tokens
    if default:
        end = tokens[-1].end
        text = f"{text[:end]} DEFAULT {default}{text[end:]}"
    if null:
        for one, other in pairwise(tokens):
            if one.upper == "NOT" and other.upper == "NULL":
                text = text[: one.start] + "NULL" + text[other.end :]
    return text
