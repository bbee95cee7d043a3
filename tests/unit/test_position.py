"""Positions compare by offset within one server and by GTID membership across servers."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.position import Position

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def at(file: int, offset: int, gtids: str = "", server: str = "a") -> Position:
    return Position(server, f"bin.{file:06d}", offset, GtidSet.parse(gtids, "mysql"))


def test_files_order_by_number_beyond_six_digits() -> None:
    assert at(1_000_000, 4).covers(at(999_999, 5_000_000_000))
    assert not at(999_999, 5_000_000_000).covers(at(1_000_000, 4))


def test_a_point_whose_set_knows_more_than_its_place_is_not_passed_by_the_place_alone() -> None:
    point = at(1, 100, f"{UUID}:1-9")  # gtid_executed ran ahead of the offset that was asked for
    assert not at(1, 500, f"{UUID}:1-8").at_or_after(point)
    assert at(1, 500, f"{UUID}:1-9").at_or_after(point)
    assert not at(1, 99, f"{UUID}:1-9").at_or_after(point)
    assert at(1, 100).at_or_after(at(1, 100))
    assert at(2, 4, f"{UUID}:1-3", server="b").at_or_after(at(7, 100)), "taken before there were any GTIDs"


def test_offsets_of_two_servers_are_never_compared() -> None:
    ours, theirs = at(9, 900, f"{UUID}:1-5"), at(2, 4, f"{UUID}:1-6", server="b")
    assert theirs.covers(ours)
    assert not ours.covers(theirs)


def test_without_gtids_two_servers_can_not_be_related() -> None:
    with pytest.raises(DMError) as caught:
        at(9, 900).covers(at(2, 4, server="b"))
    assert caught.value.name == "position-incomparable"


def test_a_transaction_is_known_by_place_or_by_gtid() -> None:
    here = at(3, 100, f"{UUID}:1-5")
    assert here.has_processed(None, at(3, 100))
    assert not here.has_processed(None, at(3, 101))
    assert here.has_processed(Gtid.parse(f"{UUID}:5"), at(1, 50, server="b"))
    assert not here.has_processed(Gtid.parse(f"{UUID}:6"), at(1, 50, server="b"))


def test_join_takes_the_later_place_and_both_sets() -> None:
    joined = at(3, 100, f"{UUID}:1-5").join(at(2, 900, f"{UUID}:7"))
    assert (joined.file_number, joined.offset) == (3, 100)
    assert str(joined.gtid_set) == f"{UUID}:1-5:7"


def test_files_of_another_name_have_no_order_but_by_gtid() -> None:
    before = at(9, 900, f"{UUID}:1-5")
    after = Position("a", "new.000001", 500, GtidSet.parse(f"{UUID}:1-6", "mysql"))
    assert after.covers(before)
    assert not before.covers(after)
    assert not before.has_processed(Gtid.parse(f"{UUID}:6"), after)
    assert after.has_processed(Gtid.parse(f"{UUID}:5"), before)


def test_files_of_another_name_without_gtids_are_not_guessed_about() -> None:
    before, after = at(9, 900), Position("a", "new.000001", 500)
    with pytest.raises(DMError) as caught:
        after.covers(before)
    assert caught.value.name == "position-incomparable"
    with pytest.raises(DMError) as caught:
        before.has_processed(None, after)
    assert caught.value.name == "position-incomparable"


def test_a_lower_number_of_a_server_without_strict_mode_is_another_transaction() -> None:
    here = Position("a", "bin.000003", 100, GtidSet.parse("0-1-100"))
    lower = Gtid.parse("0-2-50")
    later, elsewhere = Position("a", "bin.000003", 200), Position("b", "bin.000003", 200)
    assert here.has_processed(lower, later), "in strict mode it lies ahead on a server that took over"
    loose = lower._replace(ordered=False)
    assert not here.has_processed(loose, later)
    assert here.has_processed(loose, Position("a", "bin.000003", 90))
    assert str(here.gtid_set.with_gtid(loose)) == "0-2-50", "as the server counts: the last one, not the highest"
    with pytest.raises(DMError) as caught:
        here.has_processed(loose, elsewhere)
    assert caught.value.name == "gtid-order-loose"


def test_a_place_after_transactions_without_gtids_is_in_no_other_servers_past() -> None:
    read = Position("a", "bin.000009", 900, GtidSet.parse(f"{UUID}:1-5,ANONYMOUS"))
    assert at(9, 901, f"{UUID}:1-6").covers(read), "one server's places tell"
    with pytest.raises(DMError) as caught:
        at(2, 4, f"{UUID}:1-6", server="b").covers(read)
    assert caught.value.name == "position-incomparable"
    with pytest.raises(DMError) as caught:
        at(9, 900, f"{UUID}:1-5").has_processed(None, at(2, 40, server="b"))
    assert caught.value.name == "position-incomparable"
