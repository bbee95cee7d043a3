"""A plan that nobody carries out leaves nothing behind: what is to be remembered is a part of it."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.ddl.plan import CutOver, DdlPlan, DumpWindow, Execute, StatementEvent, TrackOnly
from dm.syncer.ddl.planner import plan
from tests.unit.syncer.ddl.planning import Looking, executes, query


def at(offset: int) -> SourceTransaction:
    end = Position("uuid", "binlog.000001", offset, GtidSet.empty("mysql"))
    return SourceTransaction(replace(end, offset=offset - 50), end, None, 0)


class Following(Looking):
    """Carries out plans as the barrier does, without a target: structures, points and records follow them."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = SchemaTracker("mysql")
        context = SourceContext("mysql", 90704, "d")
        for table in ("t", "early"):
            self.tracker.set(parse_create_table(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)", context))
        self.points: dict[TableName, Position] = {TableName("d", "early"): at(4000).end}
        self.known = replace(self.known, structures=self.tracker, dump=DumpWindow(self.points, at(4000).end))

    def everything(self) -> object:
        """All that is known, by value."""
        return deepcopy((self.tracker.to_json(), self.points, self.known.online, self.known.temporary))

    def plan(self, event: StatementEvent) -> DdlPlan | str:
        try:
            return plan(event, self.known)
        except DMError as error:
            return error.name

    def carry_out(self, planned: DdlPlan) -> None:
        self.points.update(planned.points)
        online = {**self.known.online, **planned.online}
        self.known = replace(
            self.known,
            temporary=planned.temporary,
            online={name: record for name, record in online.items() if record is not None},
        )
        for step in planned.pieces:
            with suppress(DMError):
                self.tracker.apply(step.piece)


STATEMENTS = [
    "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
    "CREATE TEMPORARY TABLE d.t (a INT)",
    "DROP TEMPORARY TABLE d.t",
    "TRUNCATE TABLE d.t",
    "ALTER TABLE d.t ADD COLUMN b INT, ADD COLUMN c INT",
    "CREATE TABLE d._t_gho LIKE d.t",
    "ALTER TABLE d._t_gho ADD COLUMN a INT",
    "RENAME TABLE d.t TO d._t_del, d._t_gho TO d.t",
    "RENAME TABLE d._t_del TO d.t",
    "DROP TABLE d._t_del",
    "DROP DATABASE d",
    "RENAME TABLE d.early TO d.later",
    "RENAME TABLE d.later TO d.early",
    "DROP TABLE d.early, d.t",
    "ALTER TABLE d.later ADD COLUMN a INT",
    "CREATE VIEW d.v AS SELECT 1",
    "UPDATE other.u SET a = 1",
    "ALTER TABLE d.t",
]


@settings(max_examples=40)
@given(
    history=st.lists(st.sampled_from(STATEMENTS), max_size=12),
    thrown_away=st.lists(st.lists(st.sampled_from(STATEMENTS), max_size=2), min_size=12, max_size=12),
)
def test_a_plan_that_is_thrown_away_leaves_nothing_behind(history: list[str], thrown_away: list[list[str]]) -> None:
    straight, hesitant = Following(), Following()
    for number, statement in enumerate(history):
        event = StatementEvent(query(statement.encode(), temporary=True), at(100 * (number + 1)))
        planned = straight.plan(event)
        for other in thrown_away[number]:
            hesitant.plan(StatementEvent(query(other.encode(), temporary=True), at(100 * (number + 1))))
        before = hesitant.everything()
        assert hesitant.plan(event) == planned
        assert hesitant.plan(event) == planned
        assert hesitant.everything() == before
        if isinstance(planned, DdlPlan):
            straight.carry_out(planned)
            hesitant.carry_out(planned)
    assert straight.everything() == hesitant.everything()


def test_a_point_that_goes_to_another_name_is_a_part_of_the_plan() -> None:
    following = Following()
    early, later = TableName("d", "early"), TableName("d", "later")
    following.tracker.forget(early)
    planned = following.plan(StatementEvent(query(b"RENAME TABLE d.early TO d.later"), at(100)))
    assert isinstance(planned, DdlPlan)
    assert planned.points == {later: following.points[early]}
    assert planned.steps == ()  # the dump read the table after the statement
    assert later not in following.points


def test_what_an_online_ddl_is_to_remember_is_a_part_of_the_plan() -> None:
    following, t, ghost = Following(), TableName("d", "t"), TableName("d", "_t_gho")
    remembered: list[list[str]] = []
    for number, statement in enumerate(("CREATE TABLE d._t_gho LIKE d.t", "ALTER TABLE d._t_gho ADD COLUMN a INT")):
        planned = plan(StatementEvent(query(statement.encode()), at(5000 + 100 * number)), following.known)
        assert executes(planned.steps) == [False]
        record = planned.online[ghost]
        assert record is not None
        remembered.append([one.text for one in record.statements])
        following.carry_out(planned)
    assert remembered == [[], ["ALTER TABLE `d`.`_t_gho` ADD COLUMN a INT"]]
    swap = query(b"RENAME TABLE d.t TO d._t_del, d._t_gho TO d.t")
    planned = plan(StatementEvent(swap, at(6000)), following.known)
    proof, altered, renamed = planned.steps
    assert isinstance(proof, CutOver)
    assert (proof.ghost, proof.real) == (ghost, t)
    assert isinstance(altered, Execute)
    assert (altered.piece.text, altered.track, altered.copied_to) == (
        "ALTER TABLE `d`.`t` ADD COLUMN a INT",
        "not",
        ghost,
    )
    assert isinstance(renamed, TrackOnly)
    assert planned.pieces == (altered, renamed)
    assert planned.online == {ghost: None}
