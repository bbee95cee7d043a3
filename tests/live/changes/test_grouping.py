"""Any grouping and compaction equals applying the changes one by one: the rows, the error if there is one, the counts.

Histories mostly fit the table and meet few rows often; some don't fit, as on a target that somebody else has changed.
Both tables, one for single changes and one for groups, start with the same rows.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import pytest
from hypothesis import HealthCheck, Phase, event, given, seed, settings
from hypothesis import strategies as st

from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.statement import insert_head, key_of, operation_of
from dm.config.units import InsertMode, MissingRow
from dm.demo.servers import ThrowawayServer
from dm.downstream.apply import apply_batch
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import Row, Value
from dm.mysql.dialect import FLAVORS, Flavor
from tests.live.changes.tables import contents, endpoint_of
from tests.testbed.figures import record
from tests.testbed.park import ServerPark
from tests.testbed.serial_apply import apply_serially

pytestmark = pytest.mark.live

SOURCE = "id INT NOT NULL, n INT, t VARCHAR(10) NOT NULL, c VARCHAR(10)"
_NARROW = SOURCE.replace("n INT", "n DECIMAL(1,0)").replace("c VARCHAR(10)", "c VARCHAR(2)")


@dataclass(frozen=True)
class Shape:
    """The target's table of a source table `id, n, t, c`."""

    keys: str  # and whatever else stands in the column list
    columns: str = SOURCE
    tail: str = ""  # after the column list
    trigger: bool = False
    parent: bool = False  # `n` refers to a table that has some of its values; foreign keys are checked
    text_key: bool = False


SHAPES = {
    "one key": Shape("PRIMARY KEY (id)"),
    "three keys": Shape("PRIMARY KEY (id), UNIQUE KEY n (n), UNIQUE KEY t (t, n)"),
    "no primary key": Shape("UNIQUE KEY n (n), UNIQUE KEY id (id)"),
    "text key": Shape("PRIMARY KEY (t)", text_key=True),
    "text and number keys": Shape("UNIQUE KEY t (t), PRIMARY KEY (id)"),
    "prefix key": Shape("PRIMARY KEY (id), UNIQUE KEY t (t(1))"),
    "composite key": Shape("PRIMARY KEY (id, t)"),
    "generated column": Shape("g INT AS (n % 3) VIRTUAL, PRIMARY KEY (id)"),
    "unique generated column": Shape("g INT AS (n % 3) STORED, PRIMARY KEY (id), UNIQUE KEY g (g)"),
    "CHECK": Shape("PRIMARY KEY (id), CHECK (n < 4)"),
    "narrower columns": Shape("PRIMARY KEY (id)", _NARROW),
    "stricter column": Shape("PRIMARY KEY (id)", SOURCE.replace("n INT", "n INT NOT NULL")),
    "partitions": Shape("PRIMARY KEY (id)", tail="PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (4))"),
    "keyless": Shape("UNIQUE KEY n (n)"),
    "column of the target's own": Shape("own INT NOT NULL DEFAULT 7, PRIMARY KEY (id), UNIQUE KEY n (n)"),
    "trigger": Shape("PRIMARY KEY (id), UNIQUE KEY n (n)", trigger=True),
    "foreign key": Shape("PRIMARY KEY (id)", parent=True),
}

_numbers = st.integers(1, 5)
_texts = st.sampled_from([b"a", b"A", "á".encode(), b"b", b"b ", "ß".encode(), b"ss", b"cc"])


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
            if kind == "u":
                new = draw(st.sampled_from([new, (old[0], *new[1:2], old[2], new[3]), (*old[:3], new[3])]))
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


@dataclass(frozen=True)
class Variant:
    """How the task file says to apply."""

    options: PlanOptions

    def __repr__(self) -> str:
        some = self.options
        return f"{some.insert_mode} compact={some.compact} multiple={some.multiple_rows} missing={some.missing_row}"


def _variant(mode: InsertMode, multiple_rows: bool, compact: bool, missing: MissingRow) -> Variant:
    return Variant(
        PlanOptions(
            "mysql",
            insert_mode=mode,
            multiple_rows=multiple_rows,
            compact=compact,
            missing_row=missing,
            narrower_columns="accept",
        )
    )


_INSERT_MODES: tuple[InsertMode, ...] = ("insert", "insert", "replace")
_MISSING: tuple[MissingRow, ...] = ("pause", "count")
VARIANTS = st.builds(
    _variant,
    st.sampled_from(_INSERT_MODES),
    st.sampled_from([True, True, False]),
    st.sampled_from([True, True, False]),
    st.sampled_from(_MISSING),
)


