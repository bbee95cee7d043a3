"""Where sources without an owner go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dm.cluster.placement import Candidate, in_turn, placed

_NAMES = st.text("abcdef", min_size=1, max_size=3)


@st.composite
def _candidates(draw: st.DrawFn) -> list[Candidate]:
    names = draw(st.lists(_NAMES, min_size=1, max_size=5, unique=True))
    zones, counts = st.sampled_from("xy"), st.integers(0, 5)
    return [Candidate(name, {"zone": draw(zones)}, draw(counts), draw(counts)) for name in names]


def test_the_member_with_the_fewest_subtasks_is_first() -> None:
    assert in_turn([Candidate("a", {}, 3, 1), Candidate("b", {}, 1, 4), Candidate("c", {}, 1, 2)]) == ["c", "b", "a"]


def test_a_wish_is_obeyed_first_and_is_no_condition() -> None:
    members = [Candidate("a", {"zone": "x"}, 9), Candidate("b", {"zone": "y"})]
    assert in_turn(members, "a") == ["a", "b"]
    assert in_turn(members, "zone=x") == ["a", "b"]
    assert in_turn(members, "zone=z") == ["b", "a"]
    assert in_turn(members[1:], "a") == ["b"]


@given(candidates=_candidates(), orphans=st.dictionaries(_NAMES, st.integers(0, 4), max_size=8), chance=st.randoms())
def test_members_agree_whatever_the_order_of_what_they_see(
    candidates: list[Candidate], orphans: dict[str, int], chance: object
) -> None:
    turns = placed(orphans, candidates, {})
    mixed = list(reversed(candidates))
    assert placed(dict(reversed(orphans.items())), mixed, {}) == turns
    everybody = sorted(each.name for each in candidates)
    assert all(sorted(names) == everybody for names in turns.values())
    assert turns.keys() == orphans.keys()


@given(count=st.integers(1, 4), orphans=st.integers(1, 30))
def test_equal_sources_spread_evenly(count: int, orphans: int) -> None:
    members = [Candidate(f"m{number}") for number in range(count)]
    turns = placed({f"s{number:02}": 2 for number in range(orphans)}, members, {})
    had = [sum(names[0] == each.name for names in turns.values()) for each in members]
    assert max(had) - min(had) <= 1


def test_without_members_nobody_has_a_turn() -> None:
    assert placed({"s": 1}, [], {}) == {"s": []}
