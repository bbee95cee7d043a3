"""Both twins prove the same images, and hand on the bytes of these only, with the values that are asked for."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.changes.native_changes import change_maker, direct_table
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.image_proof import ImageProof, ProofStep, RawPair, proof_of
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import OptionalMetadata, TableMap, WireColumn
from dm.mysql.binlog.value import UNREAD
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.schema.table import Column
from dm.sourcelog.stream.transaction import RowsItem
from dm.syncer.apply.source_table import KINDS
from tests.testbed.decoders import compiled, running
from tests.unit.accelerator.rows_at_random import Kind, Sample, sample
from tests.unit.changes.plans import key, number, plan

seeds = st.integers(0, (1 << 64) - 1)
thorough = settings(max_examples=150, deadline=None)


def provable(kind: Kind) -> bool:
    return proof_of(kind.wire, kind.column, nullable=True) is not None


def proofs_of(found: Sample, chance: random.Random) -> list[ProofStep]:
    """Each column with or without NULL, read or not."""
    proofs = []
    for wire, column in zip(found.table_map.columns, found.columns, strict=True):
        proof = proof_of(wire, column, nullable=chance.random() < 0.9)
        assert proof is not None
        proofs.append(proof._replace(unread=chance.random() < 0.5))
    return proofs


def images(found: Sample, proofs: list[ProofStep], native: ModuleType | None) -> list[RawPair] | None:
    with running(native):
        decoder = RowDecoder(found.table_map, found.columns)
        decoder.prove(proofs)
        return decoder.images(found.rows)


@thorough
@given(seeds, st.booleans())
def test_both_prove_the_same(native: ModuleType, seed: int, damage: bool) -> None:
    found = sample(seed, damage=damage, wanted=provable)
    proofs = proofs_of(found, random.Random(seed))
    proven = images(found, proofs, None)
    assert images(found, proofs, native) == proven
    if proven is None:
        return
    assert b"".join(raw for pair in proven for raw in pair if raw is not None) == bytes(found.rows.body)
    with running(native):
        decoder = RowDecoder(found.table_map, found.columns)
        proving = decoder.prove(proofs)
        assert proving is not None
        read = native.proven_rows(proving, found.rows)
    with running(None):
        every = RowDecoder(found.table_map, found.columns).decode(found.rows)
    for (before, after, *raw), pair, values in zip(read, proven, every, strict=True):
        assert tuple(raw) == pair
        for row, whole in zip((before, after), values, strict=True):
            if whole is not None:
                left = [value is UNREAD for value in row]
                assert left == [proof.unread and value is not None for proof, value in zip(proofs, whole, strict=True)]
                assert repr([v for v in row if v is not UNREAD]) == repr(
                    [v for v, unread in zip(whole, left, strict=True) if not unread]
                )


def test_a_change_that_keeps_its_bytes_is_counted_by_them(native: ModuleType) -> None:
    """Not as one whose values are all read; in safe mode it is one."""
    counted = 0
    for seed in range(60):
        found = sample(seed, damage=False, wanted=provable)
        with running(native):
            decoder = RowDecoder(found.table_map, found.columns)
            proving = decoder.prove(proofs_of(found, random.Random(seed)))
            maker = change_maker(9, 4, 400)
            table = plan([number("a")], [key("PRIMARY", "a")])
            direct = direct_table(found.table_map, decoder.layouts, table, dict(KINDS), proving)
            assert maker is not None
            assert direct is not None
            items = [RowsItem(found.table_map, found.rows)]
            known = {id(found.table_map): direct}
            for safe, factor in ((False, 4), (True, 9)):
                changes, cost, *_ = maker(items, 0, known, safe)
                raw = [change for change in changes if (change.raw_before, change.raw_after) != (None, None)]
                if len(raw) == len(changes) * (not safe):
                    counted += len(raw)
                    each = factor * len(found.rows.data) // (len(changes) or 1) + 400
                    places = 0 if safe else 2 * 8 * found.rows.column_count
                    assert cost == (each + places) * len(changes)
    assert counted


def test_most_images_of_a_server_are_proven(native: ModuleType) -> None:
    def usual(kind: Kind) -> bool:
        return provable(kind) and kind.wire.code in (WireCode.LONG, WireCode.NEWDECIMAL, WireCode.DATETIME2)

    whole = [found for seed in range(60) if (found := sample(seed, damage=False, wanted=usual)).rows.whole]
    for found in whole:
        proofs = [proof_of(*pair, nullable=True) for pair in zip(found.table_map.columns, found.columns, strict=True)]
        assert images(found, [proof for proof in proofs if proof is not None], native) is not None
    assert len(whole) > 20


UTF8 = Column("c", "varchar", 3, charset="utf8mb4")
OLD_UTF8 = Column("c", "varchar", 4, charset="utf8mb3")
REFUSED: list[tuple[WireType, WireColumn, bytes]] = [
    (WireType(WireCode.ENUM, 1), Column("c", "enum", charset="utf8mb4", members=("a", "b")), b"\x03"),
    (WireType(WireCode.SET, 1), Column("c", "set", charset="utf8mb4", members=("a", "b")), b"\x04"),
    (WireType(WireCode.BIT, 3), Column("c", "bit", 3), b"\x08"),
    (WireType(WireCode.FLOAT, 4), Column("c", "float"), struct.pack("<f", float("nan"))),
    (WireType(WireCode.DOUBLE, 8), Column("c", "double"), struct.pack("<d", float("inf"))),
    (WireType(WireCode.NEWDECIMAL, 3, 1), Column("c", "decimal", 3, 1), b"\xe4\x01"),  # 100 in two digits
    (WireType(WireCode.NEWDECIMAL, 18, 0), Column("c", "decimal", 18, 0), b"\x80\0\0\0\xff\xff\xff\xff"),
    (WireType(WireCode.NEWDECIMAL, 3, 1), Column("c", "decimal", 3, 1, unsigned=True), b"\x7e\xfe"),  # -1.1
    (WireType(WireCode.FLOAT, 4), Column("c", "float", unsigned=True), struct.pack("<f", -1.5)),
    (WireType(WireCode.DOUBLE, 8), Column("c", "double", unsigned=True), struct.pack("<d", -1.5)),
    (WireType(WireCode.DATE), Column("c", "date"), (2024 << 9 | 13 << 5 | 1).to_bytes(3, "little")),
    (WireType(WireCode.DATETIME2, 0), Column("c", "datetime"), (0x8000000000 | 24 << 12).to_bytes(5, "big")),
    (WireType(WireCode.DATETIME2, 1), Column("c", "datetime", decimals=1), b"\x80\0\0\0\0\x05"),
    (WireType(WireCode.TIMESTAMP2, 0), Column("c", "timestamp"), b"\xff\0\0\0"),
    (WireType(WireCode.TIME2, 0), Column("c", "time"), (0x800000 | 839 << 12).to_bytes(3, "big")),
    (WireType(WireCode.TIME2, 0), Column("c", "time"), (0x800000 | 60).to_bytes(3, "big")),
    (WireType(WireCode.VARCHAR, 12), UTF8, b"\x02\xc3\x28"),
    (WireType(WireCode.VARCHAR, 12), UTF8, b"\x01\xc3"),
    (WireType(WireCode.VARCHAR, 12), UTF8, b"\x04abcd"),
    (WireType(WireCode.VARCHAR, 12), UTF8, b"\x03\xed\xa0\x80"),
    (WireType(WireCode.VARCHAR, 12), OLD_UTF8, b"\x04\xf0\x9f\x98\x80"),
    (WireType(WireCode.VARCHAR, 5), Column("c", "varchar", 5, charset="ascii"), b"\x01\x80"),
    (WireType(WireCode.VARCHAR, 5), Column("c", "varbinary", 5), b"\x06abcdef"),
    (WireType(WireCode.JSON, 4), Column("c", "json"), b"\x02\0\0\0\xff\xff"),
    (WireType(WireCode.JSON, 4), Column("c", "json"), b"\x03\0\0\0\x0c\x01\xff"),
    (WireType(WireCode.JSON, 4), Column("c", "json"), b"\x04\0\0\0\x0c\x02\xc3\x22"),
    (WireType(WireCode.BLOB, 4), Column("c", "json"), b"\x01\0\0\0\xff"),
]


@pytest.mark.parametrize(("wire", "column", "value"), REFUSED)
def test_what_no_server_writes_is_not_proven(twin: str, wire: WireType, column: WireColumn, value: bytes) -> None:
    proof = proof_of(wire, column, nullable=True)
    assert proof is not None
    assert proven(wire, column, proof, b"\0" + value) is None


NUMBERS = [
    (WireType(WireCode.NEWDECIMAL, 3, 1), Column("c", "decimal", 3, 1), [b"\x80\0", b"\x81\x01", b"\x7e\xfe"]),
    (WireType(WireCode.FLOAT, 4), Column("c", "float"), [struct.pack("<f", value) for value in (0.0, 1.5, -1.5)]),
    (WireType(WireCode.DOUBLE, 8), Column("c", "double"), [struct.pack("<d", value) for value in (0.0, 1.5, -1.5)]),
]


@pytest.mark.parametrize(("wire", "column", "values"), NUMBERS)
def test_a_number_below_zero_is_proven_where_the_column_has_a_sign(
    twin: str, wire: WireType, column: Column, values: list[bytes]
) -> None:
    for each, taken in ((column, 3), (replace(column, unsigned=True), 2)):
        proof = proof_of(wire, each, nullable=True)
        assert proof is not None
        found = [proven(wire, each, proof, b"\0" + value) is not None for value in values]
        assert found == [at < taken for at in range(3)]


@pytest.mark.parametrize(("wire", "column", "value"), REFUSED[:1])
def test_null_is_proven_where_the_column_takes_it(twin: str, wire: WireType, column: WireColumn, value: bytes) -> None:
    for nullable in (True, False):
        proof = proof_of(wire, column, nullable=nullable)
        assert proof is not None
        assert proven(wire, column, proof, b"\x01") == ([(None, b"\x01")] if nullable else None)
        assert proven(wire, column, proof, b"\0\x02") == [(None, b"\0\x02")]


def proven(wire: WireType, column: WireColumn, proof: ProofStep, data: bytes) -> list[RawPair] | None:
    table_map = TableMap("s", "t", (wire,), (True,), OptionalMetadata(), "mysql", b"")
    decoder = RowDecoder(table_map, (column,))
    decoder.prove([proof])
    return decoder.images(Rows("insert", 1, 1, b"\x01", b"\x01", data, 0, len(data), 0, False))


@pytest.mark.parametrize(
    ("wire", "column"),
    [
        (WireType(WireCode.GEOMETRY, 4), Column("c", "geometry")),
        (WireType(WireCode.VECTOR, 4), Column("c", "vector", 2)),
        (WireType(WireCode.STRING, 16), Column("c", "uuid")),
        (WireType(WireCode.VARCHAR_COMPRESSED, 301), Column("c", "varbinary", 300)),
        (WireType(WireCode.VARCHAR, 20), Column("c", "varchar", 10, charset="gbk")),
        (WireType(WireCode.TIMESTAMP), Column("c", "timestamp")),
    ],
)
def test_some_bytes_only_a_server_can_judge(wire: WireType, column: WireColumn) -> None:
    assert proof_of(wire, column, nullable=True) is None


def test_an_image_that_lacks_columns_is_not_proven(twin: str) -> None:
    table_map = TableMap("s", "t", (WireType(WireCode.TINY),) * 2, (True,) * 2, OptionalMetadata(), "mysql", b"")
    columns = (Column("a", "tinyint"), Column("b", "tinyint"))
    proofs = [proof for each in columns if (proof := proof_of(WireType(WireCode.TINY), each, nullable=True))]
    for decoder in (RowDecoder(table_map, columns),):
        decoder.prove(proofs)
        assert decoder.images(Rows("insert", 1, 2, b"\x01", b"\x01", b"\0\x05", 0, 2, 0, False)) is None
        assert decoder.images(Rows("insert", 1, 2, b"\x03", b"\x03", b"\0\x05\x06", 0, 3, 0, False)) is not None
    assert compiled() is None or ImageProof(table_map, columns, proofs) is not None
