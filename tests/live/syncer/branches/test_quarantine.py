"""`on-error: table`: a table that fails is put aside, the others go on, and it comes back with the source's rows."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import CATALOGUE
from tests.testbed.branches import Branching
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

KEYED, KEYLESS = "(id INT PRIMARY KEY, v INT)", "(id INT, v INT)"


@dataclass(frozen=True)
class Cause:
    """What makes a table fail, and what mends it; `{t}` is the table."""

    target: str  # done at the target beforehand
    source: str  # the change that fails then
    mend: str  # at the target
    error: str
    form: str = KEYED


CAUSES = {
    "in the way": Cause(
        "INSERT INTO {t} VALUES (9, 0)",
        "INSERT INTO {t} VALUES (9, 9)",
        "DELETE FROM {t} WHERE id = 9",
        "duplicate-key",
    ),
    "missing": Cause(
        "DELETE FROM {t} WHERE id = 1",
        "UPDATE {t} SET v = 8 WHERE id = 1",
        "INSERT INTO {t} VALUES (1, 1)",
        "row-missing",
    ),
    "missing without a key": Cause(
        "DELETE FROM {t} WHERE id = 1",
        "UPDATE {t} SET v = 8 WHERE id = 1",
        "INSERT INTO {t} VALUES (1, 1)",
        "row-missing",
        KEYLESS,
    ),
    "a check": Cause(
        "ALTER TABLE {t} ADD CONSTRAINT small CHECK (v < 50)",
        "INSERT INTO {t} VALUES (90, 90)",
        "ALTER TABLE {t} DROP CONSTRAINT small",
        "row-check-refused",
        KEYLESS,
    ),
    "no table": Cause(
        "RENAME TABLE {t} TO {t}_away",
        "INSERT INTO {t} VALUES (9, 9)",
        "RENAME TABLE {t}_away TO {t}",
        "target-table-missing",
    ),
    "no column": Cause(
        "ALTER TABLE {t} DROP COLUMN v",
        "INSERT INTO {t} VALUES (9, 9)",
        "ALTER TABLE {t} ADD COLUMN v INT; UPDATE {t} SET v = id",
        "column-missing",
    ),
    "a statement": Cause(
        "INSERT INTO {t} VALUES (2, 1)",
        "ALTER TABLE {t} ADD UNIQUE KEY (v)",
        "DELETE FROM {t} WHERE id = 2",
        "ddl-failed",
    ),
}


SAMPLE = ("in the way", "missing without a key", "a statement")


@pytest.mark.parametrize(
    "cause", [each if each in SAMPLE else pytest.param(each, marks=pytest.mark.chaos) for each in CAUSES]
)
def test_the_others_go_on_and_the_table_comes_back(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, cause: str
) -> None:
    one = CAUSES[cause]
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.t {one.form}",
            f"CREATE TABLE {name}.other {KEYED}",
            f"CREATE TABLE {name}.bag {KEYLESS}",
            f"INSERT INTO {name}.t VALUES (1, 1)",
        )
    task = Branching(subtask_for(upstream, target, name, task=name, on_error="table"), tmp_path)
    table = f"{name}.t"
    with task.main() as main:
        main.wait_synced()
        target.execute(one.target.format(t=table))
        chance = random.Random(cause)
        for number in range(20):
            upstream.execute(
                f"INSERT INTO {table} VALUES ({20 + number}, {20 + number})",
                f"INSERT INTO {name}.bag VALUES ({number}, 0)",
            )
            if number == 10:
                upstream.execute(one.source.format(t=table))
            if chance.random() < 0.5:
                upstream.execute(f"INSERT INTO {name}.other VALUES ({number}, 0)")
        upstream.execute(f"INSERT INTO {name}.other VALUES (99, 99)")
        wait_until(lambda: bool(target.query(f"SELECT 1 FROM {name}.other WHERE id = 99")), "the others go on")
        wait_until(lambda: task.rests("t"), "the table is aside")
        branch = task.of("t")
        assert branch is not None
        assert one.error in errors_named(branch.error), branch.error
        assert main.unit.status()["synced"] is False
        wait_until(lambda: len(main.unit.status().get("branches") or []) == 1, "the status shows it")  # type: ignore[arg-type]
        for mend in one.mend.format(t=table).split("; "):
            target.execute(mend)
        upstream.execute(f"INSERT INTO {table} VALUES (77, 77)")
        task.comes_back("t")
        upstream.execute(f"INSERT INTO {table} VALUES (78, 78)")
        main.wait_synced()
    for each in ("t", "other", "bag"):
        query = f"SELECT * FROM {name}.{each} ORDER BY id, v"
        assert target.query(query) == upstream.query(query), each
    left = target.query(f"SELECT COUNT(*) FROM meta_{name}.`{name}~join_syncer_checkpoint`")
    assert left[0][0] == 0, "nothing is left of its progress"


def errors_named(report: str) -> set[str]:
    """The catalogue's names of a stored error."""
    code = json.loads(report)["ErrCode"]
    return {error for error, kind in CATALOGUE.items() if kind.code == code}


def test_tables_that_change_their_route_in_the_transaction_in_which_they_leave_lack_no_row(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    """Of two that are merged, one goes from a number to a text, so both go in order; other tables are before it."""
    name = schema(upstream, target)
    text = "(id VARCHAR(20) PRIMARY KEY, v INT)"
    for server, tables in ((upstream, (("t1", text), ("t2", KEYED))), (target, (("t", text),))):
        for table, columns in (("other", KEYED), *tables):
            server.execute(f"CREATE TABLE {name}.{table} {columns}")
    route = RouteRule(schema_pattern=name, table_pattern="t?", target_schema=name, target_table="t")
    subtask = subtask_for(upstream, target, name, task=name, routes=(route,), on_error="table", aside_tables=3)
    task = Branching(subtask, tmp_path)
    target.execute(f"ALTER TABLE {name}.t ADD CONSTRAINT small CHECK (v < 50)")
    with task.main() as main:
        main.wait_synced()
        upstream.execute(
            f"USE {name}",
            "BEGIN",
            *(f"INSERT INTO other VALUES ({row}, 0)" for row in (1, 2, 3)),
            "INSERT INTO t1 VALUES (1, 1)",
            "INSERT INTO t2 VALUES (2, 2)",
            "INSERT INTO other VALUES (4, 0)",
            "INSERT INTO t2 VALUES (3, 90)",
            "INSERT INTO t1 VALUES (4, 4)",
            "COMMIT",
        )
        wait_until(lambda: task.rests("t2"), "t2 is aside")
        assert task.rests("t1"), "its rows are in the same table"
        target.execute(f"ALTER TABLE {name}.t DROP CONSTRAINT small")
        task.comes_back("t2")
        upstream.execute(f"INSERT INTO {name}.t1 VALUES (5, 5)")
        main.wait_synced()
    assert target.query(f"SELECT id, v FROM {name}.t ORDER BY id") == (
        ("1", 1), ("2", 2), ("3", 90), ("4", 4), ("5", 5),
    )  # fmt: skip
    assert target.query(f"SELECT id FROM {name}.other ORDER BY id") == ((1,), (2,), (3,), (4,))
