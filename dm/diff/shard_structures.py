"""How the shards of an optimistic merge may differ from their target's table: no difference, but worth a line.

Problem: in optimistic mode each shard is altered at its own pace, and the target's table accepts the rows of all of
them as they are. So while shards differ, each of them differs from the target, and nothing is wrong.

Allowed is what `dm.syncer.ddl.shard_policy` leads to, and nothing else: a column that other shards have, a type that
holds all values of the shard's, NULL, the default that rows without a column need, an index that is no key and that not
all shards have, comments of other shards, and any order of columns. The target is then compared with the shard as if
it had these as the shard has them.

Values of a column that a shard lacks are not compared, in rows of any shard: the target has them in one table, and
those of rows that came without the column are the target's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from dm.equality.structure import ColumnFacts, Structure
from dm.schema.shard_column import fits
from dm.schema.table import TableSchema


@dataclass(frozen=True, slots=True)
class ShardView:
    """The target's table, as one shard is compared with it."""

    target: Structure
    allowed: tuple[str, ...]  # in what the shard may differ and does, in words


def as_shard_sees(
    shard: tuple[Structure, TableSchema], target: tuple[Structure, TableSchema], shards: Sequence[Structure]
) -> ShardView:
    """The target's table with all that a shard may differ in as the shard has it; `shards` are those of all sources."""
    (ours, schema), (theirs, target_schema) = shard, target
    allowed = list[str]()
    there = {column.name: column for column in theirs.columns}
    held = {column.name for each in shards for column in each.columns}
    columns = list[ColumnFacts]()
    for column in ours.columns:
        other = there.pop(column.name, None)
        if other is None:
            continue
        source, into = schema.column(column.name), target_schema.column(column.name)
        wider = source is not None and into is not None and fits(source, into)
        lacked = any(not _has(each, column.name) for each in shards)
        view = _as_allowed(column, other, shards, wider=wider, lacked=lacked)
        allowed += _words(other, view)
        columns.append(view)
    kept = [column for column in there.values() if column.name not in held]
    for name in (name for name in there if name in held):
        allowed.append(f"it lacks column {name}, which other shards have: values of the column are not compared")
    if [column.name for column in theirs.columns if column.name not in there] != [each.name for each in columns]:
        allowed.append("its columns are in another order")
    indexes = _of_some(ours.indexes ^ theirs.indexes, shards)
    allowed += [f"not all shards have {text}" for text in sorted(indexes)]
    seen = replace(
        theirs,
        columns=(*columns, *kept),
        indexes=(theirs.indexes - indexes) | (ours.indexes & indexes),
    )
    return ShardView(seen, tuple(allowed))


def _has(structure: Structure, name: str) -> bool:
    return any(column.name == name for column in structure.columns)


def _as_allowed(
    ours: ColumnFacts, theirs: ColumnFacts, shards: Sequence[Structure], *, wider: bool, lacked: bool
) -> ColumnFacts:
    """The target's column, with all that is allowed as the shard has it."""
    changes = dict[str, object]()
    if wider and theirs.type != ours.type:
        changes["type"] = ours.type
        if _same_number(ours.default, theirs.default):
            changes["default"] = ours.default
    if theirs.nullable and not ours.nullable:
        changes["nullable"] = False
    if lacked and ours.default is None and not ours.nullable:
        changes["default"] = None
    if any(column.comment == theirs.comment for each in shards for column in each.columns if column.name == ours.name):
        changes["comment"] = ours.comment
    return replace(theirs, **changes)  # type: ignore[arg-type]  # each is of its field's type


def _same_number(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return False
    try:
        return Decimal(one) == Decimal(other)
    except InvalidOperation:
        return False


def _words(target: ColumnFacts, view: ColumnFacts) -> list[str]:
    fields = ("type", "nullable", "default", "comment")
    pairs = ((field, getattr(view, field), getattr(target, field)) for field in fields)
    return [
        f"column {target.name}: {field} is {ours!r} in the shard, {theirs!r} at the target"
        for field, ours, theirs in pairs
        if ours != theirs
    ]


def _of_some(indexes: frozenset[str], shards: Sequence[Structure]) -> frozenset[str]:
    """Of these indexes those that are no keys, and that some shards have and some have not."""
    return frozenset(
        text
        for text in indexes
        if not text.startswith("UNIQUE ") and len({text in each.indexes for each in shards}) > 1
    )
