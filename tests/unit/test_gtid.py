"""GTID sets behave like the sets they stand for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.gtid import Gtid, GtidFormatError, GtidSet
from dm.mysql.dialect import FLAVORS, Flavor

UUIDS = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "3e11fa47-71ca-11e1-9e33-c80aa9429563")
SOURCES = (UUIDS[0], UUIDS[1], f"{UUIDS[0]}:tag_a")

members = st.sets(st.tuples(st.sampled_from(SOURCES), st.integers(1, 25)), max_size=40)


def gtid_set(numbers: set[tuple[str, int]]) -> GtidSet:
    built = GtidSet.empty("mysql")
    for source, number in sorted(numbers, key=lambda member: member[1] % 7):
        built = built.with_gtid(Gtid("mysql", source, number))
    return built


@given(members, members)
def test_algebra_agrees_with_sets_of_numbers(left: set[tuple[str, int]], right: set[tuple[str, int]]) -> None:
    a, b = gtid_set(left), gtid_set(right)
    assert a | b == gtid_set(left | right)
    assert a - b == gtid_set(left - right)
    assert (a >= b) == (left >= right)
    assert bool(a) == bool(left)
    for source, number in left | right:
        assert (Gtid("mysql", source, number) in a) == ((source, number) in left)


@given(members)
def test_text_form_is_read_back(numbers: set[tuple[str, int]]) -> None:
    built = gtid_set(numbers)
    assert GtidSet.parse(str(built), "mysql") == built


@given(
    st.dictionaries(st.integers(0, 3), st.integers(1, 9), max_size=4),
    st.dictionaries(st.integers(0, 3), st.integers(1, 9), max_size=4),
)
def test_a_mariadb_set_is_a_position_per_domain(left: dict[int, int], right: dict[int, int]) -> None:
    def built(numbers: dict[int, int]) -> GtidSet:
        return GtidSet.parse(",".join(f"{domain}-7-{number}" for domain, number in numbers.items()), "mariadb")

    a, b = built(left), built(right)
    union = {domain: max(left.get(domain, 0), right.get(domain, 0)) for domain in left | right}
    assert a | b == built(union)
    assert (a >= b) == all(left.get(domain, 0) >= number for domain, number in right.items())
    assert ((a - b) | b) >= a
    for domain, number in left.items():
        assert Gtid("mariadb", str(domain), number, 99) in a
        assert Gtid("mariadb", str(domain), number + 1, 7) not in a


def test_the_servers_own_spelling_is_understood() -> None:
    spelled = f"{UUIDS[0].upper()}:1-3:5:tag_a:2-4:9,\n{UUIDS[1]}:7"
    assert str(GtidSet.parse(spelled)) == f"{UUIDS[0]}:1-3:5:tag_a:2-4:9,{UUIDS[1]}:7"


def test_number_0_says_that_nothing_of_the_server_is_there() -> None:
    assert GtidSet.parse(f"{UUIDS[0]}:0") == GtidSet.empty()
    assert str(GtidSet.parse(f"{UUIDS[0]}:0,{UUIDS[1]}:0:7")) == f"{UUIDS[1]}:7"


@pytest.mark.parametrize(
    "text", ["x", f"{UUIDS[0]}", f"{UUIDS[0]}:0-5", f"{UUIDS[0]}:1-x", "0-1", "0-1-2-3", f"{UUIDS[0]}:1,0-1-2"]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(GtidFormatError):
        GtidSet.parse(text)


@given(st.sampled_from(SOURCES), st.integers(1, 2**63 - 1))
def test_one_gtid_is_read_back(source: str, number: int) -> None:
    gtid = Gtid("mysql", source, number)
    assert Gtid.parse(str(gtid)) == gtid


class Counted(int):
    """A number that counts how often any such number is compared."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) <= int(other)

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > int(other)

    def __ge__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) >= int(other)


def fragments(first: int, count: int) -> GtidSet:
    """A set of that many intervals of one number."""
    intervals = tuple((Counted(number), Counted(number)) for number in range(first, first + 4 * count, 4))
    return GtidSet("mysql", {UUIDS[0]: intervals})


def compared(work: Callable[[], object]) -> int:
    Counted.compared = 0
    work()
    return Counted.compared


