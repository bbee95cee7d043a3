"""Row images that lack columns: completed where that is exact, refused else."""

from __future__ import annotations

import pytest

from dm.changes.plan import TablePlan
from dm.errors import DMError
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column
from dm.syncer.apply.source_table import completed_images
from tests.unit.changes.plans import key, number, plan

ID, U, N = number("id"), number("u", nullable=True), number("n", nullable=True)
KEYED = plan([ID, U, N], [key("PRIMARY", "id"), key("u", "u")])
KEYLESS = plan([ID, U, N], [])


def defaults(ours: str | None, theirs: str | None, *, nullable: bool = False) -> TablePlan:
    """A plan with a column whose default differs on the two sides."""
    source, target = (Column("d", "int", default=default, nullable=nullable) for default in (ours, theirs))
    return plan([ID, target], [key("PRIMARY", "id")], source=[ID, source])


GENERATED = Column("g", "int", generated="stored", expression="id+1")
COPIED = plan([ID, number("g")], [key("PRIMARY", "id")], source=[ID, GENERATED])


@pytest.mark.parametrize(
    ("into", "pair", "completed"),
    [
        (KEYED, (None, (1, ABSENT, 3)), (None, (1, None, 3))),
        (KEYLESS, (None, (1, ABSENT, ABSENT)), (None, (1, None, None))),
        (defaults("5", "5"), (None, (1, ABSENT)), (None, (1, ABSENT))),
        (defaults("'x'", "'x'", nullable=True), (None, (1, ABSENT)), (None, (1, ABSENT))),
        (defaults(None, "5", nullable=True), (None, (1, ABSENT)), (None, (1, None))),
        (KEYED, ((1, ABSENT, ABSENT), None), ((1, ABSENT, ABSENT), None)),
        (KEYED, ((1, ABSENT, ABSENT), (ABSENT, 7, ABSENT)), ((1, ABSENT, ABSENT), (ABSENT, 7, ABSENT))),
        (KEYLESS, ((1, 2, 3), (ABSENT, 7, ABSENT)), ((1, 2, 3), (ABSENT, 7, ABSENT))),
    ],
)
def test_what_is_exact(into: TablePlan, pair: RowPair, completed: RowPair) -> None:
    assert completed_images(into, [pair], safe=False) == [completed]


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize(
    ("into", "pair", "column"),
    [
        (defaults("5", "6"), (None, (1, ABSENT)), "d"),
        (defaults(None, None), (None, (1, ABSENT)), "d"),
        (defaults("uuid_short()", "uuid_short()"), (None, (1, ABSENT)), "d"),
        (defaults("(1 + 1)", "(1 + 1)"), (None, (1, ABSENT)), "d"),
        (KEYED, ((ABSENT, 2, 3), None), "id"),
        (KEYED, ((ABSENT, 2, 3), (1, 2, 3)), "id"),
        (KEYLESS, ((1, ABSENT, 3), None), "u"),
        (KEYLESS, ((1, ABSENT, 3), (1, 2, 3)), "u"),
        (COPIED, (None, (1, ABSENT)), "g"),
        (COPIED, ((1, 2), (ABSENT, ABSENT)), "g"),
    ],
)
def test_what_is_not_exact_names_table_and_column(into: TablePlan, pair: RowPair, column: str, safe: bool) -> None:
    with pytest.raises(DMError) as caught:
        completed_images(into, [pair], safe=safe)
    assert caught.value.name == "partial-row-image"
    assert "s.t" in caught.value.message
    assert f"column {column}," in caught.value.message
    assert "binlog_row_image" in caught.value.workaround


def test_in_safe_mode_a_partial_image_may_not_move_the_row() -> None:
    stays: RowPair = ((1, ABSENT, ABSENT), (ABSENT, ABSENT, 9))
    assert completed_images(KEYED, [stays], safe=True) == [stays]
    for after in ((2, ABSENT, ABSENT), (ABSENT, 5, ABSENT)):
        moved: RowPair = ((1, ABSENT, ABSENT), after)
        assert completed_images(KEYED, [moved], safe=False) == [moved]
        with pytest.raises(DMError):
            completed_images(KEYED, [moved], safe=True)
    whole: RowPair = ((1, ABSENT, ABSENT), (2, 5, 6))
    assert completed_images(KEYED, [whole], safe=True) == [whole]
