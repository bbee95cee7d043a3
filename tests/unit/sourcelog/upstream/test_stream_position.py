"""File and offset of each event of a dump stream."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.mysql.binlog.frame import has_checksum, with_end
from dm.mysql.binlog.header import LOG_EVENT_ARTIFICIAL_F, EventType
from dm.sourcelog.upstream.packet_reader import StreamPosition, rotate_target
from tests.unit.sourcelog.relaylog.binlog_bytes import event, format_description, placed, rotate, rows, transaction

NAME = "mysql-bin.000007"


def at(offset: int, name: str = NAME) -> StreamPosition:
    place = StreamPosition()
    assert not place.advance(rotate(name, offset, artificial=True))
    return place


def test_offsets_follow_the_events() -> None:
    place = at(4)
    expected = 4
    for data in placed([format_description(), *transaction(1)]):
        assert place.advance(data)
        expected += len(data)
        assert (place.file, place.offset, place.hole) == (NAME, expected, 0)


def test_offsets_stay_right_above_4_gib() -> None:
    start = (1 << 32) - 30
    place = at(start)
    for data in placed([rows(), rows(), rows()], start):
        assert place.advance(data)
    assert place.offset == start + 3 * len(rows())
    assert place.offset > 1 << 32


def test_an_event_that_ends_at_4_gib_stands_in_the_file_although_its_own_end_is_0() -> None:
    start = (1 << 32) - len(rows())
    place = at(start)
    first, second = placed([rows(), rows()], start)
    assert int.from_bytes(first[13:17], "little") == 0
    assert place.advance(first)
    assert (place.offset, place.hole) == (1 << 32, 0)
    assert place.advance(second)
    assert (place.offset, place.hole) == ((1 << 32) + len(rows()), 0)


def test_what_stands_in_no_file_moves_nothing() -> None:
    place = at(500)
    for data in (
        format_description(),
        event(EventType.HEARTBEAT, NAME.encode(), 500),
        event(EventType.HEARTBEAT_V2, b"\x01\x02", 0),
        event(EventType.MARIADB_GTID_LIST, bytes(4), 476, flags=LOG_EVENT_ARTIFICIAL_F),
    ):
        assert not place.advance(data)
        assert place.offset == 500


def test_left_out_bytes_are_a_hole() -> None:
    place = at(500)
    (later,) = placed([rows()], 800)
    assert place.advance(later)
    assert (place.hole, place.offset) == (300, 800 + len(later))


def test_a_real_rotation_stands_in_its_file() -> None:
    place = at(500)
    (data,) = placed([rotate("mysql-bin.000008")], 500)
    assert place.advance(data)
    assert (place.file, place.offset) == (NAME, 500 + len(data))


@pytest.mark.parametrize("checksum", [True, False])
def test_a_rotation_names_its_file_with_and_without_checksum(checksum: bool) -> None:
    data = rotate(NAME, 1234)
    assert rotate_target(data if checksum else data[:-4]) == (NAME, 1234)


@pytest.mark.parametrize("name", ["../../etc/x.000001", "/etc/x.000001", "x", "", "a\nb.000001", ".x.000001"])
def test_a_hostile_file_name_is_refused(name: str) -> None:
    with pytest.raises(DMError, match="not a binlog file name"):
        StreamPosition().advance(rotate(name, artificial=True))


@pytest.mark.parametrize("data", [b"", b"short", rows()[:-1], rows() + b"x", placed([rows()], 100)[0]])
def test_what_can_not_be_is_refused(data: bytes) -> None:
    with pytest.raises(DMError, match="not a binlog stream") as raised:
        at(500).advance(data)
    assert raised.value.retryable


def test_an_event_before_any_file_name_is_refused() -> None:
    with pytest.raises(DMError, match="before the name of its file"):
        StreamPosition().advance(placed([rows()])[0])


@pytest.mark.parametrize("name", ["other-bin.000001", "mysql-bin.x.000008"])
def test_a_file_of_another_name_begins_anew(name: str) -> None:
    place = at(500)
    assert not place.advance(rotate(name, artificial=True))
    assert (place.file, place.offset) == (name, 4)


def test_a_file_that_was_left_is_not_named_again() -> None:
    with pytest.raises(DMError, match="reset"):
        at(500).advance(rotate("mysql-bin.000006", artificial=True))


@pytest.mark.parametrize("grows", [True, False])
def test_rotations_with_nothing_between_them_come_to_an_end(grows: bool) -> None:
    place = at(4)
    named = [rotate(f"mysql-bin.{number if grows else 7:06d}", artificial=True) for number in range(8, 12)]
    for data in named[:3]:
        place.advance(data)
    with pytest.raises(DMError, match="nothing stands in the files"):
        place.advance(named[3])


def test_files_with_a_start_and_nothing_else_may_be_any_number() -> None:
    place = at(4)
    for number in range(8, 200):
        for data in placed([format_description(), rotate(f"mysql-bin.{number:06d}")]):
            assert place.advance(data)
        assert not place.advance(rotate(f"mysql-bin.{number:06d}", artificial=True))
    assert place.file == "mysql-bin.000199"


def test_rows_of_a_mariadb_that_do_not_say_where_they_end_stand_in_the_file() -> None:
    place = at(500)
    inside = rows()
    assert int.from_bytes(inside[13:17], "little") == 0
    assert place.advance(inside)
    assert (place.offset, place.hole) == (500 + len(inside), 0)
    (following,) = placed([rows()], place.offset)
    assert place.advance(following)
    assert (place.offset, place.hole) == (500 + 2 * len(inside), 0)


def test_an_end_that_is_not_said_is_filled_in() -> None:
    (said,) = placed([rows()], 500)
    assert with_end(said, 500 + len(said)) is said
    unsaid = rows()
    assert with_end(unsaid, 500 + len(unsaid)) == said
    assert with_end(unsaid, (1 << 32) + 7)[13:17] == (7).to_bytes(4, "little")
    assert has_checksum(with_end(unsaid, 77))
    without_sum = unsaid[:-4] + bytes(4)
    filled = with_end(without_sum, 99)
    assert (filled[:13], filled[13:17], filled[17:]) == (without_sum[:13], (99).to_bytes(4, "little"), without_sum[17:])


def test_a_heartbeat_of_the_file_may_tell_that_what_precedes_it_is_not_sent() -> None:
    def told(name: str, end: int) -> bytes:
        return event(EventType.HEARTBEAT, name.encode(), end)

    place = at(500)
    for nothing in (told(NAME, 500), told(NAME, 4), told("mysql-bin.000008", 900)):
        assert not place.pass_over(nothing)
        assert place.offset == 500
    assert place.pass_over(told(NAME, 900))
    (after,) = placed([rows()], 900)
    assert place.advance(after)
    assert (place.offset, place.hole) == (900 + len(after), 0)
