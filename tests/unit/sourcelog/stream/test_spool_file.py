"""Spool files give back what was written or say that they can't: no byte of them can change unnoticed."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.sourcelog.stream.spool_file import FLUSH_BYTES, HEADER_SIZE, READ_BYTES, Footer, SpoolReader, SpoolWriter

LARGE = max(FLUSH_BYTES, READ_BYTES)
payloads = st.lists(
    st.one_of(
        st.binary(max_size=40),
        # Around the sizes at which buffering changes, made of few bytes of randomness.
        st.builds(lambda count, byte: bytes([byte]) * count, st.integers(LARGE - 40, LARGE + 40), st.integers(0, 255)),
    ),
    max_size=12,
)


def written(path: Path, records: list[bytes], commit_time: int | None = None) -> list[int]:
    """The file with these records, and their offsets."""
    path.unlink(missing_ok=True)
    writer = SpoolWriter(path)
    offsets = [writer.append(record[:7], memoryview(record)[7:]) for record in records]
    if commit_time is None:
        writer.flush()
    else:
        writer.finish(commit_time)
    writer.close()
    return offsets


@contextmanager
def reading(path: Path) -> Iterator[SpoolReader]:
    reader = SpoolReader(path)
    try:
        yield reader
    finally:
        reader.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payloads, st.integers(0, 1 << 40))
def test_every_record_comes_back_in_order_and_by_its_offset(tmp_path: Path, records: list[bytes], when: int) -> None:
    path = tmp_path / "a"
    offsets = written(path, records, when)
    with reading(path) as reader:
        assert list(reader.records(0, reader.size())) == records
        assert [reader.record(offset) for offset in offsets] == records
        assert reader.footer() == Footer(len(records), sum(map(len, records)), when)
        if records:
            assert list(reader.records(offsets[-1], reader.size())) == records[-1:]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=8), st.data())
def test_no_flipped_bit_goes_unnoticed(tmp_path: Path, records: list[bytes], data: st.DataObject) -> None:
    path = tmp_path / "a"
    offsets = written(path, records)
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    hit = max(number for number, offset in enumerate(offsets) if offset <= at)
    found: list[bytes] = []
    with reading(path) as reader, pytest.raises(DMError) as caught:
        found.extend(reader.records(0, reader.size()))
    assert caught.value.name == "spool-damaged"
    assert caught.value.details["file"] == path
    assert caught.value.details["offset"] == offsets[hit]
    assert found == records[:hit]  # nothing of the damaged record, and nothing after it


def test_a_file_that_is_too_short_is_damaged_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "a"
    offsets = written(path, [b"one", b"", b"three"])
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with reading(path) as reader, pytest.raises(DMError, match="changed after it was written"):
            list(reader.records(0, len(whole)))
    assert offsets == [0, HEADER_SIZE + 3, 2 * HEADER_SIZE + 3]


def test_a_file_without_a_footer_says_so(tmp_path: Path) -> None:
    written(tmp_path / "a", [b"x" * 100])
    with reading(tmp_path / "a") as reader:
        assert reader.footer() is None


def test_what_was_flushed_can_be_read_while_more_is_written(tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "a")
    writer.append(b"first")
    writer.flush()
    end = writer.end
    writer.append(b"second")
    with reading(tmp_path / "a") as reader:
        assert list(reader.records(0, end)) == [b"first"]
        writer.sync()
        assert list(reader.records(end, writer.end)) == [b"second"]
    writer.close()


def test_a_missing_file_is_damage_too(tmp_path: Path) -> None:
    with pytest.raises(DMError, match="changed after it was written"):
        SpoolReader(tmp_path / "a")


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond the size; what the kernel then says is like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_room_is_an_error_that_heals_and_what_was_written_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "a"
    writer = SpoolWriter(path)
    writer.append(b"kept")
    writer.flush()
    end = writer.end
    with file_size_limit(FLUSH_BYTES), pytest.raises(DMError) as caught:
        writer.append(os.urandom(FLUSH_BYTES))
    writer.close()
    assert (caught.value.name, caught.value.retryable) == ("spool-full", True)
    assert str(path) in caught.value.message
    with reading(path) as reader:
        assert list(reader.records(0, end)) == [b"kept"]


def test_a_directory_that_is_not_ours_is_another_error(tmp_path: Path) -> None:
    with pytest.raises(DMError, match="can't be written"):
        SpoolWriter(tmp_path / "missing" / "a")
