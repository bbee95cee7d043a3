"""How a chunk is cut into what is read at a time."""

from __future__ import annotations

from dm.tools.diff.table import Slice, cut


def test_buckets_go_together_until_they_are_enough() -> None:
    assert list(cut({3: 4, 1: 5, 2: 2, 9: 20, 10: 1}, 8)) == [Slice((1, 2)), Slice((3,)), Slice((9,)), Slice((10,))]
    assert list(cut({}, 8)) == []


def test_a_condition_names_no_more_than_it_can() -> None:
    found = list(cut(dict.fromkeys(range(4096), 1), 1 << 30))
    assert [number for some in found for number in some.numbers] == list(range(4096))
    assert max(len(some.numbers) for some in found) == 512


def test_halves_are_the_whole_down_to_single_keys() -> None:
    left, leaves = [Slice((7,))], 0
    while left:
        some = left.pop()
        assert {number >> 4 * (some.digits - 3) for number in some.numbers} == {7}
        if some.digits == 5:
            leaves += len(some.numbers)
        else:
            left += some.halves
    assert leaves == 256
    assert Slice((0,), 12).halves == ()