@pytest.mark.parametrize("shift", [0, 1, 4, 2000])
def test_a_difference_of_fragments_takes_steps_in_proportion(shift: int) -> None:
    ours, theirs = fragments(1, 1000), fragments(1 + shift, 1000)
    assert 0 < compared(lambda: ours - theirs) < 8 * 1000
    assert 0 < compared(lambda: ours >= theirs) < 8 * 1000


def test_a_member_of_many_fragments_is_found_in_few_steps() -> None:
    ours = fragments(1, 4096)
    for number, there in ((1, True), (2, False), (8001, True), (8002, False)):
        gtid = Gtid("mysql", UUIDS[0], Counted(number))
        assert (gtid in ours) == there
        assert compared(partial(ours.__contains__, gtid)) < 20


@pytest.mark.parametrize(
    "text",
    [
        f"{UUIDS[0]}:{'9' * 5000}", f"{UUIDS[0]}:1-{'9' * 5000}", f"{UUIDS[0]}:\u00b2", f"{UUIDS[0]}:1-\u00b2",
        f"0-1-{'9' * 5000}", "0-1-\u00b2",
    ],
)  # fmt: skip
def test_a_number_that_no_server_counts_to_is_a_named_error(text: str) -> None:
    with pytest.raises(GtidFormatError):
        GtidSet.parse(text)
    with pytest.raises(GtidFormatError):
        Gtid.parse(text)


@given(st.lists(st.booleans(), max_size=12), st.data())
def test_a_set_reaches_into_a_file_only_if_nothing_precedes_the_file_that_was_not_read(
    history: list[bool], data: st.DataObject
) -> None:
    """`history` are a source's transactions, with GTIDs or without."""
    places = [GtidSet.empty("mysql")]
    for has_gtid in history:
        last = places[-1]
        number = len([place for place in places[1:] if not place.anonymous]) + 1
        places.append(last.with_gtid(Gtid("mysql", UUIDS[0], number)) if has_gtid else last.then_anonymous())
    read = data.draw(st.integers(0, len(history)))
    begins = data.draw(st.integers(0, len(history)))
    before = places[begins].named  # a file states no more
    if places[read].reaches_into(before):
        assert begins <= read
    if begins < read and history[read - 1]:
        assert places[read].reaches_into(before)
    assert GtidSet.parse(str(places[read]), "mysql") == places[read]


def test_what_has_no_gtid_makes_a_set_tell_nothing_until_the_next_gtid() -> None:
    read = GtidSet.parse(f"{UUIDS[0]}:1-5", "mysql").then_anonymous()
    assert str(read) == f"{UUIDS[0]}:1-5,ANONYMOUS"
    assert GtidSet.parse(str(read)) == read != read.named
    assert (read | read.named).anonymous
    assert (read - GtidSet.parse(f"{UUIDS[0]}:1-5")) | read.named == read, "as a lane's row is put together again"
    assert str(read.with_gtid(Gtid("mysql", UUIDS[0], 6))) == f"{UUIDS[0]}:1-6"
    assert str(GtidSet.empty("mysql").then_anonymous()) == "", "a server without GTIDs has no sets"


def mariadb_set(numbers: set[tuple[str, int]]) -> GtidSet:
    built = GtidSet.empty("mariadb")
    for source, number in sorted(numbers):
        built = built.with_gtid(Gtid("mariadb", str(SOURCES.index(source)), number, 7))
    return built


@given(members, st.sampled_from(SOURCES), st.integers(1, 30), st.integers(0, 5), st.sampled_from(FLAVORS))
def test_a_run_of_numbers_is_added_as_each_of_them_is(
    found: set[tuple[str, int]], source: str, first: int, more: int, flavor: Flavor
) -> None:
    def gtid(number: int) -> Gtid:
        return (
            Gtid("mysql", source, number)
            if flavor == "mysql"
            else Gtid("mariadb", str(SOURCES.index(source)), number, 7)
        )

    gtids = gtid_set(found) if flavor == "mysql" else mariadb_set(found)
    assert gtids.ends_before(gtid(first)) == (not any(gtid(number) in gtids for number in range(first, 30)))
    if gtids.ends_before(gtid(first)):
        expected = gtids
        for number in range(first, first + more + 1):
            expected = expected.with_gtid(gtid(number))
        assert str(gtids.with_run(gtid(first), first + more)) == str(expected)
