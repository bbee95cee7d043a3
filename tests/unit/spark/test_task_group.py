"""Small things are put together, in order, and large ones stay alone."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dm.spark.job import MOST_MEMBERS, grouped

WEIGHTS = st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.01, 0.2, 0.25, 1.0, 7.0]), max_size=600)


@given(weights=WEIGHTS, most=st.sampled_from([0.25, 1.5, 4.0]))
def test_every_item_is_in_one_group_and_no_group_is_too_large(weights: list[float], most: float) -> None:
    groups = grouped(enumerate(weights), most=most)
    assert [item for group in groups for item in group] == list(range(len(weights)))
    for group in groups:
        assert 1 <= len(group) <= MOST_MEMBERS
        assert len(group) == 1 or sum(weights[item] for item in group) <= most + 1e-9


@given(weights=WEIGHTS)
def test_two_neighbours_fill_more_than_one_group(weights: list[float]) -> None:
    groups = grouped(enumerate(weights))
    for one, other in pairwise(groups):
        together = [weights[item] for item in (*one, *other)]
        assert sum(together) > 0.25 or len(together) > MOST_MEMBERS


def test_ten_thousand_tables_are_some_dozens_of_items() -> None:
    assert len(grouped((number, 0.0) for number in range(10_000))) == 79
