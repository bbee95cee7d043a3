"""A batch as row events has the result of its changes one by one, in few events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.changes import event_or_sql
from dm.changes.compacted import compacted
from dm.changes.event_form import GUARD, LOOK
from dm.changes.event_or_sql import SCANNED_ROWS, EventGroup
from dm.changes.event_or_sql import arranged as guarded
from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.changes.statement import ApplyStatement
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.value import UNREAD, Row
from dm.mysql.dialect import Flavor
from tests.testbed.decoders import compiled, running
from tests.unit.changes.event_tables import ROW_EVENTS, event_plan, events_of, raw_change
from tests.unit.changes.plans import key, number

LIMIT = 1 << 20
COLUMNS = (number("id"), number("u", nullable=True), number("v", nullable=True))
PRIMARY = [key("PRIMARY", "id")]
ONE_KEY = event_plan(COLUMNS, PRIMARY)
TWO_KEYS = event_plan(COLUMNS, [key("PRIMARY", "id"), key("u", "u")], table="two")
KEYLESS = event_plan(COLUMNS, [], table="none")
SCANNED = event_plan(COLUMNS, [], table="none", options=replace(ROW_EVENTS, flavor="mariadb"))
ROWS = st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 2)), st.integers(0, 1))


def arranged(changes: Sequence[RowChange], *, limit: int) -> list[ApplyStatement]:
    """The statements after the questions, which stand before the first event."""
    asked = guarded(changes, limit=limit)
    statements = [each for each in asked if not each.sql.startswith(LOOK)]
    first = [at for at, each in enumerate(statements) if each.sql.startswith(GUARD)]
    assert first == [at - 1 for at, each in enumerate(statements) if each.sql.startswith(b"BINLOG")][:1]
    return [each for at, each in enumerate(statements) if at not in first]


class Refused(Exception):
    """Raised for a change that a server would refuse."""


class Server:
    """Tables with the first `keys` columns each unique; rows of a table without are found by all their values."""

    def __init__(self, tables: dict[str, tuple[int, list[Row]]]) -> None:
        self.keys = {name: keys for name, (keys, _) in tables.items()}
        self.rows = {name: list(rows) for name, (_, rows) in tables.items()}

    def apply(self, table: str, pair: RowPair) -> None:
        """One change, as the server does it."""
        rows, keys = self.rows[table], self.keys[table]
        before, after = pair
        if before is not None:
            found = [row for row in rows if (row[0] == before[0] if keys else row == before)]
            if not found:
                raise Refused
            rows.remove(found[0])
        if after is not None:
            for at in range(keys):
                if after[at] is not None and any(row[at] == after[at] for row in rows):
                    raise Refused
            rows.append(after)

    def apply_event(self, table: str, pairs: Sequence[RowPair]) -> None:
        """An event: without a key the rows to be found are all looked for at once."""
        if not self.keys[table]:
            wanted = Counter(before for before, _ in pairs if before is not None)
            if wanted - Counter(self.rows[table]):
                raise Refused
        for pair in pairs:
            self.apply(table, pair)

    def state(self) -> dict[str, list[str]]:
        """What stands in the tables."""
        return {name: sorted(map(repr, rows)) for name, rows in self.rows.items()}


def drawn(plan: TablePlan, keys: int, draw: Sequence[tuple[int, Row]], start: Sequence[Row]) -> list[RowChange]:
    """Changes that a source could have made."""
    server = Server({plan.target.table: (keys, list(start))})
    changes = []
    for choice, row in draw:
        rows = server.rows[plan.target.table]
        before = rows[choice % len(rows)] if rows and choice % 3 else None
        after = None if before is not None and choice % 3 == 1 else row
        try:
            server.apply(plan.target.table, (before, after))
        except Refused:
            server = Server({plan.target.table: (keys, rows if before is None or before in rows else [*rows, before])})
            continue
        changes.append(raw_change(plan, before, after))  # type: ignore[arg-type]  # rows of numbers
    return changes


def played(changes: Sequence[RowChange], tables: dict[str, tuple[int, list[Row]]]) -> dict[str, list[str]] | None:
    """What is left of the tables when the statements ran; None where a server refused."""
    server = Server(tables)
    try:
        for statement in arranged(changes, limit=LIMIT):
            for table, _, pairs in events_of(statement.sql, len(COLUMNS)):
                server.apply_event(table, pairs)
    except Refused:
        return None
    return server.state()


def one_by_one(changes: Sequence[RowChange], tables: dict[str, tuple[int, list[Row]]]) -> dict[str, list[str]] | None:
    server = Server(tables)
    try:
        for change in changes:
            server.apply(change.plan.target.table, (change.before, change.after))
    except Refused:
        return None
    return server.state()


draws = st.lists(st.tuples(st.integers(0, 29), ROWS), max_size=25)


def described(changes: Sequence[RowChange]) -> list[bytes]:
    return [statement.sql for statement in arranged(changes, limit=LIMIT)]


@pytest.mark.parametrize(("plan", "keys"), [(ONE_KEY, 1), (TWO_KEYS, 2), (KEYLESS, 0)])
@given(draw=draws, other=draws)
def test_both_twins_make_the_same_events(
    plan: TablePlan, keys: int, draw: list[tuple[int, Row]], other: list[tuple[int, Row]]
) -> None:
    start: list[Row] = [(9, 9, 9), (8, 8, 8)]
    pairs = zip(drawn(plan, keys, draw, start), drawn(OTHER, 1, other, start), strict=False)
    changes = [change for pair in pairs for change in pair]
    with running(None):
        python = described(changes)
    with running(compiled()):
        assert described(changes) == python


@pytest.mark.parametrize(("plan", "keys"), [(ONE_KEY, 1), (TWO_KEYS, 2), (KEYLESS, 0)])
@given(draw=draws, other=draws, drift=st.lists(ROWS, max_size=2))
def test_the_result_is_that_of_the_changes_one_by_one(
    twin: str, plan: TablePlan, keys: int, draw: list[tuple[int, Row]], other: list[tuple[int, Row]], drift: list[Row]
) -> None:
    start: list[Row] = [(9, 9, 9), (8, 8, 8)]
    mine, beside = drawn(plan, keys, draw, start), drawn(OTHER, 1, other, start)
    changes = [change for pair in zip(mine, beside, strict=False) for change in pair]
    at_target = start[: 2 - len(drift) % 2] + drift  # which is not always what the source had
    tables = {plan.target.table: (keys, at_target), "other": (1, list(start))}
    expected = one_by_one(changes, tables)
    found = played(changes, tables)
    # A refusal costs nothing but time: the changes then go one by one.
    assert found in (expected, None)
    if not drift and at_target == start and keys:
        assert found == expected is not None


OTHER = event_plan(COLUMNS, [key("PRIMARY", "id")], table="other")


def test_a_batch_of_many_kinds_and_tables_is_few_events_in_one_statement() -> None:
    changes = []
    for at in range(100):
        changes += [raw_change(ONE_KEY, None, (at, at, 0)), raw_change(OTHER, (at, 0, 0), None)]
        changes += [raw_change(ONE_KEY, (1000 + at, 0, 0), (1000 + at, 1, 1))]
    (statement,) = arranged(changes, limit=LIMIT)
    found = [(table, kind, len(pairs)) for table, kind, pairs in events_of(statement.sql, 3)]
    assert found == [("t", "insert", 100), ("other", "delete", 100), ("t", "update", 100)]


def test_several_keys_keep_their_order() -> None:
    changes = [
        raw_change(TWO_KEYS, None, (1, 1, 0)),
        raw_change(TWO_KEYS, (2, 2, 0), (2, 3, 0)),
        raw_change(TWO_KEYS, None, (3, 4, 0)),
        raw_change(TWO_KEYS, None, (4, 5, 0)),
    ]
    (statement,) = arranged(changes, limit=LIMIT)
    assert [(kind, len(pairs)) for _, kind, pairs in events_of(statement.sql, 3)] == [
        ("insert", 1), ("update", 1), ("insert", 2),
    ]  # fmt: skip


def test_what_an_event_has_made_is_not_looked_for_in_it() -> None:
    changes = [raw_change(KEYLESS, (1, 1, 1), (2, 2, 2)), raw_change(KEYLESS, (2, 2, 2), (3, 3, 3))]
    (statement,) = arranged(changes, limit=LIMIT)
    assert [len(pairs) for _, _, pairs in events_of(statement.sql, 3)] == [1, 1]
    others = [raw_change(KEYLESS, (at, 1, 1), (at, 2, 2)) for at in (1, 1, 3)]
    (statement,) = arranged(others, limit=LIMIT)
    assert [len(pairs) for _, _, pairs in events_of(statement.sql, 3)] == [3]


def test_statements_stay_below_the_limit() -> None:
    changes = [raw_change(ONE_KEY, None, (at, at, at)) for at in range(2000)]
    statements = arranged(changes, limit=20_000)
    assert len(statements) > 2
    assert all(len(statement.sql) < 20_000 for statement in statements)
    rows = [pair[1] for each in statements for _, _, pairs in events_of(each.sql, 3) for pair in pairs]
    assert rows == [(at, at, at) for at in range(2000)]


def test_a_table_with_a_change_that_is_no_event_goes_as_sql_and_reads_what_was_unread() -> None:
    raw = raw_change(ONE_KEY, None, (1, 2, 3))
    raw.after = (1, UNREAD, UNREAD)
    plain = raw_change(ONE_KEY, None, (4, 5, 6))
    plain.raw_after = None
    beside = raw_change(OTHER, None, (7, 8, 9))
    events, sql = arranged([raw, plain, beside], limit=LIMIT)
    assert [table for table, _, _ in events_of(events.sql, 3)] == ["other"]
    assert sql.sql == b"INSERT INTO `d`.`t` (`id`,`u`,`v`) VALUES (1,2,3),(4,5,6)"


def test_safe_mode_is_sql() -> None:
    change = replace(raw_change(ONE_KEY, None, (1, 2, 3)), safe=True)
    (statement,) = arranged([change], limit=LIMIT)
    assert statement.sql.startswith(b"REPLACE")


def test_a_refused_table_is_sql_from_then_on() -> None:
    plan = event_plan(COLUMNS, [key("PRIMARY", "id")])
    change = raw_change(plan, None, (1, 2, 3))
    assert arranged([change], limit=LIMIT)[0].sql.startswith(b"BINLOG")
    assert plan.events is not None
    plan.events.refuse("the server said so")
    assert arranged([change], limit=LIMIT)[0].sql.startswith(b"INSERT")


def test_a_table_under_suspicion_is_sent_alone() -> None:
    plan = event_plan(COLUMNS, [key("PRIMARY", "id")], table="suspect")
    changes = [raw_change(each, None, (1, 2, 3)) for each in (ONE_KEY, plan, OTHER)]
    assert len(arranged(changes, limit=LIMIT)) == 1
    assert plan.events is not None
    plan.events.alone = True
    assert [[table for table, _, _ in events_of(each.sql, 3)] for each in arranged(changes, limit=LIMIT)] == [
        ["t"], ["suspect"], ["other"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flavor", "version", "asked"),
    [
        ("mariadb", 101119, ["slave_exec_mode", "slave_type_conversions", "replicate_rewrite_db"]),
        ("mysql", 50744, ["slave_type_conversions"]),
        ("mysql", 90704, ["replica_type_conversions"]),
    ],
)
def test_the_server_is_asked_first_what_it_does_with_events(flavor: Flavor, version: int, asked: list[str]) -> None:
    plan = event_plan(COLUMNS, PRIMARY, options=replace(ROW_EVENTS, flavor=flavor, version=version))
    _, guard, events = guarded([raw_change(plan, None, (1, 2, 3))], limit=LIMIT)
    assert re.findall(rb"@@GLOBAL\.(\w+) = ", guard.sql) == [name.encode() for name in asked]
    assert guard.expected.affected == 1
    assert events.sql.startswith(b"BINLOG")


def test_few_rows_that_are_scanned_for_share_a_statement(twin: str) -> None:
    """The server says nothing until a statement is done, and reads the table for each row."""
    updates = [raw_change(SCANNED, (at, 1, 1), (1000 + at, 2, 2)) for at in range(40)]
    deletes = [raw_change(SCANNED, (at, 9, 9), None) for at in range(40)]
    inserts = [raw_change(SCANNED, None, (at, 7, 7)) for at in range(40)]
    beside = [raw_change(ONE_KEY, None, (at, 1, 1)) for at in range(40)]
    changes = [*updates, *deletes, *inserts, *beside]
    found = [
        [(table, kind, len(pairs)) for table, kind, pairs in events_of(each.sql, 3)]
        for each in arranged(changes, limit=LIMIT)
    ]
    counts = [[count for _, kind, count in events if kind != "insert"] for events in found]
    assert [sum(each) for each in counts] == [SCANNED_ROWS, SCANNED_ROWS, 8, SCANNED_ROWS, SCANNED_ROWS, 8]
    assert found[-1][-2:] == [("none", "insert", 40), ("t", "insert", 40)]
    chain = [raw_change(SCANNED, (at, 1, 1), (at + 1, 1, 1)) for at in range(40)]
    counts = [[len(pairs) for _, _, pairs in events_of(each.sql, 3)] for each in arranged(chain, limit=LIMIT)]
    assert counts == [[1] * SCANNED_ROWS, [1] * SCANNED_ROWS, [1] * 8], "events of one row each"


def test_rows_that_are_found_together_share_a_statement() -> None:
    for plan in (KEYLESS, event_plan(COLUMNS, PRIMARY, options=replace(ROW_EVENTS, flavor="mariadb"))):
        changes = [raw_change(plan, (at, 1, 1), (at, 2, 2)) for at in range(1000)]
        assert len(arranged(changes, limit=LIMIT)) == 1


def test_the_work_for_a_batch_of_many_tables_grows_with_their_number(
    twin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    class Counted(EventGroup):
        def __getattribute__(self, name: str) -> Any:
            nonlocal asked
            asked += name == "size"
            return super().__getattribute__(name)

    monkeypatch.setattr(event_or_sql, "EventGroup", Counted)

    def work(tables: int) -> int:
        nonlocal asked
        plans = [event_plan(COLUMNS, PRIMARY, table=f"t{at}") for at in range(tables)]
        changes = [raw_change(plan, None, (1, 2, 3)) for plan in plans]
        asked = 0
        assert len(arranged(changes, limit=LIMIT)) == 1
        return asked

    assert work(200) == 10 * work(20) > 0


def test_merged_changes_keep_the_images_that_are_left(twin: str) -> None:
    changes = [
        raw_change(ONE_KEY, None, (1, 0, 0)), raw_change(ONE_KEY, (1, 0, 0), (1, 5, 5)),
        raw_change(ONE_KEY, (2, 0, 0), (2, 1, 1)), raw_change(ONE_KEY, (2, 1, 1), (2, 2, 2)),
        raw_change(ONE_KEY, (3, 0, 0), (3, 1, 1)), raw_change(ONE_KEY, (3, 1, 1), None),
        raw_change(ONE_KEY, (4, 0, 0), None), raw_change(ONE_KEY, None, (4, 4, 4)),
        raw_change(ONE_KEY, None, (5, 0, 0)), raw_change(ONE_KEY, (5, 0, 0), None),
    ]  # fmt: skip
    left = compacted(changes, limit=LIMIT)
    assert [(change.kind.name, change.raw_before, change.raw_after) for change in left] == [
        ("INSERT", None, changes[1].raw_after),
        ("UPDATE", changes[2].raw_before, changes[3].raw_after),
        ("DELETE", changes[4].raw_before, None),
        ("UPDATE", changes[6].raw_before, changes[7].raw_after),
        ("INSERT", None, changes[8].raw_after),  # no event says "nothing"
        ("DELETE", changes[9].raw_before, None),
    ]
