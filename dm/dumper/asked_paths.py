"""Whether the texts of JSON documents say everything, asked by the paths that have numbers.

Problem: a document's text does not say of which types its values are: a DECIMAL, a DOUBLE and a number of either sign
look alike, a date looks like a text. The question that finds each such value by itself (`types_expression`) costs the
source more than the rows do, and most documents have none.

So a chunk's first documents are looked at. Where their texts say everything, the chunk is read with one number beside
each document: how many of the paths at which those have numbers lead to one in this document that is what its text
would be read as, and NULL where one is not. Here the numbers in the texts are counted. Different paths lead to
different values, so no document has fewer numbers than it has such paths: where the sums of a batch are equal, each
number of each document has been asked for. And a text that looks like none of the opaque values is a text. Else the
chunk is read again, with the question that asks for everything, which is also what other chunks of the table get from
this process.

A path that ends in or passes `[0]` also finds what is no array, as the path without it does; so two paths that differ
in that alone are not asked for together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import pyarrow
from pyarrow import compute

from dm.accelerator.native import Native
from dm.accelerator.switch import Twins
from dm.dumpfiles.text_rows import ColumnBatch, read_all
from dm.ident import Ident, TableName
from dm.mysql.sql.json_literal import NOTHING, types_expression
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection
from dm.unit import JSON

_SAMPLE: Final = 100  # documents
_SAMPLE_BYTES: Final = 4 << 20  # as they are stored, of all columns; larger ones get the question for everything
_MOST_PATHS: Final = 20  # of a document; more cost as much as the question for everything
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}")  # what a path takes between quotes as it is
_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"|(?:[0-9]|-[0-9])[-+.0-9eE]*', re.DOTALL)
_DATE_OR_TIME: Final = re.compile(rb"[0-9:.\- ]{8,}")
# Types that a number would get from its text: see `_SPECIAL` in `dm.mysql.sql.json_literal`.
_NUMBER: Final = (
    "CASE JSON_TYPE({value}) WHEN 'DOUBLE' THEN 1 WHEN 'INTEGER' THEN IF({value} <= 4294967295, 1, NULL)"
    " WHEN 'UNSIGNED INTEGER' THEN IF({value} > 4294967295, 1, NULL) WHEN 'STRING' THEN 0 WHEN 'OBJECT' THEN 0"
    " WHEN 'ARRAY' THEN 0 WHEN 'NULL' THEN 0 WHEN 'BOOLEAN' THEN 0 ELSE IF({value} IS NULL, 0, NULL) END"
)


class Unproven(Exception):
    """A batch has something that was not asked for."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """A table's rows without the types inside their documents."""

    table: TableName
    documents: tuple[str, ...]  # columns
    select: str  # the values
    source: str  # FROM and what follows, up to the condition

    @reads_answers
    def asking_by_paths(self, connection: Connection, condition: str) -> str | None:
        """What reads values and then the numbers of each document; None where the first rows forbid it."""
        columns = [f"{self.table.sql}.{Ident(name).sql}" for name in self.documents]
        sizes = " + ".join(f"COALESCE(JSON_STORAGE_SIZE({column}), 0)" for column in columns)
        sampled = f"SELECT {sizes} AS bytes{self.source}{condition} LIMIT {_SAMPLE}"
        ((size,),) = read_all(connection, f"SELECT COALESCE(SUM(bytes), 0) FROM ({sampled}) AS sample")
        if int(size or 0) > _SAMPLE_BYTES:
            return None
        wanted = [*columns, *(types_expression(self.table, name) for name in self.documents)]
        rows = read_all(connection, f"SELECT {', '.join(wanted)}{self.source}{condition} LIMIT {_SAMPLE}")
        counts = []
        for at, column in enumerate(columns):
            if any(row[len(columns) + at] != NOTHING for row in rows):
                return None
            paths = number_paths(row[at] for row in rows)
            if paths is None:
                return None
            asked = (_NUMBER.format(value=f"JSON_EXTRACT({column}, '{path}')") for path in paths)
            counts.append(" + ".join(asked) or "0")
        return f"{self.select}, {', '.join(counts)}{self.source}{condition}"


def number_paths(texts: Iterable[bytes | None]) -> tuple[str, ...] | None:
    """Where these documents have numbers; None where they are not to be asked for by that."""
    found: dict[str, None] = {}
    known = [text for text in texts if text is not None]
    if count_numbers(pyarrow.array(known, pyarrow.binary())) < 0:
        return None
    for text in known:
        if not text or not _collect(json.loads(text), "$", found):
            return None
    one_way = {path.replace("[0]", "") for path in found}
    return tuple(found) if len(one_way) == len(found) <= _MOST_PATHS else None


def _collect(value: JSON, path: str, found: dict[str, None]) -> bool:
    """Note the paths below; False where one can't be written, or they are too many."""
    if isinstance(value, dict):
        return all(_NAME.fullmatch(name) and _collect(each, f'{path}."{name}"', found) for name, each in value.items())
    if isinstance(value, list):
        return all(_collect(each, f"{path}[{at}]", found) for at, each in enumerate(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        found[path] = None
    return len(found) <= _MOST_PATHS


def proven(batches: Iterator[ColumnBatch], pairs: Sequence[tuple[int, int]]) -> Iterator[ColumnBatch]:
    """The batches, with `NOTHING` for the types of their documents; `pairs` has the places of a text and its count.

    Raises Unproven where they are not to be relied on.
    """
    for batch in batches:
        for document, count in pairs:
            told = batch.columns[count]
            if told.null_count or _sum(told) != count_numbers(batch.columns[document]):
                raise Unproven
            batch.columns[count] = pyarrow.array([NOTHING], pyarrow.binary()).take(pyarrow.array([0] * len(told)))
        yield batch


def _sum(told: pyarrow.Array) -> int:
    return int(compute.sum(compute.cast(compute.cast(told, pyarrow.string()), pyarrow.int64())).as_py() or 0)


def numbers_in(texts: Iterable[bytes | None]) -> int:
    """How many numbers the documents have; -1 where a text in them may be a date, a time or bytes."""
    found = 0
    for text in texts:
        rest = 0
        for token in _TOKEN.finditer(text or b""):
            if text is not None and b'"' in text[rest : token.start()]:
                return -1
            rest = token.end()
            if token[1] is None:
                found += 1
            elif _may_be_opaque(token[1]):
                return -1
        if b'"' in (text or b"")[rest:]:
            return -1
    return found


def _may_be_opaque(text: bytes) -> bool:
    looks = _DATE_OR_TIME.fullmatch(text) is not None and (b":" in text or b"-" in text[1:])
    return looks or text.startswith(b"base64:type")


def _in_python(documents: pyarrow.Array) -> int:
    return numbers_in(documents.to_pylist())


def _compiled(native: Native, documents: pyarrow.Array) -> int:
    if documents.offset:  # its buffers have more documents than it has
        return _in_python(documents)
    _, offsets, values = documents.buffers()
    return 0 if offsets is None else native.json_numbers(offsets, values or b"", len(documents))


def count_numbers(documents: pyarrow.Array) -> int:
    """What `numbers_in` gives, of a column."""
    return _TWINS()(documents)


_TWINS: Final[Twins[Callable[[pyarrow.Array], int]]] = Twins(_in_python, lambda native: partial(_compiled, native))
