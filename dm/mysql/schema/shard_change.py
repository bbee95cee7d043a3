"""Whether a shard is already as a statement of another shard leaves that one, so that nobody has to wait for it.

A statement may need all shards where one has it (`DROP COLUMN` of a column with an index), and none where another does
the same in steps (`DROP INDEX`, then `DROP COLUMN`), or is created so. The second one never comes to it. What the
statement changes is told by the structure before and after it. Where that is a DEFAULT only, a third one in its place
will do: that shard is further on, or comes to this one from elsewhere, when all others have it. No row of a shard that
has the column depends on the target's DEFAULT.

The answer is yes only where nothing can go wrong when the target is altered under the other shard's rows:

- No key and no column of a key changes. Plans and conflict detectors of its stream were made from the target's keys.
- Where the target has no key for the rows, other indexes only are added or go: rows are looked for by all values.
- No column is added: it may be another one's new name, or the target may have old values of the shard in it.
- No generated column, CHECK, foreign key, partition or character set is concerned.
"""

from __future__ import annotations

from dataclasses import replace

from dm.mysql.schema.joined_table import finds_rows
from dm.mysql.schema.normal import index_form, key_form, same_column, same_default
from dm.mysql.schema.table import Column, TableSchema


def undergone(before: TableSchema, after: TableSchema, other: TableSchema, target: TableSchema | None) -> bool:
    """Whether `other` has all that a statement changed from `before` to `after`, and can be altered under.

    `target` is their table at the target without what parts of names fill (`keys_for_rows`), as far as it is known.
    """
    if not _only_columns_and_indexes(before, after):
        return False
    old, new = _columns(before), _columns(after)
    names = {name for name in old.keys() | new.keys() if not _same(old.get(name), new.get(name))}
    indexes = {name for name, _ in _indexes(before) ^ _indexes(after)}
    if not (names or indexes) or new.keys() - old.keys():
        return False
    if names and (target is None or not all(finds_rows(each, target) for each in (before, after, other))):
        return False
    keyed = (before, after) if target is None else (before, after, target)
    of_keys = {name.lower() for schema in keyed for each in schema.unique_indexes for name in each.columns}
    theirs = _columns(other)
    return (
        not names & of_keys
        and all(
            _plain(old.get(name), new.get(name)) and _has(old.get(name), new.get(name), theirs.get(name))
            for name in names
        )
        and _of(after, indexes) == _of(other, indexes)
    )


def _only_columns_and_indexes(before: TableSchema, after: TableSchema) -> bool:
    return (
        [index_form(each, before) for each in before.unique_indexes]
        == [index_form(each, after) for each in after.unique_indexes]
        and [key_form(key) for key in before.foreign_keys] == [key_form(key) for key in after.foreign_keys]
        and before.checks == after.checks
        and not (before.partitions or after.partitions)
        and (before.charset, before.collation, before.engine) == (after.charset, after.collation, after.engine)
    )


def _columns(schema: TableSchema) -> dict[str, Column]:
    return {column.name.lower(): column for column in schema.columns}


def _same(one: Column | None, other: Column | None) -> bool:
    if one is None or other is None:
        return one is other
    return same_column(one, other)


def _has(before: Column | None, after: Column | None, other: Column | None) -> bool:
    if _same(after, other):
        return True
    if before is None or after is None or other is None or same_default(before, other):
        return False
    one, *rest = (replace(each, default=None) for each in (after, before, other))
    return all(same_column(one, each) for each in rest)


def _plain(before: Column | None, after: Column | None) -> bool:
    """Whether a change of a column is one of type, NULL or DEFAULT, or its end."""
    return all(column is None or column.generated is None for column in (before, after))


def _indexes(schema: TableSchema) -> set[tuple[str, tuple[object, ...]]]:
    return {(index.name.lower(), tuple(index_form(index, schema))) for index in schema.indexes if not index.functional}


def _of(schema: TableSchema, names: set[str]) -> set[tuple[str, tuple[object, ...]]]:
    return {each for each in _indexes(schema) if each[0] in names}
