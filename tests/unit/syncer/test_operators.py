"""Which event a person means, which operator a transaction finds, and who is first: the dispatcher or the request."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.operators import Operator
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.operators import (
    Change,
    EventPlace,
    Operators,
    Request,
    Verb,
    checked,
    decide,
    parse_place,
    report,
)
from dm.unit import JSON

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FILE = "mysql-bin.000003"
CONTEXT = SourceContext("mysql", 90704, "")
DDL = "ALTER TABLE `d`.`t` ADD COLUMN c INT"


def at(offset: int, file: str = FILE) -> Position:
    return Position(SERVER, file, offset)


def operator(offset: int, action: str = "skip", **more: object) -> Operator:
    return Operator(SERVER, FILE, offset, action, **more)  # type: ignore[arg-type]


def request(verb: Verb, binlog_pos: str = "", *statements: str) -> Request:
    return Request(verb, "t", "one", binlog_pos, statements)


def transaction(begin: int, end: int) -> SourceTransaction:
    return SourceTransaction(at(begin), at(end), None, 0, size=end - begin)


def ignore(_: Change) -> None:
    pass


@pytest.mark.parametrize(
    "text",
    [
        "mysql-bin.000003:1234", "(mysql-bin.000003, 1234)", '"mysql-bin.000003:1234"',
        "mysql-bin|000001.000003:1234", " mysql-bin.000003 : 1234 ",
    ],
)  # fmt: skip
def test_a_place_is_read_in_every_form_of_dm(text: str) -> None:
    assert parse_place(text) == (FILE, 1234)


@pytest.mark.parametrize("text", ["", "mysql-bin.000003", "mysql-bin.000003:", "1234", "a:b", "a:1:2", "a:-1"])
def test_what_is_no_place_is_refused_with_dms_code(text: str) -> None:
    with pytest.raises(DMError) as caught:
        parse_place(text)
    assert caught.value.code == 11118


def test_without_a_place_the_failing_event_is_meant() -> None:
    change = decide(request("skip"), [], at(100), EventPlace(SERVER, FILE, 150, statement=True))
    assert change.put == operator(150)


def test_rows_are_not_skipped_but_may_be_preceded() -> None:
    failing = EventPlace(SERVER, FILE, 150)
    for verb in ("skip", "replace"):
        with pytest.raises(DMError) as caught:
            decide(request(verb), [], at(100), failing)
        assert caught.value.name == "failing-event-without-statement"
    assert decide(request("inject", "", DDL), [], at(100), failing).put == operator(150, "inject", statements=(DDL,))


@pytest.mark.parametrize("verb", ["skip", "replace", "inject", "revert"])
def test_where_nothing_fails_a_place_is_needed(verb: Verb) -> None:
    with pytest.raises(DMError) as caught:
        decide(request(verb), [operator(150)], at(100), None)
    assert caught.value.name == "no-failing-event"


def test_what_was_applied_is_too_late() -> None:
    assert decide(request("skip", f"{FILE}:100"), [], at(100), None).put == operator(100)
    with pytest.raises(DMError) as caught:
        decide(request("skip", f"{FILE}:99"), [], at(100), None)
    assert caught.value.name == "operator-too-late"
    earlier = at(4, "mysql-bin.000004")
    with pytest.raises(DMError):
        decide(request("skip", f"{FILE}:5000"), [], earlier, None)


def test_only_what_waits_is_reverted() -> None:
    known = [operator(100), operator(200, "inject", done=True)]
    assert decide(request("revert", f"{FILE}:100"), known, at(50), None).remove == known[0]
    for place in (101, 200):
        with pytest.raises(DMError) as caught:
            decide(request("revert", f"{FILE}:{place}"), known, at(50), None)
        assert caught.value.code == 36065


def test_what_is_left_of_an_inject_is_listed_as_that_and_taken_back() -> None:
    partly = operator(200, "inject", statements=(DDL, DDL), done=True, left=frozenset({(1, 0)}))
    assert decide(request("revert", f"{FILE}:200"), [partly], at(50), None).remove == partly
    listed = decide(request("list"), [partly, replace(partly, left=frozenset())], at(50), None)
    states = [one["state"] for one in cast("list[dict[str, JSON]]", report(listed, "t"))]
    assert states == ["partly injected", "injected"]


def test_a_list_shows_all_or_those_from_a_place_on() -> None:
    known = [operator(100), operator(200, "replace", statements=(DDL,))]
    assert decide(request("list"), known, at(50), None).listed == tuple(known)
    change = decide(request("list", f"{FILE}:150"), known, at(50), None)
    assert report(change, "t") == [
        {"op": "replace", "task": "t", "binlogPos": f"{FILE}:200", "sqls": [DDL], "state": "waiting"}
    ]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([f"{DDL}; DROP TABLE d.u;"], (DDL, "DROP TABLE d.u")),
        ([DDL, "DROP TABLE d.u"], (DDL, "DROP TABLE d.u")),
        (DDL.split(), (DDL,)),
        (["ALTER TABLE d.t COMMENT 'a;b'"], ("ALTER TABLE d.t COMMENT 'a;b'",)),
    ],
)
def test_statements_are_separated_where_sql_says_so(texts: list[str], found: tuple[str, ...]) -> None:
    assert checked(texts, CONTEXT, "t") == found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("ALTER TABLE t ADD c INT", 36024),
        ("DROP TABLE d.t, u", 36024),
        ("CREATE TABLE d.t LIKE u", 36024),
        ("UPDATE d.t SET a = 1", 36064),
        ("GRANT ALL ON *.* TO u", 36064),
        ("ALTER TABLE d.t FROBNICATE", 36017),
        ("no sql at all", 36017),
        ("ALTER TABLE d.t COMMENT 'open", 36017),
        (";", 36017),
    ],
)
def test_what_can_not_stand_for_an_event_is_refused_with_dms_code(text: str, code: int) -> None:
    with pytest.raises(DMError) as caught:
        checked([text], CONTEXT, "t")
    assert caught.value.code == code


def test_a_transaction_finds_the_operators_of_its_bytes() -> None:
    operators = Operators("t", [operator(99), operator(100), operator(199), operator(200)], at(50))
    assert [one.offset for one in operators.of(transaction(100, 200))] == [100, 199]


def test_the_first_transaction_of_a_file_begins_by_its_size() -> None:
    operators = Operators("t", [operator(126), operator(226)], at(50))
    first = SourceTransaction(at(900, "mysql-bin.000002"), at(300), None, 0, size=100)
    assert [one.offset for one in operators.of(first)] == [226]


def test_operators_of_another_server_concern_nobody() -> None:
    other = Operator("7c1e6a52-71ca-11e1-9e33-c80aa9429562", FILE, 150, "skip")
    operators = Operators("t", [other], at(50))
    assert operators.of(transaction(100, 200)) == []
    assert operators.outdated(at(1000)) == []


def test_a_request_for_what_the_dispatcher_has_is_too_late_and_one_before_is_seen() -> None:
    operators = Operators("t", [], at(50))
    operators.change(request("skip", f"{FILE}:150"), ignore)
    assert operators.of(transaction(100, 200)) == [operator(150)]
    assert operators.changed_in(transaction(100, 200))
    for verb in ("skip", "revert"):
        with pytest.raises(DMError):
            operators.change(request(verb, f"{FILE}:150"), ignore)


def test_what_could_not_be_stored_is_not_known() -> None:
    operators = Operators("t", [], at(50))

    def fails(_: Change) -> None:
        raise DMError("connection-lost", role="target", address="a")

    with pytest.raises(DMError):
        operators.change(request("skip", f"{FILE}:150"), fails)
    assert operators.of(transaction(100, 200)) == []
    assert not operators.changed_in(transaction(100, 200))


def test_an_operator_takes_the_place_of_one_for_the_same_event() -> None:
    operators = Operators("t", [operator(150, "inject", statements=(DDL,), done=True)], at(50))
    operators.change(request("skip", f"{FILE}:150"), ignore)
    assert operators.of(transaction(100, 200)) == [operator(150)]


def test_an_inject_that_is_done_is_known_as_done() -> None:
    one = operator(150, "inject", statements=(DDL,))
    operators = Operators("t", [one], at(50))
    operators.injected(replace(one, done=True))
    assert [found.done for found in operators.of(transaction(100, 200))] == [True]


@given(st.lists(st.integers(4, 500), unique=True), st.integers(4, 500))
def test_outdated_are_exactly_those_that_no_later_transaction_finds(offsets: list[int], checkpoint: int) -> None:
    operators = Operators("t", [operator(offset) for offset in offsets], at(4))
    operators.forget(operators.outdated(at(checkpoint)))
    left = operators.of(transaction(4, 501))
    assert [one.offset for one in left] == [offset for offset in offsets if offset >= checkpoint]


def test_events_that_are_read_again_are_not_too_late() -> None:
    operators = Operators("t", [operator(60), operator(130)], at(200), floor=lambda position: at(100))
    assert operators.outdated(at(200)) == [operator(60)]
    change = operators.change(request("skip", f"{FILE}:150"), ignore)
    assert change.put == operator(150, "skip")
    with pytest.raises(DMError) as caught:
        operators.change(request("skip", f"{FILE}:60"), ignore)
    assert caught.value.name == "operator-too-late"
