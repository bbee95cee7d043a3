"""A source's statement about a column that the target fills with a part of a name is no statement for the target."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.split import split
from dm.progress.operators import Operator
from dm.rules.table_rules import TableRules
from dm.syncer.ddl.plan import TrackOnly
from dm.syncer.ddl.planner import refuse_extracted
from tests.unit.config.texts import TASK, task
from tests.unit.syncer.ddl.planning import TRANSACTION, Looking, executes, query

CONTEXT = SourceContext("mysql", 90700, "d")
RULES = TableRules(
    task(
        f"{TASK}    route-rules: [r]\n"
        "routes:\n  r: {schema-pattern: d, table-pattern: 's*', target-schema: d, target-table: t,"
        " extract-table: {table-regexp: '^s(.*)$', target-column: Shard}}\n"
    ).subtask("mysql-01")
)


def refused(text: str) -> bool:
    """Whether one of the statement's pieces pauses."""
    try:
        for piece in split(text, CONTEXT):
            refuse_extracted(piece, RULES)
    except DMError as error:
        return error.name == "extract-column-altered"
    return False


@pytest.mark.parametrize(
    "what",
    [
        "ADD COLUMN shard VARCHAR(9)",
        "ADD COLUMN v INT, ADD COLUMN SHARD VARCHAR(9)",
        "DROP COLUMN shard",
        "MODIFY shard VARCHAR(20)",
        "CHANGE shard other VARCHAR(9)",
        "CHANGE other shard VARCHAR(9)",
        "RENAME COLUMN shard TO other",
        "RENAME COLUMN other TO shard",
        "ALTER COLUMN shard SET DEFAULT 'x'",
    ],
)
def test_what_names_such_a_column_pauses(what: str) -> None:
    assert refused(f"ALTER TABLE d.s1 {what}")
    assert not refused(f"ALTER TABLE d.u {what}")  # its rows go into a table of their own


@pytest.mark.parametrize(
    "text",
    ["ALTER TABLE d.s1 ADD COLUMN shards INT", "ALTER TABLE d.s1 DROP COLUMN v", "CREATE INDEX shard ON d.s1 (v)"],
)
def test_others_do_not(text: str) -> None:
    assert not refused(text)


def test_a_person_may_give_the_target_such_a_column() -> None:
    words = "ALTER TABLE d.gathered ADD COLUMN shard VARCHAR(9)"
    with pytest.raises(DMError) as caught:
        Looking().steps(query(words.encode()))
    assert (caught.value.name, caught.value.position) == ("extract-column-altered", str(TRANSACTION.end))
    replacing = Operator("uuid", "binlog.000001", 100, "replace", (words,))
    assert executes(Looking().steps(query(b"ALTER TABLE d.gathered ADD INDEX (id)"), TRANSACTION, replacing))[0]
    skipping = Operator("uuid", "binlog.000001", 100, "skip")
    (followed,) = Looking().steps(query(words.encode()), TRANSACTION, skipping)
    assert isinstance(followed, TrackOnly)