class Bench:
    """Sessions at a server with two equal tables of every shape, one to apply serially, one in groups."""

    def __init__(self, server: ThrowawayServer, schema: str) -> None:
        self.flavor = server.flavor
        self.schema = schema
        self._sessions = {
            checked: TargetConnection(endpoint_of(server), foreign_key_checks=checked) for checked in (False, True)
        }
        self.weights = ServerWeights(lambda: TargetConnection(endpoint_of(server)))
        self._targets = {
            checked: TargetSchemas(
                partial(TargetConnection, endpoint_of(server), foreign_key_checks=checked),
                foreign_key_checks=checked,
            )
            for checked in (False, True)
        }
        self._plans: dict[tuple[str, TableName, PlanOptions], TablePlan] = {}
        self._numbers = {name: number for number, name in enumerate(SHAPES)}
        server.execute(
            f"CREATE TABLE {schema}.source ({SOURCE}) COLLATE utf8mb4_unicode_ci",
            f"CREATE TABLE {schema}.parent (n INT PRIMARY KEY)",
            f"INSERT INTO {schema}.parent VALUES (1), (2), (3)",
        )
        for name, shape in SHAPES.items():
            for table in self.tables(name):
                keys = shape.keys
                if shape.parent:
                    keys += f", FOREIGN KEY (n) REFERENCES {schema}.parent (n)"
                server.execute(
                    f"CREATE TABLE {table.sql} ({shape.columns}, {keys}) COLLATE utf8mb4_unicode_ci {shape.tail}"
                )
                if shape.trigger:
                    server.execute(
                        f"CREATE TABLE {schema}.log_{table.table} (was INT, new INT)",
                        *(
                            f"CREATE TRIGGER {schema}.{table.table}_{verb} AFTER {verb} ON {table.sql}"
                            f" FOR EACH ROW INSERT INTO {schema}.log_{table.table} VALUES ({images})"
                            for verb, images in (
                                ("INSERT", "0, NEW.n"),
                                ("UPDATE", "OLD.n, NEW.n"),
                                ("DELETE", "OLD.n, 0"),
                            )
                        ),
                    )

    def tables(self, shape: str) -> tuple[TableName, TableName]:
        """The table for single changes and the one for groups."""
        number = self._numbers[shape]
        return TableName(self.schema, f"single{number}"), TableName(self.schema, f"groups{number}")

    def connection(self, shape: str) -> TargetConnection:
        """The session as a task with or without checked foreign keys would have it."""
        return self._sessions[SHAPES[shape].parent]

    def plan(self, shape: str, table: TableName, options: PlanOptions) -> TablePlan:
        """How the source's rows go into the table."""
        found = self._plans.get((shape, table, options))
        if found is None:
            checked = SHAPES[shape].parent
            options = replace(options, flavor=self.flavor, weights=self.weights, foreign_key_checks=checked)
            source = self._targets[False].get(TableName(self.schema, "source"))
            target = self._targets[checked].get(table)
            assert source is not None
            assert target is not None
            # A key that the source lacks is looked at per batch (`own_key_check`).
            keyed = replace(source.schema, indexes=target.schema.indexes)
            found = build_plan(keyed, keyed.columns, target, options)
            self._plans[shape, table, replace(options, flavor="mysql", weights=None, foreign_key_checks=False)] = found
        return found

    def plans(self, shape: str, options: PlanOptions) -> tuple[TablePlan, TablePlan]:
        """For single changes and for groups."""
        single, groups = self.tables(shape)
        return self.plan(shape, single, options), self.plan(shape, groups, options)

    def fill(self, shape: str, table: TableName, rows: list[Row]) -> None:
        """Make the table hold these rows; those that it refuses are left out."""
        connection, plan = (
            self.connection(shape),
            self.plan(shape, table, PlanOptions("mysql", narrower_columns="accept")),
        )
        connection.execute(f"DELETE FROM {table.sql}")
        for row in rows:
            try:
                connection.execute(insert_head(plan, b"INSERT", plan.columns) + plan.values(row))
            except DMError as error:
                if error.retryable:
                    raise
        if SHAPES[shape].trigger:
            connection.execute(f"DELETE FROM {self.schema}.log_{table.table}")

    def found(self, shape: str, table: TableName) -> list[object]:
        """What the table holds, and what its triggers saw."""
        connection = self.connection(shape)
        found: list[object] = [*contents(connection, table)]
        if SHAPES[shape].trigger:
            found += contents(connection, TableName(self.schema, f"log_{table.table}"))
        return found

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        for targets in self._targets.values():
            targets.close()
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


@dataclass
class Outcome:
    """What a reader of the target, and of the status, can tell."""

    rows: list[object]
    error: str
    missing: list[str]


