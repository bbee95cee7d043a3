"""JSON documents of a chunk with the types that their texts leave out, as the server has given them.

A text that is longer than its max_allowed_packet the server gives as an empty one, and a list of types as NULL, each
with a warning that is gone with the statement. So neither may come: a document without its types would be loaded as
another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow
from pyarrow import compute

from dm.dumpfiles.json_types import types_column
from dm.dumpfiles.text_rows import Batch
from dm.errors import DMError
from dm.ident import TableName
from dm.sql.json_types import NOTHING


def demanded_whole(batches: Iterable[Batch], columns: Sequence[str], table: TableName) -> Iterator[Batch]:
    """The batches, with no types (NULL) for documents whose text says everything. Raises DMError where one was cut."""
    places = {name: at for at, name in enumerate(columns)}
    pairs = [(name, places[name], places[types_column(name)]) for name in columns if types_column(name) in places]
    for batch in batches:
        for name, document, types in pairs:
            texts, listed = batch.columns[document], batch.columns[types]
            if listed.null_count or compute.any(compute.equal(texts, b"")).as_py():
                raise DMError("dump-json-cut", table=table, column=name)
            batch.columns[types] = _without_nothing(listed)
        yield batch


def _without_nothing(listed: pyarrow.Array) -> pyarrow.Array:
    nothing = compute.equal(listed, NOTHING)
    if compute.all(nothing).as_py():
        return pyarrow.nulls(len(listed), listed.type)
    return compute.if_else(nothing, None, listed)
