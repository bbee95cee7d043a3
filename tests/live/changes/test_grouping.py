"""Any grouping equals applying the changes one by one: the rows, and the error if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from dm.binlog.value import Row, Value
from dm.changes.plan import PlanOptions, TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.demo.installation import FLAVORS, Flavor
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.schema.table import Column
from dm.target.apply import apply_batch, apply_serially
from dm.target.connection import TargetConnection
from dm.target.weights import ServerWeights
from tests.live.changes.tables import Shape, contents, endpoint_of, fill, primary, unique
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

_ID = Column("id", "int", nullable=False)
_NUMBER = Column("n", "int")
_TEXT = Column("t", "varchar", length=10, charset="utf8mb4", collation="utf8mb4_unicode_ci")
_REST = Column("c", "varchar", length=10, charset="utf8mb4", collation="utf8mb4_unicode_ci")
_COLUMNS = "id INT NOT NULL, n INT, t VARCHAR(10) COLLATE utf8mb4_unicode_ci, c VARCHAR(10) COLLATE utf8mb4_unicode_ci"

SHAPES = {
    "one key": Shape(f"{_COLUMNS}, PRIMARY KEY (id)", (_ID, _NUMBER, _TEXT, _REST), (primary("id"),)),
    "three keys": Shape(
        f"{_COLUMNS}, PRIMARY KEY (id), UNIQUE KEY n (n), UNIQUE KEY t (t, n)",
        (_ID, _NUMBER, _TEXT, _REST),
        (primary("id"), unique("n", "n"), unique("t", "t", "n")),
    ),
    "text key": Shape(
        "id INT NOT NULL, n INT, t VARCHAR(10) COLLATE utf8mb4_unicode_ci NOT NULL, c VARCHAR(10), PRIMARY KEY (t)",
        (_ID, _NUMBER, _TEXT, _REST),
        (primary("t"),),
    ),
    "text and number keys": Shape(
        f"{_COLUMNS}, UNIQUE KEY t (t), PRIMARY KEY (id)",
        (_ID, _NUMBER, _TEXT, _REST),
        (primary("id"), unique("t", "t")),
    ),
    "keyless": Shape(f"{_COLUMNS}, UNIQUE KEY n (n)", (_ID, _NUMBER, _TEXT, _REST), (unique("n", "n"),)),
    "column of the target's own": Shape(
        f"{_COLUMNS}, own INT NOT NULL DEFAULT 7, PRIMARY KEY (id), UNIQUE KEY n (n)",
        (_ID, _NUMBER, _TEXT, _REST),
        (primary("id"), unique("n", "n")),
        (Column("own", "int", nullable=False, default="7"),),
    ),
}

_numbers = st.integers(1, 5)
_texts = st.sampled_from([b"a", b"A", "á".encode(), b"b", b"b ", "ß".encode(), b"ss", b"c"])


@st.composite
def _rows(draw: st.DrawFn) -> Row:
    number: Value = draw(st.none() | _numbers)
    return (draw(_numbers), number, draw(_texts), draw(_texts))


@dataclass(frozen=True)
class Draft:
    """A change without its plan."""

    before: Row | None
    after: Row | None
    safe: bool

    def of(self, plan: TablePlan) -> RowChange:
        """The change for one table."""
        kind = (
            ChangeKind.INSERT if self.before is None else ChangeKind.DELETE if self.after is None else ChangeKind.UPDATE
        )
        return RowChange(plan, kind, self.before, self.after, self.safe and plan.keyed)


@st.composite
def _history(draw: st.DrawFn, text_key: bool) -> tuple[list[Row], list[Draft]]:
    """Rows of a table and changes that mostly fit them: images of rows that are there, then some that are not."""
    start = draw(st.lists(_rows(), max_size=5))
    identity = 2 if text_key else 0
    state: dict[Value, Row] = {}
    for row in start:
        state.setdefault(row[identity], row)
    consistent = draw(st.booleans())
    switch = draw(st.integers(0, 14))
    drafts: list[Draft] = []
    for at in range(draw(st.integers(1, 14))):
        safe = at < switch
        present = sorted(state, key=repr)
        kind = draw(st.sampled_from("iud" if present else "i"))
        new = draw(_rows())
        if consistent or draw(st.booleans()):
            free = [key for key in range(1, 9) if key not in state]
            if kind == "i" and not text_key and free:
                new = (draw(st.sampled_from(free)), *new[1:])
            old = state[draw(st.sampled_from(present))] if present else new
            if kind == "u" and draw(st.booleans()):
                new = (old[0], *new[1:identity], *((old[2], new[3]) if text_key else new[1:]))
        else:
            old = draw(_rows())
        if kind == "i":
            state[new[identity]] = new
            drafts.append(Draft(None, new, safe))
        elif kind == "d":
            state.pop(old[identity], None)
            drafts.append(Draft(old, None, safe))
        else:
            state.pop(old[identity], None)
            state[new[identity]] = new
            drafts.append(Draft(old, new, safe))
    return list({row[identity]: row for row in start}.values()), drafts


class Bench:
    """A session at a server with two equal tables of every shape, one to apply serially, one in groups."""

    def __init__(self, server: ThrowawayServer, schema: str) -> None:
        self.connection = TargetConnection(endpoint_of(server))
        self.weights = ServerWeights(lambda: TargetConnection(endpoint_of(server)))
        self.plans: dict[tuple[str, str], tuple[TablePlan, TablePlan]] = {}
        for number, (name, shape) in enumerate(SHAPES.items()):
            tables = TableName(schema, f"single{number}"), TableName(schema, f"groups{number}")
            for table in tables:
                shape.create(server, table)
            for mode in ("insert", "replace"):
                options = PlanOptions(
                    server.flavor, self.weights, insert_mode="insert" if mode == "insert" else "replace"
                )
                self.plans[name, mode] = (shape.plan(tables[0], options), shape.plan(tables[1], options))

    def close(self) -> None:
        self.connection.close()
        self.weights.close()


@pytest.fixture(scope="module", params=FLAVORS)
def bench(request: pytest.FixtureRequest, park: ServerPark) -> Iterator[Bench]:
    flavor: Flavor = request.param
    server = park.shared(flavor, "target")
    server.execute("CREATE DATABASE in_groups")
    made = Bench(server, "in_groups")
    yield made
    made.close()
    server.execute("DROP DATABASE in_groups")


def _serially(connection: TargetConnection, changes: list[RowChange]) -> None:
    connection.begin()
    try:
        apply_serially(connection, changes)
    except DMError:
        connection.rollback()
        raise
    connection.commit()


def _error_of(error: DMError | None, plan: TablePlan) -> str:
    return "" if error is None else str(error).replace(plan.target.table, "table")


@pytest.mark.parametrize("mode", ["insert", "replace"])
@pytest.mark.parametrize("shape", SHAPES)
def test_groups_do_what_single_changes_do(bench: Bench, shape: str, mode: str) -> None:
    serial, group = bench.plans[shape, mode]
    connection = bench.connection

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_history(text_key=shape == "text key"))
    def check(history: tuple[list[Row], list[Draft]]) -> None:
        start, drafts = history
        errors: list[DMError | None] = [None, None]
        fill(connection, serial, start)
        fill(connection, group, start)
        try:
            _serially(connection, [draft.of(serial) for draft in drafts])
        except DMError as error:
            errors[0] = error
        try:
            applied = apply_batch(connection, [draft.of(group) for draft in drafts])
            event("row by row" if applied.row_by_row else "in groups")
        except DMError as error:
            event(error.name)
            errors[1] = error
        assert _error_of(errors[0], serial) == _error_of(errors[1], group)
        assert contents(connection, serial.target) == contents(connection, group.target)

    check()


def _draft(before: tuple[int, int] | None, after: tuple[int, int] | None, *, safe: bool = False) -> Draft:
    rows = [None if row is None else (row[0], row[1], b"%d" % row[0], b"c") for row in (before, after)]
    return Draft(rows[0], rows[1], safe)


# The target holds a row (7, n=5) where the source has another n for 7: each history meets it, serially, with an error
# that a later change, moved to the front, would take out of the way.
HIDDEN = {
    "a DELETE frees the key": ("insert", [_draft((1, 1), None), _draft(None, (2, 5)), _draft((7, 4), None)]),
    "a REPLACE frees the key": (
        "replace",
        [_draft(None, (8, 8)), _draft((1, 1), (1, 5)), _draft(None, (7, 9))],
    ),
    "safe mode frees the key": (
        "insert",
        [_draft(None, (8, 8), safe=True), _draft(None, (2, 5)), _draft(None, (7, 9), safe=True)],
    ),
    "an UPDATE frees the key": ("insert", [_draft((1, 1), (1, 2)), _draft(None, (2, 5)), _draft((7, 4), (7, 6))]),
}


def test_a_row_that_only_shares_a_key_is_not_taken_for_the_missing_one(bench: Bench) -> None:
    _, plan = bench.plans["three keys", "insert"]
    start: list[Row] = [(1, 1, b"1", b"c"), (7, 5, b"7", b"c")]
    fill(bench.connection, plan, start)
    drafts = [
        Draft((1, 1, b"1", b"c"), (1, 1, b"1", b"d"), safe=False),
        Draft((2, 5, b"2", b"c"), (2, 5, b"2", b"d"), safe=False),
    ]
    with pytest.raises(DMError) as caught:
        apply_batch(bench.connection, [draft.of(plan) for draft in drafts])
    assert caught.value.name == "row-missing"
    assert contents(bench.connection, plan.target) == [(1, 1, "1", "c"), (7, 5, "7", "c")]


@pytest.mark.parametrize("case", HIDDEN)
def test_no_error_is_hidden_by_a_move(bench: Bench, case: str) -> None:
    mode, drafts = HIDDEN[case]
    _, plan = bench.plans["three keys", mode]
    start: list[Row] = [(1, 1, b"1", b"c"), (7, 5, b"7", b"c")]
    fill(bench.connection, plan, start)
    with pytest.raises(DMError) as caught:
        apply_batch(bench.connection, [draft.of(plan) for draft in drafts])
    assert caught.value.name == "duplicate-key"
    assert [row[:2] for row in contents(bench.connection, plan.target)] == [(1, 1), (7, 5)]
