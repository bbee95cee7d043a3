"""A place cuts the binlog in two; what the reader hands on is what lies before it, wherever a run begins."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.position import Position
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.sourcelog.stream.until import Until, UntilGtids, UntilPosition, UntilTime, until_from_json, until_to_json

UUID = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
OTHER = "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"


def binlog(steps: list[tuple[int, int, bool]]) -> list[SourceTransaction]:
    """Transactions of these sizes and times, some of another origin; each fifth one is followed by a new file."""
    at = Position(UUID, "b.000001", 4)
    numbers = {UUID: 0, OTHER: 0}
    found: list[SourceTransaction] = []
    for number, (size, time, other) in enumerate(steps):
        origin = OTHER if other else UUID
        numbers[origin] += 1
        gtid = Gtid("mysql", origin, numbers[origin])
        end = replace(at, offset=at.offset + size, gtid_set=at.gtid_set.with_gtid(gtid))
        found.append(SourceTransaction(at, end, gtid, time))
        at = end
        if number % 5 == 4:
            end = replace(at, file=f"b.{at.file_number + 1:06}", offset=4)
            found.append(SourceTransaction(at, end, None, time + 50, moves=True))
            at = end
    return found


def handed_on(until: Until, stream: list[SourceTransaction], start: Position) -> list[SourceTransaction]:
    """What the reader does."""
    given: list[SourceTransaction] = []
    if until.reached(start):
        return given
    for transaction in stream:
        if start.reaches(transaction.end):
            continue
        if not until.admits(transaction):
            return given
        given.append(transaction)
        if until.reached(transaction.end):
            return given
    return given


STEPS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 30), st.booleans()), min_size=1, max_size=25)


@given(steps=STEPS, file=st.integers(1, 6), offset=st.integers(4, 60))
def test_a_file_and_an_offset_admit_what_ends_there_or_before(
    steps: list[tuple[int, int, bool]], file: int, offset: int
) -> None:
    stream = binlog(steps)
    place = Position(UUID, f"b.{file:06}", offset)
    found = handed_on(UntilPosition(place), stream, stream[0].begin)
    assert [one for one in found if not one.moves] == [
        one for one in stream if not one.moves and one.end.order <= place.order
    ]


@given(steps=STEPS, last=st.integers(0, 24))
def test_a_set_admits_the_shortest_beginning_that_holds_it(steps: list[tuple[int, int, bool]], last: int) -> None:
    stream = binlog(steps)
    only = [one for one in stream if not one.moves]
    wanted = only[min(last, len(only) - 1)]
    assert wanted.gtid is not None
    for gtid_set in (wanted.end.gtid_set, GtidSet.parse(str(wanted.gtid))):
        found = handed_on(UntilGtids(gtid_set), stream, stream[0].begin)
        assert found[-1] is wanted


@given(steps=STEPS, time=st.integers(0, 35))
def test_a_time_admits_everything_before_the_first_transaction_of_it_or_later(
    steps: list[tuple[int, int, bool]], time: int
) -> None:
    stream = binlog(steps)
    found = [one for one in handed_on(UntilTime(time, "then"), stream, stream[0].begin) if not one.moves]
    only = [one for one in stream if not one.moves]
    expected = next((number for number, one in enumerate(only) if one.timestamp >= time), len(only))
    assert found == only[:expected]


@given(steps=STEPS, data=st.data())
def test_a_run_that_begins_anywhere_before_finds_the_same_place(
    steps: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    """So does the next one, where the last one has stored that it is there."""
    stream = binlog(steps)
    chosen = data.draw(st.sampled_from([one for one in stream if not one.moves]))
    places: list[Until] = [
        UntilPosition(replace(chosen.end, gtid_set=GtidSet.empty())),
        UntilGtids(chosen.end.gtid_set),
        UntilTime(chosen.timestamp, "then"),
    ]
    until = data.draw(st.sampled_from(places))
    whole = handed_on(until, stream, stream[0].begin)
    done = data.draw(st.integers(0, len(whole)))
    start = stream[0].begin if done == 0 else whole[done - 1].end
    assert whole[:done] + handed_on(until, stream, start) == whole
    assert until_from_json(json.loads(json.dumps(until_to_json(until)))) == until


def test_places_of_two_servers_are_not_compared() -> None:
    here, there = Position(UUID, "b.000001", 9), Position(OTHER, "b.000001", 9)
    with pytest.raises(DMError) as raised:
        UntilPosition(here).admits(SourceTransaction(there, there, None, 0))
    assert raised.value.name == "until-elsewhere"


def test_what_is_applied_beyond_the_place_is_an_error() -> None:
    early, late = Position(UUID, "b.000001", 9), Position(UUID, "b.000002", 4)
    ours, more = (GtidSet.parse(f"{UUID}:1-{number}") for number in (5, 6))
    for until, start, bound in (
        (UntilPosition(early), late, None),
        (UntilPosition(early), early, late),
        (UntilGtids(ours), replace(early, gtid_set=ours), replace(late, gtid_set=more)),
    ):
        with pytest.raises(DMError) as raised:
            until.demand_ahead(start, bound)
        assert raised.value.name == "until-passed"
    UntilPosition(late).demand_ahead(early, late)
    UntilGtids(more).demand_ahead(replace(early, gtid_set=ours), replace(late, gtid_set=more))
    with pytest.raises(DMError) as raised:
        UntilGtids(ours).demand_ahead(early, None)
    assert raised.value.name == "until-without-gtids"


def test_on_a_source_that_rests_a_time_is_over_some_seconds_later() -> None:
    until = UntilTime(100, "then")
    assert [until.passed(now) for now in (99.0, 100.5, 103.0)] == [False, False, True]
