"""An image that is cut has the bytes of the kept columns, in both twins, and is read as these."""

from __future__ import annotations

import random
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.image_cut import cut_image, packed_cut
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.value import ABSENT, Row
from tests.testbed.decoders import running
from tests.unit.accelerator.rows_at_random import Kind, Sample, damaged, sample
from tests.unit.accelerator.test_image_proof import proofs_of, provable

seeds = st.integers(0, (1 << 64) - 1)
thorough = settings(max_examples=150, deadline=None)


def images_of(found: Sample, chance: random.Random) -> list[bytes]:
    """The images that a form would hand on."""
    with running(None):
        decoder = RowDecoder(found.table_map, found.columns)
        decoder.prove(proofs_of(found, chance))
        return [raw for pair in decoder.images(found.rows) or () for raw in pair if raw is not None]


def row_of(found: Sample, image: bytes, columns: range | list[int]) -> Row:
    """What is read of one image of these columns."""
    count = len(found.columns)
    present = sum(1 << at for at in columns).to_bytes((count + 7) // 8, "little")
    decoder = RowDecoder(found.table_map, found.columns)
    row = decoder.decode(Rows("insert", 0, count, present, present, image, 0, len(image), 0, False))[0][1]
    assert row is not None
    return row


@thorough
@given(seeds)
def test_what_is_left_is_read_as_the_kept_columns(native: ModuleType, seed: int) -> None:
    chance = random.Random(seed)
    found = sample(seed, damage=False, wanted=provable)
    count = len(found.columns)
    kept = sorted(chance.sample(range(count), chance.randrange(1, count + 1)))
    cut = packed_cut(found.table_map, found.columns, kept)
    for image in images_of(found, chance):
        with running(None):
            python = cut_image(cut, image)
        with running(native):
            assert cut_image(cut, image) == python
        assert native.cut_image(cut, image) == python
        whole = row_of(found, image, range(count))
        assert repr(row_of(found, python, kept)) == repr(
            tuple(value if at in kept else ABSENT for at, value in enumerate(whole))
        )


@thorough
@given(seeds)
def test_what_is_no_image_is_the_same_error(native: ModuleType, seed: int) -> None:
    chance = random.Random(seed)
    found = sample(seed, damage=False)
    count = len(found.columns)
    cut = packed_cut(found.table_map, found.columns, chance.sample(range(count), chance.randrange(1, count + 1)))
    image = damaged(chance, bytes(found.rows.body))[: chance.choice((0, 3, 20, 500))]
    told = []
    for extension in (None, native):
        with running(extension):
            try:
                told.append(cut_image(cut, image))
            except Malformed as error:
                told.append(str(error).encode())
    assert told[0] == told[1]


def test_sizes_that_nobody_packs_are_left_to_python(native: ModuleType) -> None:
    for cut in (b"", b"\1", b"\1\0\4", b"\1\0" + 2 * b"\4\0\0\1", b"\1\0\0\0\5\1", b"\x50\0" + 65 * b"\0\0\0\1"):
        assert native.cut_image(cut, bytes(70)) is None
    for given_ in ((), (b"",), (b"", ""), (bytearray(2), b"")):
        with pytest.raises(TypeError):
            native.cut_image(*given_)


def test_a_key_at_the_end_takes_all_columns_before_it() -> None:
    found = sample(7, damage=False, wanted=lambda kind: isinstance(kind, Kind))
    last = len(found.columns) - 1
    assert isinstance(found.table_map, TableMap)
    assert len(packed_cut(found.table_map, found.columns, [last])) == 2 + 4 * (last + 1)
    assert len(packed_cut(found.table_map, found.columns, [0])) == 2 + 4
