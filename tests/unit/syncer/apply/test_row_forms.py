"""What the status says of a table: of all source tables that go there, whichever came last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.changes.hash_rules import row_hash
from dm.changes.plan import PlanOptions, TablePlan
from dm.ident import TableName
from dm.syncer.apply.ordered_lane import PART_COST, part_cost
from dm.syncer.apply.table_counters import RowForms
from tests.unit.changes.event_tables import pair_of, sees_all
from tests.unit.changes.plans import number

QUOTA = 400 << 20


def plan_of(source: str) -> TablePlan:
    """The plan of a source table that is merged with others."""
    pair = pair_of((number("a"),), [], options=PlanOptions("mariadb", compact=True, sees_triggers=sees_all))
    return replace(pair.plan, source=TableName("s", source), row_hash=row_hash(pair))


def test_what_keeps_one_source_from_row_events_is_told_whichever_came_last() -> None:
    forms, first, second = RowForms(), plan_of("one"), plan_of("two")
    table = f"{first.target.schema}.{first.target.table}"
    forms.learned(first, "for a test")
    forms.learned(second, "")
    assert (forms.of(table)["rowFormat"], forms.of(table)["rowFormatReason"]) == ("sql", "for a test")
    forms.learned(first, "")
    assert (forms.of(table)["rowFormat"], forms.of(table)["rowFormatReason"]) == ("events", "")


@pytest.mark.parametrize("refusing", ["one", "two"])
def test_a_hash_that_one_source_has_refused_is_told_whichever_came_last(refusing: str) -> None:
    forms, first, second = RowForms(), plan_of("one"), plan_of("two")
    table = f"{first.target.schema}.{first.target.table}"
    for plan in (first, second):
        forms.learned(plan, "for a test")
    assert str(forms.of(table)["rowHash"]).startswith("in use")
    if refusing == "two":
        first, second = second, first
    assert first.row_hash is not None
    first.row_hash.refuse("many equal rows")
    assert forms.of(table)["rowHash"] == "many equal rows"
    forms.learned(replace(second, row_hash=None), "for a test")
    assert forms.of(table)["rowHash"] == "many equal rows"
    forms.learned(replace(first, row_hash=None), "for a test")
    assert "rowHash" not in forms.of(table)


def test_a_part_takes_more_memory_only_where_that_saves_readings() -> None:
    plan = plan_of("one")
    assert part_cost([replace(plan, row_hash=None), plan], QUOTA) == QUOTA // 4
    assert part_cost([plan], PART_COST) == PART_COST, "little memory makes no part smaller"
    assert part_cost([replace(plan, row_hash=None)], QUOTA) == PART_COST
    assert plan.row_hash is not None
    plan.row_hash.refuse("many equal rows")
    assert part_cost([plan], QUOTA) == PART_COST
