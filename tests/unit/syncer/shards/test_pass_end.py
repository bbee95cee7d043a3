"""A second pass takes what main has read and nothing else, on whatever server it reads."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.position import Position
from dm.progress.lane_rows import CONTROL, LaneClaim
from dm.progress.tables import SubtaskKey
from dm.sourcelog.stream.source_server import SourceServer
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.shards.main_or_second_pass import PassEnd, ShardRun
from dm.syncer.state_found import StateFound
from tests.testbed.fake_clock import FakeClock
from tests.unit.rules.subtasks import subtask

OLD, NEW = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "bbbbbbbb-bbbb-cccc-dddd-eeeeeeeeeeee"
START = Position(OLD, "b.000001", 4, GtidSet.parse(f"{OLD}:1"))
PLACE = Position(OLD, "b.000001", 90, GtidSet.parse(f"{OLD}:1-3"))


def stream(*numbers: int | None, server: str = NEW) -> list[SourceTransaction]:
    """Transactions of these numbers, where there is one, after the start."""
    at, found = START, list[SourceTransaction]()
    for number in numbers:
        gtid = None if number is None else Gtid("mysql", OLD, number)
        gtids = at.gtid_set if gtid is None else at.gtid_set.with_gtid(gtid)
        end = Position(server, "b.000007", at.offset + 10, gtids)
        found.append(SourceTransaction(at, end, gtid, 0, moves=False))
        at = end
    return found


def taken(transactions: list[SourceTransaction], place: Position = PLACE) -> list[str]:
    """What the reader hands on."""
    end, found = PassEnd(place), list[str]()
    for transaction in transactions:
        if not end.admits(transaction):
            break
        found.append(str(transaction.gtid))
        if end.reached(transaction.end):
            break
    return found


def test_on_one_server_its_places_tell_where_it_ends() -> None:
    transactions = stream(2, 3, 4, server=OLD)
    place = replace(transactions[1].end, gtid_set=GtidSet.empty())
    assert taken(transactions, place) == [f"{OLD}:2", f"{OLD}:3"]
    assert not PassEnd(place).admits(transactions[2]), "what ends after the place is main's to read"


@pytest.mark.parametrize("order", [(2, 3, 4), (3, 2, 4)])
def test_on_another_server_gtids_tell_where_it_ends(order: tuple[int, ...]) -> None:
    assert taken(stream(*order)) == [f"{OLD}:{number}" for number in order[:2]]


def test_an_old_server_ends_where_main_has_read_nothing_of_the_new_one() -> None:
    place = Position(NEW, "b.000007", 4, PLACE.gtid_set)
    assert PassEnd(place).reached(PLACE)
    assert taken(stream(2, 3, 4, server=OLD), place) == [f"{OLD}:2", f"{OLD}:3"]


def test_what_a_new_file_begins_with_has_no_gtid() -> None:
    (moved,) = stream(None)
    moved.moves = True
    assert PassEnd(PLACE).admits(moved)


def test_it_begins_where_it_ends() -> None:
    (transaction,) = stream(4)
    transaction.begin = replace(transaction.begin, server_uuid=NEW, gtid_set=PLACE.gtid_set)
    assert PassEnd(PLACE).reached(transaction.begin)
    assert not PassEnd(PLACE).admits(transaction)


@pytest.mark.parametrize("order", [(2, 4, 3), (2, None, 3)])
def test_what_main_has_still_to_read_is_neither_applied_nor_left_out(order: tuple[int | None, ...]) -> None:
    with pytest.raises(DMError) as raised:
        taken(stream(*order))
    assert raised.value.name == "shard-pass-elsewhere"


def test_a_number_that_may_be_out_of_order_does_not_tell_that_main_has_read_it() -> None:
    (transaction,) = stream(2)
    assert transaction.gtid is not None
    transaction.gtid = transaction.gtid._replace(ordered=False)
    with pytest.raises(DMError) as raised:
        PassEnd(PLACE).admits(transaction)
    assert raised.value.name == "shard-pass-elsewhere"


def test_without_gtids_places_of_two_servers_are_not_compared() -> None:
    place = replace(PLACE, gtid_set=GtidSet.empty())
    assert not PassEnd(place).reached(replace(place, server_uuid=NEW))
    with pytest.raises(DMError) as raised:
        taken(stream(2), place)
    assert raised.value.name == "shard-pass-elsewhere"


def test_nothing_is_done_after_the_end_wherever_a_servers_binlog_ends() -> None:
    further = Position(NEW, "b.000009", 4, GtidSet.parse(f"{OLD}:1-9"))
    assert PassEnd(PLACE).bound(further) == PLACE
    assert PassEnd(PLACE).bound(START) == START


class _Server:
    """A server that has everything, as `SourceServer` shows it."""

    def __init__(self, *, ordered: bool) -> None:
        self.facts = SimpleNamespace(gtid_ordered=ordered)
        self.asked = list[Position]()  # whether it has all up to there

    def switch_bound(self, start: Position) -> None:
        self.asked.append(start)

    def here(self, position: Position) -> Position:
        return position if self.facts.gtid_ordered else replace(position, server_uuid=NEW, file="b.000007", offset=24)


def settled(place: Position, start: Position, *, ordered: bool = True) -> PassEnd:
    """The end of a pass, before anything is read."""
    end, server = PassEnd(place), _Server(ordered=ordered)
    end.check_server(cast("SourceServer", server), start)
    assert server.asked == [place], "a server that lacks something of main's is refused before anything is read"
    return end


@pytest.mark.parametrize("begun", [OLD, NEW])
def test_a_place_of_a_server_with_another_order_is_no_end_before_all_of_mains_is_read(begun: str) -> None:
    # Main read 2 on the old server and 3 on the new one, where 2 comes after it. A pass that has paused begins there.
    third, second = stream(3, 2)
    place = replace(third.end, gtid_set=GtidSet.parse(f"{OLD}:1-3"))
    end = settled(place, replace(START, server_uuid=begun))
    assert end.admits(third)
    assert not end.reached(third.end)
    with pytest.raises(DMError) as raised:
        end.admits(second)
    assert raised.value.name == "shard-pass-elsewhere"
    assert f"{OLD}:2 " in raised.value.message


def test_from_there_the_old_server_goes_on() -> None:
    third, _ = stream(3, 2)
    place = replace(third.end, gtid_set=GtidSet.parse(f"{OLD}:1-3"))
    end, (at_old,) = settled(place, third.end), stream(2, server=OLD)
    at_old.begin = third.end
    at_old.end = replace(at_old.end, gtid_set=place.gtid_set)
    assert end.admits(at_old)
    assert end.reached(at_old.end)


def test_a_start_without_gtids_ends_by_its_servers_places() -> None:
    (third,) = stream(3)
    place = replace(third.end, gtid_set=GtidSet.parse(f"{OLD}:1-3"))
    assert settled(place, replace(START, server_uuid=NEW, gtid_set=GtidSet.empty())).reached(third.end)


@pytest.mark.parametrize("begun", [OLD, NEW])
def test_numbers_out_of_order_tell_nothing(begun: str) -> None:
    end = settled(PLACE, replace(START, server_uuid=begun), ordered=False)
    *_, last = stream(2, 3)
    assert end.place.offset == last.end.offset, "the server was asked"
    assert end.reached(last.end)
    renamed = replace(last.end, file="other.000001")
    assert not end.reached(renamed)
    with pytest.raises(DMError):
        end.admits(replace(last, end=renamed))


def test_a_run_of_a_pass_asks_the_server_first_and_has_no_bound_after_the_end() -> None:
    config, end = subtask("syncer-config-name: s", "syncers:\n  s: {}\n"), PassEnd(PLACE)
    run = ShardRun(config, LaneClaim(SubtaskKey("dm_meta", "shop", "mysql-01"), CONTROL, 7), end)
    state = SimpleNamespace(start=START, checkpoint=SimpleNamespace(tables={}))
    server, nobody = _Server(ordered=False), cast("TargetConnection", None)
    run.join(nobody, cast("StateFound", state), cast("SourceServer", server), FakeClock())
    assert server.asked == [PLACE]
    assert not end.told
    assert run.bound(replace(end.place, offset=end.place.offset + 1)) == end.place
