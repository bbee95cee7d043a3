"""What a run of changes does to a bag of rows is what they do one by one, an error included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.changes import row_bag as module
from dm.changes.hash_rules import row_hash
from dm.changes.plan import PlanOptions, TablePlan
from dm.changes.row_bag import MIN_SEARCHED, BagChange, bag_change, in_bags_or_arranged
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_keys import TargetTable
from dm.changes.statement import ApplyStatement
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, UNREAD, Row
from dm.mysql.schema.table import Column, TableSchema
from tests.unit.changes.event_tables import event_plan, pair_of, raw_change, sees_all
from tests.unit.changes.plans import delete, insert, number, update

LIMIT = 1 << 20
MARIADB = PlanOptions("mariadb", compact=True, sees_triggers=sees_all)
COLUMNS = (number("a"), number("b", nullable=True))
_EMPTY = TableSchema(TableName("d", "t"), ())
ROWS = st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 1)))


def plan_of(
    columns: Sequence[Column] = COLUMNS,
    *,
    options: PlanOptions = MARIADB,
    target: TargetTable | None = None,
    table: str = "t",
) -> TablePlan:
    pair = pair_of(columns, [], options=options, target=target, table=table)
    found = row_hash(pair)
    assert found is not None
    return replace(pair.plan, row_hash=found)


PLAN = plan_of()
OTHER = plan_of(table="other")


def one_by_one(rows: Counter[Row], changes: Sequence[RowChange]) -> Counter[Row] | None:
    """The rows after the changes; None where one of these finds no row."""
    left = rows.copy()
    for change in changes:
        if change.before is not None:
            if not left[change.before]:
                return None
            left[change.before] -= 1
        if change.after is not None:
            left[change.after] += 1
    return +left


def together(rows: Counter[Row], bag: BagChange, rendered: dict[bytes, Row]) -> Counter[Row] | None:
    """The same by what the target does with it."""
    left = rows.copy()
    written: Counter[Row] = Counter({rendered[text]: count for text, count in bag.come.items()})
    for text, gone in bag.gone.items():
        assert rendered[text] == gone.row
        removed = left.pop(gone.row, 0)
        if removed < gone.count:
            return None
        written[gone.row] += removed - gone.count
    return +(left + written)


CHANGES = st.lists(
    st.one_of(
        ROWS.map(lambda row: insert(PLAN, *row)),
        ROWS.map(lambda row: delete(PLAN, *row)),
        st.tuples(ROWS, ROWS).map(lambda rows: update(PLAN, *rows)),
    ),
    max_size=12,
)


@given(st.lists(ROWS, max_size=8), CHANGES)
def test_a_run_comes_to_what_its_changes_come_to(start: list[Row], changes: list[RowChange]) -> None:
    rows = Counter(start)
    bag = bag_change(PLAN, changes)
    assert bag is not None
    images = [row for change in changes for row in (change.before, change.after) if row is not None]
    assert together(rows, bag, {PLAN.values(row): row for row in images}) == one_by_one(rows, changes)


def test_a_row_that_comes_and_goes_leaves_no_trace() -> None:
    bag = bag_change(PLAN, [insert(PLAN, 1, 1), update(PLAN, (1, 1), (1, 2)), delete(PLAN, 1, 2)])
    assert bag is not None
    assert (bag.gone, bag.come) == ({}, {})


@pytest.mark.parametrize(
    ("options", "target"),
    [
        (replace(MARIADB, compact=False), None),
        (MARIADB, TargetTable(_EMPTY, checks=True)),
    ],
)
def test_what_the_target_might_refuse_is_done_one_by_one(options: PlanOptions, target: TargetTable | None) -> None:
    judged = plan_of(options=options, target=target)
    assert bag_change(judged, [update(judged, (1, 1), (1, 2)), update(judged, (1, 2), (1, 3))]) is None
    assert bag_change(judged, [update(judged, (1, 1), (1, 2)), update(judged, (2, 1), (2, 2))]) is not None


def test_columns_that_an_image_leaves_out() -> None:
    bag = bag_change(PLAN, [update(PLAN, (1, 2), (ABSENT, 3))])
    assert bag is not None
    assert bag.come == {PLAN.values((1, 3)): 1}
    assert bag_change(PLAN, [update(PLAN, (1, ABSENT), (1, 3))]) is None
    assert bag_change(PLAN, [insert(PLAN, 1, ABSENT)]) is None


def test_the_error_value_of_an_enum_has_a_statement_of_its_own() -> None:
    columns = (number("a"), Column("e", "enum", charset="latin1", members=("x", "y")))
    enums = plan_of(columns)
    assert bag_change(enums, [update(enums, (1, 1), (1, 2))]) is not None
    assert bag_change(enums, [update(enums, (1, 1), (1, 0))]) is None
    assert bag_change(enums, [update(enums, (1, 0), (1, 1))]) is None


def updates(plan: TablePlan, count: int, first: int = 0) -> list[RowChange]:
    return [update(plan, (at, 1), (at, 2)) for at in range(first, first + count)]


def shape(changes: Sequence[RowChange]) -> list[tuple[str, int]]:
    """The steps: `together`, or how many statements in a row."""
    found: list[tuple[str, int]] = []
    for step in in_bags_or_arranged(changes, limit=LIMIT):
        if isinstance(step, BagChange):
            found.append((f"together in {step.plan.target.table}", len(step.changes)))
        elif found and found[-1][0] == "statements":
            found[-1] = "statements", found[-1][1] + 1
        else:
            found.append(("statements", 1))
    return found


def test_few_rows_are_looked_for_one_by_one() -> None:
    assert shape(updates(PLAN, MIN_SEARCHED - 1)) == [("statements", MIN_SEARCHED - 1)]
    assert shape(updates(PLAN, MIN_SEARCHED)) == [("together in t", MIN_SEARCHED)]
    assert shape([insert(PLAN, at, 1) for at in range(MIN_SEARCHED)]) == [("statements", 1)]


def test_a_hash_that_was_refused_is_used_no_more() -> None:
    refused = plan_of()
    assert refused.row_hash is not None
    refused.row_hash.refuse("it found nothing")
    assert shape(updates(refused, MIN_SEARCHED)) == [("statements", MIN_SEARCHED)]


def test_changes_of_several_tables_take_turns() -> None:
    keyed = event_plan((number("id"),), [], table="third")
    mixed = [
        change
        for pair in zip(updates(PLAN, MIN_SEARCHED), updates(OTHER, MIN_SEARCHED), strict=True)
        for change in (*pair, insert(keyed, 1))
    ]
    assert sorted(shape(mixed)) == [
        ("statements", 1),
        ("together in other", MIN_SEARCHED),
        ("together in t", MIN_SEARCHED),
    ]


def test_nothing_moves_over_a_change_with_triggers() -> None:
    fired = pair_of(COLUMNS, [], options=MARIADB, target=TargetTable(_EMPTY, triggers=True), table="fires").plan
    mixed = [*updates(PLAN, MIN_SEARCHED), insert(fired, 1, 1), *updates(PLAN, MIN_SEARCHED + 1)]
    assert shape(mixed) == [("together in t", MIN_SEARCHED), ("statements", 1), ("together in t", MIN_SEARCHED + 1)]


def test_two_sources_of_one_table_keep_their_order() -> None:
    twin = plan_of()
    mixed = [*updates(PLAN, MIN_SEARCHED), update(twin, (1, 1), (1, 2))]
    assert [kind for kind, _ in shape(mixed)] == ["statements"]


def test_what_was_left_unread_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_SEARCHED", 1)
    pair = pair_of(COLUMNS, [], options=replace(MARIADB, no_events=""))
    plan = replace(event_plan(COLUMNS, []), row_hash=row_hash(pair))
    change = raw_change(plan, (1, 2), (1, None))
    change.before = change.after = (UNREAD, UNREAD)
    (bag,) = in_bags_or_arranged([change], limit=LIMIT)
    assert isinstance(bag, BagChange)
    assert bag.come == {plan.values((1, None)): 1}


def test_steps_are_statements_or_bags() -> None:
    keyed = event_plan((number("id"),), [])
    assert all(
        isinstance(step, ApplyStatement)
        for step in in_bags_or_arranged([RowChange(keyed, ChangeKind.INSERT, None, (1,), False)], limit=LIMIT)
    )
