"""Rows events to rows.

A `RowDecoder` belongs to one table map and to the tracked columns, which add what the map lacks: signs, binary strings,
fractional digits of old types. For any bytes `decode` yields rows or raises DMError. This is the boundary, since an
`ImageReader` checks nothing. The compiled decoder, if present, reads first. When it declines, Python reads, and only
Python judges.

An image without any column (MINIMAL, a row of defaults only) has no bytes; the server then means one row (MySQL source,
Rows_log_event::do_apply_event runs its loop at least once).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from dm.errors import DMError
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.image import ImageReader, SizedColumn, Step, step_of
from dm.mysql.binlog.image_proof import ImageProof, ProofStep, RawPair
from dm.mysql.binlog.json_tree import apply_differences, json_tree, json_value, value_of
from dm.mysql.binlog.native_rows import NATIVE_ROWS
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap, WireColumn, mismatch
from dm.mysql.binlog.value import Row
from dm.mysql.binlog.wire_type import WireCode

RowPair = tuple[Row | None, Row | None]  # before, after

_DAMAGE: Final = (Malformed, struct.error, IndexError, ValueError, OverflowError)
_PRESENT_KEPT: Final = 64
_PARTIAL_JSON_UPDATES: Final = 0x1


class RowDecoder:
    """Decodes the rows events that follow one table map."""

    def __init__(self, table_map: TableMap, columns: Sequence[WireColumn]) -> None:
        why = mismatch(table_map, columns)
        if why is not None:
            raise DMError("row-layout-mismatch", table=str(table_map), why=why)
        self._table_map = table_map
        self._steps = [step_of(wire, column) for wire, column in zip(table_map.columns, columns, strict=True)]
        self._json = [index for index, wire in enumerate(table_map.columns) if wire.code == WireCode.JSON]
        self._readers: dict[bytes, ImageReader] = {}
        self._native = NATIVE_ROWS()(table_map, columns)
        self._columns = columns
        self._proving: dict[bytes, Any] | None = None
        self._proof: ImageProof | None = None

    @property
    def layouts(self) -> dict[bytes, Any] | None:
        """What the compiled decoder has learnt about the images so far; None without it."""
        return None if self._native is None else self._native.layouts

    def prove(self, proofs: Sequence[ProofStep]) -> dict[bytes, Any] | None:
        """From now on `images` gives what these prove; gives what the compiled decoder proves images by."""
        if self._native is not None:
            self._proving = self._native.proving(proofs)
        else:
            self._proof = ImageProof(self._table_map, self._columns, proofs)
        return self._proving

    def images(self, rows: Rows) -> list[RawPair] | None:
        """The images of each change as the source wrote them; None where one is not proven, or does not hold all."""
        if self._native is not None and self._proving is not None:
            return self._native.images(self._proving, rows)
        return None if self._proof is None else self._proof.images(rows)

    def decode(self, rows: Rows) -> list[RowPair]:
        """The rows as (before, after), in the table map's column order; raises DMError."""
        if self._native is not None:
            compiled: list[RowPair] | None = self._native.decode_rows(self._native.layouts, rows)
            if compiled is None:
                compiled = self._native.learn(rows)
            if compiled is not None:
                return compiled
        if rows.column_count != len(self._steps):
            raise self._corrupt(f"it has {rows.column_count} columns and its table map has {len(self._steps)}")
        try:
            if rows.partial:
                return self._partial_updates(rows)
            if rows.kind == "update":
                return self._updates(rows)
            return self._single_images(rows)
        except _DAMAGE as error:
            raise self._corrupt(str(error)) from error

    def _reader(self, present: bytes) -> ImageReader:
        known = self._readers.get(present)
        if known is None:
            if len(self._readers) >= _PRESENT_KEPT:
                self._readers.clear()
            known = self._readers[present] = ImageReader(self._present_steps(present))
        return known

    def _present_steps(self, present: bytes) -> list[Step | None]:
        """The steps of an image's columns."""
        bits = int.from_bytes(present, "little")
        return [step if bits >> index & 1 else None for index, step in enumerate(self._steps)]

    def _single_images(self, rows: Rows) -> list[RowPair]:
        data, at, end = rows.data, rows.start, rows.end
        reader = self._reader(rows.present)
        found: list[Row] = []
        if reader.width == 0:
            found.append(reader.image(data, at)[0])
        else:
            image = reader.image
            while at < end:
                row, at = image(data, at)
                found.append(row)
        if at != end:
            raise Malformed("its last row ends after it")
        if rows.kind == "insert":
            return [(None, row) for row in found]
        return [(row, None) for row in found]

    def _updates(self, rows: Rows) -> list[RowPair]:
        data, at, end = rows.data, rows.start, rows.end
        before_reader, after_reader = self._reader(rows.present), self._reader(rows.present_after)
        found: list[RowPair] = []
        if before_reader.width + after_reader.width == 0:
            found.append((before_reader.image(data, at)[0], after_reader.image(data, at)[0]))
        else:
            while at < end:
                before, at = before_reader.image(data, at)
                after, at = after_reader.image(data, at)
                found.append((before, after))
        if at != end:
            raise Malformed("its last row ends after it")
        return found

    def _partial_updates(self, rows: Rows) -> list[RowPair]:
        """Updates whose after images hold differences instead of JSON documents.

        Before each after image come its options and, if these say so, a bit for every JSON column of the table, in the
        image or not (MySQL source, unpack_row and Rows_event::PARTIAL_JSON_UPDATES).
        """
        data, at, end = rows.data, rows.start, rows.end
        before_reader = ImageReader(self._raw_json_steps(rows.present))
        after_reader = ImageReader(self._raw_json_steps(rows.present_after))
        found: list[RowPair] = []
        while at < end:
            before, at = before_reader.image(data, at)
            cursor = ByteCursor(data, at, end)
            partial = 0
            if cursor.packed() & _PARTIAL_JSON_UPDATES:
                partial = cursor.uint((len(self._json) + 7) // 8)
            after, at = after_reader.image(data, cursor.at)
            found.append(self._whole_documents(before, after, partial))
        if at != end:
            raise Malformed("its last row ends after it")
        return found

    def _raw_json_steps(self, present: bytes) -> list[Step | None]:
        steps = self._present_steps(present)
        for index in self._json:
            if steps[index] is not None:
                steps[index] = SizedColumn(self._table_map.columns[index].size)
        return steps

    def _whole_documents(self, raw_before: Row, raw_after: Row, partial: int) -> RowPair:
        """Texts for the JSON columns of both images, differences applied."""
        before, after = list(raw_before), list(raw_after)
        for bit, index in enumerate(self._json):
            old, new = raw_before[index], raw_after[index]
            if isinstance(old, bytes):
                before[index] = json_value(old)
            if not isinstance(new, bytes):
                continue
            if not partial >> bit & 1:
                after[index] = json_value(new)
                continue
            if not isinstance(old, bytes):
                raise DMError(
                    "event-unsupported",
                    event="PARTIAL_UPDATE_ROWS",
                    why=f"the source logs only the changed parts of JSON columns in {self._table_map},"
                    " and no before image to apply them to",
                    way_out="set binlog_row_image=FULL (or binlog_row_value_options='') at the source, and load the"
                    " table again",
                )
            after[index] = value_of(apply_differences(json_tree(old), new))
        return tuple(before), tuple(after)

    def _corrupt(self, what: str) -> DMError:
        return DMError("row-corrupt", table=str(self._table_map), what=what)
