"""The unique indexes that only a target has: two rows that are two to the source may be one to them.

Where the source has the same key, or a key within it, no two of its rows ever meet. Where it has none, only a person
knows whether they may. A statement that replaces what has its key (REPLACE, LOAD DATA .. REPLACE) then removes a row
that is still at the source, and no error tells. So callers that send such statements check these keys:
`dm.loader.replaced_rows` for a load, `dm.changes.own_key_check` for safe mode; `check-task` names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dm.mysql.schema.expressions import is_computed
from dm.mysql.schema.table import Index, TableSchema


def own_indexes(source: TableSchema, target: TableSchema) -> Iterator[Index]:
    """The target's unique indexes in which two rows of the source's table may meet, as far as structures tell.

    An index that both sides compute is one of them: sessions of the source may have computed other values.
    """
    identities = [
        frozenset(name.lower() for name in index.columns)
        for index in source.unique_indexes
        if not is_computed(index, source) and all(part.prefix is None for part in index.parts)
    ]
    for index in target.unique_indexes:
        whole = frozenset(p.column.lower() for p in index.parts if p.column is not None and p.prefix is None)
        # Rows that agree in all of it agree in a key of the source, whatever else is in it.
        if any(identity <= whole for identity in identities):
            continue
        if is_computed(index, target) or not any(not is_computed(key, source) for key in _alike(index, source)):
            yield index


def lacking_indexes(source: TableSchema, target: TableSchema) -> Iterator[Index]:
    """Those of them that the source does not have, whatever it computes in the ones that it has."""
    for index in own_indexes(source, target):
        if not any(True for _ in _alike(index, source)):
            yield index


def _alike(index: Index, source: TableSchema) -> Iterator[Index]:
    return (key for key in source.unique_indexes if _key_parts(key) == _key_parts(index))


def _key_parts(index: Index) -> Sequence[tuple[str, int | None]]:
    return [((part.column or "").lower(), part.prefix) for part in index.parts]
