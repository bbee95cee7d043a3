"""What a sample says of the time of all rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm.tools.diff.chunk import Chunk
from dm.tools.diff.sample import Sample

SIZES = st.lists(st.floats(1e2, 1e8), min_size=1, max_size=200)


@given(SIZES, st.integers(1, 8), st.floats(0, 30), st.data())
def test_it_tells_within_a_factor_of_two_where_bytes_cost_alike(
    sizes: list[float], threads: int, begins: float, data: st.DataObject
) -> None:
    """Each byte costs up to twice as much as another; what begins is paid once, by whatever is compared first."""
    chunks = [(Chunk(0, at, "1"), size) for at, size in enumerate(sizes)]
    costs = {
        chunk: size * factor
        for (chunk, size), factor in zip(
            chunks, data.draw(st.lists(st.floats(0.71, 1.41), min_size=len(sizes), max_size=len(sizes))), strict=True
        )
    }
    sample = Sample.of(chunks, threads)
    assert len(sample.first) + len(sample.timed) == min(len(chunks), 3 * threads)
    assert not set(sample.first) & set(sample.timed)
    timed = sum(costs[chunk] for chunk in sample.timed)
    told = sample.seconds_of_all(begins + sum(costs[chunk] for chunk in sample.first) + timed, timed)
    takes = begins + sum(costs.values())
    assert takes / 2 <= told <= takes * 2
    if len(sizes) <= 3 * threads:
        assert told == takes


def test_chunks_are_from_all_over() -> None:
    chunks = [(Chunk(table, at, "1"), 1.0) for table in range(30) for at in range(10)]
    sample = Sample.of(chunks, 4)
    assert {chunk.table // 3 for chunk in (*sample.first, *sample.timed)} == set(range(10))
    assert sample.left == (300 - 12) / 8