def _serially(connection: TargetConnection, changes: list[RowChange]) -> list[RowChange]:
    connection.begin()
    try:
        missing = apply_serially(connection, changes)
    except DMError:
        connection.rollback()
        raise
    connection.commit()
    return list(missing)


def _error_of(error: DMError, plan: TablePlan) -> str:
    return str(error).replace(plan.target.table, "table")


def _names(changes: list[RowChange]) -> list[str]:
    return [f"{operation_of(change)} {key_of(change)}" for change in changes]


def _compare(bench: Bench, shape: str, variant: Variant, start: list[Row], drafts: list[Draft]) -> str:
    """Apply to both tables; gives how the groups went."""
    serial, group = bench.plans(shape, variant.options)
    connection = bench.connection(shape)
    outcomes = []
    how = "in groups"
    for plan in (serial, group):
        bench.fill(shape, plan.target, start)
        changes = [draft.of(plan) for draft in drafts]
        missing: list[RowChange] = []
        error = ""
        try:
            if plan is serial:
                missing = _serially(connection, changes)
            else:
                applied = apply_batch(connection, changes)
                missing = list(applied.missing)
                assert applied.changes == len(drafts)
                how = "row by row" if applied.row_by_row else "compacted" if applied.compacted else how
        except DMError as raised:
            error = _error_of(raised, plan)
            how = raised.name
        outcomes.append(Outcome(bench.found(shape, plan.target), error, _names(missing)))
    assert outcomes[0] == outcomes[1]
    return how


def _check(bench: Bench, shape: str, examples: int, start_with: int) -> Counter[str]:
    seen: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )
    @seed(start_with)
    @given(VARIANTS, _history(text_key=SHAPES[shape].text_key))
    def check(variant: Variant, history: tuple[list[Row], list[Draft]]) -> None:
        how = _compare(bench, shape, variant, *history)
        event(how)
        seen[how] += 1

    check()
    return seen


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("shape", SHAPES)
def test_groups_do_what_single_changes_do(bench: Bench, shape: str) -> None:
    _check(bench, shape, examples=10, start_with=4)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_thousands_of_groups_do_what_single_changes_do(bench: Bench) -> None:
    began = time.monotonic()
    each = 400
    start_with = int(began * 1000) % 1_000_000
    print(f"seed: {start_with}")
    seen: Counter[str] = Counter()
    for shape in SHAPES:
        seen += _check(bench, shape, each, start_with)
    # Examples that were never in groups, or never merged, would prove nothing.
    assert seen["in groups"] > each
    assert seen["compacted"] > each
    record(
        f"changes.grouping.{bench.flavor}",
        {
            "examples": sum(seen.values()),
            "seed": start_with,
            "seconds": round(time.monotonic() - began),
            "as": dict(sorted(seen.items())),
        },
    )


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


def _bare(bench: Bench, plan: TablePlan) -> list[object]:
    return bench.found("three keys", plan.target)


def test_a_row_that_only_shares_a_key_is_not_taken_for_the_missing_one(bench: Bench) -> None:
    plan = bench.plans("three keys", PlanOptions("mysql"))[1]
    start: list[Row] = [(1, 1, b"1", b"c"), (7, 5, b"7", b"c")]
    bench.fill("three keys", plan.target, start)
    drafts = [
        Draft((1, 1, b"1", b"c"), (1, 1, b"1", b"d"), safe=False),
        Draft((2, 5, b"2", b"c"), (2, 5, b"2", b"d"), safe=False),
    ]
    with pytest.raises(DMError) as caught:
        apply_batch(bench.connection("three keys"), [draft.of(plan) for draft in drafts])
    assert caught.value.name == "row-missing"
    assert _bare(bench, plan) == [(1, 1, "1", "c"), (7, 5, "7", "c")]


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("case", HIDDEN)
def test_no_error_is_hidden_by_a_move(bench: Bench, case: str, compact: bool) -> None:
    mode, drafts = HIDDEN[case]
    options = PlanOptions(
        "mysql", insert_mode="replace" if mode == "replace" else "insert", compact=compact, narrower_columns="accept"
    )
    plan = bench.plans("three keys", options)[1]
    start: list[Row] = [(1, 1, b"1", b"c"), (7, 5, b"7", b"c")]
    bench.fill("three keys", plan.target, start)
    with pytest.raises(DMError) as caught:
        apply_batch(bench.connection("three keys"), [draft.of(plan) for draft in drafts])
    assert caught.value.name == "duplicate-key"
    assert _bare(bench, plan) == [(1, 1, "1", "c"), (7, 5, "7", "c")]
